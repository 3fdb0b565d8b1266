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
		Long: `Print the version of the program, the commit it was built from, the Go that
built it, and the avalanchego version that it presents to peers.

  quorate version`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			commit := "unknown"
			if build, ok := debug.ReadBuildInfo(); ok {
				for _, s := range build.Settings {
					if s.Key == "vcs.revision" {
						commit = s.Value
					}
				}
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "quorate %s (commit %s, %s)\npresents itself to peers as %s\n", version, commit, runtime.Version(), ava.Current)
			return err
		}),
	}
}
