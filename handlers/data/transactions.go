package data

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/ledger"
	"quorate/internal/index"
	"quorate/internal/index/archive"
	"quorate/internal/index/ledger"
)

// txTypes filters lists of transactions.
var txTypes = query.Parameter{Name: "txTypes", Kind: query.Array, OneOf: filterKinds, Item: "type of transaction", Description: "Only these; repeat the parameter or separate by commas."}

func (a *API) transactionOperations() []operation.Operation {
	return []operation.Operation{
		{
			ID: "getTxByHash", Path: "/v1/networks/{network}/blockchains/{blockchainId}/transactions/{txHash}", Tag: tag,
			Summary:     "A transaction of the P-Chain or the X-Chain",
			Description: transactionDescription,
			Index:       "stored blocks, ledger",
			Parameters:  []query.Parameter{networkName, archivedChain, {Name: "txHash", Description: "The ID of the transaction."}},
			Returns:     "The transaction.", Schema: "PrimaryNetworkTransaction",
			Handle: a.serve(a.getTransaction),
		},
		{
			ID: "listLatestPrimaryNetworkTransactions", Path: "/v1/networks/{network}/blockchains/{blockchainId}/transactions", Tag: tag,
			Summary: "Transactions of the P-Chain or the X-Chain",
			Description: "The transactions in blocks. A page may have fewer transactions than its size although others follow, if `txTypes` selects rare ones. " +
				"Transactions are not indexed by address or by L1 validator: `addresses` and `l1ValidationId` get 400.\n\n" + transactionDescription,
			Order: "block, then index in the block, by default newest first",
			Index: "stored blocks, ledger",
			Parameters: []query.Parameter{
				networkName, archivedChain, txTypes, startTime, endTime, query.PageToken, pageSize, sortOrder,
			},
			Returns: "A page of transactions.", Schema: "PrimaryNetworkTransactionPage",
			Handle: a.serve(a.listTransactions),
		},
	}
}

const transactionDescription = "`emittedUtxos` has all outputs with the ID of the transaction; those of a staking transaction include the rewards, once they are paid. " +
	"A RewardValidatorTx emits these rewards, too. `amountL1ValidatorBalanceBurned` is what went to balances of L1 validators, `amountBurned` the rest of what the transaction consumes and does not emit. " +
	"`l1ValidatorDetails` is that of conversions and registrations; the balance of an L1 validator at other transactions is not indexed. " +
	"A proposal has the block that proposes it, and shows when the next block has decided about it. " +
	"Transactions that the X-Chain accepted before it had blocks (Cortina), and its genesis, are not served."

// platformTransaction is a transaction of the P-Chain.
type platformTransaction struct {
	TxHash                         string             `json:"txHash"`
	TxType                         string             `json:"txType"`
	BlockTimestamp                 int64              `json:"blockTimestamp"`
	BlockNumber                    string             `json:"blockNumber"`
	BlockHash                      string             `json:"blockHash"`
	ConsumedUTXOs                  []utxo             `json:"consumedUtxos"`
	EmittedUTXOs                   []utxo             `json:"emittedUtxos"`
	SourceChain                    string             `json:"sourceChain"`
	DestinationChain               string             `json:"destinationChain"`
	Value                          []assetAmount      `json:"value"`
	AmountBurned                   []assetAmount      `json:"amountBurned"`
	AmountStaked                   []assetAmount      `json:"amountStaked"`
	AmountL1ValidatorBalanceBurned []assetAmount      `json:"amountL1ValidatorBalanceBurned"`
	StartTimestamp                 *int64             `json:"startTimestamp,omitempty"`
	EndTimestamp                   *int64             `json:"endTimestamp,omitempty"`
	DelegationFeePercent           string             `json:"delegationFeePercent,omitempty"`
	NodeID                         string             `json:"nodeId,omitempty"`
	SubnetID                       string             `json:"subnetId,omitempty"`
	L1Manager                      *l1Manager         `json:"l1ValidatorManagerDetails,omitempty"`
	L1Validators                   []l1ValidatorAtTx  `json:"l1ValidatorDetails,omitempty"`
	EstimatedReward                string             `json:"estimatedReward,omitempty"`
	RewardTxHash                   string             `json:"rewardTxHash,omitempty"`
	RewardAddresses                []string           `json:"rewardAddresses,omitempty"`
	Memo                           string             `json:"memo"`
	StakingTxHash                  string             `json:"stakingTxHash,omitempty"`
	SubnetOwnership                *ownership         `json:"subnetOwnershipInfo,omitempty"`
	BLSCredentials                 *blsCredentials    `json:"blsCredentials,omitempty"`
	BlockchainInfo                 *createdBlockchain `json:"blockchainInfo,omitempty"`
}

