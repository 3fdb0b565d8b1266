package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"quorate/handlers/access"
	"quorate/internal/config"
	"quorate/internal/service/storage"
	"quorate/internal/store"
	"quorate/internal/suggest"
)

func newKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Create, list and revoke API keys",
		Long: `API keys give clients the rate limits of another class than the default one. Clients
send a key in the header x-data-api-key or, like the official clients, in
x-glacier-api-key.

Without a PostgreSQL store the service reads hashes of keys from keys.json in the data
folder and applies changes at once. With one, keys are rows of the store and all
replicas apply changes within seconds.

  quorate keys add explorer --class partner --config quorate.yaml
  quorate keys list --config quorate.yaml
  quorate keys revoke explorer --config quorate.yaml
  quorate keys list --store postgres://quorate@db/quorate

The configuration lists classes under rate_classes. Until the first key is created, the
service ignores API keys that clients send.`,
	}
	cmd.AddCommand(newKeysAdd(), newKeysList(), newKeysRevoke())
	return cmd
}

// keyFlags adds the flags that name the data folder or the store, as serve has them.
func keyFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("config", "", "configuration `file` of the service")
	cmd.Flags().String("data-dir", "", "data `folder` of the service")
	cmd.Flags().String("store", "", "`URL` of the PostgreSQL server that has the store (default: the data folder)")
	return cmd
}

// keyBook stores API keys.
type keyBook interface {
	// Place names what stores them.
	Place() string
	Add(ctx context.Context, name, class string, now time.Time) (string, error)
	Revoke(ctx context.Context, name string, now time.Time) error
	List(ctx context.Context) ([]access.KeyInfo, error)
}

// bookInFolder is the keyBook of a data folder.
type bookInFolder struct{ file access.KeyFile }

// used returns an error if neither a service nor keys add has used the folder. Changing the file would create it.
func (b bookInFolder) used() error {
	folder := filepath.Dir(string(b.file))
	for _, path := range []string{string(b.file), filepath.Join(folder, config.StoreFolder)} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return nil // the caller reports other errors
		}
	}
	return &exitError{
		code: exitFailed, err: fmt.Errorf("there are no API keys and no store in %s", folder),
		hint: "Name the service's data folder with --data-dir, or its PostgreSQL server with --store.",
	}
}

func (b bookInFolder) Place() string { return string(b.file) }
func (b bookInFolder) Add(_ context.Context, name, class string, now time.Time) (string, error) {
	return b.file.Add(name, class, now)
}
func (b bookInFolder) Revoke(_ context.Context, name string, now time.Time) error {
	if err := b.used(); err != nil {
		return err
	}
	return b.file.Revoke(name, now)
}
func (b bookInFolder) List(context.Context) ([]access.KeyInfo, error) {
	if err := b.used(); err != nil {
		return nil, err
	}
	return b.file.List()
}

// bookInStore is the keyBook of a store that processes share.
type bookInStore struct{ *access.KeyStore }

func (bookInStore) Place() string { return "the store" }

// withKeys calls f with the API keys of the service that c configures.
func withKeys(ctx context.Context, c config.Config, f func(keyBook) error) error {
	if c.Store == "" {
		return keyFailure(f(bookInFolder{c.KeyFile()}), "Check that --data-dir is writable and its disk has room.")
	}
	return withStore(ctx, storage.LocationOf(c), func(s store.Store) error {
		return keyFailure(f(bookInStore{access.NewKeyStore(s)}), "Does the store's server answer, and does it have room on its disk?")
	})
}

func newKeysAdd() *cobra.Command {
	var class string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Create an API key and print it",
		Long: `Create an API key and print it. The service stores only its hash and cannot print it
again.

  quorate keys add explorer --class partner --config quorate.yaml`,
		Args: oneArg("NAME"),
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			c, err := load(cmd, os.Environ())
			if err != nil {
				return err
			}
			if _, ok := c.RateClasses[class]; !ok && class != access.DefaultClass {
				known := slices.Sorted(maps.Keys(c.RateClasses))
				if _, ok := c.RateClasses[access.DefaultClass]; !ok {
					known = append(known, access.DefaultClass)
				}
				return usage(fmt.Errorf("class %q is not configured%s", class, suggest.Name(class, known)),
					"Add it under rate_classes in the --config file. Known classes: "+strings.Join(known, ", ")+".")
			}
			return withKeys(cmd.Context(), c, func(keys keyBook) error {
				key, err := keys.Add(cmd.Context(), args[0], class, time.Now())
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), key); err != nil {
					return errors.Join(fmt.Errorf("printing the key: %w; the key is revoked, add one under another name", err),
						keys.Revoke(context.WithoutCancel(cmd.Context()), args[0], time.Now()))
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "Copy the key now: it cannot be shown again. Services with %s accept it from now on.\n", keys.Place())
				return nil
			})
		}),
	}
	cmd.Flags().StringVar(&class, "class", access.DefaultClass, "rate `class` whose limits apply to the key")
	return keyFlags(cmd)
}

func newKeysList() *cobra.Command {
	return keyFlags(&cobra.Command{
		Use:   "list",
		Short: "List names, classes and states of API keys",
		Long: `List the name, class and state of each API key. The keys themselves are not stored.

  quorate keys list --config quorate.yaml`,
		Args: noArgs,
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
		Short: "Revoke an API key",
		Long: `Revoke an API key. Its next request gets status 403. The key stays in the list.

  quorate keys revoke explorer --config quorate.yaml`,
		Args: oneArg("NAME"),
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

// keyFailure adds what to do about err; hint is for failures of the place of the keys.
func keyFailure(err error, hint string) error {
	if known := (*exitError)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	for _, mistake := range []error{access.ErrKeyExists, access.ErrKeyName, access.ErrNoKey, access.ErrTooManyKeys} {
		if errors.Is(err, mistake) {
			return usage(err, "quorate keys --help explains keys.")
		}
	}
	return &exitError{code: exitFailed, err: err, hint: hint}
}
