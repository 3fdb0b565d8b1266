package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/aggregator/evmmessage"
	"quorate/aggregator/l1message"
	"quorate/client"
	"quorate/handlers/evm"
	"quorate/handlers/signing"
	"quorate/internal/config"
	"quorate/internal/node"
	"quorate/internal/service/logs"
	"quorate/internal/service/network"
)

// nodeFlags holds the flags of commands that join the network of a node.
type nodeFlags struct {
	node, dataDir   string
	allowPrivateIPs bool
	logLevel        string
}

// signFlags holds the flags of sign.
type signFlags struct {
	nodeFlags
	tx, chain             string
	server, network       string
	quorum, buffer        uint64
	height                uint64
	subnet, justification string
	timeout               time.Duration
	asJSON                bool
}

func newSign() *cobra.Command {
	var f signFlags
	cmd := &cobra.Command{
		Use:   "sign {MESSAGE | --tx HASH}",
		Short: "Sign one message",
		Long: `Collect signatures on one unsigned Warp message, either through a running server
(--server), or directly from the validators (--node).

MESSAGE is hex with or without 0x (the unsigned message, or the data of the Warp
precompile's log), @file, or - for standard input. The command prints the signed message
in hex on standard output and a summary on standard error.

  quorate sign --server http://127.0.0.1:8080 --network fuji MESSAGE
  quorate sign --node http://127.0.0.1:9650 --allow-private-ips @message.hex
  echo MESSAGE | quorate sign --node http://127.0.0.1:9650 --quorum 67 --buffer 10 - > signed.hex

With --tx, the command signs the message that follows from a P-Chain transaction: the
conversion of a subnet to an L1, the registration of an L1 validator, or a change of its
weight. The signers are the validators of the subnet with the L1's manager contract.

  quorate sign --server http://127.0.0.1:8080 --network fuji --tx P_CHAIN_TX
  quorate sign --node http://127.0.0.1:9650 --allow-private-ips --tx P_CHAIN_TX

If the P-Chain does not know a hash in hex, the command looks for it on the C-Chain. With
--chain, --tx is the hash of a transaction of that EVM chain. The command then signs each
message that the transaction sent, and prints one line for each.

  quorate sign --server http://127.0.0.1:8080 --network fuji --tx TX_HASH
  quorate sign --node http://127.0.0.1:9650 --allow-private-ips --chain BLOCKCHAIN_ID --tx TX_HASH

Exit codes: 0 signed, 1 failed, 2 mistake in the command line, 3 no quorum, no validator
has seen the message yet, the transaction is not known or not accepted yet, or it is
superseded by a newer one.`,
		Args: cobra.MaximumNArgs(1),
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			w, err := f.work(cmd, args)
			if err != nil {
				return err
			}
			if err := positive("timeout", f.timeout); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			switch {
			case (f.server == "") == (f.node == ""):
				return usage(errors.New("exactly one of --server and --node is needed"), "For example: quorate sign --server http://127.0.0.1:8080 0x...")
			case f.server != "":
				return signThroughServer(ctx, cmd, f, w)
			}
			return signFromHere(ctx, cmd, f, w)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.tx, "tx", "", "`hash` of the transaction whose messages to sign, in base58 or hex")
	flags.StringVar(&f.chain, "chain", "", "EVM chain of --tx: c-chain, its blockchain `ID`, or with --server its EVM chain ID (default: the P-Chain, then the C-Chain)")
	flags.StringVar(&f.server, "server", "", "`URL` of a running quorate")
	flags.StringVar(&f.network, "network", "fuji", "`name` of the network on the server")
	flags.StringVar(&f.node, "node", "", "`URL` of a node that reports the validators")
	flags.StringVar(&f.dataDir, "data-dir", "", "`folder` of the identity to use with --node, for example ~/.quorate/fuji (default: a new identity, not saved)")
	flags.BoolVar(&f.allowPrivateIPs, "allow-private-ips", false, "connect to validators at private addresses (with --node)")
	flags.Uint64Var(&f.quorum, "quorum", aggregator.DefaultQuorumPercentage, "`percentage` of the weight that must sign, 1 to 100")
	flags.Uint64Var(&f.buffer, "buffer", 0, "`percentage` of the weight to collect beyond the quorum, if possible")
	flags.Uint64Var(&f.height, "height", 0, "P-Chain `height` of the validator set (default: the proposed height)")
	flags.StringVar(&f.subnet, "signing-subnet", "", "`ID` of the signing subnet (default: that of the source blockchain)")
	flags.StringVar(&f.justification, "justification", "", "justification for validators, in `hex`")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "`time` to wait")
	flags.BoolVar(&f.asJSON, "json", false, "print everything as one JSON object")
	flags.StringVar(&f.logLevel, "log-level", "error", "lowest `level` to log: debug, info, warn or error")
	return cmd
}