// assetTransaction is a transaction of the X-Chain.
type assetTransaction struct {
	TxHash           string        `json:"txHash"`
	ChainFormat      string        `json:"chainFormat"`
	Timestamp        int64         `json:"timestamp"`
	TxType           string        `json:"txType"`
	Memo             string        `json:"memo"`
	ConsumedUTXOs    []assetUTXO   `json:"consumedUtxos"`
	EmittedUTXOs     []assetUTXO   `json:"emittedUtxos"`
	AmountUnlocked   []assetAmount `json:"amountUnlocked"`
	AmountCreated    []assetAmount `json:"amountCreated"`
	SourceChain      string        `json:"sourceChain,omitempty"`
	DestinationChain string        `json:"destinationChain,omitempty"`
	AssetCreated     *assetDetails `json:"assetCreated,omitempty"`
	BlockHeight      uint64        `json:"blockHeight"`
	BlockHash        string        `json:"blockHash"`
}

// assetUTXO is an output in a transaction of the X-Chain, where the documented index is a text.
type assetUTXO struct {
	utxo
	OutputIndex string `json:"outputIndex"`
}

func (a *API) getTransaction(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, pChain, xChain)
	if err != nil {
		return err
	}
	id, err := pathID(r, "txHash")
	if err != nil {
		return err
	}
	stored, tip, err := n.archive(r, b)
	if err != nil {
		return err
	}
	found, err := stored.Tx(ctx, id, tip)
	if err != nil {
		return archiveError(err, b, fmt.Sprintf("txHash: transaction %s", id))
	}
	if found.Block == nil {
		if b.name != pChain {
			return apierr.NotFound("txHash: the X-Chain accepted transaction %s before it had blocks, or has it in its genesis; such transactions are not served", id)
		}
		if found.Block, err = stored.Block(ctx, 0); err != nil {
			return archiveError(err, b, "block 0")
		}
	}
	shown, err := a.transactions(ctx, n, b, []*archive.Tx{found})
	if err != nil {
		return err
	}
	return reply.JSON(r, shown[0])
}

func (a *API) listTransactions(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, pChain, xChain)
	if err != nil {
		return err
	}
	for _, name := range []string{"addresses", "l1ValidationId"} {
		if r.QueryParams().Get(name) != "" {
			return apierr.BadRequest("%s: transactions are not indexed by it; leave it out, or use utxos and transactions:listStaking", name)
		}
	}
	q := r.Query
	want := archive.TxQuery{Kinds: kinds(q)}
	want.After, want.Before = timeRange(q)
	p := a.readPaging(q, "transactions", n.shown, b.name, fmt.Sprint(want.Kinds), fmt.Sprint(want.After.Unix()), fmt.Sprint(want.Before.Unix()))
	if err := q.Err(); err != nil {
		return err
	}
	if want.From, err = position(p.After, parseTxPosition); err != nil {
		return err
	}
	stored, tip, err := n.archive(r, b)
	if err != nil {
		return err
	}
	want.Tip, want.Ascending = tip, p.ascending
	return a.showTransactions(ctx, r, n, b, stored, want, p.Page)
}

// showTransactions answers with a page of the wanted transactions of a chain.
func (a *API) showTransactions(ctx context.Context, r operation.Request, n *network, b blockchain, stored Archive, want archive.TxQuery, p query.Page) error {
	want.Limit = p.Size
	page, err := stored.Txs(ctx, want)
	if err != nil {
		return archiveError(err, b, "a block")
	}
	answer := struct {
		NextPageToken string    `json:"nextPageToken,omitempty"`
		Transactions  []any     `json:"transactions"`
		ChainInfo     chainInfo `json:"chainInfo"`
	}{ChainInfo: n.info(b)}
	if answer.Transactions, err = a.transactions(ctx, n, b, page.Txs); err != nil {
		return err
	}
	if page.Next != nil {
		answer.NextPageToken = p.Token(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, page.Next.Block), uint32(page.Next.Index)))
	}
	return reply.JSON(r, answer)
}

func parseTxPosition(b []byte) (*archive.TxPosition, error) {
	if len(b) != 12 {
		return nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(b))
	}
	return &archive.TxPosition{Block: binary.BigEndian.Uint64(b), Index: int(binary.BigEndian.Uint32(b[8:]))}, nil
}

// describedTx is a transaction with what the ledger knows of it.
type describedTx struct {
	*archive.Tx
	// consumed and made are the outputs. made includes those that the chain added.
	consumed, made []*ledger.Output
	added          []ids.ID // what the chain may have added
	// staking is set for transactions that started a stake.
	staking *ledger.Staking
}

