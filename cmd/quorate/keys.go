package main

import (
	"context"
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
	"quorate/internal/config"
	"quorate/internal/config/suggest"
	"quorate/internal/service/keep"
	"quorate/internal/store"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke API keys",
		Long: `API keys are for clients that are to have another allowance than everybody. They
are kept, hashed, in keys.json in the data folder, of which a running service notices
each change at once, or, where the store is on a server, in the store, of which all
replicas notice it within seconds. Clients send theirs in the header x-data-api-key, or,
as the official clients do, in x-glacier-api-key.

  quorate keys add explorer --class partner
  quorate keys list
  quorate keys revoke explorer
  quorate keys list --store postgres://quorate@db/quorate

Classes are those under rate_classes in the configuration. While no key has ever been
made, those that clients send are ignored.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newKeysAdd(), newKeysList(), newKeysRevoke())
	return cmd
}

// keyFlags lead to the data folder or the store, as serve finds them.
func keyFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("config", "", "configuration `file` of the service")
	cmd.Flags().String("data-dir", "", "data `folder` of the service")
	cmd.Flags().String("store", "", "`url` of the PostgreSQL server that has the store, if one has")
	return cmd
}

// keyBook is where the keys are kept.
type keyBook interface {
	Add(ctx context.Context, name, class string, now time.Time) (string, error)
	Revoke(ctx context.Context, name string, now time.Time) error
	List(ctx context.Context) ([]access.KeyInfo, error)
}

// bookInFolder is that of a data folder.
type bookInFolder struct{ file access.KeyFile }

func (b bookInFolder) Add(_ context.Context, name, class string, now time.Time) (string, error) {
	return b.file.Add(name, class, now)
}
func (b bookInFolder) Revoke(_ context.Context, name string, now time.Time) error {
	return b.file.Revoke(name, now)
}
func (b bookInFolder) List(context.Context) ([]access.KeyInfo, error) { return b.file.List() }

// withKeys does f with the keys of the service that is so configured.
func withKeys(ctx context.Context, c config.Config, f func(keyBook) error) error {
	if c.Store == "" {
		return keyFailure(f(bookInFolder{c.KeyFile()}), "Is --data-dir a folder of yours, with room on its disk?")
	}
	return withStore(ctx, keep.PlaceOf(c), func(s store.Store) error {
		return keyFailure(f(access.NewKeyStore(s)), "Does the store's server answer, and does it have room on its disk?")
	})
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
				return usage(fmt.Errorf("class %q is not configured%s", class, suggest.Name(class, known)),
					"Name it under rate_classes in the file that --config leads to. Known are: "+strings.Join(append(known, access.DefaultClass), ", ")+".")
			}
			return withKeys(cmd.Context(), c, func(keys keyBook) error {
				key, err := keys.Add(cmd.Context(), args[0], class, time.Now())
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), key)
				fmt.Fprintln(cmd.ErrOrStderr(), "This is the only time that the key is shown. A running service takes it from now on.")
				return nil
			})
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
			var keys []access.KeyInfo
			if err := withKeys(cmd.Context(), c, func(book keyBook) (err error) {
				keys, err = book.List(cmd.Context())
				return err
			}); err != nil {
				return err
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
			if err := withKeys(cmd.Context(), c, func(keys keyBook) error {
				return keys.Revoke(cmd.Context(), args[0], time.Now())
			}); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is revoked.\n", args[0])
			return nil
		}),
	})
}

// keyFailure says what to do about an error; hint is for those of the place of the keys.
func keyFailure(err error, hint string) error {
	if err == nil {
		return nil
	}
	for _, mistake := range []error{access.ErrKeyExists, access.ErrKeyName, access.ErrNoKey, access.ErrTooManyKeys} {
		if errors.Is(err, mistake) {
			return usage(err, "quorate keys --help explains keys.")
		}
	}
	return &exitError{code: exitFailed, err: err, hint: hint}
}
