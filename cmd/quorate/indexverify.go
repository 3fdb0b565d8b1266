package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"quorate/handlers"
	"quorate/internal/config"
	"quorate/internal/index"
	"quorate/internal/index/primary"
	"quorate/internal/service/network"
	"quorate/internal/service/storage"
	"quorate/internal/store"
	"quorate/internal/suggest"
)

// mostAddresses is the largest number of addresses that one verification compares.
const mostAddresses = handlers.MostVerifiedAddresses

func newIndexVerify() *cobra.Command {
	var server, name, file string
	var addresses int
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Verify the index of the P-, X- and C-Chains",
		Long: `Verify the index of the P-, X- and C-Chains. The command checks that blocks follow one
another up to a block that the node has, that outputs and balances agree, and that a
sample of addresses has the balances that the node reports at the same height. It prints
the supply of each chain, for you to compare.

A running service verifies its own index at its private address while it works. With
--config, the command reads the store itself; stop the service first. The node moves
ahead of a stopped index, so after a while the command cannot compare addresses.

  quorate index verify
  quorate index verify --network fuji --addresses 10000
  quorate index verify --config quorate.yaml

The command fetches all blocks again if the store has none (keep_containers: none).

Exit codes: 0 no differences, 1 differences (listed) or the command failed, 2 mistake in
the command line, 3 no differences, but some checks could not be made (listed).`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			if addresses < 0 || addresses > mostAddresses {
				return usage(fmt.Errorf("--addresses: %d is not between 0 and %d", addresses, mostAddresses), "")
			}
			v := &verification{out: cmd.OutOrStdout()}
			if f, ok := cmd.ErrOrStderr().(*os.File); ok && isatty.IsTerminal(f.Fd()) {
				v.terminal = f
			}
			o := primary.VerifyOptions{Addresses: addresses}
			_, _ = rand.Read(o.Seed[:]) // never fails
			var err error
			if file == "" {
				err = verifyRemotely(cmd.Context(), server, name, o, v)
			} else {
				err = verifyStore(cmd.Context(), file, name, o, v)
			}
			return v.conclude(err)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&server, "server", "http://127.0.0.1:8081", "`URL` of the service's private address")
	flags.StringVar(&name, "network", "", "`name` of the only network to verify (default: all)")
	flags.StringVar(&file, "config", "", "configuration `file` of a stopped service whose store to verify")
	flags.IntVar(&addresses, "addresses", 1000, "`number` of addresses to compare with the node, a new random sample each time")
	return cmd
}

// verification prints findings and progress.
type verification struct {
	out      io.Writer
	terminal *os.File // nil if there is none
	bar      *progressbar.ProgressBar
	network  string
	what     string // current step
	tenth    uint64 // last tenth of what that was printed
	verdict  primary.Verdict
	done     int // number of verified networks
}

// begin sets the network that the following lines are about.
func (v *verification) begin(network string) { v.network = network }

func (v *verification) line(format string, args ...any) {
	if v.bar != nil {
		_ = v.bar.Clear()
	}
	_, _ = fmt.Fprintf(v.out, "%s: %s\n", v.network, fmt.Sprintf(format, args...))
}

// tell prints one step.
func (v *verification) tell(one primary.Verification) {
	switch {
	case one.Progress != nil:
		v.progress(one.Progress)
	case one.Wrong != "":
		v.line("DIFFERS: %s", one.Wrong)
	case one.Unchecked != "":
		v.line("not checked: %s", one.Unchecked)
	case one.Summary != "":
		v.line("%s", one.Summary)
	case one.Done != nil:
		v.verdict.Wrong += one.Done.Wrong
		v.verdict.Unchecked += one.Done.Unchecked
		v.done++
	}
}

// progress updates a bar on a terminal; elsewhere it prints a line for each tenth.
func (v *verification) progress(p *primary.VerifyProgress) {
	what := v.network + " " + p.What
	if v.what != what {
		v.what, v.tenth = what, 0
		if v.terminal != nil {
			total := int64(p.Total)
			if total == 0 {
				total = -1
			}
			v.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(v.terminal), progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
		}
	}
	if v.terminal != nil {
		_ = v.bar.Set64(int64(p.Done)) // fails only beyond the total
		return
	}
	if p.Total > 0 && 10*p.Done/p.Total > v.tenth {
		v.tenth = 10 * p.Done / p.Total
		v.line("%s: %d of %d", p.What, p.Done, p.Total)
	}
}

