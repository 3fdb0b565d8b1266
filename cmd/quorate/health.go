package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthTimeout bounds the request of quorate health.
const healthTimeout = 4 * time.Second

func newHealth() *cobra.Command {
	var server string
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a running service whether it is alive or ready",
		Long: `Ask a running service at its private address whether its process is alive, or with
--ready whether its networks can do their work. Without --server the command uses the
address in QUORATE_PRIVATE_LISTEN, else http://127.0.0.1:8081.

  quorate health
  quorate health --ready --server http://127.0.0.1:8081

Exit codes: 0 yes, 1 no or no answer within 4 s, 2 mistake in the command line.`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			if server == "" {
				server = privateURL(os.Getenv("QUORATE_PRIVATE_LISTEN"))
			}
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			return askHealth(cmd.Context(), cmd.OutOrStdout(), strings.TrimRight(server, "/")+path)
		}),
	}
	cmd.Flags().StringVar(&server, "server", "", "`URL` of the service's private address")
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether all networks are ready")
	return cmd
}

// privateURL returns the URL at which this machine reaches a service that listens at address.
func privateURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://127.0.0.1:8081"
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// askHealth prints the answer of url. It returns an error unless the status is 200.
func askHealth(ctx context.Context, out io.Writer, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	response, err := askServer(ctx, client, http.MethodGet, url)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	if _, err := fmt.Fprintln(out, strings.TrimSpace(string(body))); err != nil {
		return err
	}
	if response.StatusCode == http.StatusNotFound {
		return &exitError{code: exitFailed, err: fmt.Errorf("there is no %s", url), hint: "Check that --server is the private address of the service."}
	}
	if response.StatusCode != http.StatusOK {
		return &exitError{code: exitFailed, err: fmt.Errorf("%s answered with status %d", url, response.StatusCode), hint: "The answer above has the reason."}
	}
	return nil
}