// work is what to sign: a message as text, or the message of a transaction.
type work struct {
	message string
	txID    *ids.ID
	// hex means that txID was given in hex, as EVM chains have it.
	hex bool
}

func (f signFlags) work(cmd *cobra.Command, args []string) (work, error) {
	if (len(args) == 0) == (f.tx == "") {
		return work{}, usage(errors.New("exactly one of a message and --tx is needed"), "For example: quorate sign --server http://127.0.0.1:8080 0x..., or --tx with a hash.")
	}
	if f.tx == "" {
		if f.chain != "" {
			return work{}, usage(errors.New("--chain is the chain of --tx; a message has its own"), "Leave it out, or give --tx.")
		}
		text, err := readMessage(cmd, args[0])
		return work{message: text}, err
	}
	if f.justification != "" {
		return work{}, usage(errors.New("--justification goes with a message; with --tx it follows from the transaction"), "Leave it out.")
	}
	if f.server != "" && f.chain == "" {
		for _, name := range []string{"quorum", "buffer", "height", "signing-subnet"} {
			if cmd.Flags().Changed(name) {
				return work{}, usage(fmt.Errorf("--%s cannot be combined with --tx and --server", name), "Leave it out, or use --node. For a transaction of an EVM chain, give --chain.")
			}
		}
	}
	if f.chain != "" && f.node != "" && f.chain != evm.CChain {
		if _, err := ids.FromString(f.chain); err != nil {
			return work{}, usage(fmt.Errorf("--chain: %q is not a blockchain ID", f.chain), "With --node, give the blockchain ID, or c-chain.")
		}
	}
	txID, err := parseTxHash(f.tx)
	_, notHex := decodeHex(f.tx)
	return work{txID: &txID, hex: notHex == nil}, err
}

// parseID parses an ID in hex or base58.
func parseID(text string) (ids.ID, error) {
	if raw, err := decodeHex(text); err == nil {
		return ids.ToID(raw)
	}
	return ids.FromString(text)
}

func parseTxHash(text string) (ids.ID, error) {
	id, err := parseID(text)
	if err != nil {
		return ids.Empty, usage(fmt.Errorf("--tx: %q is not a transaction hash", text), "Give it in base58, as explorers show it, or as 64 hex digits.")
	}
	return id, nil
}

// signThroughServer signs w through the server.
func signThroughServer(ctx context.Context, cmd *cobra.Command, f signFlags, w work) error {
	options, err := f.serverOptions()
	if err != nil {
		return err
	}
	// One attempt: the user sees what the server answers.
	server, err := client.New(client.Options{URL: f.server, Network: f.network, Attempts: 1})
	if err != nil {
		return usage(fmt.Errorf("--server and --network: %w", err), "For example: --server http://127.0.0.1:8080 --network fuji")
	}
	defer server.Close()
	if w.txID != nil && f.chain != "" {
		return signSentThroughServer(ctx, cmd, f, server, options, *w.txID)
	}
	start := time.Now()
	var signed *client.Signed
	if w.txID != nil {
		signed, err = server.SignTransactionInDetail(ctx, *w.txID)
	} else {
		request := client.Request{SignOptions: options}
		if request.Message, request.Justification, err = f.decode(w.message); err != nil {
			return usage(err, requestHint)
		}
		signed, err = server.SignInDetail(ctx, request)
	}
	if failed, ok := errors.AsType[*client.Error](err); ok && f.isUnknown(w, aggregator.Code(failed.Code)) {
		return signSentThroughServer(ctx, cmd, f, server, options, *w.txID)
	}
	if err != nil {
		return f.failedThere(cmd, err)
	}
	return printSigned(cmd, f, signed.Message, signed.Summary, time.Since(start))
}

// answerTime is the part of --timeout that is left to the server after it has waited for the message.
const answerTime = 5 * time.Second