// conclude returns the error that ends the command, by what was found.
func (v *verification) conclude(err error) error {
	if v.bar != nil {
		_ = v.bar.Clear()
	}
	switch {
	case err != nil:
		return err
	case v.verdict.Wrong > 0:
		return &exitError{code: exitFailed, err: fmt.Errorf("%d differences were found", v.verdict.Wrong),
			hint: "The differences are listed above. Rebuild the index: quorate index rebuild."}
	case v.verdict.Unchecked > 0:
		return &exitError{code: exitNegative, err: errors.New("no differences, but some checks could not be made"), hint: "The missing checks are listed above."}
	case v.done == 0:
		return &exitError{code: exitNegative, err: errors.New("nothing was verified: no network has an index"), hint: "Check that a node answers and that --network names an indexed network."}
	}
	_, _ = fmt.Fprintln(v.out, "no differences")
	return nil
}

// verifyRemotely asks a running service to verify its index.
func verifyRemotely(ctx context.Context, server, name string, o primary.VerifyOptions, v *verification) error {
	client := newHTTPClient()
	client.Timeout = 0 // a verification may take hours
	defer client.CloseIdleConnections()
	status, err := readIndexStatus(ctx, client, server)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(status.Networks))
	for _, network := range slices.Sorted(maps.Keys(status.NotOpen)) {
		if name == "" || name == network {
			v.begin(network)
			v.tell(primary.Verification{Unchecked: "the network is not open: " + status.NotOpen[network]})
			v.verdict.Unchecked++
		}
	}
	if name != "" {
		if _, waits := status.NotOpen[name]; waits {
			return nil
		}
		if !slices.Contains(names, name) {
			return usage(fmt.Errorf("--network: the service has no index of %q%s", name, suggest.Name(name, names)), "It indexes: "+strings.Join(names, ", "))
		}
		names = []string{name}
	}
	for _, network := range names {
		v.begin(network)
		if err := verifyAt(ctx, client, server, network, o, v); err != nil {
			return err
		}
	}
	return nil
}

func verifyAt(ctx context.Context, client *http.Client, server, network string, o primary.VerifyOptions, v *verification) error {
	query := url.Values{"network": {network}, "addresses": {strconv.Itoa(o.Addresses)}, "seed": {o.Seed.String()}}
	response, err := askServer(ctx, client, http.MethodPost, strings.TrimRight(server, "/")+"/index/verify?"+query.Encode())
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return &exitError{code: exitFailed, err: fmt.Errorf("the server answered with status %d: %s", response.StatusCode, text)}
	}
	for lines := json.NewDecoder(response.Body); ; {
		var one primary.Verification
		if err := lines.Decode(&one); err != nil {
			return &exitError{code: exitFailed, err: fmt.Errorf("the service ended the verification early: %w", err), hint: "The service's log has the reason."}
		}
		v.tell(one)
		if one.Done != nil {
			return nil
		}
	}
}

// verifyStore verifies the index in the store of a stopped service.
func verifyStore(ctx context.Context, file, name string, o primary.VerifyOptions, v *verification) error {
	settings := &cobra.Command{}
	config.AddFlags(settings.Flags())
	if err := settings.Flags().Set("config", file); err != nil {
		return err
	}
	c, err := load(settings, os.Environ())
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(c.Networks))
	if name != "" {
		if !slices.Contains(names, name) {
			return usage(fmt.Errorf("--network: %q is not in %s%s", name, file, suggest.Name(name, names)), "It has: "+strings.Join(names, ", "))
		}
		names = []string{name}
	}
	place := storage.LocationOf(c)
	place.ViewAge = longestView
	return withStore(ctx, place, func(s store.Store) error {
		log := slog.New(slog.DiscardHandler)
		slots, err := index.OpenSlots(ctx, s, index.PrimarySlots, primary.Forms()...)
		if err != nil {
			return &exitError{code: exitFailed, err: err}
		}
		s = slots.Store()
		if err := index.Check(ctx, s, primary.Forms()...); err != nil {
			return &exitError{code: exitFailed, err: err, hint: "Start the service; it rebuilds the index."}
		}
		for _, name := range names {
			v.begin(name)
			if err := network.Verify(ctx, network.Options{Name: name, Config: c.Networks[name], Log: log, Store: s}, o, v.tell); err != nil {
				return &exitError{code: exitFailed, err: fmt.Errorf("network %s: %w", name, err), hint: unverifiedHint(err)}
			}
		}
		return nil
	})
}

// unverifiedHint says what to look at if a verification ended early.
func unverifiedHint(err error) string {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrClosed) {
		return "Does the store's server answer?"
	}
	return "Does its node answer?"
}
