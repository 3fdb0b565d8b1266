package console

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
)

// Validator is a validator of a subnet and its connection. Nodes with one BLS key are one validator.
type Validator struct {
	NodeIDs []ids.NodeID
	Weight  uint64
	// Version and Since are those of the connection, if Connected. Otherwise Reason says why there is none, and Lost when
	// the latest one was lost; zero if there was none since the start.
	Connected bool
	Version   string
	Since     time.Time
	Lost      time.Time
	Reason    aggregator.Reason
	Detail    string
	// AnswerTime is the median time of its answers to signature requests, 0 if it has not answered.
	AnswerTime time.Duration
}

// Membership is a node as a validator of a subnet.
type Membership struct {
	SubnetID    ids.ID
	TotalWeight uint64
	Validator
}

// defaultMembers and maxMembers are numbers of validators in one answer.
const defaultMembers, maxMembers = 50, 100

// memberView is a validator in answers.
type memberView struct {
	SubnetID    string       `json:"subnetId,omitempty"`
	TotalWeight uint64       `json:"totalWeight,string,omitempty"`
	NodeIDs     []ids.NodeID `json:"nodeIds"`
	Weight      uint64       `json:"weight,string"`
	Connected   bool         `json:"connected"`
	Version     string       `json:"version,omitempty"`
	Since       int64        `json:"since,omitempty"`      // in milliseconds since 1970
	Lost        int64        `json:"lost,omitempty"`       // in milliseconds since 1970
	AnswerTime  float64      `json:"answerTime,omitempty"` // in milliseconds
	Reason      string       `json:"reason,omitempty"`
	Meaning     string       `json:"meaning,omitempty"`
	Remedy      string       `json:"remedy,omitempty"`
}

func newMemberView(v Validator) memberView {
	w := memberView{NodeIDs: v.NodeIDs, Weight: v.Weight, Connected: v.Connected, Version: v.Version, AnswerTime: milliseconds(v.AnswerTime)}
	if v.Connected {
		w.Since = v.Since.UnixMilli()
		return w
	}
	if !v.Lost.IsZero() {
		w.Lost = v.Lost.UnixMilli()
	}
	if v.Reason != "" {
		s := aggregator.Shortfall{Reason: v.Reason, Detail: v.Detail}
		w.Reason, w.Meaning, w.Remedy = string(v.Reason), s.String(), v.Reason.Remedy()
	}
	return w
}

// membersView is the answer of /console/api/validators.
type membersView struct {
	TotalWeight uint64 `json:"totalWeight,string"`
	// All counts the validators that match, Next is the offset of further ones; nil at the end.
	All int `json:"all"`
	// Started is when the service started, in milliseconds since 1970: connections are known from then on.
	Started    int64        `json:"started"`
	Next       *int         `json:"next"`
	Validators []memberView `json:"validators"`
}

// listValidators is GET /console/api/validators.
func (c *Console) listValidators(ctx echo.Context) error {
	network := c.network(ctx)
	if node := ctx.QueryParam("node"); node != "" {
		return c.listMemberships(ctx, network, node)
	}
	subnet, err := idParam(ctx, "subnet")
	if err != nil {
		return err
	}
	if subnet == nil {
		return apierr.BadRequest("subnet and node are both absent; give one of them")
	}
	offset, err := uintParam(ctx, "offset", 0)
	if err != nil {
		return err
	}
	limit, err := uintParam(ctx, "limit", defaultMembers)
	if err != nil {
		return err
	}
	size := int(min(max(limit, 1), maxMembers))
	if c.options.Validators == nil {
		return apierr.NotFound("subnet: nothing is known of validators here")
	}
	all, total, ok := c.options.Validators(network, *subnet)
	if !ok {
		return apierr.NotFound("subnet: %s has no validators on %q, or they are not known yet", subnet, apierr.Excerpt(network))
	}
	v := membersView{TotalWeight: total, Started: c.started.UnixMilli(), Validators: []memberView{}}
	missing := ctx.QueryParam("state") == "missing"
	for _, one := range all {
		if missing && one.Connected {
			continue
		}
		if v.All++; v.All > int(min(offset, 1<<30)) && len(v.Validators) < size {
			v.Validators = append(v.Validators, newMemberView(one))
		}
	}
	if next := int(min(offset, 1<<30)) + len(v.Validators); next < v.All {
		v.Next = &next
	}
	return send(ctx, v)
}

// listMemberships lists the subnets that a node is a validator of.
func (c *Console) listMemberships(ctx echo.Context, network, text string) error {
	node, err := cb58.NodeID(text)
	if err != nil {
		return apierr.BadRequest("node: %q is no node ID; give it as NodeID-…", apierr.Excerpt(text))
	}
	v := membersView{Started: c.started.UnixMilli(), Validators: []memberView{}}
	if c.options.Memberships != nil {
		for _, m := range c.options.Memberships(network, node) {
			w := newMemberView(m.Validator)
			w.SubnetID, w.TotalWeight = m.SubnetID.String(), m.TotalWeight
			v.Validators = append(v.Validators, w)
		}
	}
	v.All = len(v.Validators)
	return send(ctx, v)
}