// serverOptions returns the options of a request to the server, which checks their ranges.
func (f signFlags) serverOptions() (client.SignOptions, error) {
	subnet, err := f.signingSubnet()
	if err != nil {
		return client.SignOptions{}, usage(err, requestHint)
	}
	if f.quorum == 0 { // which the API takes for the default
		return client.SignOptions{}, usage(errors.New("--quorum 0: the quorum must be at least 1"), requestHint)
	}
	return client.SignOptions{
		SigningSubnetID: subnet, QuorumPercentage: f.quorum, QuorumPercentageBuffer: f.buffer, PChainHeight: f.height,
		Wait: min(max(f.timeout-answerTime, 0), signing.MaxWaitSeconds*time.Second).Truncate(time.Second),
	}, nil
}

// failedThere returns the error of a command that failed through the server.
func (f signFlags) failedThere(cmd *cobra.Command, err error) error {
	failed, ok := errors.AsType[*client.Error](err)
	switch {
	case errors.Is(err, client.ErrBadAnswer):
		if ok {
			err = errors.New(failed.Message)
		}
		return &exitError{code: exitFailed, err: err, hint: fmt.Sprintf("Check that %s is the public address of a quorate server.", f.server)}
	case !ok:
		return &exitError{code: exitFailed, err: err, hint: "Check that the server runs. Start one with: quorate serve, or quorate dev"}
	case failed.Status == http.StatusNotFound && (strings.HasPrefix(failed.Message, "there is no POST ") || strings.HasPrefix(failed.Message, "there is no GET ")):
		return usage(errors.New(failed.Message), fmt.Sprintf("Check that %s is the public address of a quorate server.", f.server))
	}
	e := roundError(failed)
	if err := f.printFailed(cmd, e); err != nil {
		return err
	}
	if e.Code != aggregator.CodeNotSeen && e.Code != l1message.CodeUnknownTransaction && (failed.Status == http.StatusBadRequest || failed.Status == http.StatusNotFound) {
		return usage(errors.New(failed.Message), "Correct the request: quorate sign --help explains the flags.")
	}
	return signFailure(e)
}

// printFailed prints, with --json, why nothing is signed.
func (f signFlags) printFailed(cmd *cobra.Command, e *aggregator.Error) error {
	if !f.asJSON {
		return nil
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"error": failedRequest{e.Message, e.Code, e.Account}})
}

// roundError returns an error of the server as that of a round in this process.
func roundError(e *client.Error) *aggregator.Error {
	failed := &aggregator.Error{Code: aggregator.Code(e.Code), Message: e.Message}
	if e.Outcomes == nil {
		return failed
	}
	// Both types have the same JSON.
	content, err := json.Marshal(e.Outcomes)
	if err == nil {
		err = json.Unmarshal(content, &failed.Account)
	}
	if err != nil {
		failed.Account = nil
	}
	return failed
}

// requestHint says where the message and the flags of a request are explained.
const requestHint = "quorate sign --help explains the message and the flags."

func signFromHere(ctx context.Context, cmd *cobra.Command, f signFlags, w work) error {
	var request aggregator.Request
	var err error
	if w.txID == nil {
		err = f.read(w.message, &request)
	}
	if err == nil {
		err = f.adjust(&request)
	}
	if err != nil {
		return usage(err, requestHint)
	}
	var chains []config.EVM
	if f.chain != "" && f.chain != evm.CChain {
		chains = []config.EVM{{RPC: config.Endpoints{{URL: strings.TrimRight(f.node, "/") + "/ext/bc/" + f.chain + "/rpc"}}}}
	}
	n, stop, err := f.open(ctx, cmd, chains)
	if err != nil {
		return err
	}
	defer stop()
	if w.txID != nil && f.chain != "" {
		return signSentFromHere(ctx, cmd, f, n, f.chain, *w.txID)
	}
	start := time.Now()
	var result *aggregator.Result
	switch {
	case w.txID != nil:
		// The flags were checked above.
		result, err = n.Messages.Sign(ctx, *w.txID, func(r *aggregator.Request) { _ = f.adjust(r) })
	case n.ID != request.Message.NetworkID:
		return otherNetwork(request.Message.NetworkID, n.ID)
	default:
		request.Wait = f.timeout
		result, err = n.Signer.Sign(ctx, request)
	}
	var failed *aggregator.Error
	if errors.As(err, &failed) && f.isUnknown(w, failed.Code) {
		return signSentFromHere(ctx, cmd, f, n, f.evmChain(), *w.txID)
	}
	if err != nil {
		return f.failedHere(cmd, err)
	}
	return printSigned(cmd, f, result.Message, &client.Summary{
		Signers: result.Signers, Weight: result.Weight, TotalWeight: result.TotalWeight, SigningSubnetID: result.SigningSubnetID, PChainHeight: result.PChainHeight,
	}, time.Since(start))
}

