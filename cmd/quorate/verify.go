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
	"quorate/internal/node"
	"quorate/validators"
)

func newVerify() *cobra.Command {
	var nodeURL, subnet string
	var height, quorum uint64
	var timeout time.Duration
	var asJSON, verbose bool
	cmd := &cobra.Command{
		Use:   "verify SIGNED_MESSAGE",
		Short: "Verify a signed message against a subnet's validators",
		Long: `Verify a signed Warp message with avalanchego's own code against the validators that a
node reports. A signature belongs to the validator set of one P-Chain height. It may not
verify at another height.

SIGNED_MESSAGE is hex with or without 0x, @file, or - for standard input. If it is not
valid, the command prints the reason and exits with code 3.

  quorate verify --node http://127.0.0.1:9650 0x0000...
  quorate verify --node http://127.0.0.1:9650 --json @signed.hex
  quorate sign --node $NODE @m.hex | quorate verify --node $NODE --quorum 80 -

Exit codes: 0 valid, 1 failed, 2 mistake in the command line, 3 not valid.`,
		Args: cobra.ExactArgs(1),
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			text, err := readMessage(cmd, args[0])
			if err != nil {
				return err
			}
			if nodeURL == "" {
				return usage(errors.New("--node is needed"), "Name a node of the message's network, for example --node http://127.0.0.1:9650")
			}
			if quorum < 1 || quorum > 100 {
				return usage(fmt.Errorf("--quorum %d is not between 1 and 100", quorum), "The usual quorum is 67.")
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
			if subnet != "" {
				id, err := ids.FromString(subnet)
				if err != nil {
					return usage(fmt.Errorf("--subnet: %q is not a subnet ID", subnet), "Leave it out to use the subnet of the message's source blockchain.")
				}
				subnetID = &id
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			verdict, err := judge(ctx, nodeURL, signed, subnetID, height, quorum)
			if err != nil {
				return err
			}
			if err := printVerdict(cmd, verdict, asJSON, verbose); err != nil {
				return err
			}
			if !verdict.Valid {
				return &exitError{code: exitNegative, err: fmt.Errorf("not valid: %s", verdict.Reason),
					hint: "Signers are indices into the validator set of one P-Chain height. Give the --height and --subnet that the message was signed for."}
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&nodeURL, "node", "", "`URL` of a node that reports the validators")
	flags.StringVar(&subnet, "subnet", "", "`ID` of the signing subnet (default: that of the source blockchain)")
	flags.Uint64Var(&height, "height", 0, "P-Chain `height` of the validator set (default: the proposed height)")
	flags.Uint64Var(&quorum, "quorum", aggregator.DefaultQuorumPercentage, "`percentage` of the weight that must have signed, 1 to 100")
	flags.DurationVar(&timeout, "timeout", 30*time.Second, "longest `time` to wait for the node")
	flags.BoolVar(&asJSON, "json", false, "print the verdict as JSON")
	flags.BoolVarP(&verbose, "verbose", "v", false, "list the signers")
	return cmd
}

func judge(ctx context.Context, nodeURL string, signed *warp.Message, subnetID *ids.ID, height, quorum uint64) (*aggregator.Verdict, error) {
	client, err := node.New(node.Options{Endpoints: []string{nodeURL}})
	if err != nil {
		return nil, usage(fmt.Errorf("--node: %w", err), nodeHint)
	}
	defer client.Close()
	id, err := client.NetworkID(ctx)
	if err != nil {
		return nil, &exitError{code: exitFailed, err: err, hint: nodeHint}
	}
	if id != signed.NetworkID {
		return nil, otherNetwork(signed.NetworkID, id)
	}
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
