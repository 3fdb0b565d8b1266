package evm

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"

	"quorate/handlers/apierr"
	"quorate/handlers/cb58"
	"quorate/handlers/operation"
	"quorate/handlers/query"
	paging "quorate/handlers/query/page"
	"quorate/handlers/reply"
	"quorate/internal/index"
	"quorate/internal/index/evm"
)

// icmMessage is an ICM message with what the indexes of its two chains know, one of which may not be indexed.
type icmMessage struct {
	id common.Hash
	// source and destination are nil for a chain that is not indexed.
	source, destination     *Chain
	sourceID, destinationID ids.ID
	// there holds the events on the source, here those on the destination.
	there, here evm.ICMEvents
	// signedAt is when the service signed the message; zero if it did not, or does not know any more.
	signedAt time.Time
}

// icmPlace is a place in the list of the messages of several chains, which are ordered by time. Within a second, those
// of a chain follow each other.
type icmPlace struct {
	evm.ICMPlace
	chain ids.ID
}

// icmPlaceSize is the size of a place in a page token.
const icmPlaceSize = 8 + 8 + 4 + ids.IDLen

func (p *icmPlace) bytes() []byte {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.Time), p.Number)
	return append(binary.BigEndian.AppendUint32(b, p.LogIndex), p.chain[:]...)
}

// parseICMPlace returns nil for the first page.
func parseICMPlace(b []byte) (*icmPlace, error) {
	switch len(b) {
	case 0:
		return nil, nil
	case icmPlaceSize:
		return &icmPlace{evm.ICMPlace{
			Time: binary.BigEndian.Uint64(b), Number: binary.BigEndian.Uint64(b[8:]), LogIndex: binary.BigEndian.Uint32(b[16:]),
		}, ids.ID(b[20:])}, nil
	}
	return nil, fmt.Errorf("%w: %d bytes", index.ErrPosition, len(b))
}

// before reports whether p comes before q in the list, newest first.
func (p *icmPlace) before(q *icmPlace) bool {
	if p.Time != q.Time {
		return p.Time > q.Time
	}
	if c := p.chain.Compare(q.chain); c != 0 {
		return c < 0
	}
	if p.Number != q.Number {
		return p.Number > q.Number
	}
	return p.LogIndex > q.LogIndex
}

// icmFilter selects messages. Nil fields select all.
type icmFilter struct {
	source, destination, either *ids.ID
	sender, recipient, party    *common.Address
}

// query returns the query for the list of a chain; ok is false if none of its messages is selected.
func (f *icmFilter) query(chain ids.ID) (q evm.ICMQuery, ok bool) {
	for _, address := range []*common.Address{f.party, f.sender, f.recipient} {
		if address != nil {
			q.Address = address
		}
	}
	for _, end := range []*ids.ID{f.source, f.destination, f.either} {
		switch {
		case end == nil || *end == chain:
		case q.Other != nil && *q.Other != *end:
			return q, false
		default:
			q.Other = end
		}
	}
	return q, true
}

// selects reports whether an entry of the list of a chain is selected.
func (f *icmFilter) selects(chain ids.ID, e *evm.ICMEntry) bool {
	source, destination := chain, e.Other
	if e.Delivered {
		source, destination = destination, source
	}
	return (f.source == nil || *f.source == source) && (f.destination == nil || *f.destination == destination) &&
		(f.either == nil || *f.either == source || *f.either == destination) &&
		(f.sender == nil || *f.sender == e.Sender) && (f.recipient == nil || *f.recipient == e.Recipient) &&
		(f.party == nil || *f.party == e.Sender || *f.party == e.Recipient)
}

// icmList reads the list of a chain in parts.
type icmList struct {
	chain   *Chain
	query   evm.ICMQuery
	entries []evm.ICMEntry // read and not yet taken
	ended   bool
}

// head returns the place of the next entry, or nil at the end.
func (l *icmList) head(ctx context.Context) (*icmPlace, error) {
	if len(l.entries) == 0 && !l.ended {
		var err error
		if l.entries, err = l.chain.Index.ICMList(ctx, l.query); err != nil {
			return nil, err
		}
		if l.ended = len(l.entries) < l.query.Limit; len(l.entries) > 0 {
			l.query.After = &l.entries[len(l.entries)-1].ICMPlace
		}
		l.query.Limit = min(2*l.query.Limit, maxICMEntries) // the filter may select few
	}
	if len(l.entries) == 0 {
		return nil, nil
	}
	return &icmPlace{l.entries[0].ICMPlace, l.chain.BlockchainID}, nil
}

