package data

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/compat"
	"quorate/handlers/decimal"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/registry"
	"quorate/internal/node/uptime"
)

// validator is a validation. Which fields it has depends on its state.
type validator struct {
	TxHash             string           `json:"txHash"`
	NodeID             string           `json:"nodeId"`
	SubnetID           string           `json:"subnetId"`
	AmountStaked       string           `json:"amountStaked"`
	DelegationFee      string           `json:"delegationFee,omitempty"`
	StartTimestamp     int64            `json:"startTimestamp"`
	EndTimestamp       int64            `json:"endTimestamp"`
	BLSCredentials     *blsCredentials  `json:"blsCredentials,omitempty"`
	StakePercentage    *float64         `json:"stakePercentage,omitempty"`
	DelegatorCount     *uint64          `json:"delegatorCount,omitempty"`
	AmountDelegated    string           `json:"amountDelegated,omitempty"`
	UptimePerformance  *float64         `json:"uptimePerformance,omitempty"`
	Connected          *bool            `json:"connected,omitempty"`
	DelegationCapacity string           `json:"delegationCapacity,omitempty"`
	PotentialRewards   *rewardAmounts   `json:"potentialRewards,omitempty"`
	Rewards            *rewardAmounts   `json:"rewards,omitempty"`
	RemoveTxHash       string           `json:"removeTxHash,omitempty"`
	RemoveTimestamp    int64            `json:"removeTimestamp,omitempty"`
	ValidationStatus   string           `json:"validationStatus"`
	ValidatorHealth    *validatorHealth `json:"validatorHealth,omitempty"`
	// Geolocation is null for active validators, which the generated clients require.
	Geolocation json.RawMessage `json:"geolocation,omitempty"`
}

type rewardAmounts struct {
	ValidationRewardAmount string   `json:"validationRewardAmount"`
	DelegationRewardAmount string   `json:"delegationRewardAmount"`
	RewardAddresses        []string `json:"rewardAddresses,omitempty"`
	RewardTxHash           string   `json:"rewardTxHash,omitempty"`
}

// validatorHealth is only for the generated clients, which refuse active validators without it.
type validatorHealth struct {
	ReachabilityPercent          float64 `json:"reachabilityPercent"`
	BenchedPChainRequestsPercent float64 `json:"benchedPChainRequestsPercent"`
	BenchedXChainRequestsPercent float64 `json:"benchedXChainRequestsPercent"`
	BenchedCChainRequestsPercent float64 `json:"benchedCChainRequestsPercent"`
}

// maxCapacity is more than all AVAX that can exist.
const maxCapacity = 720_000_000_000_000_000

// Parameters of lists of validators.
var (
	nodeNames = query.Parameter{
		Name: "nodeIds", Kind: query.Commas, Item: "node ID or part of one",
		Description: "Only these nodes, separated by commas. A part of a node ID selects all that contain it.", Example: "NodeID-111111111111111111116DBWJs",
	}
	validationStatus = query.Parameter{
		Name: "validationStatus", OneOf: []string{string(registry.Completed), string(registry.Active), string(registry.Pending), string(registry.Removed)},
	}
	validatorSort = query.Parameter{
		Name: "sortBy", OneOf: []string{"blockIndex", "delegationCapacity", "timeRemaining", "delegationFee", "uptimePerformance"}, Default: "blockIndex",
		Description: "`blockIndex` is the order of the transactions that began the validations. The other orders are of active and pending validations that have the property.",
	}
	capacityLeast = query.Parameter{Name: "minDelegationCapacity", Kind: query.Digits, Max: maxCapacity, Description: "In nAVAX."}
	capacityMost  = query.Parameter{Name: "maxDelegationCapacity", Kind: query.Digits, Max: maxCapacity, Description: "In nAVAX."}
	timeLeast     = query.Parameter{Name: "minTimeRemaining", Kind: query.Integer, Description: "In seconds; only active and pending validations."}
	timeMost      = query.Parameter{Name: "maxTimeRemaining", Kind: query.Integer, Description: "In seconds; only active and pending validations."}
	feeLeast      = query.Parameter{Name: "minFeePercentage", Kind: query.Number, Description: "Only validators of the primary network."}
	feeMost       = query.Parameter{Name: "maxFeePercentage", Kind: query.Number, Description: "Only validators of the primary network."}
	uptimeLeast   = query.Parameter{Name: "minUptimePerformance", Kind: query.Number, Description: "In percent; only active validators whose uptime a node reports."}
	uptimeMost    = query.Parameter{Name: "maxUptimePerformance", Kind: query.Number, Description: "In percent; only active validators whose uptime a node reports."}
	subnetFilter  = query.Parameter{Name: "subnetId", Description: "Only this subnet."}
	nodeID        = query.Parameter{Name: "nodeId", Example: "NodeID-111111111111111111116DBWJs"}
	subnetID      = query.Parameter{Name: "subnetId", Example: "11111111111111111111111111111111LpoYY"}
)

