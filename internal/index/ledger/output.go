package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// Output is an indexed output.
type Output struct {
	chain.Output
	// ChainID is the blockchain that created the output, at Height and Time. For a reward it is the block that
	// committed the reward. Outputs returned by an Index have the block's number as Height, 0 for outputs from before
	// the chain had blocks.
	ChainID ids.ID
	Height  uint64
	Time    time.Time
	// StakeStart and StakeEnd are the staking period of a stake output, zero for others.
	StakeStart, StakeEnd time.Time
	// Spent is nil for an unconsumed output.
	Spent *chain.Spend
	// consumer is the consuming transaction if the Projection knows it, else empty.
	consumer ids.ID

	// packed caches the packed ID text, body the packed body.
	packed, body []byte
	// place caches the positions in lists.
	place *place
}

// place is the output's position in lists. It is needed when the output is created and when it is consumed.
type place struct {
	account accountID
	// owned are the output's rows in the lists of its owners.
	owned []store.PK
}

// placed returns nil if the output has no owners.
func (o *Output) placed(networkID uint32) *place {
	if o.place == nil {
		a, g, ok := accountOf(o.ChainID, &o.Output)
		if !ok {
			return nil
		}
		o.place = &place{account: a.id(networkID), owned: o.ownedRows(networkID, &g)}
	}
	return o.place
}

func (o *Output) packedID() []byte {
	if o.packed == nil {
		o.packed = packID(o.ID)
	}
	return o.packed
}

// StakedAt reports whether the output is part of a current or pending stake at a time. After the stake it is an
// ordinary output.
func (o *Output) StakedAt(t time.Time) bool { return o.Role == chain.Stake && t.Before(o.StakeEnd) }

// ListAmount returns the amount by which lists sort and filter: 1 for outputs without an amount.
func (o *Output) ListAmount() uint64 {
	if o.Kind == chain.Transfer {
		return o.Amount
	}
	return 1
}

// IsBalance reports whether the output is part of a balance. Mint rights and properties are not.
func (o *Output) IsBalance() bool { return holdingOf(o.Kind) != rights }

// Clustering keys of an output's rows.
var (
	madeKey  = []byte{0}
	spentKey = []byte{1}
)

func outputRow(networkID uint32, id ids.ID, k []byte) store.PK {
	return store.PK{P: row.Network(networkID, id[:]), K: k}
}

// Flags of the parts of a body.
const (
	bodyLocktimes = 1 << iota
	bodyStake
	bodyNFT
	bodyAddresses // in the output's order, if unsorted
	bodyBytes     // if they do not follow from the rest
)

// packedBody encodes what the account and the list key do not contain.
func (o *Output) packedBody() []byte {
	if o.body == nil {
		body := row.Writer{B: make([]byte, 0, 64)}
		o.writeBody(&body)
		o.body = body.B
	}
	return o.body
}

func (o *Output) writeBody(w *row.Writer) {
	var flags byte
	if o.Locktime != 0 || o.StakeableLocktime != 0 {
		flags |= bodyLocktimes
	}
	if !o.StakeEnd.IsZero() {
		flags |= bodyStake
	}
	if o.GroupID != 0 || len(o.Payload) > 0 {
		flags |= bodyNFT
	}
	if g, ok := groupOf(o.Addresses, o.Threshold); !ok || !slices.Equal(g.addresses, o.Addresses) {
		flags |= bodyAddresses
	}
	if !bytes.Equal(o.Bytes, o.TransferBytes()) {
		flags |= bodyBytes
	}
	w.Byte(flags)
	w.Byte(byte(o.Kind))
	w.Byte(byte(o.Role))
	w.ID(o.TxID)
	w.Number(uint64(o.Index))
	w.Number(o.Amount)
	w.Number(o.Height)
	if flags&bodyLocktimes != 0 {
		w.Number(o.Locktime)
		w.Number(o.StakeableLocktime)
	}
	if flags&bodyStake != 0 {
		w.Time(o.StakeStart)
		w.Time(o.StakeEnd)
	}
	if flags&bodyNFT != 0 {
		w.Number(uint64(o.GroupID))
		w.Bytes(o.Payload)
	}
	if flags&bodyAddresses != 0 {
		w.Addresses(o.Addresses)
	}
	if flags&bodyBytes != 0 {
		w.Bytes(o.Bytes)
	}
}

// readBody requires ID, asset, chains and sorted owners to be set.
func (o *Output) readBody(r *row.Reader) {
	flags := r.Byte()
	if flags >= bodyBytes<<1 {
		r.Fail(fmt.Errorf("output with unknown flags %b", flags))
	}
	o.Kind, o.Role = chain.OutputKind(r.Byte()), chain.Role(r.Byte())
	o.TxID, o.Index, o.Amount, o.Height = r.ID(), r.Uint32(), r.Number(), r.Number()
	if flags&bodyLocktimes != 0 {
		o.Locktime, o.StakeableLocktime = r.Number(), r.Number()
	}
	if flags&bodyStake != 0 {
		o.StakeStart, o.StakeEnd = r.Time(), r.Time()
	}
	if flags&bodyNFT != 0 {
		o.GroupID, o.Payload = r.Uint32(), r.Bytes()
	}
	if flags&bodyAddresses != 0 {
		o.Addresses = r.Addresses()
	}
	if flags&bodyBytes != 0 {
		o.Bytes = r.Bytes()
	} else if r.Err() == nil {
		o.Bytes = o.TransferBytes()
	}
}

