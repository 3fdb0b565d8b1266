package data

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/version"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/registry"
)

// notConnected stands for the version of validators that this service is not connected to.
const notConnected = "not connected"

func (a *API) detailOperations() []operation.Operation {
	return []operation.Operation{{
		ID: "getNetworkDetails", Path: "/v1/networks/{network}", Tag: tag,
		Summary: "Validators and delegations of the primary network, summed up",
		Description: "Amounts are in nAVAX. `estimatedAnnualStakingReward` is the sum of the rewards of all current validations and delegations if all are paid, before commission, whatever their periods. " +
			"`stakingRatio` is what they stake, divided by the current supply, which contains those rewards. " +
			"Versions are those that validators tell this service by P2P, in the form that nodes use; `" + notConnected + "` stands for validators without a connection.",
		Index:      "registry",
		Parameters: []query.Parameter{networkName},
		Returns:    "The sums.", Schema: "NetworkDetails",
		Handle: a.serve(a.getDetails),
	}}
}

type stakeOfVersion struct {
	Version    string `json:"version"`
	Staked     uint64 `json:"amountStaked,string"`
	Validators int    `json:"validatorCount"`
}

type networkDetails struct {
	Validators struct {
		Count        int              `json:"validatorCount"`
		Staked       uint64           `json:"totalAmountStaked,string"`
		Rewards      uint64           `json:"estimatedAnnualStakingReward,string"`
		ByVersion    []stakeOfVersion `json:"stakingDistributionByVersion"`
		StakingRatio string           `json:"stakingRatio"`
	} `json:"validatorDetails"`
	Delegators struct {
		Count  uint64 `json:"delegatorCount"`
		Staked uint64 `json:"totalAmountStaked,string"`
	} `json:"delegatorDetails"`
}

// getDetails is GET /v1/networks/{network}.
func (a *API) getDetails(ctx context.Context, r operation.Request, n *network) error {
	if err := n.registered(r); err != nil {
		return err
	}
	primary := constants.PrimaryNetworkID
	page, err := n.Registry.Validations(ctx, registry.Query{SubnetID: &primary, Status: registry.Active, Limit: math.MaxInt})
	if err != nil {
		return err
	}
	if page.Head.Supply == 0 {
		return apierr.Unavailable(nil, "this instance does not know the supply of the network: its genesis or its rules of rewards are unknown")
	}
	versions := map[ids.NodeID]string{}
	if n.Versions != nil {
		versions = n.Versions()
	}
	var d networkDetails
	sums := make(map[string]*stakeOfVersion)
	for _, v := range page.Validations {
		d.Validators.Count++
		d.Validators.Staked += v.Weight
		d.Validators.Rewards += v.PotentialReward + v.DelegationRewards
		d.Delegators.Count += v.Delegators
		d.Delegators.Staked += v.Delegated
		name := notConnected
		if reported, ok := versions[v.NodeID]; ok {
			name = version.Client + "/" + strings.TrimPrefix(reported, "v")
		}
		if sums[name] == nil {
			sums[name] = &stakeOfVersion{Version: name}
		}
		sums[name].Staked += v.Weight
		sums[name].Validators++
	}
	d.Validators.ByVersion = make([]stakeOfVersion, 0, len(sums))
	for _, one := range sums {
		d.Validators.ByVersion = append(d.Validators.ByVersion, *one)
	}
	slices.SortFunc(d.Validators.ByVersion, func(a, b stakeOfVersion) int {
		return cmp.Or(cmp.Compare(b.Staked, a.Staked), cmp.Compare(a.Version, b.Version))
	})
	ratio := float64(d.Validators.Staked+d.Delegators.Staked) / float64(page.Head.Supply)
	d.Validators.StakingRatio = strconv.FormatFloat(ratio, 'f', -1, 64)
	return reply.JSON(r, d)
}