// read sets the message and the justification of r.
func (f signFlags) read(text string, r *aggregator.Request) error {
	raw, justification, err := f.decode(text)
	if err != nil {
		return err
	}
	r.Justification = justification
	r.Message, err = signing.ParseMessage(raw)
	return err
}

// decode returns the bytes of a message and of the justification.
func (f signFlags) decode(text string) (message, justification []byte, err error) {
	if message, err = decodeHex(text); err != nil {
		return nil, nil, fmt.Errorf("the message is not hex: %w", err)
	}
	if justification, err = decodeHex(f.justification); err != nil {
		return nil, nil, fmt.Errorf("--justification is not hex: %w", err)
	}
	return message, justification, nil
}

// signingSubnet returns the signing subnet, nil for that of the source blockchain.
func (f signFlags) signingSubnet() (*ids.ID, error) {
	if f.subnet == "" {
		return nil, nil
	}
	id, err := parseID(f.subnet)
	if err != nil {
		return nil, fmt.Errorf("--signing-subnet: %q is not a subnet ID", f.subnet)
	}
	return &id, nil
}

// adjust applies the flags that choose the signers and the quorum.
func (f signFlags) adjust(r *aggregator.Request) error {
	subnet, err := f.signingSubnet()
	if err != nil {
		return err
	}
	if subnet != nil {
		r.SigningSubnetID = subnet
	}
	if f.quorum < 1 || f.quorum > 100 || f.buffer > 100-f.quorum {
		return fmt.Errorf("--quorum %d and --buffer %d: the quorum must be at least 1, and both together at most 100", f.quorum, f.buffer)
	}
	r.QuorumPercentage, r.QuorumPercentageBuffer = f.quorum, f.buffer
	if f.height != 0 {
		r.PChainHeight, r.VerifyingBlockchainID = f.height, nil
	}
	return nil
}

func decodeHex(text string) ([]byte, error) {
	return hex.DecodeString(strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X"))
}

// open joins the network of --node for this command and waits until enough validators are
// connected, for 10 s at most.
func (f nodeFlags) open(ctx context.Context, cmd *cobra.Command, chains []config.EVM) (*network.Network, func(), error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, nil, usage(fmt.Errorf("--log-level: %q is not debug, info, warn or error", f.logLevel), "Use --log-level info to see what happens.")
	}
	o := network.Options{
		Name:    "node",
		Config:  config.Network{Nodes: []config.Endpoint{{URL: f.node}}, AllowPrivateIPs: f.allowPrivateIPs, EVM: chains},
		Role:    config.RoleSign,
		Dir:     f.dataDir,
		Log:     logs.NewLogger(f.logLevel, cmd.ErrOrStderr()),
		Metrics: prometheus.NewRegistry(),
	}
	if f.node == node.PeersEndpoint {
		return nil, nil, usage(errors.New("--node p2p: a command does not live long enough to follow the P-Chain; only serve does"), "Name a node, or a service with --server.")
	}
	client, err := network.NewClient(&o)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("--node: %w", err), nodeHint)
	}
	id, err := client.NetworkID(ctx)
	if err != nil {
		client.Close()
		return nil, nil, &exitError{code: exitFailed, err: err, hint: nodeHint}
	}
	n, err := network.New(client, id, o)
	if err != nil {
		return nil, nil, &exitError{code: exitFailed, err: err, hint: "Check that --data-dir is writable, or leave it out to use a new identity."}
	}
	// The rest of the time is the round's, which says why validators are not connected.
	connect := 10 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		connect = min(connect, time.Until(deadline)/3)
	}
	waiting, cancel := context.WithTimeout(ctx, connect)
	defer cancel()
	stop := n.Start(waiting, func() bool { return n.Ready() == nil })
	return n, stop, nil
}

// nodeHint says what to do when a node does not answer.
const nodeHint = "Is the node running, and is --node its base URL, for example http://127.0.0.1:9650?"

func otherNetwork(message, node uint32) error {
	return usage(fmt.Errorf("the message belongs to network %d, but the node is on network %d", message, node), "Name a node of the message's network with --node.")
}

