package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/aggregator/delivery"
	"quorate/internal/node"
	"quorate/validators"
)

// verifyOptions are the flags of quorate verify.
type verifyOptions struct {
	node, subnet, destination, destinationRPC string
	height, quorum                            uint64
	timeout                                   time.Duration
	json, verbose                             bool
}

func newVerify() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify SIGNED_MESSAGE",
		Short: "Verify a signed message against a subnet's validators",
		Long: `Verify a signed Warp message with avalanchego's own code against the validators that a
node reports. A signature belongs to the validator set of one P-Chain height. It may not
verify at another height.

SIGNED_MESSAGE is hex with or without 0x, @file, or - for standard input. If it is not
valid, the command prints the reason and exits with code 3.

  quorate verify --node http://127.0.0.1:9650 SIGNED_MESSAGE
  quorate verify --node http://127.0.0.1:9650 --json @signed.hex
  quorate sign --node http://127.0.0.1:9650 --quorum 80 @message.hex > signed.hex
  quorate verify --node http://127.0.0.1:9650 --quorum 80 @signed.hex

With --destination, the command says whether that blockchain would accept the message in its
next block: at the P-Chain height of its epoch (ACP-181), with its own quorum, against the
validators that its Warp precompile requires. If not, the command prints why, from when on it
would, and what to do. The node must run the destination; otherwise --destination-rpc names a
node that does.

  quorate verify --node http://127.0.0.1:9650 --destination c-chain @signed.hex
  quorate verify --node http://127.0.0.1:9650 --destination-rpc https://host/ext/bc/BLOCKCHAIN_ID/rpc @signed.hex

Exit codes: 0 valid or deliverable, 1 failed, 2 mistake in the command line, 3 not valid or
not deliverable now.`,
		Args: oneArg("SIGNED_MESSAGE"),
		RunE: wrap(func(cmd *cobra.Command, args []string) error { return o.verify(cmd, args[0]) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.node, "node", "", "`URL` of a node that reports the validators")
	flags.StringVar(&o.subnet, "subnet", "", "`ID` of the signing subnet (default: that of the source blockchain)")
	flags.Uint64Var(&o.height, "height", 0, "P-Chain `height` of the validator set (default: the proposed height)")
	flags.Uint64Var(&o.quorum, "quorum", aggregator.DefaultQuorumPercentage, "`percentage` of the weight that must have signed, 1 to 100")
	flags.StringVar(&o.destination, "destination", "", "`BLOCKCHAIN_ID` of the chain that is to accept the message, or c-chain or p-chain")
	flags.StringVar(&o.destinationRPC, "destination-rpc", "", "`URL` of the destination's Ethereum API, if --node does not run it")
	flags.DurationVar(&o.timeout, "timeout", 30*time.Second, "longest `time` to wait for the node")
	flags.BoolVar(&o.json, "json", false, "print the verdict as JSON")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "list the signers")
	return cmd
}

func (o verifyOptions) verify(cmd *cobra.Command, message string) error {
	text, err := readMessage(cmd, message)
	if err != nil {
		return err
	}
	if o.node == "" {
		return usage(errors.New("--node is needed"), "Name a node of the message's network, for example --node http://127.0.0.1:9650")
	}
	if o.quorum < 1 || o.quorum > 100 {
		return usage(fmt.Errorf("--quorum %d is not between 1 and 100", o.quorum), "The usual quorum is 67.")
	}
	raw, err := decodeHex(text)
	if err != nil {
		return usage(fmt.Errorf("the message is not hex: %w", err), "Give it in hex, as @file, or as - to read standard input.")
	}
	signed, err := warp.ParseMessage(raw)
	if err != nil {
		return usage(fmt.Errorf("this is not a signed Warp message: %w", err), "If it is unsigned, sign it with quorate sign.")
	}
	var subnetID *ids.ID
	if o.subnet != "" {
		id, err := ids.FromString(o.subnet)
		if err != nil {
			return usage(fmt.Errorf("--subnet: %q is not a subnet ID", o.subnet), "Leave it out to use the subnet of the message's source blockchain.")
		}
		subnetID = &id
	}
	if err := positive("timeout", o.timeout); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	if o.destination != "" || o.destinationRPC != "" {
		if cmd.Flags().Changed("quorum") {
			return usage(errors.New("--quorum cannot be used with --destination"), "The destination's own quorum decides. Leave --quorum out.")
		}
		return o.deliver(ctx, cmd, delivery.Request{Message: signed, SigningSubnetID: subnetID, PChainHeight: o.height})
	}
	verdict, err := judge(ctx, o.node, signed, subnetID, o.height, o.quorum)
	if err != nil {
		return err
	}
	if err := printVerdict(cmd, verdict, o.json, o.verbose); err != nil {
		return err
	}
	if !verdict.Valid {
		hint := "Signers are indices into the validator set of one P-Chain height. Give the --height and --subnet that the message was signed for."
		if verdict.Weight > 0 && verdict.Weight < verdict.TargetWeight {
			hint += " If they are right, sign with a higher quorum, or verify with a lower --quorum."
		}
		return &exitError{code: exitNegative, err: fmt.Errorf("not valid: %s", verdict.Reason), hint: hint}
	}
	return nil
}

