package aggregator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/snow/engine/common"
	"github.com/ava-labs/avalanchego/utils/constants"

	platformnetwork "github.com/ava-labs/avalanchego/vms/platformvm/network"

	quoratep2p "quorate/p2p"
	"quorate/validators"
)

// Reason is why the weight of validators is missing from a quorum. The list is closed.
type Reason string

// The reasons. Meaning says what each means.
const (
	ReasonNoAddress            Reason = "NO_ADDRESS"
	ReasonPrivateAddress       Reason = "PRIVATE_ADDRESS"
	ReasonUnreachable          Reason = "UNREACHABLE"
	ReasonConnectionClosed     Reason = "CONNECTION_CLOSED"
	ReasonClock                Reason = "CLOCK"
	ReasonVersion              Reason = "VERSION"
	ReasonOtherNetwork         Reason = "OTHER_NETWORK"
	ReasonNotConnected         Reason = "NOT_CONNECTED"
	ReasonNoAnswer             Reason = "NO_ANSWER"
	ReasonUnanswered           Reason = "UNANSWERED"
	ReasonNotAsked             Reason = "NOT_ASKED"
	ReasonNotTracked           Reason = "NOT_TRACKED"
	ReasonWrongSigningSubnet   Reason = "WRONG_SIGNING_SUBNET"
	ReasonLegacyValidator      Reason = "LEGACY_VALIDATOR"
	ReasonNotAccepted          Reason = "NOT_ACCEPTED"
	ReasonPChainBehind         Reason = "P_CHAIN_BEHIND"
	ReasonPayloadRefused       Reason = "PAYLOAD_REFUSED"
	ReasonJustificationRefused Reason = "JUSTIFICATION_REFUSED"
	ReasonNotAllowed           Reason = "NOT_ALLOWED"
	ReasonThrottled            Reason = "THROTTLED"
	ReasonRefused              Reason = "REFUSED"
	ReasonInvalidSignature     Reason = "INVALID_SIGNATURE"
	ReasonInactiveL1Validator  Reason = "INACTIVE_L1_VALIDATOR"
	ReasonNoBLSKey             Reason = "NO_BLS_KEY"
	ReasonKeyless              Reason = "KEYLESS"
)

// reasonTexts holds for each Reason, in the order of the documentation, a predicate of
// "validators" and what to do.
var reasonTexts = []struct {
	reason          Reason
	meaning, remedy string
}{
	{ReasonNoAddress, "are not connected: no address of them is known", "Check that the validators run; nodes report addresses within minutes."},
	{ReasonPrivateAddress, "are not connected: only private addresses of them are known", "Set allow_private_ips (flag --allow-private-ips) if the validators are on this network."},
	{ReasonUnreachable, "are not connected: their addresses accept no connection", "Check that the validators run, and that no firewall blocks outgoing connections to their ports."},
	{ReasonConnectionClosed, "are not connected: they close connections before the handshake", "Check that this service's identity is not in use elsewhere. If the nodes of an L1 are validatorOnly, add this service's node ID (ourNodeID in the log) to their allowedNodes."},
	{ReasonClock, "are not connected: their clocks and this machine's differ by more than 60 s", "Set this machine's clock."},
	{ReasonVersion, "are not connected: they run a version that is not compatible", "Update this service, or have the nodes updated."},
	{ReasonOtherNetwork, "are not connected: nodes of another network answer at their addresses", "Check the configured nodes."},
	{ReasonNotConnected, "are not connected", "Ask again in a moment: the service keeps dialling them."},
	{ReasonNoAnswer, "did not answer in time", "Check that the validators are up and keep up with the chain. Nodes of an L1 that are validatorOnly answer only if this service's node ID (ourNodeID in the log) is in their allowedNodes."},
	{ReasonUnanswered, "had not answered when the round ended", "Look at the other reasons. If there are none, allow the request more time."},
	{ReasonNotAsked, "were not asked before the round ended", "Look at the other reasons: with them the quorum was out of reach."},
	{ReasonNotTracked, "do not track the subnet of the source blockchain", "Have the validators' operators add the subnet to track-subnets."},
	{ReasonWrongSigningSubnet, "do not run the source blockchain: another subnet validates it", "Leave signingSubnetId out, or give the subnet of the source blockchain."},
	{ReasonLegacyValidator, "were validators of the subnet before it became an L1, and do not answer", "Remove them with RemoveSubnetValidatorTx, or have their operators bring them back; they count until they leave the set."},
	{ReasonNotAccepted, "have not accepted the message", "Check that it was sent. Repeat the request when its block is accepted, or give waitSeconds."},
	{ReasonPChainBehind, "have a P-Chain state that does not attest the message yet", "Repeat the request when the transaction is accepted, or give waitSeconds; validators that are behind catch up."},
	{ReasonPayloadRefused, "do not sign this kind of message", "Check the message: the VM of an EVM chain signs the messages that the chain sent and the hashes of its blocks."},
	{ReasonJustificationRefused, "refuse the justification", "Check the justification: the subnet ID for a conversion; the RegisterL1Validator message, or subnet ID and index, for a removal."},
	{ReasonNotAllowed, "answer only nodes that are validators", "Add this service's node ID (ourNodeID in the log) to the nodes that they allow."},
	{ReasonThrottled, "received too many requests from this service", "Ask again in a moment."},
	{ReasonRefused, "refuse to sign", "The detail quotes their error."},
	{ReasonInvalidSignature, "answered with a signature that is not valid", "Tell the validators' operators; perhaps a node runs with another BLS key than the registered one."},
	{ReasonInactiveL1Validator, "are inactive L1 validators: their balance is used up", "Increase their balances with IncreaseL1ValidatorBalanceTx, or remove them."},
	{ReasonNoBLSKey, "have no BLS key", "They count and can never sign. Ask for a lower quorum, or wait until they leave the set."},
	{ReasonKeyless, "have no BLS key or are inactive L1 validators", "Look at the subnet's validators on the P-Chain: keys and balances."},
}

