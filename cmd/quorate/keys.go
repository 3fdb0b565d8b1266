package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"quorate/handlers/access"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke API keys",
		Long: `API keys are for clients that are to have another allowance than everybody. They
are kept, hashed, in keys.json in the data folder. A running service notices each
change at once. Clients send theirs in the header x-data-api-key, or, as the official
clients do, in x-glacier-api-key.

  quorate keys add explorer --class partner
  quorate keys list
  quorate keys revoke explorer

Classes are those under rate_classes in the configuration. While no key has ever been
made, those that clients send are ignored.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newKeysAdd(), newKeysList(), newKeysRevoke())
	return cmd
}

// keyFlags lead to the data folder, as serve finds it.
func keyFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("config", "", "configuration `file` of the service")
	cmd.Flags().String("data-dir", "", "data `folder` of the service")
	return cmd
}

func newKeysAdd() *cobra.Command {
	var class string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a key and show it, once",
		Long: `Make a key and print it: only its hash is kept, so that it cannot be shown again.

  quorate keys add explorer --class partner --config quorate.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd, os.Environ())
			if err != nil {
				return err
			}
			if _, ok := c.RateClasses[class]; !ok && class != access.DefaultClass {
				known := slices.Sorted(maps.Keys(c.RateClasses))
				return usage(fmt.Errorf("class %q is not configured%s", class, suggest(class, known)),
					"Name it under rate_classes in the file that --config leads to. Known are: "+strings.Join(append(known, access.DefaultClass), ", ")+".")
			}
			key, err := keysOf(c.DataDir).Add(args[0], class, time.Now())
			if err != nil {
				return keyFailure(err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), key)
			fmt.Fprintln(cmd.ErrOrStderr(), "This is the only time that the key is shown. A running service takes it from now on.")
			return nil
		}),
	}
	cmd.Flags().StringVar(&class, "class", access.DefaultClass, "rate `class` whose allowance the key has")
	return keyFlags(cmd)
}

func newKeysList() *cobra.Command {
	return keyFlags(&cobra.Command{
		Use:   "list",
		Short: "List the keys' names, classes and states",
		Long: `List what is known of the keys, which is not the keys themselves.

  quorate keys list`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd, os.Environ())
			if err != nil {
				return err
			}
			keys, err := keysOf(c.DataDir).List()
			if err != nil {
				return keyFailure(err)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tCLASS\tCREATED\tSTATE")
			for _, k := range keys {
				state := "good"
				if !k.Revoked.IsZero() {
					state = "revoked " + k.Revoked.Format(time.RFC3339)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.Name, k.Class, k.Created.Format(time.RFC3339), state)
			}
			return w.Flush()
		}),
	})
}

func newKeysRevoke() *cobra.Command {
	return keyFlags(&cobra.Command{
		Use:   "revoke NAME",
		Short: "End a key",
		Long: `End a key: from the next request on it gets status 403. It stays in the list.

  quorate keys revoke explorer`,
		Args: cobra.ExactArgs(1),
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd, os.Environ())
			if err != nil {
				return err
			}
			if err := keysOf(c.DataDir).Revoke(args[0], time.Now()); err != nil {
				return keyFailure(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is revoked.\n", args[0])
			return nil
		}),
	})
}

func keyFailure(err error) error {
	for _, mistake := range []error{access.ErrKeyExists, access.ErrKeyName, access.ErrNoKey, access.ErrTooManyKeys} {
		if errors.Is(err, mistake) {
			return usage(err, "quorate keys --help explains keys.")
		}
	}
	return &exitError{code: exitFailed, err: err, hint: "Is --data-dir a folder of yours, with room on its disk?"}
}
