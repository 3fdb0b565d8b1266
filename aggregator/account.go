package aggregator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
)

// Account adds up a round by weight: Signed, Unproven, Refused, Invalid, Silent,
// Unanswered, Unasked, Disconnected and Keyless together are TotalWeight.
type Account struct {
	SigningSubnetID ids.ID `json:"signingSubnetId"`
	PChainHeight    uint64 `json:"pChainHeight"`
	// TargetWeight is the least weight that meets the quorum.
	TargetWeight uint64 `json:"targetWeight,string"`
	TotalWeight  uint64 `json:"totalWeight,string"`
	// ConnectedWeight was connected when the round ended.
	ConnectedWeight uint64 `json:"connectedWeight,string"`
	// SignedWeight has signatures that were verified, alone or as part of the
	// finished message.
	SignedWeight uint64 `json:"signedWeight,string"`
	// UnprovenWeight answered with signatures that were not needed and not verified.
	UnprovenWeight uint64 `json:"unprovenWeight,string"`
	// InvalidWeight answered with something that is no valid signature.
	InvalidWeight uint64 `json:"invalidWeight,string"`
	// SilentWeight was asked and timed out.
	SilentWeight uint64 `json:"silentWeight,string"`
	// UnansweredWeight was asked and still had time to answer when the round ended.
	UnansweredWeight uint64 `json:"unansweredWeight,string"`
	// DisconnectedWeight could not be asked, having no connection.
	DisconnectedWeight uint64 `json:"disconnectedWeight,string"`
	// UnaskedWeight was connected, but not needed.
	UnaskedWeight uint64 `json:"unaskedWeight,string"`
	// KeylessWeight has no BLS key (or belongs to inactive L1 validators) and
	// can never sign, yet counts in TotalWeight.
	KeylessWeight uint64 `json:"keylessWeight,string"`
	// RefusedWeight answered with an error, listed in Refusals heaviest first.
	RefusedWeight uint64    `json:"refusedWeight,string"`
	Refusals      []Refusal `json:"refusals"`
	// SilentNodes lists the heaviest validators that timed out or had no connection, at
	// most 20.
	SilentNodes []ids.NodeID `json:"silentNodes"`
	// Reasons says of a failure why the weight is missing that neither signed nor is unproven:
	// causes before UNANSWERED and NOT_ASKED, then the heaviest first. It is empty otherwise.
	Reasons []Shortfall `json:"reasons,omitempty"`
}

// Refusal groups the validators that refused for the same reason.
type Refusal struct {
	Code    int32  `json:"code"`
	Message string `json:"message"`
	Weight  uint64 `json:"weight,string"`
	Count   int    `json:"count"`
}

// account adds up the round as it stands.
func (r *round) account(need uint64) Account {
	a := Account{
		SigningSubnetID: r.set.SubnetID,
		PChainHeight:    r.set.Height,
		TargetWeight:    need,
		TotalWeight:     r.set.TotalWeight,
		KeylessWeight:   r.set.TotalWeight,
		Refusals:        []Refusal{},
		SilentNodes:     []ids.NodeID{},
	}
	type key struct {
		code int32
		text string
	}
	refusals := make(map[key]*Refusal)
	var missing []int
	for i := range r.members {
		m := &r.members[i]
		a.KeylessWeight -= m.weight
		if m.online {
			a.ConnectedWeight += m.weight
		}
		switch m.reply() {
		case Signed:
			a.SignedWeight += m.weight
		case Unproven:
			a.UnprovenWeight += m.weight
		case Invalid:
			a.InvalidWeight += m.weight
		case Silent:
			a.SilentWeight += m.weight
			missing = append(missing, i)
		case Refused, NotYet:
			a.RefusedWeight += m.weight
			k := key{m.refusal.Code, clip(m.refusal.Message)}
			g, ok := refusals[k]
			if !ok {
				g = &Refusal{Code: k.code, Message: k.text}
				refusals[k] = g
			}
			g.Weight += m.weight
			g.Count++
		case Asked:
			a.UnansweredWeight += m.weight
		case Offline:
			a.DisconnectedWeight += m.weight
			missing = append(missing, i)
		case Unasked:
			a.UnaskedWeight += m.weight
		}
	}
	for _, g := range refusals {
		a.Refusals = append(a.Refusals, *g)
	}
	slices.SortFunc(a.Refusals, func(x, y Refusal) int {
		return cmp.Or(cmp.Compare(y.Weight, x.Weight), cmp.Compare(x.Code, y.Code), cmp.Compare(x.Message, y.Message))
	})
	a.Refusals = a.Refusals[:min(len(a.Refusals), maxRefusals)]
	slices.SortStableFunc(missing, func(x, y int) int { return cmp.Compare(r.members[y].weight, r.members[x].weight) })
	for _, i := range missing[:min(len(missing), maxSilentNodes)] {
		a.SilentNodes = append(a.SilentNodes, r.nodeID(i))
	}
	return a
}

// Bounds of an Account, which goes into every answer: the heaviest of each kind say why a
// round failed. The text is in bytes.
const (
	maxRefusals    = 10
	maxSilentNodes = 20
	maxRefusalText = 256
)

// clip bounds a text that a remote node chose.
func clip(text string) string {
	if len(text) > maxRefusalText {
		text = text[:maxRefusalText] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
