package data

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index/ledger"
	"quorate/internal/node/stakes"

	chain "quorate/internal/chain/ledger"
)

type stakingTransaction struct {
	TxHash                         string          `json:"txHash"`
	TxType                         string          `json:"txType"`
	BlockTimestamp                 int64           `json:"blockTimestamp"`
	BlockNumber                    string          `json:"blockNumber"`
	BlockHash                      string          `json:"blockHash"`
	ConsumedUTXOs                  []utxo          `json:"consumedUtxos"`
	EmittedUTXOs                   []utxo          `json:"emittedUtxos"`
	Value                          []assetAmount   `json:"value"`
	AmountBurned                   []assetAmount   `json:"amountBurned"`
	AmountStaked                   []assetAmount   `json:"amountStaked"`
	AmountL1ValidatorBalanceBurned []assetAmount   `json:"amountL1ValidatorBalanceBurned"`
	SourceChain                    string          `json:"sourceChain"`
	DestinationChain               string          `json:"destinationChain"`
	StartTimestamp                 int64           `json:"startTimestamp"`
	EndTimestamp                   int64           `json:"endTimestamp"`
	DelegationFeePercent           string          `json:"delegationFeePercent,omitempty"`
	NodeID                         string          `json:"nodeId"`
	SubnetID                       string          `json:"subnetId"`
	EstimatedReward                string          `json:"estimatedReward,omitempty"`
	RewardAddresses                []string        `json:"rewardAddresses"`
	Memo                           string          `json:"memo"`
	BLSCredentials                 *blsCredentials `json:"blsCredentials,omitempty"`
}

type blsCredentials struct {
	PublicKey         string `json:"publicKey"`
	ProofOfPossession string `json:"proofOfPossession"`
}

// platformKinds are the documented kinds of P-Chain transactions, except UNKNOWN.
var platformKinds = []string{
	"AddValidatorTx", "AddSubnetValidatorTx", "AddDelegatorTx", "CreateChainTx", "CreateSubnetTx", "ImportTx", "ExportTx",
	"AdvanceTimeTx", "RewardValidatorTx", "RemoveSubnetValidatorTx", "TransformSubnetTx", "AddPermissionlessValidatorTx",
	"AddPermissionlessDelegatorTx", "BaseTx", "TransferSubnetOwnershipTx", "ConvertSubnetToL1Tx", "RegisterL1ValidatorTx",
	"SetL1ValidatorWeightTx", "DisableL1ValidatorTx", "IncreaseL1ValidatorBalanceTx",
}

// filterKinds are the kinds that a request may select.
var filterKinds = slices.Concat(platformKinds, []string{string(chain.Unknown), "CreateAssetTx", "OperationTx"})

func (a *API) listStaking(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, pChain)
	if err != nil {
		return err
	}
	q := r.Query
	want := ledger.StakingQuery{Addresses: n.addresses(q, "addresses"), Kinds: kinds(q)}
	want.After, want.Before = timeRange(q)
	p := a.readPaging(q, "staking", n.shown, fmt.Sprint(want.Addresses), fmt.Sprint(want.Kinds), fmt.Sprint(want.After.Unix()), fmt.Sprint(want.Before.Unix()))
	if err := q.Err(); err != nil {
		return err
	}
	if want.From, err = position(p.After, ledger.ParseStakingPosition); err != nil {
		return err
	}
	want.Ascending, want.Limit = p.ascending, p.Size
	if n.Ledger == nil {
		return absent("staking")
	}
	if err := n.current(r, nil, b); err != nil {
		return err
	}
	page, err := n.Ledger.ActiveStakings(ctx, want)
	if err != nil {
		return err
	}
	named := make(map[ids.ID]bool)
	for i := range page.Stakings {
		s := &page.Stakings[i]
		for _, o := range slices.Concat(s.Consumed, s.Made) {
			if o == nil {
				return apierr.Internal(fmt.Errorf("an output of staking transaction %s is not indexed", s.TxID))
			}
			named[o.AssetID] = true
		}
	}
	known, err := n.assets(ctx, named)
	if err != nil {
		return err
	}
	potential := a.potentialOfStakings(ctx, n, page)
	answer := struct {
		NextPageToken string               `json:"nextPageToken,omitempty"`
		Transactions  []stakingTransaction `json:"transactions"`
		ChainInfo     chainInfo            `json:"chainInfo"`
	}{Transactions: make([]stakingTransaction, len(page.Stakings)), ChainInfo: n.info(b)}
	for i := range page.Stakings {
		if answer.Transactions[i], err = n.staking(&page.Stakings[i], page.Now, known, potential); err != nil {
			return err
		}
	}
	if page.Next != nil {
		answer.NextPageToken = p.Token(page.Next.Bytes())
	}
	return reply.JSON(r, answer)
}

// kinds parses txTypes, sorted.
func kinds(q *query.Values) []chain.Kind {
	var all []chain.Kind
	for _, name := range q.List("txTypes") {
		all = append(all, chain.Kind(name))
	}
	slices.Sort(all)
	return all
}

