package rig

import (
	"os"
	"strconv"
	"strings"
)

// Traffic is in bytes.
type Traffic struct{ In, Out float64 }

// Passed is what this process has read and written so far, by its own calls: files and
// sockets, TLS included and TCP not. It is nothing where the system does not tell.
func Passed() (t Traffic) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return t
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "rchar":
			t.In = n
		case name == "wchar":
			t.Out = n
		}
	}
	return t
}

// Since is what has passed after another time.
func (t Traffic) Since(before Traffic) Traffic { return Traffic{t.In - before.In, t.Out - before.Out} }

// Each is the part of one of n.
func (t Traffic) Each(n int) Traffic { return Traffic{t.In / float64(n), t.Out / float64(n)} }