// bytes encodes the row of the output's creation.
func (o *Output) bytes() []byte {
	body := o.packedBody()
	w := row.New(2*chainSize(o.ChainID) + ids.IDLen + 16 + len(o.Addresses)*ids.ShortIDLen + len(body))
	w.ChainID(o.ChainID)
	w.Bool(o.ChainID == o.DestinationID)
	if o.ChainID != o.DestinationID {
		w.ChainID(o.DestinationID)
	}
	w.ID(o.AssetID)
	w.Time(o.Time)
	w.Number(uint64(o.Threshold))
	g, _ := groupOf(o.Addresses, o.Threshold)
	w.Addresses(g.addresses)
	w.B = append(w.B, body...)
	return w.B
}

// chainSize returns the maximum encoded size of a chain ID.
func chainSize(id ids.ID) int {
	if id == ids.Empty {
		return 1
	}
	return 1 + ids.IDLen
}

func parseOutput(id ids.ID, v []byte) (*Output, error) {
	r := row.Read(v)
	o := &Output{ChainID: r.ChainID()}
	o.ID, o.DestinationID = id, o.ChainID
	if !r.Bool() {
		o.DestinationID = r.ChainID()
	}
	o.AssetID, o.Time, o.Threshold, o.Addresses = r.ID(), r.Time(), r.Uint32(), r.Addresses()
	o.readBody(r)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("output %s: %w", id, err)
	}
	return o, nil
}

// spend is the consumption of an output.
type spend struct {
	chain.Spend
	// arrival reports that another chain created the output. Only then number and salt are set, for the Matcher: number
	// is the input's index in its block, salt the beginning of the block's ID.
	arrival bool
	number  uint32
	salt    uint64
}

// spendSize returns the approximate encoded size of a spend.
func spendSize(s *chain.Spend) int { return chainSize(s.ChainID) + ids.IDLen + 12 }

func appendSpend(w *row.Writer, s *chain.Spend) {
	w.ChainID(s.ChainID)
	w.ID(s.TxID)
	w.Number(s.Height)
	w.Time(s.Time)
}

func readSpend(r *row.Reader) chain.Spend {
	return chain.Spend{ChainID: r.ChainID(), TxID: r.ID(), Height: r.Number(), Time: r.Time()}
}

func (s *spend) bytes() []byte {
	w := row.New(spendSize(&s.Spend) + 16)
	appendSpend(&w, &s.Spend)
	if s.arrival {
		w.Number(uint64(s.number))
		w.B = binary.BigEndian.AppendUint64(w.B, s.salt)
	}
	return w.B
}

func parseSpend(v []byte) (s spend, err error) {
	r := row.Read(v)
	s.Spend = readSpend(r)
	if s.arrival = r.Len() > 0; s.arrival {
		s.number = r.Uint32()
		if salt := r.Take(8); salt != nil {
			s.salt = binary.BigEndian.Uint64(salt)
		}
	}
	return s, r.End()
}

// listed encodes the value of an account's list: the time first if ordered by amount, then the body, then the spend in
// lists of spent outputs.
func (o *Output) listed(byAmount bool, s *spend) []byte {
	if byAmount && s != nil { // most rows, rarely read
		w := row.New(8)
		w.Time(o.Time)
		return w.B
	}
	body := o.packedBody()
	size := 8 + len(body)
	if s != nil {
		size += spendSize(&s.Spend)
	}
	w := row.New(size)
	if byAmount {
		w.Time(o.Time)
	}
	w.B = append(w.B, body...)
	if s != nil {
		appendSpend(&w, &s.Spend)
	}
	return w.B
}

// parseListed parses a row of an account's list. complete reports whether the output has more than its ID.
func parseListed(a *account, g *group, k, v []byte, byAmount, spent bool) (o *Output, complete bool, err error) {
	n, id, err := parseKey(k)
	if err != nil {
		return nil, false, err
	}
	r := row.Read(v)
	o = &Output{ChainID: a.source, Time: row.Unix(n)}
	o.ID, o.DestinationID, o.AssetID = id, a.destination, a.assetID
	o.Threshold, o.Addresses = g.threshold, g.addresses
	if byAmount {
		o.Time = r.Time()
	}
	if complete = !byAmount || !spent; complete {
		o.readBody(r)
		if spent {
			s := readSpend(r)
			o.Spent = &s
		}
	}
	if err := r.End(); err != nil {
		return nil, false, fmt.Errorf("output %s: %w", id, err)
	}
	return o, complete, nil
}

// timeKey and amountKey return the output's keys in its account's lists. Lists are ordered by the text of IDs, not by
// their bytes.
func (o *Output) timeKey() []byte   { return row.Uint64(row.Seconds(o.Time), o.packedID()) }
func (o *Output) amountKey() []byte { return row.Uint64(o.ListAmount(), o.packedID()) }

func listKey(n uint64, id ids.ID) []byte { return row.Uint64(n, packID(id)) }

func parseKey(k []byte) (n uint64, id ids.ID, err error) {
	if len(k) > 8 {
		n = binary.BigEndian.Uint64(k)
	}
	if id, err = unpackID(k[min(8, len(k)):]); err != nil {
		return 0, ids.Empty, fmt.Errorf("%w: list key %x: %w", store.ErrCorrupt, k, err)
	}
	return n, id, nil
}
