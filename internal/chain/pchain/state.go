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

// ErrState means that rows do not form a State.
var ErrState = errors.New("invalid P-Chain decoder state")

// State is the context that decoding a block needs from earlier blocks: L1 validators with their balances, stakers with
// their potential rewards, and the supply. It needs a few hundred bytes for each validator or staker. It is not safe
// for concurrent use.
type State struct {
	// height and blockID identify the last block. blockID is empty before the genesis block.
	height  uint64
	blockID ids.ID
	// time is the chain's time.
	time time.Time
	// proposal is undecided until the next block.
	proposal *txs.Tx
	fees     *l1Fees
	stakers  *stakers

	headChanged bool

	// agreed reports that a node listed outputs of a reward as computed, and emptied that it did not list all computed
	// outputs of the last reward. doubts counts the retries for the reward that is being decided. None of
	// them is stored.
	agreed, emptied bool
	doubts          int
}

// NewState returns the state before the genesis block.
func NewState() *State {
	return &State{fees: newL1Fees(), stakers: newStakers()}
}

// Height returns the height of the last block in the state. It returns false before the genesis block.
func (s *State) Height() (uint64, bool) { return s.height, s.blockID != ids.Empty }

// Row is a stored part of a State. Keys have at most 33 bytes. A nil Value deletes the row.
type Row struct{ Key, Value []byte }

// First bytes of row keys.
const (
	rowHead    = 'h'
	rowAccount = 'l'
	rowStaker  = 's'
	rowSupply  = 'u'
)

// TakeChanges returns the rows that changed since the last call, in no particular order. If storing them fails, the
// state must be discarded and loaded again.
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

// headSize is the size of the head's row without a proposal.
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

// LoadState returns the state that stored rows form, or NewState if there are none. Errors wrap ErrState.
func LoadState(rows iter.Seq[Row]) (*State, error) {
	s := NewState()
	hasHead := false
	for row := range rows {
		if len(row.Key) == 0 {
			return nil, fmt.Errorf("%w: row without a key", ErrState)
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
		return fmt.Errorf("%w: head of %d bytes", ErrState, len(b))
	}
	seconds := binary.BigEndian.Uint64(b[8+ids.IDLen:])
	if seconds > math.MaxInt64 {
		return fmt.Errorf("%w: time %d is out of range", ErrState, seconds)
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
