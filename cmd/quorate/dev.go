package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/internal/config"
	"quorate/internal/index/evm"
	"quorate/internal/service"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
	"quorate/internal/simnet/history"
	"quorate/validators"
)

func newDev() *cobra.Command {
	o := simnet.Options{Weights: simnet.HeavyTailed}
	var listen, private, logLevel string
	var faults float64
	var latency time.Duration
	var transactions int
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start a simulated network and the service on it",
		Long: `Start a simulated Avalanche network in this process and serve it. This needs no
installation and no configuration. The validators speak the peer-to-peer protocol over
loopback connections and sign with BLS keys.

The service names the network local, and also fuji, because the official clients of the
Data API know only the names mainnet and fuji.

  quorate dev
  quorate dev --validators 1000 --faults 0.2 --latency 40ms
  quorate dev --history 100000      # with a longer chain history`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			if o.Validators < 1 || o.Validators > 5000 {
				return usage(fmt.Errorf("--validators %d is not between 1 and 5000", o.Validators), "For example: quorate dev --validators 50")
			}
			if faults < 0 || faults > 1 {
				return usage(fmt.Errorf("--faults %g is not a fraction between 0 and 1", faults), "For example, a tenth of all validators: quorate dev --faults 0.1")
			}
			if transactions < 0 || transactions > 10_000_000 {
				return usage(fmt.Errorf("--history %d is not between 0 and 10000000", transactions), "For example: quorate dev --history 100000")
			}
			if transactions > 0 {
				o.History = &simnet.History{Options: history.Options{Txs: transactions, EarlyTxs: transactions / 10}, Pace: blockPace}
				o.EVM = []simnet.EVM{{Options: evmchain.Options{L1: true, Txs: transactions}, Pace: blockPace}}
			}
			f := faults / 5
			o.Faults = simnet.Faults{Offline: f, Refusing: f, Silent: f, WrongSignature: f, Malformed: f}
			o.Latency = simnet.Latency{Median: latency, P99: 10 * latency, Persistent: 0.8}
			c := config.Default()
			c.Listen, c.PrivateListen, c.LogLevel = listen, private, logLevel
			if latency < 0 {
				return usage(fmt.Errorf("--latency %s is negative", latency), "For example: quorate dev --latency 20ms")
			}
			if err := c.Check(); err != nil {
				return usage(err, "Correct the flag; quorate dev --help explains them.")
			}
			return dev(cmd, c, o)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:8080", "public `address` to listen on")
	flags.StringVar(&private, "private-listen", "127.0.0.1:8081", "private `address` for metrics and health")
	flags.StringVar(&logLevel, "log-level", "error", "lowest `level` to log: debug, info, warn or error; faulty validators cause warnings")
	flags.IntVar(&o.Validators, "validators", 50, "`number` of validators, 1 to 5000")
	flags.Uint64Var(&o.Seed, "seed", 1, "`number` that determines the network's keys, weights and history")
	flags.DurationVar(&latency, "latency", 20*time.Millisecond, "median response `time` of validators")
	flags.Float64Var(&faults, "faults", 0.1, "`fraction` of faulty validators, 0 to 1: offline, refusing, unresponsive, forging or malformed in equal parts")
	flags.IntVar(&transactions, "history", 2000, "`number` of transactions in the history of the P-, X- and C-Chain and of one EVM chain; 0 starts no such chains")
	return cmd
}

// devName is the network's name, and devAlias another one, which the official clients accept.
const devName, devAlias = "local", "fuji"

// blockPace is the time between two blocks that a simulated chain adds to its history.
const blockPace = 2 * time.Second

func dev(cmd *cobra.Command, c config.Config, o simnet.Options) error {
	sim, err := simnet.Start(o)
	if err != nil {
		return err
	}
	defer sim.Close()
	// The network is new in each run, so the identity may be new too.
	if c.DataDir, err = os.MkdirTemp("", "quorate-dev-"); err != nil {
		return fmt.Errorf("creating a folder for this run: %w", err)
	}
	defer func() { _ = os.RemoveAll(c.DataDir) }()
	network := config.Network{Nodes: []config.Endpoint{{URL: sim.NodeURL()}}, AllowPrivateIPs: true, Record: config.RecordAll, EVMIndexes: evm.Optionals()}
	for _, chain := range sim.EVM() {
		network.EVM = append(network.EVM, config.EVM{RPC: config.Endpoints{{URL: fmt.Sprintf("%s/ext/bc/%s/rpc", sim.NodeURL(), chain.Generator().BlockchainID())}}})
	}
	c.Networks = map[string]config.Network{devName: network}
	c.Webhooks.Enabled, c.Webhooks.AllowPrivateAddresses = true, true // receivers are on this machine
	var examples atomic.Uint64
	example := func(name string) ([]byte, bool) {
		if name != devName && name != devAlias {
			return nil, false
		}
		return sim.Message(fmt.Appendf(nil, "example %d from the console", examples.Add(1))).Bytes(), true
	}

	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	var introduction sync.WaitGroup
	err = service.Run(ctx, service.Options{
		Config: c, Version: version, Commit: buildSource().commit, Synthetic: true, Aliases: map[string]string{devAlias: devName}, Example: example, Log: cmd.ErrOrStderr(),
		Started: func(a service.Addresses) {
			introduction.Go(func() {
				if err := introduce(ctx, cmd.OutOrStdout(), sim, a); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			})
		},
	})
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	cancel(nil)
	introduction.Wait()
	return err
}