// potentialOfStakings asks for the expected rewards of transactions whose stakes have begun. It omits those that the
// upstream node does not report.
func (a *API) potentialOfStakings(ctx context.Context, n *network, page *ledger.StakingPage) map[ids.ID]uint64 {
	of := make(map[ids.ID]stakes.Validator)
	for i := range page.Stakings {
		s := &page.Stakings[i]
		if s.Settled == nil && !s.Staker.Start.After(page.Now) {
			of[s.TxID] = stakes.Validator{SubnetID: s.Staker.SubnetID, NodeID: s.Staker.NodeID}
		}
	}
	if n.Rewards == nil || len(of) == 0 {
		return nil
	}
	potential, err := n.Rewards.Potential(ctx, of)
	if err != nil {
		a.log.Warn("what stakes will be paid is left out", slog.String("network", n.shown), slog.Any("error", err))
	}
	return potential
}

// estimate returns the expected reward of a stake, also after it was settled: 0 before it begins, empty if it is unknown.
func estimate(s *ledger.Staking, now time.Time, potential map[ids.ID]uint64) string {
	amount, known := potential[s.TxID]
	switch {
	case s.PotentialReward > 0:
		amount = s.PotentialReward
	case !known && !s.Staker.Start.After(now):
		return ""
	}
	return strconv.FormatUint(amount, 10)
}

func (n *network) staking(s *ledger.StakingOutputs, now time.Time, known assets, potential map[ids.ID]uint64) (stakingTransaction, error) {
	rewardAddresses, err := known.bech32(s.Staker.RewardAddresses)
	if err != nil {
		return stakingTransaction{}, err
	}
	platform := n.platform()
	tx := stakingTransaction{
		TxHash:          s.TxID.String(),
		TxType:          string(chain.Unknown),
		BlockTimestamp:  s.Time.Unix(),
		BlockNumber:     strconv.FormatUint(s.Height, 10),
		BlockHash:       s.BlockID.String(),
		ConsumedUTXOs:   make([]utxo, len(s.Consumed)),
		EmittedUTXOs:    make([]utxo, len(s.Made)),
		StartTimestamp:  s.Staker.Start.Unix(),
		EndTimestamp:    s.End.Unix(),
		NodeID:          s.Staker.NodeID.String(),
		SubnetID:        s.Staker.SubnetID.String(),
		EstimatedReward: estimate(s.Staking, now, potential),
		RewardAddresses: rewardAddresses,
		Memo:            "0x" + hex.EncodeToString(s.Memo),
		// All outputs of a staking transaction stay on the P-Chain, and none pays for an L1 validator.
		SourceChain:                    platform.id.String(),
		DestinationChain:               platform.id.String(),
		AmountL1ValidatorBalanceBurned: []assetAmount{},
	}
	if slices.Contains(platformKinds, string(s.Kind)) {
		tx.TxType = string(s.Kind)
	}
	if !s.Staker.Delegator {
		tx.DelegationFeePercent = percent(s.Staker.Shares)
	}
	tx.BLSCredentials = credentials(s.Staker.PublicKey, s.Staker.ProofOfPossession)
	value, burned, staked := make(totals), make(totals), make(totals)
	for i, o := range s.Consumed {
		burned.add(o.AssetID, o.Amount, 1)
		if tx.ConsumedUTXOs[i], err = n.utxo(o, platform, now, known); err != nil {
			return stakingTransaction{}, err
		}
	}
	for i, o := range s.Made {
		if tx.EmittedUTXOs[i], err = n.utxo(o, platform, now, known); err != nil {
			return stakingTransaction{}, err
		}
		if o.Role.Reward() != "" {
			continue // not part of the inputs
		}
		value.add(o.AssetID, o.Amount, 1)
		burned.add(o.AssetID, o.Amount, -1)
		if o.Role == chain.Stake {
			staked.add(o.AssetID, o.Amount, 1)
		}
	}
	tx.Value, tx.AmountBurned, tx.AmountStaked = value.shown(known), burned.shown(known), staked.shown(known)
	return tx, nil
}

// totals holds sums by asset.
type totals map[ids.ID]*big.Int

func (t totals) add(id ids.ID, amount uint64, sign int64) {
	sum := t[id]
	if sum == nil {
		sum = new(big.Int)
		t[id] = sum
	}
	change := new(big.Int).SetUint64(amount)
	sum.Add(sum, change.Mul(change, big.NewInt(sign)))
}

// shown returns the sums, sorted by the text of the asset ID, [] if there are none.
func (t totals) shown(known assets) []assetAmount {
	all := make([]assetAmount, 0, len(t))
	for id, sum := range t {
		if sum.Sign() >= 0 { // a genesis transaction creates more than it consumes
			all = append(all, known.amount(id, false, sum.String()))
		}
	}
	slices.SortFunc(all, func(a, b assetAmount) int { return cmp.Compare(a.AssetID, b.AssetID) })
	return all
}

// percent formats a share of 1,000,000 as a percentage, without trailing zeros.
func percent(shares uint32) string {
	const one = 10_000
	text := fmt.Sprintf("%d.%04d", shares/one, shares%one)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