const (
	// maxICMEntries is the maximum number of entries of one chain to read at a time.
	maxICMEntries = 1024
	// maxICMScanned is the number of entries after which a page ends short. The filter may select few of many.
	maxICMScanned = 16 << 10
	// icmAtOnce is the number of messages to read at a time, and maxICMData the size of their data and receipts in bytes
	// after which a page ends short. A message may have as much data as a block has room for.
	icmAtOnce  = 16
	maxICMData = 4 << 20
	// icmReceiptSize is the size of an encoded receipt in bytes.
	icmReceiptSize = 64
)

// icmMerge merges the lists of several chains.
type icmMerge struct {
	chains map[ids.ID]*Chain
	filter icmFilter
	lists  []*icmList
	// scanned is the number of entries that were read, selected or not, and last the place of the last one.
	scanned int
	last    icmPlace
}

func newICMMerge(chains []*Chain, filter icmFilter, after *icmPlace, limit int) *icmMerge {
	m := &icmMerge{chains: make(map[ids.ID]*Chain, len(chains)), filter: filter}
	for _, chain := range chains {
		m.chains[chain.BlockchainID] = chain
		q, ok := filter.query(chain.BlockchainID)
		if after != nil {
			switch c := chain.BlockchainID.Compare(after.chain); {
			case c == 0:
				q.After = &after.ICMPlace
			case c > 0:
				q.Latest = &after.Time
			case after.Time == 0:
				ok = false
			default:
				earlier := after.Time - 1
				q.Latest = &earlier
			}
		}
		if q.Limit = limit; ok {
			m.lists = append(m.lists, &icmList{chain: chain, query: q})
		}
	}
	return m
}

// next returns the next n selected entries of all lists and their places; fewer at the end, and after maxICMScanned
// entries.
func (m *icmMerge) next(ctx context.Context, n int) (entries []evm.ICMEntry, places []icmPlace, err error) {
	for len(entries) < n && m.scanned < maxICMScanned {
		var first *icmList
		var place *icmPlace
		for _, l := range m.lists {
			p, err := l.head(ctx)
			if err != nil {
				return nil, nil, err
			}
			if p != nil && (place == nil || p.before(place)) {
				first, place = l, p
			}
		}
		if first == nil {
			break
		}
		e := first.entries[0]
		first.entries = first.entries[1:]
		m.scanned, m.last = m.scanned+1, *place
		if m.filter.selects(place.chain, &e) {
			entries, places = append(entries, e), append(places, *place)
		}
	}
	return entries, places, nil
}

// page returns up to limit messages. next is the place after which the next page begins, or nil on the last page. A page
// may be shorter than the limit if the messages are large, or if the filter selects few of the entries.
//
// A message has an entry in the list of each of its chains that is indexed, and a further one each time it is sent
// again. The first sending counts, or else the delivery.
func (m *icmMerge) page(ctx context.Context, limit int) (found []icmMessage, next *icmPlace, err error) {
	var last icmPlace
	for size := 0; ; {
		want := min(limit+1-len(found), icmAtOnce)
		entries, places, err := m.next(ctx, want)
		if err != nil {
			return nil, nil, err
		}
		messages, err := readICM(ctx, m.chains, entries, places)
		if err != nil {
			return nil, nil, err
		}
		for i := range messages {
			if !messages[i].isAt(ctx, &places[i]) {
				continue
			}
			if len(found) == limit {
				return found, &last, nil
			}
			found, last = append(found, messages[i]), places[i]
			content := messages[i].known().Message
			size += len(content.Data) + len(content.Receipts)*icmReceiptSize
		}
		switch {
		case len(entries) < want && m.scanned < maxICMScanned:
			return found, nil, nil
		case size > maxICMData, m.scanned >= maxICMScanned:
			return found, &m.last, nil
		}
	}
}

// readICM reads the messages of entries from the indexes of both their chains.
func readICM(ctx context.Context, chains map[ids.ID]*Chain, entries []evm.ICMEntry, places []icmPlace) ([]icmMessage, error) {
	messages := make([]icmMessage, len(entries))
	asked := make(map[*Chain][]common.Hash)
	for i := range entries {
		e, m := &entries[i], &messages[i]
		m.id, m.sourceID, m.destinationID = e.ID, places[i].chain, e.Other
		if e.Delivered {
			m.sourceID, m.destinationID = m.destinationID, m.sourceID
		}
		m.source, m.destination = chains[m.sourceID], chains[m.destinationID]
		for _, chain := range []*Chain{m.source, m.destination} {
			if chain != nil {
				asked[chain] = append(asked[chain], e.ID)
			}
		}
	}
	answers := make(map[*Chain][]evm.ICMEvents, len(asked))
	for chain, messageIDs := range asked {
		events, err := chain.Index.ICMMessages(ctx, messageIDs)
		if err != nil {
			return nil, err
		}
		answers[chain] = events
	}
	take := func(chain *Chain) (e evm.ICMEvents) {
		if chain != nil {
			e, answers[chain] = answers[chain][0], answers[chain][1:]
		}
		return e
	}
	for i := range messages {
		m := &messages[i]
		m.there, m.here = take(m.source), take(m.destination)
	}
	return messages, nil
}

