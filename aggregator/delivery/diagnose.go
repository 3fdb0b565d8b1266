package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/aggregator"
	"quorate/validators"
)

func (k *check) refuse(code Code, format string, args ...any) {
	no := false
	k.Deliverable, k.Code, k.Detail = &no, code, fmt.Sprintf(format, args...)
}

// failure is a call that the upstream node did not answer.
type failure struct {
	doing string
	err   error
}

func (f *failure) Error() string { return f.doing + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// unknown sets the outcome to Unknown because of a failure. Err is for operators, Detail for clients: it does not show
// what the upstream node answered.
func (k *check) unknown(ctx context.Context, f *failure) {
	k.Deliverable, k.Code, k.Err, k.Remedy = nil, Unknown, f, "Try again."
	why := "no upstream node answered in time"
	var known *aggregator.Error
	switch {
	case errors.Is(f, validators.ErrUnknownBlockchain):
		why = "the upstream node does not run blockchain " + k.DestinationID.String() + ", or there is none"
		k.Remedy = "Check the destination's blockchain ID, and use a node that runs it."
	case errors.Is(f, validators.ErrHeightUnavailable):
		why = "the upstream node does not have the set of that P-Chain height"
	case errors.As(aggregator.NodeFailure(ctx, f), &known):
		why = known.Message
	}
	k.Detail = f.doing + ": " + why
}

// accept sets the outcome of a message that holds against the set of the epoch.
func (k *check) accept(ctx context.Context, set *validators.Set) {
	yes := true
	k.Deliverable, k.Code = &yes, Deliverable
	k.Detail = fmt.Sprintf("the signers carry %s of the weight of subnet %s at P-Chain height %d, and the destination wants %d%%",
		share(k.Set.Weight, k.Set.TotalWeight), k.subnet, set.Height, k.Rules.QuorumPercentage)
	if k.Rules.Source == Assumed {
		k.Detail += ", by the default rules: its node does not report its own"
	}
	if k.epoch.Number == 0 {
		return
	}
	next, err := k.chains.Set(ctx, k.subnet, 0)
	if err != nil || next.Height <= set.Height || next.Fingerprint() == set.Fingerprint() || k.judge(next).Valid {
		return // the message is deliverable, whatever the next epoch brings
	}
	k.ExpiresAt = &k.Epoch.EndTime
	k.Remedy = fmt.Sprintf("Deliver it before the epoch ends at %s: the message does not hold against the set at P-Chain height %d, where the next epoch would begin.",
		k.Epoch.EndTime.Format(time.RFC3339), next.Height)
}

// firstBlock sets the outcome of a message that a destination without blocks accepts after its first one.
func (k *check) firstBlock(next *validators.Set) {
	k.refuse(EpochBehind, "the destination has made no block yet, and its first one verifies no messages; the message holds against the set at P-Chain height %d", next.Height)
	k.NextEpoch = &NextEpoch{PChainHeight: next.Height, NotBefore: k.Epoch.StartTime, Blocks: 1}
	k.Remedy = "Have the destination make its first block, for example by sending any transaction. Then deliver the message in a later block."
}

// diagnose finds why a message does not hold against the set of the destination's epoch.
func (k *check) diagnose(ctx context.Context, set *validators.Set, verdict *aggregator.Verdict) error {
	// Verification looks at the weight before the signature, so its reason may hide that the bits name other validators.
	signature := aggregator.Judge(k.req.Message, set, 0)
	reason := verdict.Reason
	if !signature.Valid {
		reason = signature.Reason
	}
	refusal := fmt.Sprintf("the destination verifies against the set of subnet %s at P-Chain height %d, %s: %s", k.subnet, set.Height, k.whose(), reason)
	later, proposed, err := k.laterSet(ctx, set)
	if err != nil {
		return err
	}
	if later != nil {
		k.behind(refusal, set, later, proposed)
		return nil
	}
	k.Remedy = k.resign(set)
	if signature.Valid {
		k.refuse(QuorumTooLow, "the signers carry %s of the weight of subnet %s at P-Chain height %d, and the destination wants %d%%",
			share(verdict.Weight, verdict.TotalWeight), k.subnet, set.Height, k.Rules.QuorumPercentage)
		return nil
	}
	other, err := k.otherSubnet(ctx)
	if err != nil {
		return err
	}
	earlier, err := k.signedSet(ctx, k.subnet)
	switch {
	case err != nil:
		return err
	case set.TotalWeight == 0:
		k.refuse(NoValidators, "subnet %s, whose validators the destination verifies against, has none at P-Chain height %d, %s", k.subnet, set.Height, k.whose())
		k.Remedy = "Wait until the subnet has validators and the destination's epoch has reached the P-Chain height at which they joined."
	case other != nil:
		k.refuse(WrongSigningSubnet, "validators of subnet %s signed, but the destination verifies against those of subnet %s", other.SubnetID, k.subnet)
	case earlier != nil && holds(k.req.Message, earlier):
		k.refuse(SetChanged, "%s; it holds against the set at P-Chain height %d, which it was signed at", refusal, earlier.Height)
	default:
		k.refuse(SignatureInvalid, "%s", refusal)
	}
	return nil
}

// whose describes the P-Chain height at which the destination verifies.
func (k *check) whose() string {
	switch {
	case k.fresh:
		return "which its first block would record"
	case k.epoch.Number == 0:
		return "the proposed one"
	}
	return fmt.Sprintf("that of its epoch %d", k.epoch.Number)
}

// resign returns how to sign the message for the present state of the destination.
func (k *check) resign(set *validators.Set) string {
	text := "Sign the message again with verifyingBlockchainId " + k.req.DestinationID.String()
	switch {
	case k.fresh: // the epoch that the node reports is not that of the block with the message
		text = fmt.Sprintf("Sign the message again at P-Chain height %d", set.Height)
	case set.Height > 0: // 0 would stand for the proposed height
		text += fmt.Sprintf(" (or at P-Chain height %d)", set.Height)
	}
	text += fmt.Sprintf(", quorumPercentage at least %d", k.Rules.QuorumPercentage)
	if k.subnet != k.source || k.req.SigningSubnetID != nil && *k.req.SigningSubnetID != k.subnet {
		text += " and signingSubnetId " + k.subnet.String()
	}
	return text + "."
}

// laterSet returns a set that accepts the message and that an epoch may still have; nil if there is none. The next epoch
// begins at the proposed height or, if it begins later, above it. proposed reports whether the set is of that height.
func (k *check) laterSet(ctx context.Context, set *validators.Set) (later *validators.Set, proposed bool, err error) {
	if k.epoch.Number == 0 || k.fresh {
		return nil, false, nil // set is that of the proposed height
	}
	newest, err := k.chains.NewestSet(ctx, k.subnet)
	if err != nil {
		return nil, false, &failure{"reading the newest set", err}
	}
	if newest.Height > set.Height && newest.Fingerprint() != set.Fingerprint() && k.judge(newest).Valid {
		return newest, true, nil
	}
	signed, err := k.signedSet(ctx, k.subnet)
	if err == nil && signed != nil && signed.Height > max(set.Height, newest.Height) && k.judge(signed).Valid {
		return signed, false, nil
	}
	return nil, false, err
}

// signedSet returns a subnet's set at the height that the message was signed at; nil if the height is not known, or is
// not available any more.
func (k *check) signedSet(ctx context.Context, subnet ids.ID) (*validators.Set, error) {
	if k.req.PChainHeight == 0 {
		return nil, nil
	}
	set, err := k.chains.Set(ctx, subnet, k.req.PChainHeight)
	switch {
	case errors.Is(err, validators.ErrHeightUnavailable), errors.Is(err, validators.ErrHeightTooOld):
		return nil, nil
	case err != nil:
		return nil, &failure{"reading the set that signed", err}
	}
	return set, nil
}

// behind sets the outcome of a message that holds against a later set.
func (k *check) behind(refusal string, set, later *validators.Set, proposed bool) {
	k.refuse(EpochBehind, "%s; it holds against the set at P-Chain height %d, which the epoch has not reached", refusal, later.Height)
	k.NextEpoch = &NextEpoch{PChainHeight: later.Height, NotBefore: k.Epoch.EndTime, Blocks: 1}
	wait := "Now"
	if k.now.Before(k.Epoch.EndTime) {
		wait = fmt.Sprintf("From %s on, in %s", k.Epoch.EndTime.Format(time.RFC3339), k.Epoch.EndTime.Sub(k.now).Round(time.Second))
	}
	if !proposed {
		wait += fmt.Sprintf(", but not before the proposed P-Chain height has reached %d", later.Height)
	}
	k.Remedy = wait + ", have the destination make a block, for example by sending any transaction. That block ends the epoch; then deliver the message in a later block."
	if set.TotalWeight > 0 {
		k.Remedy += " Or do not wait: " + lower(k.resign(set))
	}
}

// otherSubnet returns a set, of another subnet than the destination wants, that signed the message; nil if there is none
// among those that could have.
func (k *check) otherSubnet(ctx context.Context) (*validators.Set, error) {
	candidates := []ids.ID{k.source, k.destination, constants.PrimaryNetworkID}
	if k.req.SigningSubnetID != nil {
		candidates = append(candidates, *k.req.SigningSubnetID)
	}
	slices.SortFunc(candidates, ids.ID.Compare)
	for _, subnet := range slices.Compact(candidates) {
		if subnet == k.subnet {
			continue
		}
		ofEpoch, err := k.chains.SetOfEpoch(ctx, subnet, k.epoch)
		if err != nil {
			return nil, &failure{"reading another set of the destination's epoch", err}
		}
		newest, err := k.chains.NewestSet(ctx, subnet)
		if err != nil {
			return nil, &failure{"reading the newest set of another subnet", err}
		}
		signed, err := k.signedSet(ctx, subnet)
		if err != nil {
			return nil, err
		}
		for _, set := range []*validators.Set{ofEpoch, newest, signed} {
			if set != nil && holds(k.req.Message, set) {
				return set, nil
			}
		}
	}
	return nil, nil
}

// lower returns text with a lower-case first letter, which is ASCII.
func lower(text string) string { return strings.ToLower(text[:1]) + text[1:] }

func share(weight, total uint64) string {
	return fmt.Sprintf("%.2f%%", 100*float64(weight)/float64(max(total, 1)))
}
