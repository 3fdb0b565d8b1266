package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"quorate/internal/config"
	"quorate/internal/peernode"
	"quorate/internal/service"
	"quorate/internal/service/logs"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve networks until stopped",
		Long: `Serve signed Warp messages of one or more networks.

A node reports the validators of a network. Without a node, the service follows the
P-Chain itself; the first start then takes hours on mainnet. The service requests
signatures from the validators over the peer-to-peer network, through outgoing
connections only. The first start of a network creates an identity in the data folder.

SIGHUP makes the service read its configuration again: most limits, rate classes and
TLS certificates change without a restart. Its log names other changed keys.

The service answers at once. Requests for a network get status 503 until its node
answers. Other networks do not wait for it.

  quorate serve --network fuji=http://127.0.0.1:9650
  quorate serve --config quorate.yaml

Then:

  curl -X POST http://127.0.0.1:8080/v1/signatureAggregator/fuji/aggregateSignatures \
       -H 'Content-Type: application/json' -d '{"message": "MESSAGE"}'

Relayers of the stand-alone aggregator use POST /aggregate-signatures at the same
address. Clients of a node's APIs use /ext (of the only network, of mainnet, or of the
network that node_api.network names) and /NAME/ext of each network. Health and metrics
are at --private-listen: /readyz, /ext/health and /metrics.`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			s := config.Read(cmd.Flags(), os.Environ())
			s.CheckNetworks()
			c, err := usable(s)
			if err != nil {
				return err
			}
			tell := func(state string) {
				if err := notify(state); err != nil {
					_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "quorate: %v\n", err)
				}
			}
			defer context.AfterFunc(cmd.Context(), func() { tell("STOPPING=1") })()
			log, following := cmd.ErrOrStderr(), (func(string, peernode.Status))(nil)
			if f, ok := log.(*os.File); ok && isatty.IsTerminal(f.Fd()) && c.LogFormat != logs.JSON {
				c.LogFormat = logs.Text
				shown := newFollowShow(f)
				defer shown.close()
				log, following = shown, shown.show
			}
			hangups := make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			return service.Run(cmd.Context(), service.Options{
				Config: c, Version: version, Commit: buildSource().commit, Log: log, Following: following,
				Reload: service.Reload{
					Requests: hangups,
					Read: func() (config.Config, []string) {
						tell(reloading())
						s := config.Read(cmd.Flags(), os.Environ())
						s.CheckNetworks() // an empty file would remove all allowances
						s.CheckFiles()
						if following != nil && s.Config.LogFormat == logs.Auto {
							s.Config.LogFormat = logs.Text
						}
						return s.Config, s.Placed()
					},
					Done: func() { tell("READY=1") },
				},
				Started: func(a service.Addresses) {
					announce(cmd.OutOrStdout(), c, a)
					tell("READY=1")
				},
			})
		}),
	}
	addSettings(cmd)
	return cmd
}

// announce prints what is served and where.
func announce(out io.Writer, c config.Config, a service.Addresses) {
	_, _ = fmt.Fprintf(out, "quorate serves Warp signatures on %s://%s\n", c.Scheme(), a.Public)
	for _, name := range slices.Sorted(maps.Keys(c.Networks)) {
		_, _ = fmt.Fprintf(out, "  POST /v1/signatureAggregator/%s/aggregateSignatures, GET .../aggregateSignatures/{txHash},\n    GET .../blockchains/{id}/transactions/{hash}/messages\n", name)
		if c.Networks[name].RecordsLedger() {
			_, _ = fmt.Fprintf(out, "  GET  /v1/networks/%s/...\n", name)
		}
		if name == c.NodeAPI.Main(c.Networks) {
			_, _ = fmt.Fprintf(out, "  POST /ext/..., /%s/ext/... (node APIs)\n", name)
		} else {
			_, _ = fmt.Fprintf(out, "  POST /%s/ext/... (node APIs)\n", name)
		}
	}
	_, _ = fmt.Fprintf(out, "  POST /aggregate-signatures\nConsole: %s\nHealth and metrics: http://%s/readyz and /metrics\nStop with Ctrl-C.\n", consoleURL(c.Scheme(), a.Public), a.Private)
}

// consoleURL returns the console's URL for a browser on this machine.
func consoleURL(scheme string, public net.Addr) string {
	host, port, err := net.SplitHostPort(public.String())
	if err != nil {
		return scheme + "://" + public.String() + "/console/"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/console/"
}