// on returns the events on one of the two chains.
func (m *icmMessage) on(chain ids.ID) evm.ICMEvents {
	if chain == m.sourceID {
		return m.there
	}
	return m.here
}

// isAt reports whether the message is listed at a place.
func (m *icmMessage) isAt(ctx context.Context, p *icmPlace) bool {
	switch {
	case m.there.Sent != nil:
		return p.chain == m.sourceID && p.ICMPlace == m.there.Sent.ICMPlace()
	case m.here.Delivered == nil || p.chain != m.destinationID || p.ICMPlace != m.here.Delivered.ICMPlace():
		return false
	}
	return !m.unconfirmed(ctx)
}

// unconfirmed reports that the destination has received a message that the source has not sent, according to an index
// with all blocks of the source: that lags, or the destination lies.
func (m *icmMessage) unconfirmed(ctx context.Context) bool {
	return m.there.Sent == nil && m.source != nil && m.source.Progress(ctx).From == 0
}

// readICMNetwork returns the chains of the network that a request selects.
func (a *API) readICMNetwork(q *query.Values) (chains []*Chain, network string, err error) {
	network = readNetwork(q, "network")
	if err := q.Err(); err != nil {
		return nil, "", err
	}
	chains, starting, err := a.chains.all(network)
	if starting {
		err = errStarting()
	}
	return chains, network, err
}

// readNetwork parses an optional network, "" for all.
func readNetwork(q *query.Values, key string) string {
	network, given := q.Text(key)
	if given && network == "" {
		q.Fail(key, "it is empty; use mainnet, fuji or testnet, or leave it out for all networks")
	}
	return network
}

func errStarting() error {
	return reply.NodeAway(nil, "this instance is starting and waits for the nodes of its networks; try again in a moment, or select another network")
}

// readBlockchain parses an optional chain, given by its blockchain ID or by the EVM chain ID of one of chains.
func readBlockchain(q *query.Values, key string, chains []*Chain) *ids.ID {
	text, ok := q.Text(key)
	if !ok {
		return nil
	}
	var named []ids.ID
	for _, chain := range chains {
		if strconv.FormatUint(chain.ChainID, 10) == text {
			named = append(named, chain.BlockchainID)
		}
	}
	switch len(named) {
	case 1:
		return &named[0]
	case 0:
		if id, err := cb58.ID(text); err == nil {
			return &id
		}
		q.Fail(key, "%q is neither a blockchain ID nor the EVM chain ID of a chain that this instance indexes", apierr.Excerpt(text))
	default:
		q.Fail(key, "several chains here have the EVM chain ID %s; use a blockchain ID", text)
	}
	return nil
}

func (a *API) listICM(ctx context.Context, r operation.Request) error {
	q := r.Query
	chains, network, err := a.readICMNetwork(q)
	if err != nil {
		return err
	}
	return a.sendICMPage(ctx, r, q, chains, network, readICMFilter(q, chains))
}

func readICMFilter(q *query.Values, chains []*Chain) icmFilter {
	return icmFilter{
		source: readBlockchain(q, "sourceBlockchainId", chains), destination: readBlockchain(q, "destinationBlockchainId", chains),
		either: readBlockchain(q, "blockchainId", chains), sender: readAddress(q, "from"), recipient: readAddress(q, "to"),
	}
}

func (a *API) listICMOfAddress(ctx context.Context, r operation.Request) error {
	party, err := address(r)
	if err != nil {
		return err
	}
	q := r.Query
	chains, network, err := a.readICMNetwork(q)
	if err != nil {
		return err
	}
	return a.sendICMPage(ctx, r, q, chains, network, icmFilter{party: &party})
}

// texts returns the filter as texts, for page tokens.
func (f *icmFilter) texts() []string {
	var all []string
	for _, id := range []*ids.ID{f.source, f.destination, f.either} {
		text := ""
		if id != nil {
			text = id.String()
		}
		all = append(all, text)
	}
	for _, address := range []*common.Address{f.sender, f.recipient, f.party} {
		text := ""
		if address != nil {
			text = address.Hex()
		}
		all = append(all, text)
	}
	return all
}

