package data

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/handlers/reply"
	"quorate/internal/index"
	"quorate/internal/index/archive"
	"quorate/internal/index/lookup"
)

// Archive reads the stored blocks of the P-Chain or the X-Chain; *archive.Chain implements it. Its errors may be
// archive.ErrUnknown, archive.ErrNotStored and, for lists by proposer or asset, lookup.ErrNoLists. The rules of Ledger apply.
type Archive interface {
	Block(ctx context.Context, number uint64) (*archive.Block, error)
	BlockByID(ctx context.Context, id ids.ID) (*archive.Block, error)
	Blocks(ctx context.Context, q archive.Query) (page []*archive.Block, more bool, err error)
	Tx(ctx context.Context, id ids.ID, tip uint64) (*archive.Tx, error)
	Txs(ctx context.Context, q archive.TxQuery) (*archive.TxPage, error)
}

var _ Archive = (*archive.Chain)(nil)

// Parameters of the operations on blocks.
var (
	archivedChain = query.Parameter{
		Name: "blockchainId", Description: "`p-chain`, `x-chain` or the blockchain's ID. The blocks of the C-Chain are at `/v1/chains/{chainId}/blocks`.", Example: "p-chain",
	}
	startTime = query.Parameter{Name: "startTimestamp", Kind: query.Integer, Description: "Only blocks after this second."}
	endTime   = query.Parameter{Name: "endTimestamp", Kind: query.Integer, Description: "Only blocks before this second."}
)

func (a *API) blockOperations() []operation.Operation {
	return []operation.Operation{
		{
			ID: "listLatestPrimaryNetworkBlocks", Path: "/v1/networks/{network}/blockchains/{blockchainId}/blocks", Tag: tag,
			Summary:     "Latest blocks of the P-Chain or the X-Chain",
			Description: blockDescription,
			Order:       "newest first",
			Index:       "stored blocks",
			Parameters:  []query.Parameter{networkName, archivedChain, startTime, endTime, query.PageToken, pageSize},
			Returns:     "A page of blocks.", Schema: "PrimaryNetworkBlockPage",
			Handle: a.serve(a.listBlocks),
		},
		{
			ID: "listPrimaryNetworkBlocksByNodeId", Path: "/v1/networks/{network}/blockchains/{blockchainId}/nodes/{nodeId}/blocks", Tag: tag,
			Summary: "Blocks of the P-Chain or the X-Chain that a node proposed",
			Description: "The blocks whose proposer envelope the node signed. Envelopes without signature, those of options, blocks from before the proposer VM, " +
				"and blocks that came from a node without index API name no proposer, so no list has them.\n\n" + blockDescription,
			Order:      "newest first",
			Index:      "stored blocks",
			Parameters: []query.Parameter{networkName, archivedChain, nodeID, startTime, endTime, query.PageToken, pageSize},
			Returns:    "A page of blocks.", Schema: "PrimaryNetworkBlockPage",
			Handle: a.serve(a.listProposedBlocks),
		},
		{
			ID: "getBlockById", Path: "/v1/networks/{network}/blockchains/{blockchainId}/blocks/{blockId}", Tag: tag,
			Summary:     "A block of the P-Chain or the X-Chain",
			Description: blockDescription,
			Index:       "stored blocks",
			Parameters: []query.Parameter{
				networkName, archivedChain, {Name: "blockId", Description: "The number or the ID of the block. The ID of a proposer envelope is none.", Example: "1"},
			},
			Returns: "The block.", Schema: "PrimaryNetworkBlock",
			Handle: a.serve(a.getBlock),
		},
	}
}

const blockDescription = "`blockType` is the type's name in avalanchego, `blockSizeBytes` the size without the proposer envelope. " +
	"`proposerDetails` describes the envelope; blocks from before the proposer VM have none, and neither have blocks that came from a node without index API. " +
	"The time of a P-Chain block from before Banff is the chain's. The state after the block (`l1ValidatorsAccruedFees`, `activeL1Validators`, `currentSupply`) is not indexed."

type block struct {
	BlockNumber     string           `json:"blockNumber"`
	BlockHash       string           `json:"blockHash"`
	ParentHash      string           `json:"parentHash"`
	BlockTimestamp  int64            `json:"blockTimestamp"`
	BlockType       string           `json:"blockType"`
	TxCount         int              `json:"txCount"`
	Transactions    []string         `json:"transactions"`
	BlockSizeBytes  int              `json:"blockSizeBytes"`
	ProposerDetails *proposerDetails `json:"proposerDetails,omitempty"`
}

// proposerDetails describes a proposer envelope. Envelopes of options have neither node, height nor time.
type proposerDetails struct {
	ProposerID     string  `json:"proposerId"`
	ParentID       string  `json:"proposerParentId"`
	NodeID         string  `json:"proposerNodeId,omitempty"`
	PChainHeight   *uint64 `json:"proposerPChainHeight,omitempty"`
	ProposerSecond *int64  `json:"proposerTimestamp,omitempty"`
}

func shownBlock(b *archive.Block) block {
	shown := block{
		BlockNumber:    strconv.FormatUint(b.Number, 10),
		BlockHash:      b.ID.String(),
		ParentHash:     b.ParentID.String(),
		BlockTimestamp: b.Time.Unix(),
		BlockType:      b.Type,
		TxCount:        len(b.TxIDs),
		Transactions:   texts(b.TxIDs),
		BlockSizeBytes: b.Size,
	}
	if e := b.Envelope; e != nil {
		shown.ProposerDetails = &proposerDetails{ProposerID: e.ID.String(), ParentID: e.ParentID.String()}
		if !e.Time.IsZero() {
			shown.ProposerDetails.PChainHeight, shown.ProposerDetails.ProposerSecond = &e.PChainHeight, seconds(e.Time)
		}
		if e.Proposer != ids.EmptyNodeID {
			shown.ProposerDetails.NodeID = e.Proposer.String()
		}
	}
	return shown
}

