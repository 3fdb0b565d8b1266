package config

import (
	"fmt"
	"maps"
	"slices"
)

// Changed returns the keys, sorted, whose values differ. Keys that only one of the configurations has differ. Headers of
// nodes belong to the nodes' key.
func Changed(a, b Config) []string {
	was, is := flatten(complete(a)), flatten(complete(b))
	all := maps.Clone(was)
	maps.Copy(all, is)
	maps.DeleteFunc(all, func(key, _ string) bool {
		before, had := was[key]
		after, has := is[key]
		return had && has && before == after
	})
	for name, n := range b.Networks { // texts of nodes omit the values of headers
		old := a.Networks[name]
		if differ(old.Nodes, n.Nodes) {
			all["networks."+name+".nodes"] = ""
		}
		for i, chain := range n.EVM {
			if i < len(old.EVM) && differ(old.EVM[i].RPC, chain.RPC) {
				all[fmt.Sprintf("networks.%s.evm[%d].rpc", name, i)] = ""
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// differ reports whether nodes differ, in their headers too.
func differ(a, b []Endpoint) bool {
	return !slices.EqualFunc(a, b, func(x, y Endpoint) bool { return x.URL == y.URL && maps.Equal(x.Headers, y.Headers) })
}
