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
		Long: `Print the version of the program, the commit it was built from and its date, the Go that
built it, and the avalanchego version that it presents to peers.

  quorate version`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), describeVersion())
			return err
		}),
	}
}

// describeVersion returns what the program was built from. Builds outside a repository have no commit.
func describeVersion() string {
	commit, built := "unknown", "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.time":
				built = s.Value
			}
		}
	}
	return fmt.Sprintf("quorate %s (commit %s of %s, %s)\npresents itself to peers as %s\n", version, commit, built, runtime.Version(), ava.Current)
}
