package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"quorate/handlers"
	"quorate/internal/index"
)

func newIndexRebuild() *cobra.Command {
	var server string
	var cancel bool
	cmd := &cobra.Command{
		Use:   "rebuild [primary|evm]",
		Short: "Rebuild an index while it serves",
		Long: `Ask a running service to rebuild an index of all its networks: that of the P-, X- and
C-Chains (primary, the default), or those of the EVM chains, which include the C-Chain's
transactions (evm). The service reads blocks for the primary index from the store, or from
nodes if the store has none. It reads blocks for EVM indexes from nodes.
The old index keeps following the chains and answering requests. The new index replaces
it once it has caught up. The store needs room for both.

  quorate index rebuild
  quorate index rebuild evm
  quorate index rebuild evm --cancel
  quorate index status        # shows the progress, and why a rebuild does not advance

The service retries a rebuild that fails. The new index does not replace the old one while
it lacks blocks or call traces that the old one has.

Exit codes: 0 the rebuild has begun or is cancelled, 1 the command failed, a rebuild is
already running or none can be cancelled, 2 mistake in the command line.`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{index.PrimarySlots, index.EVMSlots},
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			client := newHTTPClient()
			defer client.CloseIdleConnections()
			query := url.Values{"index": {index.PrimarySlots}}
			if len(args) > 0 {
				query.Set("index", args[0])
			}
			if cancel {
				query.Set("cancel", "true")
			}
			response, err := askServer(cmd.Context(), client, http.MethodPost, strings.TrimRight(server, "/")+"/index/rebuild?"+query.Encode())
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
			if err != nil {
				return &exitError{code: exitFailed, err: err}
			}
			if response.StatusCode != http.StatusAccepted {
				var refusal struct{ Message string }
				_ = json.Unmarshal(body, &refusal)
				return &exitError{code: exitFailed, err: fmt.Errorf("the server answered with status %d: %s", response.StatusCode, refusal.Message)}
			}
			var r handlers.Rebuild
			if err := json.Unmarshal(body, &r); err != nil {
				return &exitError{code: exitFailed, err: fmt.Errorf("reading the server's response: %w", err)}
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "rebuild %s: %s\n", r.Index, &r)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&cancel, "cancel", false, "cancel the rebuild and delete the new rows")
	cmd.Flags().StringVar(&server, "server", "http://127.0.0.1:8081", "`URL` of the service's private address")
	return cmd
}
