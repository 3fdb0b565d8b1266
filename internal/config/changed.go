package config

import (
	"maps"
	"slices"
)

// Changed returns the keys, sorted, whose values differ. Keys that only one of the configurations has differ.
func Changed(a, b Config) []string {
	was, is := flatten(complete(a)), flatten(complete(b))
	all := maps.Clone(was)
	maps.Copy(all, is)
	maps.DeleteFunc(all, func(key, _ string) bool {
		before, had := was[key]
		after, has := is[key]
		return had && has && before == after
	})
	return slices.Sorted(maps.Keys(all))
}