// sorts maps values of sortBy.
var sorts = map[string]registry.Sort{
	"delegationCapacity": registry.ByCapacity, "timeRemaining": registry.ByTimeRemaining, "delegationFee": registry.ByFee,
	"uptimePerformance": registry.ByUptime,
}

// listValidators is GET /v1/networks/{network}/validators.
func (a *API) listValidators(ctx context.Context, r operation.Request, n *network) error {
	q := r.Query
	want := registry.Query{Status: registry.Status(q.OneOf(validationStatus.Name)), Sort: sorts[q.OneOf(validatorSort.Name)]}
	for _, text := range q.List(nodeNames.Name) {
		if id, err := cb58.NodeID(text); err == nil {
			want.NodeIDs = append(want.NodeIDs, id)
		} else {
			want.Names = append(want.Names, text)
		}
	}
	if len(want.NodeIDs)+len(want.Names) > maxMembers {
		q.Fail(nodeNames.Name, "there are more than %d, which is the most that fit one request; send several requests", maxMembers)
	}
	want.SubnetID = optionalID(q, subnetFilter.Name)
	limits := readLimits(q)
	ended := want.Status == registry.Completed || want.Status == registry.Removed
	if ended && (want.Sort != registry.ByCreation || limits.currentOnly()) {
		q.Fail(validationStatus.Name, "%s validations have no remaining time, capacity or uptime; select by these without validationStatus", want.Status)
	}
	scope := []string{n.shown, fmt.Sprint(want.NodeIDs, want.Names, want.Status, want.Sort, q.OneOf(validatorSort.Name)), limits.String()}
	if want.SubnetID != nil {
		scope = append(scope, want.SubnetID.String())
	}
	p := a.readPaging(q, "validators", scope...)
	if err := q.Err(); err != nil {
		return err
	}
	return n.sendValidators(ctx, r, p, &want, limits)
}

// pathNode parses the node ID of the path.
func pathNode(r operation.Request) (ids.NodeID, error) {
	id, err := cb58.NodeID(r.Param(nodeID.Name))
	if err != nil {
		return id, apierr.BadRequest("nodeId: %q is no node ID; they begin with NodeID-", apierr.Excerpt(r.Param(nodeID.Name)))
	}
	return id, nil
}

// getValidator is GET /v1/networks/{network}/validators/{nodeId}.
func (a *API) getValidator(ctx context.Context, r operation.Request, n *network) error {
	id, err := pathNode(r)
	if err != nil {
		return err
	}
	want := registry.Query{NodeIDs: []ids.NodeID{id}, Status: registry.Status(r.Query.OneOf(validationStatus.Name))}
	p := a.readPaging(r.Query, "validator", n.shown, id.String(), string(want.Status))
	if err := r.Query.Err(); err != nil {
		return err
	}
	if err := n.registered(r); err != nil {
		return err
	}
	known, err := n.Registry.Validations(ctx, registry.Query{NodeIDs: want.NodeIDs, Limit: 1})
	if err != nil {
		return err
	}
	if len(known.Validations) == 0 {
		return apierr.NotFound("nodeId: %s has never validated the primary network of %s or one of its subnets", id, n.shown)
	}
	return n.sendValidators(ctx, r, p, &want, &limits{})
}

