package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quorate/internal/config"
	"quorate/internal/service/storage"
	"quorate/internal/store"
	"quorate/internal/suggest"
)

// longestView limits how long a command reads from one snapshot of a whole store.
const longestView = 7 * 24 * time.Hour

func newStore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Inspect, export and copy the store",
		Long: `The store has all rows that outlive the service, in families. A row has a partition, a
key within the partition, and a value. One process uses a store in a data folder at a
time: stop the service before these commands. A store on a PostgreSQL server (--store,
or QUORATE_STORE) can be used while services run.

  quorate store inspect
  quorate store export message > messages.ndjson
  quorate store copy --from ~/.quorate --to postgres://quorate@db/quorate`,
	}
	cmd.AddCommand(newStoreInspect(), newStoreExport(), newStoreCopy())
	return cmd
}

// engineLog prints errors of a store's engine. It ends the process itself if it cannot write.
func engineLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// withStore opens a store and calls f with it. It never creates a store in a folder.
func withStore(ctx context.Context, place storage.Location, f func(store.Store) error) (err error) {
	if place.URL == "" {
		if _, err := os.Stat(place.Dir); err != nil {
			return &exitError{code: exitFailed, err: fmt.Errorf("there is no store: %w", err), hint: "Name the service's data folder with --data-dir."}
		}
	} else if err := store.CheckPostgresURL(place.URL); err != nil {
		return usage(config.Redacted(fmt.Errorf("--store: %w", err)), "")
	}
	defer func() { err = errors.Join(err, place.GiveToOwner()) }()
	s, err := place.Open(ctx, engineLog())
	if err != nil {
		return storage.Failure(err, place, "Stop the service that uses it, or name another store.")
	}
	return errors.Join(f(s), s.Close())
}

// storeFlags names the store that a command opens.
type storeFlags struct{ dataDir, url string }

func (f *storeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.dataDir, "data-dir", cmp.Or(os.Getenv("QUORATE_DATA_DIR"), config.Default().DataDir), "data `folder` of the service")
	flags.StringVar(&f.url, "store", os.Getenv("QUORATE_STORE"), "`URL` of the PostgreSQL server that has the store, instead of the one in the data folder")
	flags.Lookup("store").DefValue = "" // it may have a password
}

func (f *storeFlags) place() storage.Location {
	return storage.Location{URL: f.url, Dir: filepath.Join(f.dataDir, config.StoreFolder)}
}

func newStoreInspect() *cobra.Command {
	var from storeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Count rows and bytes of each family",
		Long: `Count the rows of each family, and the bytes of their keys and values before compression.
Families without rows appear with --json only. This reads the whole store.

  quorate store inspect
  quorate store inspect --data-dir /var/lib/quorate --json`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd.Context(), from.place(), func(s store.Store) error {
				if err := storage.CheckNewer(cmd.Context(), s); err != nil {
					return storage.Failure(err, from.place(), "")
				}
				return inspect(cmd.Context(), s, cmd.OutOrStdout(), asJSON)
			})
		}),
	}
	flags := cmd.Flags()
	from.add(flags)
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// familySize is the size of a family before compression.
type familySize struct {
	Family     string `json:"family"`
	Rows       uint64 `json:"rows"`
	KeyBytes   uint64 `json:"keyBytes"`
	ValueBytes uint64 `json:"valueBytes"`
}

func inspect(ctx context.Context, s store.Store, out io.Writer, asJSON bool) error {
	var sizes []familySize
	for _, family := range store.Families() {
		size := familySize{Family: family.String()}
		for row, err := range store.Rows(ctx, s, family) {
			if err != nil {
				return fmt.Errorf("reading family %s: %w", family, err)
			}
			size.Rows++
			size.KeyBytes += uint64(len(row.P) + len(row.K))
			size.ValueBytes += uint64(len(row.V))
		}
		sizes = append(sizes, size)
	}
	disk := s.Stats().DiskBytes
	if asJSON {
		return json.NewEncoder(out).Encode(map[string]any{"families": sizes, "diskBytes": disk, "format": store.Format})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "family\trows\tkeys\tvalues\t")
	line := func(size familySize) {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%s\t\n", size.Family, size.Rows, humanize.IBytes(size.KeyBytes), humanize.IBytes(size.ValueBytes))
	}
	total := familySize{Family: "total"}
	for _, size := range sizes {
		total.Rows += size.Rows
		total.KeyBytes += size.KeyBytes
		total.ValueBytes += size.ValueBytes
		if size.Rows > 0 {
			line(size)
		}
	}
	line(total)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "format %d, %s on disk\n", store.Format, humanize.IBytes(disk))
	return err
}

func newStoreExport() *cobra.Command {
	var from storeFlags
	names := make([]string, 0, len(store.Families()))
	for _, family := range store.Families() {
		names = append(names, family.String())
	}
	cmd := &cobra.Command{
		Use:   "export FAMILY",
		Short: "Print the rows of a family",
		Long: `Print the rows of a family as lines of JSON, with partition p, key k and value v in hex,
in the store's order.

  quorate store export message | head

Families: ` + strings.Join(names, ", "),
		Args:      oneArg("FAMILY"),
		ValidArgs: names,
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			family, ok := store.FamilyNamed(args[0])
			if !ok {
				return usage(fmt.Errorf("there is no family %q%s", args[0], suggest.Name(args[0], names)), "Families: "+strings.Join(names, ", "))
			}
			return withStore(cmd.Context(), from.place(), func(s store.Store) error {
				return export(cmd.Context(), s, family, cmd.OutOrStdout())
			})
		}),
	}
	from.add(cmd.Flags())
	return cmd
}

func export(ctx context.Context, s store.Store, family store.Family, out io.Writer) error {
	w := bufio.NewWriterSize(out, 64<<10)
	lines := json.NewEncoder(w)
	for row, err := range store.Rows(ctx, s, family) {
		if err != nil {
			return fmt.Errorf("reading family %s: %w", family, err)
		}
		if err := lines.Encode(map[string]string{"p": hex.EncodeToString(row.P), "k": hex.EncodeToString(row.K), "v": hex.EncodeToString(row.V)}); err != nil {
			return fmt.Errorf("writing a row: %w", err)
		}
	}
	return w.Flush()
}
