package config

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"go.yaml.in/yaml/v3"
)

// Size is a number of bytes, written as 512MiB.
type Size uint64

// String implements fmt.Stringer.
func (s Size) String() string { return humanize.IBytes(uint64(s)) }

func (s *Size) parse(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil {
		return fmt.Errorf("%q is no size such as 512MiB", text)
	}
	*s = Size(n)
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Size) UnmarshalYAML(value *yaml.Node) error { return s.parse(value.Value) }
