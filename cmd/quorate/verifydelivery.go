package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/aggregator/delivery"
	"quorate/internal/node"
	"quorate/validators"
)

const destinationHint = "Give the URL of the destination's Ethereum API on a node, of the form http://HOST/ext/bc/BLOCKCHAIN_ID/rpc. The node's API beside it has the epoch."

// twoNodes asks one node about the network, and another about the destination.
type twoNodes struct {
	*node.Client
	destination *node.Client
}

func (n twoNodes) CurrentEpoch(ctx context.Context, blockchainID ids.ID) (node.Epoch, error) {
	return n.destination.CurrentEpoch(ctx, blockchainID)
}

func (n twoNodes) WarpConfigs(ctx context.Context, blockchainID ids.ID) (node.WarpConfigs, error) {
	return n.destination.WarpConfigs(ctx, blockchainID)
}

// deliver tells whether the destination would accept a message.
func (o verifyOptions) deliver(ctx context.Context, cmd *cobra.Command, req delivery.Request) error {
	client, err := nodeOf(ctx, o.node, req.Message)
	if err != nil {
		return err
	}
	defer client.Close()
	nodes := twoNodes{client, client}
	path := ""
	if o.destinationRPC != "" {
		if nodes.destination, path, err = destinationNode(o.destinationRPC); err != nil {
			return err
		}
		defer nodes.destination.Close()
	}
	if req.DestinationID, err = o.destinationID(ctx, nodes, path); err != nil {
		return err
	}
	checker := delivery.New(req.Message.NetworkID, validators.NewResolver(nodes, validators.Options{}), nodes)
	d := checker.Check(ctx, req)
	if d.Err != nil {
		if errors.Is(d.Err, validators.ErrUnknownBlockchain) {
			return usage(d.Err, "Check --destination. If the node does not run that blockchain, name one that does with --destination-rpc.")
		}
		return setFailure(d.Err)
	}
	if o.json {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(d)
	} else {
		err = printDelivery(cmd, d)
	}
	if err == nil && d.Code != delivery.Deliverable {
		err = &exitError{code: exitNegative, err: fmt.Errorf("not deliverable now: %s", d.Code), hint: d.Remedy}
	}
	return err
}

// destinationNode returns the node that serves an Ethereum API, and the path of the API on it.
func destinationNode(rpc string) (client *node.Client, path string, err error) {
	const apis = "/ext/bc/"
	base, err := node.ParseEndpoint(rpc)
	if err != nil {
		return nil, "", usage(fmt.Errorf("--destination-rpc: %w", err), destinationHint)
	}
	before, after, ok := strings.Cut(base.Path, apis)
	if !ok || !strings.HasSuffix(after, "/rpc") {
		return nil, "", usage(errors.New("--destination-rpc: the URL's path does not end with /ext/bc/BLOCKCHAIN_ID/rpc"), destinationHint)
	}
	base.Path = before
	client, err = node.New(node.Options{Endpoints: []string{base.String()}})
	if err != nil {
		return nil, "", usage(fmt.Errorf("--destination-rpc: %w", err), destinationHint)
	}
	return client, apis + after, nil
}

// destinationID returns the blockchain that --destination names, or that serves an Ethereum API.
func (o verifyOptions) destinationID(ctx context.Context, nodes twoNodes, path string) (id ids.ID, err error) {
	switch o.destination {
	case "p-chain":
		return constants.PlatformChainID, nil
	case "c-chain":
		id, err = nodes.BlockchainID(ctx, "C")
	case "":
		if id, err = nodes.destination.EVM(path).BlockchainID(ctx); err == nil && id == ids.Empty {
			return id, usage(errors.New("the Ethereum API of --destination-rpc does not report its blockchain ID"), "Give it with --destination.")
		}
	default:
		if id, err = ids.FromString(o.destination); err != nil {
			return id, usage(fmt.Errorf("--destination: %q is not a blockchain ID", o.destination), "Give it as explorers show it, or c-chain or p-chain.")
		}
		return id, nil
	}
	if err != nil {
		return id, &exitError{code: exitFailed, err: fmt.Errorf("finding the destination: %w", err), hint: nodeHint}
	}
	return id, nil
}

// printDelivery prints an outcome on one screen.
func printDelivery(cmd *cobra.Command, d *delivery.Delivery) error {
	out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { _, _ = fmt.Fprintf(out, "  "+name+"\t"+format+"\n", args...) }
	if d.Code == delivery.Deliverable {
		_, _ = fmt.Fprintln(out, "deliverable")
	} else {
		_, _ = fmt.Fprintf(out, "NOT DELIVERABLE NOW: %s\n", d.Code)
	}
	line("destination", "%s", d.DestinationID)
	if e := d.Epoch; e != nil && e.Number == 0 {
		line("epoch", "none, so the proposed P-Chain height %d", e.PChainHeight)
	} else if e != nil {
		line("epoch", "%d at P-Chain height %d, from %s, sealed by a block from %s on", e.Number, e.PChainHeight, e.StartTime.Format(time.RFC3339), e.EndTime.Format(time.RFC3339))
	}
	if r := d.Rules; r != nil {
		line("rules", "quorum %d%%, primary network signers required: %t (%s)", r.QuorumPercentage, r.RequirePrimaryNetworkSigners, ruleSource(r.Source))
	}
	if s := d.Set; s != nil {
		line("validators", "subnet %s at P-Chain height %d", s.SubnetID, s.PChainHeight)
		line("signers", "%d with weight %d of %d (%.2f%%), needed %d", s.Signers, s.Weight, s.TotalWeight, 100*float64(s.Weight)/float64(max(s.TotalWeight, 1)), s.TargetWeight)
	}
	if n := d.NextEpoch; n != nil {
		line("next epoch", "needs P-Chain height %d, after %d block from %s on", n.PChainHeight, n.Blocks, n.NotBefore.Format(time.RFC3339))
	}
	line("why", "%s", d.Detail)
	if d.Code == delivery.Deliverable && d.Remedy != "" {
		line("note", "%s", d.Remedy)
	}
	return out.Flush()
}

func ruleSource(s delivery.RulesSource) string {
	switch s {
	case delivery.FromProtocol:
		return "fixed by the protocol"
	case delivery.FromChainConfig:
		return "from the chain's configuration"
	}
	return "the defaults; the chain's node does not report its configuration"
}
