package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"quorate/internal/config"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration, or show an example",
		Long: `Look at what serve would run with.

  quorate config check --config quorate.yaml
  quorate config example > quorate.yaml`,
		Args: cobra.NoArgs,
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Show each setting and where it is from, or all that is wrong",
		Long: `Show what serve would use with the same file, environment and flags: each key, its
value, and where that is from. If anything is wrong, all of it is told at once, with
the line of the file, and the exit code is 2. Files that are named are read: those of
tls, token lists, method signatures, genesis files and the API keys. Parts of URLs that
may be secret are shown as ***. Nothing is started and no node is asked.

  quorate config check --config quorate.yaml
  QUORATE_LISTEN=:80 quorate config check --network fuji=http://127.0.0.1:9650`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			s := config.Read(cmd.Flags(), os.Environ())
			s.CheckFiles()
			return showSurvey(cmd, s)
		}),
	}
	config.AddFlags(check.Flags())
	example := &cobra.Command{
		Use:   "example",
		Short: "Print a configuration with all keys explained",
		Long: `Print a configuration for fuji and mainnet in which every key is explained.

  quorate config example > quorate.yaml`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Example)
			return err
		}),
	}
	cmd.AddCommand(check, example)
	return cmd
}

func showSurvey(cmd *cobra.Command, s *config.Survey) error {
	if len(s.Config.Networks) == 0 && len(s.Problems) == 0 {
		s.Wrong("", errors.New("networks: none is given; name one and a node of it"))
	}
	if len(s.Problems) > 0 {
		for line := range s.Placed() {
			fmt.Fprintln(cmd.OutOrStdout(), line)
		}
		return usage(errors.New("the configuration is not fit for use"), cmp.Or(s.Hint, "quorate config example shows all keys."))
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, v := range s.Values() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key, cmp.Or(v.Text, `""`), v.Origin)
	}
	return w.Flush()
}

// load puts the configuration together and checks it. The error has all problems.
func load(cmd *cobra.Command, environ []string) (config.Config, error) {
	s := config.Read(cmd.Flags(), environ)
	if len(s.Problems) > 0 {
		return s.Config, usage(errors.Join(s.Problems...), s.Hint)
	}
	return s.Config, nil
}