// sendValidators sends a page of validations.
func (n *network) sendValidators(ctx context.Context, r operation.Request, p paging, want *registry.Query, l *limits) error {
	after, err := position(p.After, registry.ParsePosition)
	if err != nil {
		return err
	}
	if err := n.registered(r); err != nil {
		return err
	}
	uptimes := n.uptimes(ctx)
	if len(uptimes) == 0 && (want.Sort == registry.ByUptime || l.uptimes()) {
		if err := ctx.Err(); err != nil {
			return err
		}
		return reply.NodeAway(nil, "no upstream node reports uptimes")
	}
	want.Ascending, want.Limit, want.After, want.CurrentOnly = p.ascending, p.Size, after, l.currentOnly()
	want.Wants = func(v *registry.Validation, now time.Time) bool { return l.allow(v, now, uptimes) }
	want.Uptime = func(v *registry.Validation) (float64, bool) {
		u, ok := uptimeOf(v, uptimes)
		return u.Percent, ok
	}
	page, err := n.Registry.Validations(ctx, *want)
	if err != nil {
		return err
	}
	answer := struct {
		NextPageToken string      `json:"nextPageToken,omitempty"`
		Validators    []validator `json:"validators"`
	}{Validators: make([]validator, len(page.Validations))}
	for i, v := range page.Validations {
		if answer.Validators[i], err = n.validator(v, page, uptimes, compat.Enabled(ctx)); err != nil {
			return err
		}
	}
	if page.Next != nil {
		answer.NextPageToken = p.Token(page.Next.Bytes())
	}
	return reply.JSON(r, answer)
}

// uptimes returns what a node reports about validators of the primary network; nothing if none does.
func (n *network) uptimes(ctx context.Context) map[ids.NodeID]uptime.Uptime {
	if n.Uptimes == nil {
		return nil
	}
	return n.Uptimes.Uptimes(ctx)
}

// uptimeOf returns the uptime of an active validator; false if no node reports it.
func uptimeOf(v *registry.Validation, uptimes map[ids.NodeID]uptime.Uptime) (uptime.Uptime, bool) {
	if v.SubnetID != constants.PrimaryNetworkID || !v.Ended.Time.IsZero() {
		return uptime.Uptime{}, false
	}
	u, ok := uptimes[v.NodeID]
	return u, ok && u.TxID == v.TxID
}

// limits are bounds of the properties of validations; nil means none.
type limits struct {
	capacityLeast, capacityMost, timeLeast, timeMost *uint64
	feeLeast, feeMost, uptimeLeast, uptimeMost       *float64
}

func readLimits(q *query.Values) *limits {
	return &limits{
		capacityLeast: q.Optional(capacityLeast.Name), capacityMost: q.Optional(capacityMost.Name),
		timeLeast: q.Optional(timeLeast.Name), timeMost: q.Optional(timeMost.Name),
		feeLeast: optionalNumber(q, feeLeast.Name), feeMost: optionalNumber(q, feeMost.Name),
		uptimeLeast: optionalNumber(q, uptimeLeast.Name), uptimeMost: optionalNumber(q, uptimeMost.Name),
	}
}