// signFailure returns the exit code and hint for a failed round, the same for rounds here
// and in a server. A request for something that cannot be signed is a usage mistake. A quorum
// that cannot be reached and a transaction that the chain or its index may have later are
// negative results. The rest is a failure.
func signFailure(e *aggregator.Error) error {
	err := errors.New(e.Message)
	switch e.Code {
	case aggregator.CodeUnknownSubnet, aggregator.CodeUnknownBlockchain, aggregator.CodeHeightUnavailable:
		return usage(err, "Check that the message, --signing-subnet and --height belong to this network.")
	case l1message.CodeUnknownTransaction:
		return &exitError{code: exitNegative, err: err, hint: "If it was issued only now, try again in a moment. Otherwise check --tx, --chain, and the network of the server or node."}
	case l1message.CodeProcessing, l1message.CodeNotIndexed:
		return &exitError{code: exitNegative, err: err, hint: "Try again in a moment."}
	case l1message.CodeDropped, l1message.CodeXChain, l1message.CodeNoMessage, l1message.CodeRegistrationNotFound,
		evmmessage.CodeReverted, evmmessage.CodeUnknownChain:
		return usage(err, "Check --tx: it must be the hash of an accepted transaction of the P-Chain, or of the EVM chain that --chain names.")
	case l1message.CodeSuperseded:
		return &exitError{code: exitNegative, err: err, hint: "Name the newer transaction with --tx."}
	case aggregator.CodeNoValidators, aggregator.CodeQuorumImpossible, aggregator.CodeRefused, aggregator.CodeNotSeen, aggregator.CodeQuorumNotReached:
		hint := "Is --signing-subnet the right one? A lower --quorum may be reachable."
		if a := e.Account; a != nil && len(a.Reasons) > 0 {
			hint = describeReasons(a)
			if e.Code == aggregator.CodeQuorumNotReached { // the hint has the reasons
				err = errors.New("the quorum is not reached")
			}
		}
		return &exitError{code: exitNegative, err: errors.New(flagNames.Replace(err.Error())), hint: flagNames.Replace(hint)}
	}
	return &exitError{code: exitFailed, err: err, hint: "Try again in a moment. If it keeps failing, look at the node and at the log."}
}

// flagNames replaces the field names of requests, in texts that are the same for all clients, by the flags of the command.
var flagNames = strings.NewReplacer("waitSeconds makes", "a longer --timeout makes", "give waitSeconds", "give a longer --timeout")

// describeReasons returns one line for what signed and one for each reason for which weight is missing.
func describeReasons(a *aggregator.Account) string {
	percent := func(weight uint64) float64 { return 100 * float64(weight) / float64(max(a.TotalWeight, 1)) }
	lines := []string{fmt.Sprintf("%6.2f%%  signed, %.2f%% are needed (subnet %s, P-Chain height %d)", percent(a.SignedWeight), percent(a.TargetWeight), a.SigningSubnetID, a.PChainHeight)}
	for _, s := range a.Reasons {
		line := fmt.Sprintf("%6.2f%%  %s: %s", percent(s.Weight), s.Reason, s.String())
		if len(s.NodeIDs) > 0 {
			line += ", " + s.NodeIDs[0].String()
		}
		if s.Count > 1 {
			line += fmt.Sprintf(" and %d more", s.Count-1)
		}
		lines = append(lines, line, "         "+s.Remedy)
	}
	return strings.Join(lines, "\n")
}

// printSigned prints a signed message on standard output, and on standard error who signed it. s is nil if a server does
// not say so.
func printSigned(cmd *cobra.Command, f signFlags, signed *warp.Message, s *client.Summary, took time.Duration) error {
	text := hex.EncodeToString(signed.Bytes())
	if f.asJSON {
		out := struct {
			MessageID     ids.ID `json:"messageId"`
			SignedMessage string `json:"signedMessage"`
			Signers       int    `json:"signers"`
			*client.Summary
			Seconds float64 `json:"seconds"`
		}{signed.UnsignedMessage.ID(), text, 0, s, took.Seconds()}
		out.Signers, _ = signed.Signature.NumSigners() // the client has counted them
		return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), describeSigned(signed, s, took.Round(time.Millisecond)))
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// describeSigned returns one line that says who signed a message.
func describeSigned(signed *warp.Message, s *client.Summary, took time.Duration) string {
	if s == nil {
		signers, _ := signed.Signature.NumSigners() // the client has counted them
		return fmt.Sprintf("signed by %d validators in %s", signers, took)
	}
	text := fmt.Sprintf("signed by %d validators with %.2f%% of the weight of subnet %s at P-Chain height %d in %s",
		s.Signers, 100*float64(s.Weight)/float64(max(s.TotalWeight, 1)), s.SigningSubnetID, s.PChainHeight, took)
	if s.FromCache {
		text += ", from cache"
	}
	return text
}
