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

// Output is an output as it is recorded.
type Output struct {
	chain.Output
	// ChainID is the blockchain that made it, in the block of Height at Time: for a
	// reward the one that committed it. What a Record returns has the number of the
	// block there, 0 for what was made before the chain had blocks.
	ChainID ids.ID
	Height  uint64
	Time    time.Time
	// StakeStart and StakeEnd are the staking period of a stake output, and zero for
	// others.
	StakeStart, StakeEnd time.Time
	// Spent is nil as long as it is not consumed.
	Spent *chain.Spend
	// consumer is the transaction that consumed it, as its Tenant knows; empty if none has.
	consumer ids.ID

	// packed is the ID's text once it was needed, body what lists have of it.
	packed, body []byte
	// place is where it is listed, once that was needed.
	place *place
}

// place is where an output is listed: whoever records it needs to know when it is made
// and when it is consumed.
type place struct {
	account accountID
	// owned are its rows in the lists of its owners.
	owned []store.PK
}

// placed returns nil if nobody owns the output.
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

// StakedAt reports whether the output is part of a stake at a time, current or
// pending. Afterwards it is an ordinary output.
func (o *Output) StakedAt(t time.Time) bool { return o.Role == chain.Stake && t.Before(o.StakeEnd) }

// ListAmount is what lists sort and filter by: 1 for outputs without an amount.
func (o *Output) ListAmount() uint64 {
	if o.Kind == chain.Transfer {
		return o.Amount
	}
	return 1
}

// IsBalance reports whether the output is part of a balance, which rights to make more
// of something, and properties, are not.
func (o *Output) IsBalance() bool { return holdingOf(o.Kind) != rights }

// The clustering keys of an output's rows.
var (
	madeKey  = []byte{0}
	spentKey = []byte{1}
)

func outputRow(networkID uint32, id ids.ID, k []byte) store.PK {
	return store.PK{P: row.Network(networkID, id[:]), K: k}
}

// Which of its parts a body has.
const (
	bodyLocktimes = 1 << iota
	bodyStake
	bodyNFT
	bodyAddresses // as in the output, because they are not sorted
	bodyBytes     // that do not follow from the rest
)

// packedBody is what is not known from the account and the key of a list.
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

// readBody needs the ID, asset, chains and sorted owners to be set.
func (o *Output) readBody(r *row.Reader) {
	flags := r.Byte()
	if flags >= bodyBytes<<1 {
		r.Fail(fmt.Errorf("output with parts %b", flags))
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

// bytes is the row of what made the output.
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

// chainSize is how many bytes a chain's ID takes in a value, at most.
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
	// arrival says that another chain made the output. Only then are there number, the
	// input's in its block, and salt, the beginning of the block's ID: for the Matcher.
	arrival bool
	number  uint32
	salt    uint64
}

// spendSize is about how many bytes a spend takes.
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

// listed is the value of the lists of an account: by amount the time comes first;
// then the body, and the spend in those of spent ones.
func (o *Output) listed(byAmount bool, s *spend) []byte {
	if byAmount && s != nil { // most rows in the end, and seldom read
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

// parseListed is the output of an account that stands at a key of a list; complete
// says whether it has more than its ID.
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

// timeKey and amountKey are where an output stands in the lists of its account.
// Lists are in the order of IDs as text, which is not that of their bytes.
func (o *Output) timeKey() []byte   { return row.Uint64(row.Seconds(o.Time), o.packedID()) }
func (o *Output) amountKey() []byte { return row.Uint64(o.ListAmount(), o.packedID()) }

func listKey(n uint64, id ids.ID) []byte { return row.Uint64(n, packID(id)) }

func parseKey(k []byte) (n uint64, id ids.ID, err error) {
	if len(k) > 8 {
		n = binary.BigEndian.Uint64(k)
	}
	if id, err = unpackID(k[min(8, len(k)):]); err != nil {
		return 0, ids.Empty, fmt.Errorf("%w: list with key %x: %w", store.ErrCorrupt, k, err)
	}
	return n, id, nil
}
