package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"quorate/handlers"
)

func newIndexRebuild() *cobra.Command {
	var server string
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild the index of the P-, X- and C-Chains while it serves",
		Long: `Ask a running service to rebuild the index of the P-, X- and C-Chains of all its
networks. It reads the blocks from its store, and from nodes where the store has none.
The old index keeps following the chains and answering requests. The new index replaces
it once it has caught up. The store needs room for both.

  quorate index rebuild
  quorate index status        shows the progress

EVM indexes are not rebuilt.

Exit codes: 0 the rebuild has begun, 1 the command failed or a rebuild is already
running, 2 mistake in the command line.`,
		Args: cobra.NoArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			client := newHTTPClient()
			defer client.CloseIdleConnections()
			request, err := http.NewRequestWithContext(cmd.Context(), http.MethodPost, strings.TrimRight(server, "/")+"/index/rebuild", nil)
			if err != nil {
				return usage(fmt.Errorf("--server: %w", err), "Give the URL of the private address, for example http://127.0.0.1:8081")
			}
			response, err := client.Do(request)
			if err != nil {
				return &exitError{code: exitFailed, err: err, hint: "Is the service running? --server is its private address."}
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
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "rebuild: %s\n", &r)
			return nil
		}),
	}
	cmd.Flags().StringVar(&server, "server", "http://127.0.0.1:8081", "`URL` of the service's private address")
	return cmd
}
