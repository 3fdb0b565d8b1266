package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"quorate/handlers/access"
	"quorate/internal/config"
	"quorate/internal/service/storage"
	"quorate/internal/store"
)

func newStoreCopy() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "copy --from PLACE --to PLACE",
		Short: "Copy a store to another place or engine",
		Long: `Copy all rows of a store into an empty one, and compare both. A place is the data folder
of a service, or the URL of a PostgreSQL server (postgres://user:password@host/database).
Stop the service first: the copy lacks rows that it writes meanwhile.

If a copy is interrupted, repeat the command to continue it. Services do not use the
destination until the copy is complete.

  quorate store copy --from ~/.quorate --to postgres://quorate@db/quorate
  quorate store copy --from postgres://quorate@db/quorate --to /var/lib/quorate

The copy includes API keys. It does not include identities, which are files in the data
folder: copy them too if the new folder replaces the old one.`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			places := [2]storage.Location{placeOf(from), placeOf(to)}
			for i, name := range []string{"--from", "--to"} {
				if places[i] == (storage.Location{}) {
					return usage(fmt.Errorf("%s is not given", name), "Name a data folder, or the URL of a PostgreSQL server.")
				}
				if err := places[i].Check(); err != nil {
					return usage(config.Redacted(fmt.Errorf("%s: %w", name, err)), "")
				}
			}
			if places[0] == places[1] {
				return usage(errors.New("--from and --to are the same place"), "")
			}
			return copyStore(cmd.Context(), places[0], places[1], cmd.OutOrStdout())
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "`place` to copy from")
	cmd.Flags().StringVar(&to, "to", "", "`place` to copy to; it must be empty")
	return cmd
}

func placeOf(text string) storage.Location {
	switch {
	case text == "":
		return storage.Location{}
	case strings.Contains(text, "://"):
		return storage.Location{URL: text}
	}
	return storage.Location{Dir: filepath.Join(filepath.Clean(text), config.StoreFolder)}
}

func copyStore(ctx context.Context, from, to storage.Location, out io.Writer) (err error) {
	const inUse = "Stop the service that uses it."
	from.Memory, to.Memory = config.LeastMemory, config.LeastMemory
	from.ViewAge, to.Unfinished = longestView, true
	if from.URL == "" {
		if _, err := os.Stat(from.Dir); err != nil {
			return &exitError{code: exitFailed, err: fmt.Errorf("there is no store to copy: %w", err), hint: "--from names the data folder of a service."}
		}
	} else if facts, err := store.InspectPostgres(ctx, from.URL); err != nil {
		return storage.Failure(err, from, inUse)
	} else if facts.Empty {
		return &exitError{code: exitFailed, err: errors.New("there is no store to copy: the database has no tables of quorate"), hint: "--from names the database of a service, and with ?search_path= its schema."}
	}
	defer func() { err = errors.Join(err, from.GiveToOwner(), to.GiveToOwner()) }()
	source, err := from.Open(ctx, engineLog())
	if err != nil {
		return storage.Failure(err, from, inUse)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if err := storage.CheckNewer(ctx, source); err != nil {
		return storage.Failure(err, from, "")
	}
	target, err := to.Open(ctx, engineLog())
	if err != nil {
		return storage.Failure(err, to, inUse)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	view, err := source.View(ctx)
	if err != nil {
		return storage.Failure(err, from, inUse)
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	shown := &copyShow{out: out, begun: time.Now()}
	if f, ok := out.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		shown.terminal = f
	}
	// A service without keys accepts all clients, so the copy is not complete before it has them.
	keys := func() error {
		shown.finish()
		return copyKeys(ctx, from, to, source, target, out)
	}
	if err := store.Copy(ctx, view, target, shown.tell, keys); err != nil {
		hint := "Repeat the command to continue."
		if errors.Is(err, store.ErrContent) || errors.Is(err, store.ErrFenced) {
			hint = ""
		}
		shown.finish()
		return &exitError{code: exitFailed, err: config.Redacted(err), hint: hint}
	}
	shown.finish()
	took := time.Since(shown.begun)
	_, err = fmt.Fprintf(out, "copied %d rows, %s, in %s; both stores have the same content\n",
		shown.last.TotalRows, humanize.IBytes(shown.last.TotalBytes), took.Round(time.Second))
	return err
}

// copyKeys copies API keys that are not rows of both stores. In a data folder they are a
// file beside the store.
func copyKeys(ctx context.Context, from, to storage.Location, source, target store.Store, out io.Writer) error {
	copied := 0
	var err error
	switch file := from.Keys(); {
	case from.URL != "" && to.URL != "": // they are rows in both
	case to.URL != "":
		copied, err = access.NewKeyStore(target).Import(ctx, file)
	default:
		var keys []access.KeyInfo
		if from.URL != "" {
			keys, err = access.NewKeyStore(source).List(ctx)
		} else {
			keys, err = file.List()
		}
		if err == nil {
			copied, err = to.Keys().Import(keys)
		}
	}
	if err != nil {
		return fmt.Errorf("copying API keys: %w", err)
	}
	if copied > 0 {
		_, err = fmt.Fprintf(out, "copied %d API keys\n", copied)
	}
	return err
}

// copyShow prints the progress of a copy: a bar on a terminal, elsewhere a line for each
// tenth.
type copyShow struct {
	out      io.Writer
	terminal *os.File
	bar      *progressbar.ProgressBar
	begun    time.Time
	last     store.CopyProgress
	seen     bool
	before   uint64 // bytes of this step that an earlier run had done
	tenth    uint64
}

func (s *copyShow) tell(p store.CopyProgress) {
	what := [...]string{store.Counting: "counting", store.Copying: "copying", store.Comparing: "comparing"}[p.Step]
	if !s.seen || p.Step != s.last.Step {
		s.finish()
		s.seen, s.tenth, s.before = true, 0, 0
		if p.Step == store.Copying && p.Bytes > 0 {
			s.before = p.Bytes
		}
		if s.terminal != nil {
			total := int64(p.TotalBytes - min(s.before, p.TotalBytes))
			if p.Step == store.Counting {
				total = -1 // unknown
			}
			s.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(s.terminal), progressbar.OptionSetDescription(what),
				progressbar.OptionShowBytes(true), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
		}
	}
	s.last = p
	if s.bar != nil {
		_ = s.bar.Set64(int64(p.Bytes - min(s.before, p.Bytes))) // fails only beyond the total
		return
	}
	if p.TotalBytes > 0 && 10*p.Bytes/p.TotalBytes > s.tenth {
		s.tenth = 10 * p.Bytes / p.TotalBytes
		_, _ = fmt.Fprintf(s.out, "%s: %s of %s\n", what, humanize.IBytes(p.Bytes), humanize.IBytes(p.TotalBytes))
	}
}

func (s *copyShow) finish() {
	if s.bar != nil {
		_ = s.bar.Finish()
		s.bar = nil
	}
}
