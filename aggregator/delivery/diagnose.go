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

// failure is a question that the upstream node did not answer.
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

// accepted sets the outcome of a message that holds against the set of the epoch.
func (k *check) accepted(ctx context.Context, set *validators.Set) error {
	yes := true
	k.Deliverable, k.Code = &yes, Deliverable
	k.Detail = fmt.Sprintf("the signers carry %s of the weight of subnet %s at P-Chain height %d, and the destination wants %d%%",
		share(k.Set.Weight, k.Set.TotalWeight), k.subnet, set.Height, k.Rules.QuorumPercentage)
	if k.epoch.Number == 0 {
		return nil
	}
	next, err := k.chains.Set(ctx, k.subnet, 0)
	if err != nil || next.Height <= set.Height || next.Fingerprint() == set.Fingerprint() || k.judge(next).Valid {
		return nil //nolint:nilerr // the message is deliverable, whatever the next epoch brings
	}
	k.ExpiresAt = &k.Epoch.EndTime
	k.Remedy = fmt.Sprintf("Deliver it before the epoch ends at %s: the message does not hold against the set at P-Chain height %d, where the next epoch would begin.",
		k.Epoch.EndTime.Format(time.RFC3339), next.Height)
	return nil
}

// diagnose finds why a message does not hold against the set of the destination's epoch.
func (k *check) diagnose(ctx context.Context, set *validators.Set, verdict *aggregator.Verdict) error {
	// Verification looks at the weight before the signature, so its reason may hide that the bits name other validators.
	signature := aggregator.Judge(k.req.Message, set, 0)
	reason := verdict.Reason
	if !signature.Valid {
		reason = signature.Reason
	}
	refusal := fmt.Sprintf("the destination verifies against the set of subnet %s at P-Chain height %d, that of its epoch %d: %s", k.subnet, set.Height, k.epoch.Number, reason)
	later, err := k.laterSet(ctx, set)
	if err != nil {
		return err
	}
	if later != nil {
		k.behind(refusal, set, later)
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
		k.refuse(NoValidators, "subnet %s, whose validators the destination verifies against, has none at P-Chain height %d, that of its epoch %d", k.subnet, set.Height, k.epoch.Number)
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

// resign says how to sign the message for the destination as it is now.
func (k *check) resign(set *validators.Set) string {
	text := "Sign the message again with verifyingBlockchainId " + k.req.DestinationID.String()
	if set.Height > 0 { // 0 would stand for the proposed height
		text += fmt.Sprintf(" (or at P-Chain height %d)", set.Height)
	}
	text += fmt.Sprintf(", quorumPercentage at least %d", k.Rules.QuorumPercentage)
	if k.subnet != k.source || k.req.SigningSubnetID != nil && *k.req.SigningSubnetID != k.subnet {
		text += " and signingSubnetId " + k.subnet.String()
	}
	return text + "."
}

// laterSet returns a set, after that of the epoch, that accepts the message; nil if there is none.
func (k *check) laterSet(ctx context.Context, set *validators.Set) (*validators.Set, error) {
	if k.epoch.Number == 0 {
		return nil, nil // the destination verifies against the proposed height
	}
	proposed, err := k.chains.Set(ctx, k.subnet, 0)
	if err != nil {
		return nil, &failure{"reading the newest set", err}
	}
	signed, err := k.signedSet(ctx, k.subnet)
	if err != nil {
		return nil, err
	}
	for _, later := range []*validators.Set{proposed, signed} {
		if later != nil && later.Height > set.Height && later.Fingerprint() != set.Fingerprint() && k.judge(later).Valid {
			return later, nil
		}
	}
	return nil, nil
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
func (k *check) behind(refusal string, set, later *validators.Set) {
	k.refuse(EpochBehind, "%s; it holds against the set at P-Chain height %d, which the epoch has not reached", refusal, later.Height)
	k.NextEpoch = &NextEpoch{PChainHeight: later.Height, NotBefore: k.Epoch.EndTime, Blocks: 1}
	wait := "Now"
	if k.now.Before(k.Epoch.EndTime) {
		wait = fmt.Sprintf("From %s on, in %s", k.Epoch.EndTime.Format(time.RFC3339), k.Epoch.EndTime.Sub(k.now).Round(time.Second))
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
		newest, err := k.chains.Set(ctx, subnet, 0)
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