// String identifies the limits in page tokens.
func (l *limits) String() string {
	var b strings.Builder
	for _, n := range []*uint64{l.capacityLeast, l.capacityMost, l.timeLeast, l.timeMost} {
		if n != nil {
			fmt.Fprint(&b, *n)
		}
		b.WriteByte(' ')
	}
	for _, f := range []*float64{l.feeLeast, l.feeMost, l.uptimeLeast, l.uptimeMost} {
		if f != nil {
			fmt.Fprint(&b, *f)
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// currentOnly reports whether the limits refuse all validations that have ended.
func (l *limits) currentOnly() bool {
	return l.capacityLeast != nil || l.capacityMost != nil || l.timeLeast != nil || l.timeMost != nil || l.uptimes()
}

// uptimes reports whether the limits need uptimes.
func (l *limits) uptimes() bool { return l.uptimeLeast != nil || l.uptimeMost != nil }

func (l *limits) allow(v *registry.Validation, now time.Time, uptimes map[ids.NodeID]uptime.Uptime) bool {
	if l.currentOnly() && !v.Ended.Time.IsZero() {
		return false
	}
	if (l.capacityLeast != nil || l.capacityMost != nil) && (v.MaxWeight == 0 || !within(v.Capacity(), l.capacityLeast, l.capacityMost)) {
		return false
	}
	if !within(uint64(max(0, v.End.Unix()-now.Unix())), l.timeLeast, l.timeMost) {
		return false
	}
	if (l.feeLeast != nil || l.feeMost != nil) && (v.SubnetID != constants.PrimaryNetworkID || !within(float64(v.Shares)/10_000, l.feeLeast, l.feeMost)) {
		return false
	}
	if l.uptimes() {
		u, ok := uptimeOf(v, uptimes)
		return ok && within(u.Percent, l.uptimeLeast, l.uptimeMost)
	}
	return true
}

func within[T uint64 | float64](value T, least, most *T) bool {
	return (least == nil || value >= *least) && (most == nil || value <= *most)
}

// optionalNumber parses a decimal number of at least 0, nil if it is absent.
func optionalNumber(q *query.Values, name string) *float64 {
	text, ok := q.Text(name)
	if !ok {
		return nil
	}
	_, _, ok = decimal.Ceiling(text) // ParseFloat accepts more, such as 0x1p1
	f, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || f > 1e18 {
		q.Fail(name, "must be a decimal number of at least 0, got %q", apierr.Excerpt(text))
		return nil
	}
	return &f
}

// optionalID parses an ID, nil if it is absent.
func optionalID(q *query.Values, name string) *ids.ID {
	text, ok := q.Text(name)
	if !ok {
		return nil
	}
	id, err := cb58.ID(text)
	if err != nil {
		q.Fail(name, "%q is no ID; check it for typing errors", apierr.Excerpt(text))
		return nil
	}
	return &id
}

// validator returns a validation in the API's format.
func (n *network) validator(v *registry.Validation, page *registry.Page, uptimes map[ids.NodeID]uptime.Uptime, clientsForm bool) (validator, error) {
	status := v.StatusAt(page.Head.Time)
	shown := validator{
		TxHash:           v.TxID.String(),
		NodeID:           v.NodeID.String(),
		SubnetID:         v.SubnetID.String(),
		AmountStaked:     strconv.FormatUint(v.Weight, 10),
		StartTimestamp:   v.Start.Unix(),
		EndTimestamp:     v.End.Unix(),
		BLSCredentials:   credentials(v.PublicKey, v.ProofOfPossession),
		ValidationStatus: string(status),
	}
	if !v.Permissioned {
		shown.DelegationFee = percent(v.Shares)
	}
	addresses, err := n.bech32(v.RewardAddresses)
	if err != nil {
		return validator{}, err
	}
	switch status {
	case registry.Active:
		n.active(&shown, v, page, uptimes, clientsForm)
		shown.PotentialRewards = &rewardAmounts{
			ValidationRewardAmount: strconv.FormatUint(v.PotentialReward, 10),
			DelegationRewardAmount: strconv.FormatUint(v.Commission, 10),
			RewardAddresses:        addresses,
		}
	case registry.Completed:
		shown.DelegatorCount, shown.AmountDelegated = &v.AllDelegators, strconv.FormatUint(v.AllDelegated, 10)
		shown.Rewards = &rewardAmounts{
			ValidationRewardAmount: strconv.FormatUint(v.Reward, 10),
			DelegationRewardAmount: strconv.FormatUint(v.CommissionPaid, 10),
			RewardAddresses:        addresses,
		}
		if v.Ended.TxID != ids.Empty {
			shown.Rewards.RewardTxHash = v.Ended.TxID.String()
		}
	case registry.Removed:
		shown.RemoveTxHash, shown.RemoveTimestamp = v.Ended.TxID.String(), v.Ended.Time.Unix()
	}
	return shown, nil
}

// active sets what only active validators have. The generated clients refuse active validators without uptime and health.
// Their form has 0 for what no node reports; the documented form omits it.
func (n *network) active(shown *validator, v *registry.Validation, page *registry.Page, uptimes map[ids.NodeID]uptime.Uptime, clientsForm bool) {
	share := 0.0
	if all := page.Staked[v.SubnetID]; !all.IsZero() {
		share = 100 * float64(v.Weight) / all.Float64()
	}
	shown.StakePercentage = &share
	shown.DelegatorCount, shown.AmountDelegated = &v.Delegators, strconv.FormatUint(v.Delegated, 10)
	if v.MaxWeight > 0 {
		shown.DelegationCapacity = strconv.FormatUint(v.Capacity(), 10)
	}
	shown.Geolocation = json.RawMessage("null")
	u, known := uptimeOf(v, uptimes)
	if known {
		shown.UptimePerformance, shown.Connected = &u.Percent, &u.Connected
	}
	if clientsForm {
		shown.UptimePerformance, shown.ValidatorHealth = &u.Percent, new(validatorHealth)
		if u.Connected {
			shown.ValidatorHealth.ReachabilityPercent = 100
		}
	}
}

// credentials returns a BLS key, nil if there is none.
func credentials(publicKey, proofOfPossession []byte) *blsCredentials {
	if len(publicKey) == 0 {
		return nil
	}
	return &blsCredentials{
		PublicKey:         "0x" + hex.EncodeToString(publicKey),
		ProofOfPossession: "0x" + hex.EncodeToString(proofOfPossession),
	}
}