// Reasons lists all reasons in the order of the documentation.
func Reasons() []Reason {
	list := make([]Reason, len(reasonTexts))
	for i, t := range reasonTexts {
		list[i] = t.reason
	}
	return list
}

// texts returns the meaning and the remedy.
func (r Reason) texts() (meaning, remedy string) {
	for _, t := range reasonTexts {
		if t.reason == r {
			return t.meaning, t.remedy
		}
	}
	return string(r), ""
}

// Meaning returns what validators with the reason do, as in "40% of the weight did not answer in
// time".
func (r Reason) Meaning() string {
	meaning, _ := r.texts()
	return meaning
}

// Remedy returns what to do, in whole sentences.
func (r Reason) Remedy() string {
	_, remedy := r.texts()
	return remedy
}

// Shortfall is weight that a quorum lacks for one reason.
type Shortfall struct {
	Reason Reason `json:"code"`
	Weight uint64 `json:"weight,string"`
	// Count is the number of validators; 0 if it is not known.
	Count int `json:"count,omitempty"`
	// NodeIDs lists the heaviest of them, at most 20.
	NodeIDs []ids.NodeID `json:"nodeIds"`
	// Detail is what is known beyond the reason of the heaviest of them; it may be empty.
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy"`
}

// String returns what the validators do, with the detail.
func (s *Shortfall) String() string {
	if s.Detail == "" {
		return s.Reason.Meaning()
	}
	return s.Reason.Meaning() + " (" + s.Detail + ")"
}

// missing is a validator that did not sign.
type missing struct {
	node   ids.NodeID
	weight uint64
	reason Reason
	detail string
}

// mute reports whether the validator was asked and has not answered.
func (m *missing) mute() bool {
	return m.reason == ReasonNoAnswer || m.reason == ReasonUnanswered
}

// absent reports whether the validator could not be asked, or did not answer in time.
func (m *missing) absent() bool {
	switch m.reason {
	case ReasonNoAddress, ReasonPrivateAddress, ReasonUnreachable, ReasonConnectionClosed, ReasonClock, ReasonVersion,
		ReasonOtherNetwork, ReasonNotConnected, ReasonNoAnswer:
		return true
	}
	return false
}

// obstacleReasons are the reasons of obstacles whose detail is that of the failure.
var obstacleReasons = map[quoratep2p.Obstacle]Reason{
	quoratep2p.ObstacleNoAddress:      ReasonNoAddress,
	quoratep2p.ObstaclePrivateAddress: ReasonPrivateAddress,
	quoratep2p.ObstacleUnreachable:    ReasonUnreachable,
	quoratep2p.ObstacleClosed:         ReasonConnectionClosed,
	quoratep2p.ObstacleClock:          ReasonClock,
	quoratep2p.ObstacleVersion:        ReasonVersion,
	quoratep2p.ObstacleNetwork:        ReasonOtherNetwork,
}

