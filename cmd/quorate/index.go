package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"quorate/handlers"
	"quorate/internal/index"
)

func newIndex() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Show, verify and rebuild the index",
		Long: `A running service indexes the chains of its networks in its store. These commands use
its private address.

  quorate index status
  quorate index verify
  quorate index rebuild`,
	}
	cmd.AddCommand(newIndexStatus(), newIndexVerify(), newIndexRebuild())
	return cmd
}

func newIndexStatus() *cobra.Command {
	var server string
	var follow, asJSON bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the progress of each chain's index",
		Long: `Show how far a running service has indexed the chains of its networks.

  quorate index status
  quorate index status --follow            # until all are at the tip, with progress
  quorate index status --server http://127.0.0.1:8081 --json

Blocks of EVM chains are proven by stake if their transactions, receipts and logs follow
from a block hash that validators signed. --json also prints the signed message.

States: idle (no node has answered yet), rebuilding, catching up, following (at the
tip), retrying (a request failed and is repeated), waiting (the nodes lack data that the
index needs; the line says what to do), stalled (a failure since it was following),
stopped (it needs an operator).

Exit codes: 0 done, 1 failed, 2 mistake in the command line, 3 the index of a chain
has stopped.`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			client := newHTTPClient()
			defer client.CloseIdleConnections()
			w := &watch{out: cmd.OutOrStdout(), bars: make(map[string]*progressbar.ProgressBar)}
			if f, ok := cmd.OutOrStdout().(*os.File); ok && isatty.IsTerminal(f.Fd()) {
				w.terminal = f
			}
			for {
				status, err := readIndexStatus(cmd.Context(), client, server)
				if err != nil {
					return err
				}
				switch {
				case asJSON:
					if err := json.NewEncoder(w.out).Encode(status); err != nil {
						return err
					}
				case follow:
					w.show(status)
				default:
					w.lines(status)
				}
				done, err := settled(status)
				if !follow || done || err != nil {
					return err
				}
				select {
				case <-cmd.Context().Done():
					return fmt.Errorf("interrupted before all chains reached the tip: %w", cmd.Context().Err())
				case <-time.After(interval):
				}
			}
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&server, "server", "http://127.0.0.1:8081", "`URL` of the service's private address")
	flags.BoolVarP(&follow, "follow", "f", false, "repeat until all chains are at the tip")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.DurationVar(&interval, "interval", time.Second, "`time` between two requests with --follow")
	return cmd
}

func readIndexStatus(ctx context.Context, client *http.Client, server string) (status handlers.IndexStatus, err error) {
	response, err := askServer(ctx, client, http.MethodGet, strings.TrimRight(server, "/")+"/index")
	if err != nil {
		return status, err
	}
	defer func() { _ = response.Body.Close() }()
	err = json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&status)
	if err != nil || response.StatusCode != http.StatusOK {
		return status, &exitError{code: exitFailed, err: fmt.Errorf("the server answered with status %d and no index", response.StatusCode),
			hint: fmt.Sprintf("Check that %s is the private address of a quorate server.", server)}
	}
	return status, nil
}

// settled reports whether all chains are at the tip. It returns an error if the index of a
// chain has stopped.
func settled(status handlers.IndexStatus) (bool, error) {
	done := len(status.Networks) > 0 && len(status.NotOpen) == 0
	for name, chain := range chainsOf(status) {
		if chain.State == index.Stopped {
			return true, &exitError{code: exitNegative, err: fmt.Errorf("the index of %s has stopped: %s", name, chain.Error), hint: "The service's log has the rest. Signing does not depend on it."}
		}
		if chain.State == index.NotIndexed {
			continue
		}
		done = done && chain.State == index.Following && chain.Lag == 0
	}
	return done, nil
}

