package main

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"go.yaml.in/yaml/v3"
)

// size is a number of bytes, written as 512MiB.
type size uint64

func (s size) String() string { return humanize.IBytes(uint64(s)) }

func (s *size) parse(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil {
		return fmt.Errorf("%q is no size such as 512MiB", text)
	}
	*s = size(n)
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *size) UnmarshalYAML(value *yaml.Node) error { return s.parse(value.Value) }