// archive returns the reader of a chain's blocks and the number of its last block, and sets the progress headers. It
// returns an error if the index of the chain has not caught up.
func (n *network) archive(r operation.Request, b blockchain) (Archive, uint64, error) {
	found := n.Archives[b.id]
	if found == nil {
		return nil, 0, reply.Lacking(nil, "the blocks of the %s are not stored here: keep_containers of %s is none; its operator sets it to needed", b.name, n.shown)
	}
	if err := n.current(r, nil, b); err != nil {
		return nil, 0, err
	}
	if p := n.ArchiveProgress(b.id); !p.CaughtUp || p.Rebuilding {
		return nil, 0, p.Behind("the " + b.name)
	}
	return found, n.Progress(r.Request().Context(), b.id).Height, nil
}

// archiveError converts the errors of an Archive. what names what the client asked for.
func archiveError(err error, b blockchain, what string) error {
	switch {
	case errors.Is(err, archive.ErrUnknown):
		return &apierr.Error{Status: 404, Message: fmt.Sprintf("%s is not on the %s", what, b.name), Err: err}
	case errors.Is(err, lookup.ErrNoLists):
		return reply.CatchingUp(err, "an older version began the index of the blocks of the %s, which is being rebuilt beside it; try again later", b.name)
	case errors.Is(err, archive.ErrBegin):
		return reply.CatchingUp(err, "it is not known yet where the blocks of the %s begin; try again later", b.name)
	case errors.Is(err, archive.ErrNotStored):
		return reply.Lacking(err, "a block of the %s is not stored: it was indexed while keep_containers was none, and only a new index has it", b.name)
	}
	return err
}

// timeRange parses startTimestamp and endTimestamp.
func timeRange(q *query.Values) (after, before time.Time) {
	from, to := q.Range(startTime.Name, endTime.Name)
	if from != nil {
		after = moment(*from)
	}
	if to != nil {
		before = moment(*to)
	}
	return after, before
}

func (a *API) listBlocks(ctx context.Context, r operation.Request, n *network) error {
	return a.showBlocks(ctx, r, n, archive.Query{}, "blocks")
}

// listProposedBlocks is GET /v1/networks/{network}/blockchains/{blockchainId}/nodes/{nodeId}/blocks.
func (a *API) listProposedBlocks(ctx context.Context, r operation.Request, n *network) error {
	by, err := pathNode(r)
	if err != nil {
		return err
	}
	if by == ids.EmptyNodeID {
		return apierr.BadRequest("nodeId: no node has the ID %s", by)
	}
	return a.showBlocks(ctx, r, n, archive.Query{Proposer: by}, "proposed blocks")
}

// showBlocks answers with a page of the wanted blocks in the time range of the request. name identifies the list.
func (a *API) showBlocks(ctx context.Context, r operation.Request, n *network, want archive.Query, name string) error {
	b, err := n.blockchain(r, pChain, xChain)
	if err != nil {
		return err
	}
	want.After, want.Before = timeRange(r.Query)
	p := a.readPages(r.Query, name, n.shown, b.name, want.Proposer.String(), fmt.Sprint(want.After.Unix()), fmt.Sprint(want.Before.Unix()))
	if err := r.Query.Err(); err != nil {
		return err
	}
	if want.Below, err = position(p.After, parseNumber); err != nil {
		return err
	}
	stored, tip, err := n.archive(r, b)
	if err != nil {
		return err
	}
	want.Tip, want.Limit = tip, p.Size
	page, more, err := stored.Blocks(ctx, want)
	if err != nil {
		return archiveError(err, b, "a block")
	}
	answer := struct {
		NextPageToken string    `json:"nextPageToken,omitempty"`
		Blocks        []block   `json:"blocks"`
		ChainInfo     chainInfo `json:"chainInfo"`
	}{Blocks: make([]block, len(page)), ChainInfo: n.info(b)}
	for i, one := range page {
		answer.Blocks[i] = shownBlock(one)
	}
	if more {
		answer.NextPageToken = p.Token(binary.BigEndian.AppendUint64(nil, page[len(page)-1].Number))
	}
	return reply.JSON(r, answer)
}

func parseNumber(b []byte) (*uint64, error) {
	if len(b) != 8 {
		return nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(b))
	}
	number := binary.BigEndian.Uint64(b)
	return &number, nil
}

func (a *API) getBlock(ctx context.Context, r operation.Request, n *network) error {
	b, err := n.blockchain(r, pChain, xChain)
	if err != nil {
		return err
	}
	text := r.Param("blockId")
	number, notNumber := strconv.ParseUint(text, 10, 64)
	id, notID := cb58.ID(text)
	if notNumber != nil && notID != nil {
		return apierr.BadRequest("blockId: %q is neither the number nor the ID of a block; check it for typing errors", apierr.Excerpt(text))
	}
	stored, tip, err := n.archive(r, b)
	if err != nil {
		return err
	}
	var found *archive.Block
	switch {
	case notNumber != nil:
		found, err = stored.BlockByID(ctx, id)
	case number <= tip:
		found, err = stored.Block(ctx, number)
	default:
		err = archive.ErrUnknown
	}
	if err == nil && found.Number > tip {
		err = archive.ErrUnknown
	}
	if err != nil {
		return archiveError(err, b, fmt.Sprintf("blockId: block %s", apierr.Excerpt(text)))
	}
	return reply.JSON(r, shownBlock(found))
}
