package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	ava "github.com/ava-labs/avalanchego/version"
)

// version of the program.
const version = "0.1.0"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program and of the protocol it speaks",
		Long: `Print the version of the program, the commit and its date, the version of Go, and the
avalanchego version that the program presents to peers.

  quorate version`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), describeVersion())
			return err
		}),
	}
}

// source is the state of the repository that a program was built from.
type source struct {
	commit, date string // unknown if it was built outside a repository
	changed      bool   // files differed from the commit
}

// sourceOf returns the source in build, which may be nil.
func sourceOf(build *debug.BuildInfo) source {
	s := source{commit: "unknown", date: "unknown"}
	if build == nil {
		return s
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			s.commit = setting.Value
		case "vcs.time":
			s.date = setting.Value
		case "vcs.modified":
			s.changed = setting.Value == "true"
		}
	}
	return s
}

// buildSource returns the source of this program.
func buildSource() source {
	build, _ := debug.ReadBuildInfo()
	return sourceOf(build)
}

// String returns the commit and its date.
func (s source) String() string {
	if s.commit == "unknown" {
		return "built outside a repository"
	}
	text := fmt.Sprintf("commit %s of %s", s.commit, s.date)
	if s.changed {
		text += " with changes"
	}
	return text
}

// describeVersion returns the version, the source and the protocol of the program.
func describeVersion() string {
	return fmt.Sprintf("quorate %s (%s, %s)\npresents itself to peers as %s\n", version, buildSource(), runtime.Version(), ava.Current)
}