// icmPage is an answer with one page of messages.
type icmPage struct {
	Next     string     `json:"nextPageToken,omitempty"`
	Messages []shownICM `json:"messages"`
}

// sendICMPage sends the page of messages that a request asks for.
func (a *API) sendICMPage(ctx context.Context, r operation.Request, q *query.Values, chains []*Chain, network string, f icmFilter) error {
	p := q.Page(paging.List{Key: a.key, Operation: "ICM messages", Filters: append(f.texts(), network)})
	if err := q.Err(); err != nil {
		return err
	}
	after, err := parseICMPlace(p.After)
	if err != nil {
		return err
	}
	listed := slices.DeleteFunc(slices.Clone(chains), func(chain *Chain) bool {
		_, ok := f.query(chain.BlockchainID)
		return !ok
	})
	if err := currentICM(r, listed); err != nil {
		return err
	}
	found, next, err := newICMMerge(chains, f, after, p.Size+1).page(ctx, p.Size)
	if err != nil {
		return err
	}
	answer := icmPage{}
	if answer.Messages, err = a.showICM(ctx, found); err != nil {
		return err
	}
	if next != nil {
		answer.Next = p.Token(next.bytes())
	}
	return reply.JSON(r, answer)
}

// currentICM returns an error unless the indexes of all chains have caught up. The progress headers are those of the
// chain that is furthest behind.
func currentICM(c echo.Context, chains []*Chain) error {
	var last reply.Progress
	for i, chain := range chains {
		p := chain.Progress(c.Request().Context())
		if !p.CaughtUp {
			return p.Behind("chain " + chain.name)
		}
		if i == 0 || p.Lag > last.Lag {
			last = p
		}
	}
	if len(chains) > 1 {
		last.Proof = nil // it is that of one chain
	}
	if len(chains) > 0 {
		last.Show(c.Response().Header())
	}
	return nil
}

var messageIDShape = regexp.MustCompile("^(0[xX])?[0-9a-fA-F]{64}$")

func (a *API) getICM(ctx context.Context, r operation.Request) error {
	text := r.Param("messageId")
	if !messageIDShape.MatchString(text) {
		return apierr.BadRequest("messageId: %q is no message ID; give 64 hexadecimal digits, with or without 0x", apierr.Excerpt(text))
	}
	chains, starting, err := a.chains.all("")
	if err != nil {
		return err
	}
	m, err := findICM(ctx, chains, common.HexToHash(text))
	if err != nil {
		return err
	}
	if m == nil && starting {
		return errStarting()
	}
	if m != nil {
		chains = slices.DeleteFunc(chains, func(chain *Chain) bool { return chain != m.source && chain != m.destination })
	}
	if err := currentICM(r, chains); err != nil {
		return err
	}
	if m != nil && m.unconfirmed(ctx) {
		if p := m.source.Progress(ctx); p.Lag > 0 {
			return p.NotYet(p.Err, "the block with which chain "+m.source.name+" sent the message")
		}
		m = nil
	}
	if m == nil {
		return apierr.NotFound("messageId: no chain that this instance indexes has sent or received message %s", text)
	}
	shown, err := a.showICM(ctx, []icmMessage{*m})
	if err != nil {
		return err
	}
	return reply.JSON(r, shown[0])
}

// findICM looks for a message on all chains. It returns nil if none has it, or an error if a chain cannot be read and no
// other one has the message. A message ID depends on both chains, so that no third one has events of the message.
func findICM(ctx context.Context, chains []*Chain, id common.Hash) (*icmMessage, error) {
	byID := make(map[ids.ID]*Chain, len(chains))
	for _, chain := range chains {
		byID[chain.BlockchainID] = chain
	}
	var failed error
	for _, chain := range chains {
		events, err := chain.Index.ICMMessages(ctx, []common.Hash{id})
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		var e evm.ICMEntry
		switch {
		case events[0].Sent != nil:
			e = evm.ICMEntry{ID: id, Other: events[0].Sent.Other}
		case events[0].Delivered != nil:
			e = evm.ICMEntry{ID: id, Other: events[0].Delivered.Other, Delivered: true}
		default:
			continue
		}
		messages, err := readICM(ctx, byID, []evm.ICMEntry{e}, []icmPlace{{chain: chain.BlockchainID}})
		if err != nil {
			return nil, err
		}
		return &messages[0], nil
	}
	return nil, failed
}
