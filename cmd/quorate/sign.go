package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
)

// signFlags are what sign takes besides the message.
type signFlags struct {
	server, network       string
	node, dataDir         string
	allowPrivateIPs       bool
	quorum, buffer        uint64
	height                uint64
	subnet, justification string
	timeout               time.Duration
	asJSON                bool
	logLevel              string
}

func newSign() *cobra.Command {
	var f signFlags
	cmd := &cobra.Command{
		Use:   "sign MESSAGE",
		Short: "Have one message signed",
		Long: `Have one unsigned Warp message signed, through a running server or, given a node
to learn the validators from, by asking the validators from here.

MESSAGE is hex with or without 0x (the unsigned message, or the data of the Warp
precompile's log), @file, or - for standard input. The signed message is printed
in hex on standard output, a summary on standard error.

  quorate sign --server http://127.0.0.1:8080 --network fuji 0x0000...
  quorate sign --node http://127.0.0.1:9650 --allow-private-ips @message.hex
  echo 0x0000... | quorate sign --node http://127.0.0.1:9650 --quorum 67 --buffer 10 - > signed.hex

Exit codes: 0 signed, 1 failed, 2 mistake in the command line, 3 no quorum.`,
		Args: cobra.ExactArgs(1),
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			text, err := readMessage(cmd, args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			switch {
			case (f.server == "") == (f.node == ""):
				return usage(errors.New("exactly one of --server and --node is needed"), "For example: quorate sign --server http://127.0.0.1:8080 0x...")
			case f.server != "":
				return signThroughServer(ctx, cmd, f, text)
			}
			return signFromHere(ctx, cmd, f, text)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "`URL` of a running quorate")
	flags.StringVar(&f.network, "network", "fuji", "the network's `name` on the server")
	flags.StringVar(&f.node, "node", "", "`URL` of a node to learn the validators from")
	flags.StringVar(&f.dataDir, "data-dir", "", "`folder` of an identity to use with --node, such as ~/.quorate/fuji (default: a new one, kept nowhere)")
	flags.BoolVar(&f.allowPrivateIPs, "allow-private-ips", false, "connect to validators at private addresses (with --node)")
	flags.Uint64Var(&f.quorum, "quorum", aggregator.DefaultQuorumPercentage, "`percentage` of the weight that must sign")
	flags.Uint64Var(&f.buffer, "buffer", 0, "`percentage` wanted on top")
	flags.Uint64Var(&f.height, "height", 0, "P-Chain `height` of the validator set (default: the proposed one)")
	flags.StringVar(&f.subnet, "signing-subnet", "", "`ID` of the signing subnet (default: that of the source blockchain)")
	flags.StringVar(&f.justification, "justification", "", "what validators need besides the message, in `hex`")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "`time` to wait")
	flags.BoolVar(&f.asJSON, "json", false, "print everything as one JSON object")
	flags.StringVar(&f.logLevel, "log-level", "error", "debug, info, warn or error")
	return cmd
}

