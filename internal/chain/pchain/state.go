package pchain

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/components/gas"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
)

// ErrState says that rows are not those of a State.
var ErrState = errors.New("not the state of a reader of the P-Chain")

// State is what a block's meaning depends on besides its bytes: what the blocks
// before it left open: L1 validators and their balances, stakers and their potential
// rewards, the supply. It has a few hundred bytes for each of these. It belongs to one
// goroutine.
type State struct {
	// height and blockID are those of the last block; blockID is empty before the
	// genesis block.
	height  uint64
	blockID ids.ID
	// time is the chain's.
	time time.Time
	// proposal waits for the block that follows.
	proposal *txs.Tx
	fees     *l1Fees
	stakers  *stakers

	headChanged bool

	// differed says that a node listed outputs of a reward that do not follow from the
	// supply, doubts how often it listed none for the reward that is being decided. They
	// are not stored.
	differed bool
	doubts   int
}

// NewState is the state before the genesis block.
func NewState() *State {
	return &State{fees: newL1Fees(), stakers: newStakers()}
}

// Height is that of the last block that the state includes; false before the
// genesis block.
func (s *State) Height() (uint64, bool) { return s.height, s.blockID != ids.Empty }

// Row is a part of a State. Keys are at most 33 bytes; a nil Value says that the
// row is no more.
type Row struct{ Key, Value []byte }

// The keys of rows begin with one of these.
const (
	rowHead    = 'h'
	rowAccount = 'l'
	rowStaker  = 's'
	rowSupply  = 'u'
)

// TakeChanges returns the rows that changed since it was called last, in no
// particular order. If they are not kept after all, the state is of no more use:
// load what was kept.
func (s *State) TakeChanges() []Row {
	var rows []Row
	if s.headChanged {
		rows = append(rows, Row{[]byte{rowHead}, s.head()})
	}
	for id := range s.fees.changed {
		row := Row{Key: append([]byte{rowAccount}, id[:]...)}
		if a, ok := s.fees.accounts[id]; ok {
			row.Value = binary.BigEndian.AppendUint64(nil, a.ends)
			row.Value = binary.BigEndian.AppendUint32(row.Value, a.owner.Threshold)
			for _, address := range a.owner.Addresses {
				row.Value = append(row.Value, address[:]...)
			}
		}
		rows = append(rows, row)
	}
	s.headChanged = false
	clear(s.fees.changed)
	return append(rows, s.stakers.takeChanges()...)
}

// headSize is that of the head's row without a proposal.
const headSize = 8 + ids.IDLen + 8 + 8 + 8

func (s *State) head() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, headSize), s.height)
	b = append(b, s.blockID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.time.Unix()))
	b = binary.BigEndian.AppendUint64(b, uint64(s.fees.excess))
	b = binary.BigEndian.AppendUint64(b, s.fees.accrued)
	if s.proposal != nil {
		b = append(b, s.proposal.Bytes()...)
	}
	return b
}

// LoadState is the state that the rows kept so far make, NewState if there are
// none. Errors are ErrState.
func LoadState(rows iter.Seq[Row]) (*State, error) {
	s := NewState()
	hasHead := false
	for row := range rows {
		if len(row.Key) == 0 {
			return nil, fmt.Errorf("%w: a row without a key", ErrState)
		}
		if row.Key[0] == rowHead {
			hasHead = true
			if err := s.readHead(row.Value); err != nil {
				return nil, err
			}
			continue
		}
		id, err := ids.ToID(row.Key[1:])
		if err != nil {
			return nil, fmt.Errorf("%w: key %x", ErrState, row.Key)
		}
		v := row.Value
		switch {
		case row.Key[0] == rowAccount && len(v) >= 12 && (len(v)-12)%ids.ShortIDLen == 0:
			a := &l1Account{ends: binary.BigEndian.Uint64(v), owner: message.PChainOwner{Threshold: binary.BigEndian.Uint32(v[8:])}}
			for address := range slices.Chunk(v[12:], ids.ShortIDLen) {
				a.owner.Addresses = append(a.owner.Addresses, ids.ShortID(address))
			}
			s.fees.accounts[id] = a
			if a.ends != 0 {
				s.fees.active++
				s.fees.soonest = min(s.fees.soonest, a.ends)
			}
		case row.Key[0] == rowStaker || row.Key[0] == rowSupply:
			if err := s.stakers.load(row.Key[0], id, v); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%w: row %x", ErrState, row.Key)
		}
	}
	if !hasHead && len(s.fees.accounts)+len(s.stakers.all)+len(s.stakers.supplies) > 0 {
		return nil, fmt.Errorf("%w: the head is missing", ErrState)
	}
	return s, nil
}

func (s *State) readHead(b []byte) error {
	if len(b) < headSize {
		return fmt.Errorf("%w: a head of %d bytes", ErrState, len(b))
	}
	seconds := binary.BigEndian.Uint64(b[8+ids.IDLen:])
	if seconds > math.MaxInt64 {
		return fmt.Errorf("%w: time %d", ErrState, seconds)
	}
	s.height = binary.BigEndian.Uint64(b)
	s.blockID = ids.ID(b[8 : 8+ids.IDLen])
	s.time = time.Unix(int64(seconds), 0).UTC()
	s.fees.excess = gas.Gas(binary.BigEndian.Uint64(b[16+ids.IDLen:]))
	s.fees.accrued = binary.BigEndian.Uint64(b[24+ids.IDLen:])
	if len(b) > headSize {
		proposal, err := txs.Parse(txs.Codec, b[headSize:])
		if err != nil {
			return fmt.Errorf("%w: proposal: %w", ErrState, err)
		}
		s.proposal = proposal
	}
	return nil
}
