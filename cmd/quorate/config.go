package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"quorate/internal/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration, or print an example",
		Long: `Show the configuration that serve would use.

  quorate config check --config quorate.yaml
  quorate config example > quorate.yaml`,
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Show each setting and its origin, or all mistakes",
		Long: `Show what serve would use with the same file, environment and flags: each key, its
value, and where the value comes from. If anything is wrong, the command prints all
mistakes, each with its line of the file, and exits with code 2. The command reads the
files that the configuration names, such as TLS certificates, token lists, genesis files
and checkpoints, and the API keys. It prints *** for parts of URLs that may be secret. It
starts nothing and sends no request to a node.

  quorate config check --config quorate.yaml
  QUORATE_LISTEN=:80 quorate config check --network fuji=http://127.0.0.1:9650`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			s := config.Read(cmd.Flags(), os.Environ())
			s.CheckNetworks()
			s.CheckFiles()
			return showSurvey(cmd, s)
		}),
	}
	addSettings(check)
	example := &cobra.Command{
		Use:   "example",
		Short: "Print a configuration with all keys explained",
		Long: `Print a configuration for fuji and mainnet in which every key is explained.

  quorate config example > quorate.yaml`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Example)
			return err
		}),
	}
	cmd.AddCommand(check, example)
	return cmd
}

func showSurvey(cmd *cobra.Command, s *config.Survey) error {
	if len(s.Problems) > 0 {
		for _, line := range s.Placed() {
			fmt.Fprintln(cmd.OutOrStdout(), line)
		}
		return usage(errors.New("the configuration has mistakes"), cmp.Or(s.Hint, exampleHint))
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, v := range s.Values() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key, cmp.Or(v.Text, `""`), v.Origin)
	}
	return w.Flush()
}

// load reads and checks the configuration. The error lists all problems.
func load(cmd *cobra.Command, environ []string) (config.Config, error) {
	return usable(config.Read(cmd.Flags(), environ))
}

// usable returns the configuration of s. The error lists all problems with their places.
func usable(s *config.Survey) (config.Config, error) {
	if len(s.Problems) > 0 {
		return s.Config, usage(errors.New(strings.Join(s.Placed(), "\n")), cmp.Or(s.Hint, exampleHint))
	}
	return s.Config, nil
}

const exampleHint = "quorate config example shows all keys."