// shownTxs has what the descriptions of the transactions of an answer share.
type shownTxs struct {
	*network
	on        blockchain
	now       time.Time
	known     assets
	potential map[ids.ID]uint64
}

// transactions returns the descriptions of transactions of a chain.
func (a *API) transactions(ctx context.Context, n *network, b blockchain, page []*archive.Tx) ([]any, error) {
	if n.Ledger == nil {
		return nil, absent("outputs")
	}
	all, err := n.describe(ctx, b, page)
	if err != nil {
		return nil, err
	}
	named := make(map[ids.ID]bool)
	stakings := &ledger.StakingPage{Now: n.Progress(ctx, b.id).Time}
	for _, tx := range all {
		for _, o := range slices.Concat(tx.consumed, tx.made) {
			named[o.AssetID] = true
		}
		if tx.staking != nil && tx.staking.Settled == nil && !isPermissioned(tx.Platform) {
			stakings.Stakings = append(stakings.Stakings, ledger.StakingOutputs{Staking: tx.staking})
		}
	}
	shown := &shownTxs{network: n, on: b, now: stakings.Now, potential: a.potentialOfStakings(ctx, n, stakings)}
	if shown.known, err = n.assets(ctx, named); err != nil {
		return nil, err
	}
	answers := make([]any, len(all))
	for i, tx := range all {
		if b.name == pChain {
			answers[i], err = shown.platform(tx)
		} else {
			answers[i], err = shown.asset(tx)
		}
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// describe reads the outputs and the stakes of transactions.
func (n *network) describe(ctx context.Context, b blockchain, page []*archive.Tx) ([]*describedTx, error) {
	all := make([]*describedTx, len(page))
	var wanted []ids.ID
	for i, tx := range page {
		d := &describedTx{Tx: tx}
		all[i] = d
		for j := range tx.Consumed {
			wanted = append(wanted, tx.Consumed[j].OutputID)
		}
		for j := range tx.Made {
			wanted = append(wanted, tx.Made[j].ID)
		}
		if err := n.settled(ctx, d); err != nil {
			return nil, err
		}
		wanted = append(wanted, d.added...)
	}
	outputs, err := n.Ledger.Outputs(ctx, wanted)
	if err != nil {
		return nil, err
	}
	found := make(map[ids.ID]*ledger.Output, len(outputs))
	for i, o := range outputs {
		found[wanted[i]] = o
	}
	for _, d := range all {
		if err := n.attach(ctx, b, d, found); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// settled reads the stake that a transaction starts or ends, and sets the IDs of the outputs that the chain may have added.
func (n *network) settled(ctx context.Context, d *describedTx) error {
	of, isReward := rewarded(d.Platform)
	switch {
	case d.Kind == "SetL1ValidatorWeightTx" || d.Kind == "DisableL1ValidatorTx": // the returned balance
		d.added = []ids.ID{chain.OutputID(d.ID, uint32(len(d.Made)))}
		return nil
	case !isReward && !mayStake(d.Platform):
		return nil
	case !isReward:
		of = d.ID
	}
	s, err := n.Ledger.Staking(ctx, of)
	if err != nil || s == nil {
		return err
	}
	if !isReward {
		d.staking = s
	}
	d.added = slices.Clone(s.Made)
	if s.Settled != nil {
		d.added = append(d.added, s.Settled.Rewards...)
	}
	return nil
}

// attach sets the outputs of a transaction, in the order of their indexes.
func (n *network) attach(ctx context.Context, b blockchain, d *describedTx, found map[ids.ID]*ledger.Output) error {
	for i := range d.Consumed {
		in := &d.Consumed[i]
		o := found[in.OutputID]
		if o == nil {
			return n.unknownOutput(ctx, in)
		}
		d.consumed = append(d.consumed, o)
	}
	for i := range d.Made {
		o := found[d.Made[i].ID]
		if o == nil {
			return apierr.Internal(fmt.Errorf("output %d of transaction %s of the %s is not indexed", i, d.ID, b.name))
		}
		d.made = append(d.made, o)
	}
	_, isReward := rewarded(d.Platform)
	for _, id := range d.added {
		o := found[id]
		switch {
		case o == nil || slices.Contains(d.made, o):
		case !isReward && o.TxID != d.ID: // of a renewal, which has outputs of its own
		case isReward && (o.Role.Reward() == "" || o.Height != d.Block.Number+1): // of another period
		default:
			d.made = append(d.made, o)
		}
	}
	slices.SortFunc(d.made, func(a, b *ledger.Output) int { return cmp.Compare(a.Index, b.Index) })
	return nil
}

// unknownOutput returns the error for a consumed output that is not indexed: the index of the chain that made it may be
// behind.
func (n *network) unknownOutput(ctx context.Context, in *chain.Input) error {
	for _, other := range n.chains {
		if other.id == in.SourceChainID {
			if err := n.behind(ctx, other, nil); err != nil {
				return err
			}
		}
	}
	return apierr.Internal(fmt.Errorf("output %s of blockchain %s is consumed and not indexed", in.OutputID, in.SourceChainID))
}

// outputs returns the descriptions of outputs.
func (s *shownTxs) outputs(all []*ledger.Output) ([]utxo, error) {
	shown := make([]utxo, len(all))
	for i, o := range all {
		var err error
		if shown[i], err = s.utxo(o, s.on, s.now, s.known); err != nil {
			return nil, err
		}
	}
	return shown, nil
}

func (s *shownTxs) assetOutputs(all []*ledger.Output) ([]assetUTXO, error) {
	plain, err := s.outputs(all)
	shown := make([]assetUTXO, len(plain))
	for i, o := range plain {
		shown[i] = assetUTXO{o, strconv.FormatUint(uint64(o.OutputIndex), 10)}
	}
	return shown, err
}

// route returns the chains between which an atomic transaction moves outputs; both are the transaction's own otherwise.
func (s *shownTxs) route(tx *describedTx) (source, destination ids.ID) {
	source, destination = s.on.id, s.on.id
	for i := range tx.Consumed {
		if from := tx.Consumed[i].SourceChainID; from != s.on.id {
			source = from
		}
	}
	for i := range tx.Made {
		if tx.Made[i].Role == chain.Exported {
			destination = tx.Made[i].DestinationID
		}
	}
	return source, destination
}

func (s *shownTxs) asset(tx *describedTx) (*assetTransaction, error) {
	shown := &assetTransaction{
		TxHash: tx.ID.String(), ChainFormat: "linear", Timestamp: tx.Block.Time.Unix(), TxType: string(tx.Kind), Memo: "0x" + hex.EncodeToString(tx.Memo),
		BlockHeight: tx.Block.Number, BlockHash: tx.Block.ID.String(),
	}
	var err error
	if shown.ConsumedUTXOs, err = s.assetOutputs(tx.consumed); err != nil {
		return nil, err
	}
	if shown.EmittedUTXOs, err = s.assetOutputs(tx.made); err != nil {
		return nil, err
	}
	shown.AmountUnlocked, shown.AmountCreated = s.sums(tx.consumed), s.sums(tx.made)
	if source, destination := s.route(tx); source != destination {
		shown.SourceChain, shown.DestinationChain = source.String(), destination.String()
	}
	if tx.Asset != nil {
		shown.AssetCreated = detailsOf(tx.Tx.Tx, tx.Time)
	}
	return shown, nil
}

// sums returns the amounts of outputs by asset. Rights to mint have no amount.
func (s *shownTxs) sums(all []*ledger.Output) []assetAmount {
	amounts, tokens := make(totals), make(totals)
	for _, o := range all {
		switch o.Kind {
		case chain.Transfer:
			amounts.add(o.AssetID, o.Amount, 1)
		case chain.NFTTransfer:
			tokens.add(o.AssetID, 1, 1)
		}
	}
	shown := amounts.shown(s.known)
	for _, t := range tokens.shown(s.known) {
		t.Type = typeTokens
		shown = append(shown, t)
	}
	return shown
}

// assetDetails describes an asset of the X-Chain.
type assetDetails struct {
	AssetID string `json:"assetId"`
	assetNames
	Type         string `json:"type"`
	CreatedAt    int64  `json:"createdAtTimestamp"`
	IsUpperBound bool   `json:"createdAtTimestampIsUpperBound,omitempty"`
	Cap          string `json:"cap"`
}

// detailsOf describes the asset that a transaction creates at a time. More of an asset can be made later if the
// transaction creates a right to.
func detailsOf(tx *chain.Tx, created time.Time) *assetDetails {
	d := &assetDetails{
		AssetID: tx.ID.String(), assetNames: assetNames{tx.Asset.Name, tx.Asset.Symbol, tx.Asset.Denomination},
		Type: typeAmounts, CreatedAt: created.Unix(), Cap: "fixed",
	}
	for i := range tx.Made {
		if tx.Made[i].AssetID != tx.ID {
			continue
		}
		switch tx.Made[i].Kind {
		case chain.Mint, chain.PropertyMint:
			d.Cap = "variable"
		case chain.NFTMint:
			d.Type, d.Cap = typeTokens, "variable"
		case chain.NFTTransfer:
			d.Type = typeTokens
		}
	}
	return d
}
