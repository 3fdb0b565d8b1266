package evm

import (
	"context"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apierr"
	"quorate/handlers/operation"
	paging "quorate/handlers/query/page"
	"quorate/handlers/reply"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/node"
)

type networkToken struct {
	Name        string `json:"name"`
	Symbol      string `json:"symbol"`
	Decimals    uint8  `json:"decimals"`
	LogoURI     string `json:"logoUri,omitempty"`
	Description string `json:"description,omitempty"`
}

type networkTokenDetails struct {
	NetworkToken networkToken `json:"networkToken"`
}

type erc20Transfer struct {
	From     *addressParty `json:"from"`
	To       *addressParty `json:"to"`
	LogIndex uint32        `json:"logIndex"`
	Value    amount        `json:"value"`
	Token    erc20Token    `json:"erc20Token"`
}

type erc721Transfer struct {
	From     *addressParty `json:"from"`
	To       *addressParty `json:"to"`
	LogIndex uint32        `json:"logIndex"`
	Token    erc721Token   `json:"erc721Token"`
}

// transfers are the transfers of a transaction.
type transfers struct {
	ERC20   []erc20Transfer   `json:"erc20Transfers"`
	ERC721  []erc721Transfer  `json:"erc721Transfers"`
	ERC1155 []erc1155Transfer `json:"erc1155Transfers"`
}

// noTransfers returns lists without items, which JSON has as [].
func noTransfers() transfers {
	return transfers{[]erc20Transfer{}, []erc721Transfer{}, []erc1155Transfer{}}
}

// messageInfo appears under two names: the documented one and that of the generated clients.
type messageInfo struct {
	InterchainMessageID string `json:"interchainMessageId,omitempty"`
	TeleporterMessageID string `json:"teleporterMessageId,omitempty"`
	Direction           string `json:"direction"`
	SourceChainID       string `json:"sourceChainId,omitempty"`
	DestinationChainID  string `json:"destinationChainId,omitempty"`
}

// currencies lists the API's currencies. Answers have no prices, since a node knows none.
var currencies = []string{"usd", "eur", "aud", "cad", "chf", "clp", "cny", "czk", "dkk", "gbp", "hkd", "huf", "jpy", "nzd"}

// transactionDetails is a transaction with all its effects.
type transactionDetails struct {
	Token  networkTokenDetails `json:"networkTokenDetails"`
	Native fullTransaction     `json:"nativeTransaction"`
	transfers
	Missing    []uint64              `json:"tracesMissing,omitempty"` // the first and the last block
	Internals  []internalTransaction `json:"internalTransactions"`
	Message    *messageInfo          `json:"interchainMessageInfo,omitempty"`
	Teleporter *messageInfo          `json:"teleporterMessageInfo,omitempty"`
}

func (a *API) getDeployment(ctx context.Context, r operation.Request, of *Chain) error {
	at, err := address(r)
	if err != nil {
		return err
	}
	q := r.Query
	q.OneOf("currency")
	if err := q.Err(); err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	found, err := of.Index.Deployment(ctx, at)
	if err != nil {
		return err
	}
	return a.showDetails(ctx, r, of, found)
}

// Answers with manyEffects or more are charged to the client: effectBytes for each effect, about what it takes in memory,
// but at most mostCharged. One transaction can have some 100,000 transfers.
const (
	manyEffects = 1000
	effectBytes = 2 << 10
	mostCharged = 48 << 20
)

// showDetails sends a transaction with its effects.
func (a *API) showDetails(ctx context.Context, r operation.Request, of *Chain, found *evm.TransactionDetails) error {
	if effects := len(found.Internals) + len(found.Transfers); effects >= manyEffects {
		ctx, done := a.answers.Begin(ctx)
		defer done()
		if err := node.Take(ctx, min(int64(effects)*effectBytes, mostCharged)); err != nil {
			return fmt.Errorf("taking memory for %d effects of a transaction: %w", effects, err)
		}
	}
	tx := &found.Transaction
	parties := []common.Address{tx.From, tx.Recipient}
	for i := range found.Internals {
		parties = append(parties, found.Internals[i].From, found.Internals[i].To)
	}
	for i := range found.Transfers {
		t := &found.Transfers[i]
		parties = append(parties, t.From, t.To, t.Contract)
	}
	d, err := a.directory(ctx, of, parties)
	if err != nil {
		return err
	}
	answer := transactionDetails{
		Token:     networkTokenDetails{networkToken(of.NativeToken)},
		Native:    a.fullTransaction(d, tx),
		Internals: make([]internalTransaction, len(found.Internals)),
	}
	known, details, err := a.believed(ctx, d, found.Transfers)
	if err != nil {
		return err
	}
	answer.transfers = noTransfers()
	for i := range known {
		d.sort(&known[i].Transfer, details[i], &answer.transfers)
	}
	for i := range found.Internals {
		answer.Internals[i] = d.internal(&found.Internals[i].Frame)
	}
	if !found.Traced {
		answer.Missing = []uint64{tx.Block.Number, tx.Block.Number}
	}
	if found.Message != nil {
		answer.Message, answer.Teleporter = shownMessage(found.Message)
	}
	return reply.JSON(r, answer)
}