// chainsOf yields the chains by name, in order.
func chainsOf(status handlers.IndexStatus) func(yield func(string, handlers.ChainStatus) bool) {
	return func(yield func(string, handlers.ChainStatus) bool) {
		for _, network := range slices.Sorted(maps.Keys(status.Networks)) {
			chains := status.Networks[network]
			for _, chain := range slices.Sorted(maps.Keys(chains)) {
				if !yield(network+" "+chain, chains[chain]) {
					return
				}
			}
		}
	}
}

// watch prints the state of chains, on a terminal as bars.
type watch struct {
	out      io.Writer
	terminal *os.File // nil if there is none
	bars     map[string]*progressbar.ProgressBar
}

func (w *watch) lines(status handlers.IndexStatus) {
	none := true
	for name, chain := range chainsOf(status) {
		none = false
		_, _ = fmt.Fprintf(w.out, "%s: %s\n", name, describe(chain))
	}
	for _, network := range slices.Sorted(maps.Keys(status.NotOpen)) {
		none = false
		_, _ = fmt.Fprintf(w.out, "%s: not open: %s\n", network, status.NotOpen[network])
	}
	if none {
		_, _ = fmt.Fprintln(w.out, "no chain is indexed")
	}
	for _, r := range status.Rebuilds {
		_, _ = fmt.Fprintf(w.out, "rebuild %s: %s\n", r.Index, r)
	}
	if status.RebuildsError != "" {
		_, _ = fmt.Fprintf(w.out, "rebuilds: unknown: %s\n", status.RebuildsError)
	}
}

// indexedBlocks returns the number of blocks that all projections of a chain have indexed. From is above Next if one of
// them begins later than another one has got.
func indexedBlocks(c handlers.ChainStatus) uint64 { return c.Next - min(c.From, c.Next) }

// describe returns a chain's state as a line of text.
func describe(c handlers.ChainStatus) string {
	text := string(c.State)
	if c.State != index.NotIndexed {
		text += fmt.Sprintf(", %d blocks indexed", indexedBlocks(c))
	}
	if c.From > 0 {
		text += fmt.Sprintf(" from height %d on", c.From)
	}
	if c.State == index.Rebuilding {
		text += fmt.Sprintf(", %d%% rebuilt from stored blocks", c.Rebuilt)
	} else if c.Tip != nil {
		text += fmt.Sprintf(", %d to go", c.Lag)
	}
	if c.State == index.CatchingUp && c.BlocksPerSecond > 0 {
		left := time.Duration(float64(c.Lag) / c.BlocksPerSecond * float64(time.Second)).Round(time.Second)
		text += fmt.Sprintf(", %.0f blocks/s, %s left", c.BlocksPerSecond, left)
	}
	if p := c.Proof; p != nil {
		text += fmt.Sprintf(", blocks %d to %d proven by stake", p.From, p.To)
	}
	if c.Note != "" {
		text += " (" + c.Note + ")"
	}
	if c.FailingSince != nil {
		text += ", failing for " + time.Since(*c.FailingSince).Round(time.Second).String()
	}
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text
}

// show is called again and again.
func (w *watch) show(status handlers.IndexStatus) {
	if w.terminal == nil {
		w.lines(status)
		return
	}
	for name, chain := range chainsOf(status) {
		if chain.Tip == nil {
			continue
		}
		all := int64(max(*chain.Tip+1, chain.From) - chain.From)
		bar, ok := w.bars[name]
		if !ok {
			if len(w.bars) > 0 { // one bar a line
				_, _ = fmt.Fprintln(w.out)
			}
			bar = progressbar.NewOptions64(all,
				progressbar.OptionSetWriter(w.terminal), progressbar.OptionSetDescription(name),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("blocks"),
				progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(), progressbar.OptionOnCompletion(func() { _, _ = fmt.Fprintln(w.terminal) }))
			w.bars[name] = bar
		}
		bar.ChangeMax64(all)
		if err := bar.Set64(int64(indexedBlocks(chain))); err != nil && !errors.Is(err, io.EOF) {
			w.lines(status)
		}
	}
}