// introduce requests a first signature through the service's HTTP API and prints the result and how to repeat it.
func introduce(ctx context.Context, out io.Writer, sim *simnet.Network, at service.Addresses) error {
	const path = "/v1/signatureAggregator/" + devName + "/aggregateSignatures"
	base := "http://" + at.Public.String()
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	message := sim.Message([]byte("hello from quorate dev"))
	body := fmt.Sprintf(`{"message":"0x%x"}`, message.Bytes())
	if err := awaitUp(ctx, client, base+"/health"); err != nil {
		return err
	}
	start := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the first aggregation: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	took := time.Since(start)
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("the first aggregation: %w", err)
	}
	first, err := firstAnswer(response.StatusCode, content, sim, took)
	if err != nil {
		return fmt.Errorf("the first aggregation: %w", err)
	}
	look, err := lookAt(sim, base)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `quorate dev: a simulated network of %d validators, served as %s on %s

%s
Watch validators sign in a browser: %s
Read the API reference:             %s/docs
Point an official client at it:     server URL %s, network %s

Sign it again:
  curl -s -X POST %s%s \
    -H 'Content-Type: application/json' \
    -d '%s'
%s
Health and metrics: http://%s/readyz and /metrics
Upstream node: %s
Stop with Ctrl-C.
`,
		len(sim.Validators()), devName, base, first, consoleURL("http", at.Public), base, base, devAlias,
		base, path, body, look, at.Private, sim.NodeURL())
	return err
}

// firstAnswer verifies the answer to the first request and describes it.
func firstAnswer(status int, content []byte, sim *simnet.Network, took time.Duration) (string, error) {
	var reply struct{ SignedMessage, Message string }
	if err := json.Unmarshal(content, &reply); err != nil {
		return "", err
	}
	if status != http.StatusOK { // as --faults may want it
		return fmt.Sprintf("First message not signed:\n  %s\n", reply.Message), nil
	}
	raw, err := hex.DecodeString(reply.SignedMessage)
	if err != nil {
		return "", err
	}
	signed, err := warp.ParseMessage(raw)
	if err != nil {
		return "", err
	}
	set := validators.NewSet(constants.PrimaryNetworkID, sim.Height(), sim.Set(constants.PrimaryNetworkID, sim.Height()))
	verdict := aggregator.Judge(signed, set, aggregator.DefaultQuorumPercentage)
	if !verdict.Valid {
		return "", fmt.Errorf("the message does not verify: %s", verdict.Reason)
	}
	return fmt.Sprintf(`First message signed and verified:
  message   %s
  signers   %d of %d validators
  weight    %.1f%% (quorum %d%%)
  latency   %s
`,
		signed.ID(), len(verdict.Signers), len(set.Validators),
		100*float64(verdict.Weight)/float64(verdict.TotalWeight), aggregator.DefaultQuorumPercentage,
		took.Round(time.Millisecond)), nil
}

// lookAt returns example requests for the chains' data, or nothing without a history.
func lookAt(sim *simnet.Network, base string) (string, error) {
	past := sim.History()
	if past == nil {
		return "", nil
	}
	owner, err := address.Format("P", constants.GetHRP(sim.NetworkID()), past.Addresses()[0].Bytes())
	if err != nil {
		return "", fmt.Errorf("encoding an address: %w", err)
	}
	return fmt.Sprintf(`
Look up what an address owns, while blocks keep arriving:
  curl -s '%s/v1/networks/%s/blockchains/p-chain/balances?addresses=%s'
Look up vertices, which the X-Chain accepted before it had blocks:
  curl -s '%s/v1/networks/%s/blockchains/x-chain/vertices:listByHeight?vertexHeight=1'
%s`, base, devName, owner, base, devName, lookAtEVM(sim, base)), nil
}

// lookAtEVM returns an example request for an EVM chain, or nothing without one.
func lookAtEVM(sim *simnet.Network, base string) string {
	if len(sim.EVM()) == 0 {
		return ""
	}
	return fmt.Sprintf(`
List transactions of an EVM chain:
  curl -s '%s/v1/chains/%d/transactions'
`, base, sim.EVM()[0].Generator().ChainID())
}

// awaitUp waits until the service reports that it can sign.
func awaitUp(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the service did not become ready: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