// believed returns the transfers of tokens. A log may look like a transfer but come from a contract without tokens. The
// details are nil for ERC-20.
func (a *API) believed(ctx context.Context, d *directory, found []evm.TokenTransfer) (shown []evm.TokenTransfer, details []*nftDetails, err error) {
	var tokens []nft
	for i := range found {
		t := &found[i].Transfer
		if d.standard(t.Contract) != t.Standard {
			continue
		}
		shown = append(shown, found[i])
		if t.Standard != chain.ERC20 {
			tokens = append(tokens, moved(t))
		}
	}
	known, err := a.details(ctx, d.chain, tokens)
	if err != nil {
		return nil, nil, err
	}
	details = make([]*nftDetails, len(shown))
	for i := range shown {
		if shown[i].Standard != chain.ERC20 {
			details[i], known = known[0], known[1:]
		}
	}
	return shown, details, nil
}

// sort adds a transfer to those of its standard.
func (d *directory) sort(t *chain.Transfer, details *nftDetails, into *transfers) {
	switch t.Standard {
	case chain.ERC20:
		into.ERC20 = append(into.ERC20, d.erc20Transfer(t))
	case chain.ERC721:
		into.ERC721 = append(into.ERC721, d.erc721Transfer(t, details))
	case chain.ERC1155:
		into.ERC1155 = append(into.ERC1155, d.erc1155Transfer(t, details))
	}
}

func (d *directory) erc20Transfer(t *chain.Transfer) erc20Transfer {
	return erc20Transfer{From: d.party(t.From), To: d.party(t.To), LogIndex: t.LogIndex, Value: amount(t.Amount), Token: d.erc20(t.Contract)}
}

func (d *directory) erc721Transfer(t *chain.Transfer, details *nftDetails) erc721Transfer {
	return erc721Transfer{From: d.party(t.From), To: d.party(t.To), LogIndex: t.LogIndex, Token: d.erc721(moved(t), nil, details)}
}

// shownMessage returns a Teleporter message in its documented form and in that of the generated clients.
func shownMessage(m *chain.Message) (documented, clients *messageInfo) {
	other := ""
	if m.BlockchainID != ids.Empty { // a message may have no destination
		other = m.BlockchainID.String()
	}
	info := messageInfo{Direction: "SOURCE_TRANSACTION", DestinationChainID: other}
	if m.Delivered {
		info = messageInfo{Direction: "DESTINATION_TRANSACTION", SourceChainID: other}
	}
	forDocuments, forClients := info, info
	forDocuments.InterchainMessageID, forClients.TeleporterMessageID = m.ID.Hex(), m.ID.Hex()
	return &forDocuments, &forClients
}

func (a *API) listDeployments(ctx context.Context, r operation.Request, of *Chain) error {
	by, err := address(r)
	if err != nil {
		return err
	}
	q := r.Query
	p := q.Page(paging.List{Key: a.key, Operation: "deployments", Filters: []string{of.name, by.Hex()}})
	if err := q.Err(); err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	found, err := of.Index.Deployments(ctx, evm.DeploymentQuery{Address: by, Limit: p.Size, After: p.After})
	if err != nil {
		return err
	}
	addresses := make([]common.Address, len(found.Deployments))
	for i, one := range found.Deployments {
		addresses[i] = one.Contract
	}
	d, err := a.directory(ctx, of, addresses)
	if err != nil {
		return err
	}
	return reply.JSON(r, page{
		Next: p.Token(found.Next), Missing: (*blockSpan)(found.TracesMissing),
		Contracts: listOf(len(found.Deployments), func(i int, x *contract) {
			*x = d.contract(found.Deployments[i].Contract, &found.Deployments[i])
		}),
	})
}

func (a *API) listTokens(ctx context.Context, r operation.Request, of *Chain) error {
	at, err := address(r)
	if err != nil {
		return err
	}
	q := r.Query
	p := q.Page(paging.List{Key: a.key, Operation: "tokens", Filters: []string{of.name, at.Hex()}})
	if err := q.Err(); err != nil {
		return err
	}
	if _, err := current(r, of, nil); err != nil {
		return err
	}
	d, err := a.directoryOf(ctx, of, at)
	if err != nil {
		return err
	}
	standard := d.standard(at)
	if standard != chain.ERC721 && standard != chain.ERC1155 {
		return apierr.NotFound("address: there is no collection of ERC-721 or ERC-1155 tokens at %s", at)
	}
	found, err := of.Index.Tokens(ctx, evm.TokenQuery{Contract: at, Standard: standard, Limit: p.Size, After: p.After})
	if err != nil {
		return err
	}
	tokens := make([]nft, len(found.Tokens))
	for i := range found.Tokens {
		tokens[i] = nft{standard: standard, contract: at, id: found.Tokens[i].TokenID}
	}
	details, err := a.details(ctx, of, tokens)
	if err != nil {
		return err
	}
	answer := page{Next: p.Token(found.Next)}
	if standard == chain.ERC1155 {
		answer.Tokens = listOf(len(tokens), func(i int, x *erc1155Token) { *x = d.erc1155(tokens[i], details[i]) })
	} else {
		answer.Tokens = listOf(len(tokens), func(i int, x *erc721Token) { *x = d.erc721(tokens[i], found.Tokens[i].Owner, details[i]) })
	}
	return reply.JSON(r, answer)
}