// ReasonOf returns the reason for which a node is not connected, and its detail.
func ReasonOf(f quoratep2p.Failure) (Reason, string) {
	if reason, ok := obstacleReasons[f.Obstacle]; ok {
		return reason, f.Detail
	}
	switch f.Obstacle {
	case quoratep2p.ObstacleOtherNode:
		return ReasonNotConnected, "other nodes answer at the known addresses"
	case quoratep2p.ObstacleHandshake:
		return ReasonNotConnected, "their handshakes are invalid or incomplete"
	}
	return ReasonNotConnected, "not dialled yet"
}

// Unconnected groups the validators of a set without a connected node by reason, the heaviest
// first. failure returns the reason of one node.
func Unconnected(set *validators.Set, connected func(ids.NodeID) bool, failure func(ids.NodeID) quoratep2p.Failure) []Shortfall {
	var list []missing
	for _, v := range set.Validators {
		if len(v.NodeIDs) == 0 || slices.ContainsFunc(v.NodeIDs, connected) {
			continue
		}
		one := missing{node: v.NodeIDs[0], weight: v.Weight}
		one.reason, one.detail = ReasonOf(failure(one.node))
		list = append(list, one)
	}
	return shortfalls(list, nil)
}

// refusalReason returns the reason that an answer without a signature gives. The codes are
// explained at definite.
func refusalReason(sourceChainID ids.ID, refusal *common.AppError) Reason {
	switch refusal.Code {
	case p2p.ErrUnregisteredHandler.Code:
		return ReasonPayloadRefused
	case p2p.ErrNotValidator.Code:
		return ReasonNotAllowed
	case p2p.ErrThrottled.Code:
		return ReasonThrottled
	}
	if unseen(sourceChainID, refusal) {
		if sourceChainID == constants.PlatformChainID {
			return ReasonPChainBehind
		}
		return ReasonNotAccepted
	}
	if sourceChainID == constants.PlatformChainID {
		switch refusal.Code {
		case platformnetwork.ErrFailedToParseWarpAddressedCall,
			platformnetwork.ErrWarpAddressedCallHasSourceAddress,
			platformnetwork.ErrFailedToParseWarpAddressedCallPayload,
			platformnetwork.ErrUnsupportedWarpAddressedCallPayloadType,
			platformnetwork.ErrImpossibleNonce:
			return ReasonPayloadRefused
		case platformnetwork.ErrFailedToParseJustification,
			platformnetwork.ErrMismatchedConversionID,
			platformnetwork.ErrInvalidJustificationType,
			platformnetwork.ErrFailedToParseSubnetID,
			platformnetwork.ErrMismatchedValidationID,
			platformnetwork.ErrFailedToParseRegisterL1Validator:
			return ReasonJustificationRefused
		}
		return ReasonRefused
	}
	if definite(sourceChainID, refusal) && strings.Contains(refusal.Message, "pars") {
		return ReasonPayloadRefused
	}
	return ReasonRefused
}

// missing lists the validators that did not sign. failure returns why a node is not connected.
func (r *round) missing(failure func(ids.NodeID) quoratep2p.Failure) []missing {
	list := []missing{}
	for i := range r.members {
		m := &r.members[i]
		one := missing{node: r.nodeID(i), weight: m.weight}
		switch m.reply() {
		case Signed, Unproven:
			continue
		case Invalid:
			one.reason = ReasonInvalidSignature
		case Silent:
			one.reason = ReasonNoAnswer
		case Refused, NotYet:
			one.reason = refusalReason(r.source, m.refusal)
			one.detail = fmt.Sprintf("%s (code %d)", clip(m.refusal.Message), m.refusal.Code)
		case Asked:
			one.reason = ReasonUnanswered
		case Offline:
			one.reason, one.detail = ReasonOf(failure(one.node))
		case Unasked:
			one.reason = ReasonNotAsked
		}
		list = append(list, one)
	}
	return list
}