func signThroughServer(ctx context.Context, cmd *cobra.Command, f signFlags, message string) error {
	body := map[string]any{"message": message, "quorumPercentage": f.quorum, "quorumPercentageBuffer": f.buffer, "pChainHeight": f.height}
	if f.subnet != "" {
		body["signingSubnetId"] = f.subnet
	}
	if f.justification != "" {
		body["justification"] = f.justification
	}
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	url := strings.TrimRight(f.server, "/") + "/v1/signatureAggregator/" + f.network + "/aggregateSignatures"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(content))
	if err != nil {
		return usage(fmt.Errorf("--server: %w", err), "")
	}
	request.Header.Set("Content-Type", "application/json")
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	start := time.Now()
	response, err := client.Do(request)
	if err != nil {
		return &exitError{code: exitFailed, err: err, hint: "Is the server running? Start one with: quorate serve, or quorate dev"}
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return fmt.Errorf("reading the server's answer: %w", err)
	}
	var reply struct {
		SignedMessage string              `json:"signedMessage"`
		Message       string              `json:"message"`
		Code          aggregator.Code     `json:"code"`
		Outcomes      *aggregator.Account `json:"outcomes"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return &exitError{code: exitFailed, err: fmt.Errorf("the server answers with status %d and no JSON", response.StatusCode),
			hint: fmt.Sprintf("Is %s the public address of a quorate server?", f.server)}
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated:
	case http.StatusBadRequest, http.StatusNotFound:
		return usage(errors.New(reply.Message), "Correct the request: quorate sign --help explains the flags.")
	default:
		if reply.Message == "" {
			reply.Message = fmt.Sprintf("the server answers with status %d", response.StatusCode)
		}
		return signFailure(&aggregator.Error{Code: reply.Code, Message: reply.Message, Account: reply.Outcomes})
	}
	raw, err := hex.DecodeString(reply.SignedMessage)
	if err != nil {
		return fmt.Errorf("the server's signed message is no hex: %w", err)
	}
	signed, err := warp.ParseMessage(raw)
	if err != nil {
		return fmt.Errorf("the server's signed message cannot be read: %w", err)
	}
	signers, err := signed.Signature.NumSigners()
	if err != nil {
		return fmt.Errorf("the server's signed message cannot be read: %w", err)
	}
	return printSigned(cmd, f, signed, map[string]any{"signers": signers, "seconds": time.Since(start).Seconds()},
		fmt.Sprintf("signed by %d validators in %s", signers, time.Since(start).Round(time.Millisecond)))
}

func signFromHere(ctx context.Context, cmd *cobra.Command, f signFlags, text string) error {
	request, err := f.request(text)
	if err != nil {
		return usage(err, "quorate sign --help explains the message and the flags.")
	}
	n, stop, err := f.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer stop()
	if n.id != request.Message.NetworkID {
		return otherNetwork(request.Message.NetworkID, n.id)
	}
	start := time.Now()
	result, err := n.signer.Sign(ctx, request)
	var failed *aggregator.Error
	if errors.As(err, &failed) {
		return signFailure(failed)
	}
	if err != nil {
		return &exitError{code: exitFailed, err: fmt.Errorf("signing: %w", err), hint: "A longer --timeout may help; --log-level info shows what happens."}
	}
	percent := 100 * float64(result.Weight) / float64(result.TotalWeight)
	return printSigned(cmd, f, result.Message,
		map[string]any{
			"signers":         result.Signers,
			"weight":          fmt.Sprint(result.Weight),
			"totalWeight":     fmt.Sprint(result.TotalWeight),
			"signingSubnetId": result.SigningSubnetID,
			"pChainHeight":    fmt.Sprint(result.PChainHeight),
			"seconds":         time.Since(start).Seconds(),
		},
		fmt.Sprintf("signed by %d validators with %.2f %% of the weight of subnet %s at P-Chain height %d in %s",
			result.Signers, percent, result.SigningSubnetID, result.PChainHeight, time.Since(start).Round(time.Millisecond)))
}

// request makes the aggregator's request of the flags.
func (f signFlags) request(text string) (aggregator.Request, error) {
	r := aggregator.Request{QuorumPercentage: f.quorum, QuorumPercentageBuffer: f.buffer, PChainHeight: f.height}
	raw, err := decodeHex(text)
	if err != nil {
		return r, fmt.Errorf("the message is not hex: %w", err)
	}
	if r.Message, err = warp.ParseUnsignedMessage(raw); err != nil {
		return r, fmt.Errorf("the message is no unsigned Warp message: %w", err)
	}
	if r.Justification, err = decodeHex(f.justification); err != nil {
		return r, fmt.Errorf("--justification is not hex: %w", err)
	}
	if f.subnet != "" {
		id, err := ids.FromString(f.subnet)
		if err != nil {
			return r, fmt.Errorf("--signing-subnet: %q is no subnet ID", f.subnet)
		}
		r.SigningSubnetID = &id
	}
	if f.quorum < 1 || f.quorum+f.buffer > 100 {
		return r, fmt.Errorf("--quorum %d and --buffer %d: the quorum is at least 1, and both together at most 100", f.quorum, f.buffer)
	}
	return r, nil
}

func decodeHex(text string) ([]byte, error) {
	return hex.DecodeString(strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X"))
}

// open joins the network of --node for this one command and waits until enough
// validators are connected, or for a few seconds.
func (f signFlags) open(ctx context.Context, cmd *cobra.Command) (*network, func(), error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, nil, usage(fmt.Errorf("--log-level: %q is none of debug, info, warn, error", f.logLevel), "Use --log-level info to see what happens.")
	}
	o := networkOptions{
		name:    "node",
		config:  networkConfig{Nodes: []string{f.node}, AllowPrivateIPs: f.allowPrivateIPs},
		dir:     f.dataDir,
		log:     newLogger(f.logLevel, cmd.ErrOrStderr()),
		metrics: prometheus.NewRegistry(),
	}
	client, err := newClient(o)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("--node: %w", err), nodeHint)
	}
	id, err := client.NetworkID(ctx)
	if err != nil {
		client.Close()
		return nil, nil, &exitError{code: exitFailed, err: err, hint: nodeHint}
	}
	n, err := newNetwork(client, id, o)
	if err != nil {
		return nil, nil, &exitError{code: exitFailed, err: err, hint: "Is --data-dir a folder of yours? Without it an identity is made for this one command."}
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer n.close()
		if err := n.run(life); err != nil {
			o.log.Error("the network stopped", slog.Any("error", err))
		}
	}()
	patience, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for n.ready() != nil && patience.Err() == nil {
		select {
		case <-patience.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return n, func() { end(); <-done }, nil
}

// nodeHint is what to do when a node cannot be asked.
const nodeHint = "Does the node run, and is --node its base URL, such as http://127.0.0.1:9650?"

func otherNetwork(message, node uint32) error {
	return usage(fmt.Errorf("the message belongs to network %d, but the node is on network %d", message, node), "Name a node of the message's network with --node.")
}

// signFailure gives a failed aggregation its exit code, the same whether it ran
// here or in a server: a request that names what does not exist is the user's
// mistake, a quorum out of reach is an answer, the rest is a failure.
func signFailure(e *aggregator.Error) error {
	err := errors.New(e.Message)
	switch e.Code {
	case aggregator.CodeUnknownSubnet, aggregator.CodeUnknownBlockchain, aggregator.CodeHeightUnavailable:
		return usage(err, "Look at the message, --signing-subnet and --height: do they belong to this network?")
	case aggregator.CodeNoValidators, aggregator.CodeQuorumImpossible, aggregator.CodeRefused, aggregator.CodeQuorumNotReached:
		hint := "Is --signing-subnet the right one? A lower --quorum may be reachable."
		if a := e.Account; a != nil {
			hint = fmt.Sprintf("Needed %d of %d weight; signed %d, silent %d, not connected %d, refused %d, invalid %d, without a key %d.",
				a.TargetWeight, a.TotalWeight, a.SignedWeight, a.SilentWeight, a.DisconnectedWeight, a.RefusedWeight, a.InvalidWeight, a.KeylessWeight)
			switch {
			case a.RefusedWeight > 0:
				hint += " Was the message sent and accepted, and does it need a --justification?"
			case a.DisconnectedWeight > 0:
				hint += " Are the validators up? Private addresses need --allow-private-ips (in a server: allow_private_ips)."
			}
		}
		return &exitError{code: exitNegative, err: err, hint: hint}
	}
	return &exitError{code: exitFailed, err: err, hint: "Try again in a moment; if it lasts, look at the node and the log."}
}

func printSigned(cmd *cobra.Command, f signFlags, signed *warp.Message, facts map[string]any, summary string) error {
	text := hex.EncodeToString(signed.Bytes())
	if f.asJSON {
		facts["signedMessage"] = text
		facts["messageId"] = signed.UnsignedMessage.ID()
		return json.NewEncoder(cmd.OutOrStdout()).Encode(facts)
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), summary)
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