func judge(ctx context.Context, nodeURL string, signed *warp.Message, subnetID *ids.ID, height, quorum uint64) (*aggregator.Verdict, error) {
	client, err := nodeOf(ctx, nodeURL, signed)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	resolver := validators.NewResolver(client, validators.Options{})
	if subnetID == nil {
		owner, err := resolver.SubnetOf(ctx, signed.SourceChainID)
		if err != nil {
			return nil, setFailure(fmt.Errorf("finding the signing subnet: %w", err))
		}
		subnetID = &owner
	}
	set, err := resolver.Set(ctx, *subnetID, height)
	if err != nil {
		return nil, setFailure(fmt.Errorf("reading the validator set: %w", err))
	}
	return aggregator.Judge(signed, set, quorum), nil
}

// nodeOf returns a client of a node, which must be on the message's network.
func nodeOf(ctx context.Context, url string, signed *warp.Message) (*node.Client, error) {
	client, err := node.New(node.Options{Endpoints: []string{url}})
	if err != nil {
		return nil, usage(fmt.Errorf("--node: %w", err), nodeHint)
	}
	id, err := client.NetworkID(ctx)
	switch {
	case err != nil:
		err = &exitError{code: exitFailed, err: err, hint: nodeHint}
	case id != signed.NetworkID:
		err = otherNetwork(signed.NetworkID, id)
	default:
		return client, nil
	}
	client.Close()
	return nil, err
}

// setFailure returns err as a usage mistake or as a failure of the node.
func setFailure(err error) error {
	switch {
	case errors.Is(err, validators.ErrUnknownBlockchain):
		return usage(err, "The message's source blockchain is not on the network of --node. Name another node, or give the subnet with --subnet.")
	case errors.Is(err, validators.ErrUnknownSubnet):
		return usage(err, "Check that --subnet is a subnet of this network.")
	case errors.Is(err, validators.ErrHeightUnavailable):
		return usage(err, "Leave --height out to use the proposed height.")
	}
	return &exitError{code: exitFailed, err: err, hint: nodeHint}
}

func printVerdict(cmd *cobra.Command, v *aggregator.Verdict, asJSON, verbose bool) error {
	out := cmd.OutOrStdout()
	percent := 100 * float64(v.Weight) / float64(max(v.TotalWeight, 1))
	if asJSON {
		type signer struct {
			Index   int          `json:"index"`
			NodeIDs []ids.NodeID `json:"nodeIds"`
			Weight  uint64       `json:"weight,string"`
		}
		signers := []signer{}
		for _, s := range v.Signers {
			signers = append(signers, signer(s))
		}
		return json.NewEncoder(out).Encode(map[string]any{
			"valid": v.Valid, "reason": v.Reason, "signers": signers,
			"weight": fmt.Sprint(v.Weight), "targetWeight": fmt.Sprint(v.TargetWeight), "totalWeight": fmt.Sprint(v.TotalWeight), "weightPercentage": percent,
			"signingSubnetId": v.SigningSubnetID, "pChainHeight": fmt.Sprint(v.PChainHeight),
		})
	}
	verdict := "valid"
	if !v.Valid {
		verdict = "NOT VALID"
	}
	_, err := fmt.Fprintf(out, "%s\n  subnet    %s\n  height    %d\n  signers   %d\n  weight    %d of %d (%.2f%%), needed %d\n",
		verdict, v.SigningSubnetID, v.PChainHeight, len(v.Signers), v.Weight, v.TotalWeight, percent, v.TargetWeight)
	for _, s := range v.Signers {
		if verbose && err == nil {
			_, err = fmt.Fprintf(out, "  %5d  %d  %v\n", s.Index, s.Weight, s.NodeIDs)
		}
	}
	return err
}