// shortfalls groups a list by reason, and adds others. Causes come before what follows from them,
// then the heaviest first.
func shortfalls(list []missing, others []Shortfall) []Shortfall {
	slices.SortStableFunc(list, func(a, b missing) int { return cmp.Compare(b.weight, a.weight) })
	groups := make(map[Reason]*Shortfall)
	for _, m := range list {
		g := groups[m.reason]
		if g == nil {
			g = &Shortfall{Reason: m.reason, Detail: m.detail, NodeIDs: []ids.NodeID{}, Remedy: m.reason.Remedy()}
			groups[m.reason] = g
		}
		g.add(m.node, m.weight)
	}
	all := append([]Shortfall{}, others...)
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Shortfall) int {
		if a.follows() != b.follows() {
			if a.follows() {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// follows reports whether the weight is missing because the round ended, for other reasons.
func (s *Shortfall) follows() bool {
	return s.Reason == ReasonUnanswered || s.Reason == ReasonNotAsked
}

// add adds a validator that is not heavier than those before it.
func (s *Shortfall) add(node ids.NodeID, weight uint64) {
	s.Weight += weight
	s.Count++
	if len(s.NodeIDs) < maxSilentNodes {
		s.NodeIDs = append(s.NodeIDs, node)
	}
}

// explainTimeout bounds what Sign asks the node to explain a failure.
const explainTimeout = time.Second

// explain completes the reasons of a failed round with what the P-Chain says about the validators
// of set: which subnet validates the source blockchain, who was a validator before the subnet
// became an L1, and whose balance is used up. What the node does not say remains unexplained.
func (a *Aggregator) explain(ctx context.Context, req Request, set *validators.Set, failed *Error) {
	account := failed.Account
	defer func() {
		for _, s := range account.Reasons {
			a.metrics.shortfalls.WithLabelValues(string(s.Reason)).Inc()
		}
	}()
	if failed.missing == nil {
		return
	}
	// The caller's time may be up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTimeout)
	defer cancel()
	var incapable validators.Incapable
	if set.SubnetID != constants.PrimaryNetworkID && (account.KeylessWeight > 0 || account.SilentWeight > 0 || account.DisconnectedWeight > 0) {
		incapable, _ = a.sets.Incapable(ctx, set)
	}
	source, err := a.sets.SubnetOf(ctx, req.Message.SourceChainID)
	foreign := err == nil && source != constants.PrimaryNetworkID && source != set.SubnetID
	for i := range failed.missing {
		m := &failed.missing[i]
		tracks, known := false, false
		if m.mute() && err == nil {
			tracks, known = a.transport.Tracks(m.node, source)
		}
		ignores := m.mute() && known && !tracks // its node drops the request
		_, legacy := incapable.Legacy[m.node]
		switch {
		case m.mute() && foreign && !tracks:
			m.reason, m.detail = ReasonWrongSigningSubnet, fmt.Sprintf("the subnet of the source blockchain is %s", source)
		case legacy && (m.absent() || ignores):
			m.reason, m.detail = ReasonLegacyValidator, m.reason.Meaning()
		case ignores:
			m.reason, m.detail = ReasonNotTracked, fmt.Sprintf("subnet %s", source)
		}
	}
	account.Reasons = shortfalls(failed.missing, keyless(set, incapable))
	failed.Message, failed.missing = failed.Code.message(account), nil
}

// keyless groups the weight of set that can never sign.
func keyless(set *validators.Set, incapable validators.Incapable) []Shortfall {
	weight := set.TotalWeight - set.KeyedWeight()
	if weight == 0 {
		return nil
	}
	inactive := cannotSign(ReasonInactiveL1Validator, incapable.Inactive)
	noKey := cannotSign(ReasonNoBLSKey, incapable.Keyless)
	switch {
	case set.SubnetID == constants.PrimaryNetworkID:
		return []Shortfall{{Reason: ReasonNoBLSKey, Weight: weight, NodeIDs: []ids.NodeID{}, Remedy: ReasonNoBLSKey.Remedy()}}
	case inactive.Weight+noKey.Weight != weight:
		// The validators have changed since the height of the set.
		return []Shortfall{{Reason: ReasonKeyless, Weight: weight, NodeIDs: []ids.NodeID{}, Remedy: ReasonKeyless.Remedy()}}
	}
	return slices.DeleteFunc([]Shortfall{inactive, noKey}, func(s Shortfall) bool { return s.Weight == 0 })
}

func cannotSign(reason Reason, list []validators.Weighted) Shortfall {
	group := Shortfall{Reason: reason, NodeIDs: []ids.NodeID{}, Remedy: reason.Remedy()}
	for _, v := range list {
		group.add(v.NodeID, v.Weight)
	}
	return group
}
