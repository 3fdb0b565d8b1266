package pchainvm

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/database/linkeddb"
	"github.com/ava-labs/avalanchego/database/prefixdb"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/hashing"
	"github.com/ava-labs/avalanchego/vms/platformvm/block"
	"github.com/ava-labs/avalanchego/vms/platformvm/state"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs"
)

// The VM's database has sections, each with a prefix of its own (avalanchego, vms/platformvm/state). A State has all of
// them as they are, also those that this package does not know, with these exceptions:
//
//   - Blocks and their IDs by height: only the last block is needed to execute the next one.
//   - Transactions: only those of stakers, subnets, blockchains and transformations are needed.
//   - The index of outputs by address, which only methods read that are not offered here.
//   - Lists of stakers: the VM writes them in the order of Go's maps, which is random. They are linked in the order of
//     their keys instead.
//   - StakerEndTime in the metadata of validators that are not renewed: the VM does not read it there, and after a restart
//     writes 0 instead of the time.
//   - Two keys that say what the VM did to the database, not what the chain's state is.
//
// What remains is determined by the executed blocks.
var (
	blockSection        = prefixdb.MakePrefix(state.BlockPrefix)
	blockIDSection      = prefixdb.MakePrefix(state.BlockIDPrefix)
	txSection           = prefixdb.MakePrefix(state.TxPrefix)
	outputIndexSection  = section(state.UTXOPrefix, []byte("index"))
	singletonSection    = prefixdb.MakePrefix(state.SingletonPrefix)
	subnetSection       = prefixdb.MakePrefix(state.SubnetPrefix)
	transformedSection  = prefixdb.MakePrefix(state.TransformedSubnetPrefix)
	validatorSection    = section(state.ValidatorsPrefix, state.CurrentPrefix, state.ValidatorPrefix)
	subnetValidators    = section(state.ValidatorsPrefix, state.CurrentPrefix, state.SubnetValidatorPrefix)
	activeL1Section     = section(state.ValidatorsPrefix, state.L1Prefix, state.ActivePrefix)
	stakerLists         = stakerListSections()
	unneededSections    = sorted(blockSection, blockIDSection, txSection, outputIndexSection)
	unneededSingletons  = [][]byte{state.HeightsIndexedKey, state.BlocksReindexedKey}
	listHead, listEntry = byte(1), byte(0) // what keys of a list begin with (avalanchego, database/linkeddb)
)

const sectionSize = hashing.HashLen

// section returns the prefix of nested sections.
func section(names ...[]byte) []byte {
	prefix := prefixdb.MakePrefix(names[0])
	for _, name := range names[1:] {
		prefix = prefixdb.JoinPrefixes(prefix, name)
	}
	return prefix
}

func stakerListSections() (all [][]byte) {
	for _, when := range [][]byte{state.CurrentPrefix, state.PendingPrefix} {
		for _, who := range [][]byte{state.ValidatorPrefix, state.DelegatorPrefix, state.SubnetValidatorPrefix, state.SubnetDelegatorPrefix} {
			all = append(all, section(state.ValidatorsPrefix, when, who))
		}
	}
	return all
}

func sorted(all ...[]byte) [][]byte {
	slices.SortFunc(all, bytes.Compare)
	return all
}

// State is the chain's state after a block. Release it. A State uses the database that the Chain closes, so end its use
// before.
type State struct {
	// Height and BlockID are those of the last block whose changes are in the state. While the last executed block is a
	// proposal, that is its parent: the block that decides about the proposal makes the changes of both.
	Height  uint64
	BlockID ids.ID
	// Time is the chain's.
	Time time.Time

	db    database.Database
	last  []byte // block
	parts []part
}

// part iterates over the keys from one unneeded section to the next.
type part struct {
	database.Iterator
	end []byte // exclusive; nil if there is none
}

// State returns the present state. It does not change when more blocks are executed.
func (c *Chain) State(context.Context) (*State, error) {
	c.lock.Lock() // the VM writes while it holds the lock, so all parts are of the same time
	defer c.lock.Unlock()
	s := &State{db: c.db}
	singletons := prefixdb.NewNested(state.SingletonPrefix, c.db)
	var err error
	if s.BlockID, err = database.GetID(singletons, state.LastAcceptedKey); err == nil {
		s.last, err = c.db.Get(prefixdb.PrefixKey(blockSection, s.BlockID[:]))
	}
	if err == nil {
		var last block.Block
		if last, err = block.Parse(block.GenesisCodec, s.last); err == nil {
			s.Height = last.Height()
			s.Time, err = database.GetTimestamp(singletons, state.TimestampKey)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the last block of the P-Chain: %w", err)
	}
	s.Time = s.Time.UTC()
	var start []byte
	for _, skipped := range unneededSections {
		s.parts = append(s.parts, part{c.db.NewIteratorWithStart(start), skipped})
		start = next(skipped)
	}
	s.parts = append(s.parts, part{c.db.NewIteratorWithStart(start), nil})
	return s, nil
}

// next returns the first prefix after one of the same length.
func next(prefix []byte) []byte {
	prefix = slices.Clone(prefix)
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i]++; prefix[i] != 0 {
			break
		}
	}
	return prefix
}

// Release ends the use of the state.
func (s *State) Release() {
	for _, p := range s.parts {
		p.Release()
	}
	s.parts = nil
}

// Pairs calls put with each key of the state and its value, in an order that the state determines. The bytes are valid
// during the call. It can be called once.
func (s *State) Pairs(ctx context.Context, put func(key, value []byte) error) error {
	w := &stateWriter{State: s, put: put, needed: make(map[ids.ID]struct{}), chainLists: make(map[string]struct{})}
	if err := w.findChainLists(); err != nil {
		return err
	}
	for _, p := range s.parts {
		for n := 0; p.Next(); n++ {
			if p.end != nil && bytes.Compare(p.Key(), p.end) >= 0 {
				break
			}
			if n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := w.write(p.Key(), p.Value()); err != nil {
				return err
			}
		}
		if err := p.Error(); err != nil {
			return fmt.Errorf("reading the state of the P-Chain: %w", err)
		}
		if err := w.endList(); err != nil { // a list is in one part
			return err
		}
	}
	return w.writeObjects()
}

// stateWriter selects what belongs to a state.
type stateWriter struct {
	*State
	put func(key, value []byte) error
	// needed are the transactions that other entries refer to.
	needed     map[ids.ID]struct{}
	chainLists map[string]struct{} // sections
	list       *openList
}

// openList is a list that is being linked. The entry that was read last is written when the next one is known.
type openList struct {
	section            []byte
	first, before, key []byte
	value              []byte
}

// listNode is an entry of a list as the VM stores it (avalanchego, database/linkeddb).
type listNode struct {
	Value       []byte `serialize:"true"`
	HasNext     bool   `serialize:"true"`
	Next        []byte `serialize:"true"`
	HasPrevious bool   `serialize:"true"`
	Previous    []byte `serialize:"true"`
}

// findChainLists finds the sections that list the blockchains of each subnet.
func (w *stateWriter) findChainLists() error {
	chains := prefixdb.MakePrefix(state.ChainPrefix)
	w.chainLists[string(prefixdb.JoinPrefixes(chains, constants.PrimaryNetworkID[:]))] = struct{}{}
	it := w.db.NewIteratorWithPrefix(slices.Concat(subnetSection, []byte{listEntry}))
	defer it.Release()
	for it.Next() {
		w.chainLists[string(prefixdb.JoinPrefixes(chains, it.Key()[sectionSize+1:]))] = struct{}{}
	}
	return it.Error()
}

// write writes one pair of the database, or what a State has instead.
func (w *stateWriter) write(key, value []byte) error {
	if len(key) <= sectionSize {
		return w.put(key, value) // not the VM's as it is known here
	}
	section, rest := key[:sectionSize], key[sectionSize:]
	if slices.ContainsFunc(stakerLists, func(l []byte) bool { return bytes.Equal(l, section) }) {
		return w.writeStaker(section, rest, value)
	}
	if err := w.endList(); err != nil {
		return err
	}
	switch _, chainList := w.chainLists[string(section)]; {
	case bytes.Equal(section, singletonSection) && slices.ContainsFunc(unneededSingletons, func(k []byte) bool { return bytes.Equal(k, rest) }):
		return nil
	case (chainList || bytes.Equal(section, subnetSection)) && rest[0] == listEntry:
		w.need(rest[1:])
	case bytes.Equal(section, transformedSection):
		w.need(value)
	}
	return w.put(key, value)
}

// need notes that the transaction with an ID is part of the state.
func (w *stateWriter) need(txID []byte) {
	if id, err := ids.ToID(txID); err == nil {
		w.needed[id] = struct{}{}
	}
}

// writeStaker writes an entry of a list of stakers.
func (w *stateWriter) writeStaker(section, rest, value []byte) error {
	if w.list != nil && !bytes.Equal(w.list.section, section) {
		if err := w.endList(); err != nil {
			return err
		}
	}
	if rest[0] != listEntry {
		return nil // the head
	}
	var node listNode
	if _, err := linkeddb.Codec.Unmarshal(value, &node); err != nil {
		return fmt.Errorf("reading a staker of the P-Chain: %w", err)
	}
	txID := slices.Clone(rest[1:])
	w.need(txID)
	if bytes.Equal(section, validatorSection) || bytes.Equal(section, subnetValidators) {
		var err error
		if node.Value, err = w.canonical(txID, node.Value); err != nil {
			return err
		}
	}
	if w.list == nil {
		w.list = &openList{section: slices.Clone(section), first: txID}
	} else {
		if err := w.writeEntry(txID); err != nil {
			return err
		}
		w.list.before = w.list.key
	}
	w.list.key, w.list.value = txID, slices.Clone(node.Value)
	return nil
}

// writeEntry writes the last entry of the open list, which another follows unless that is nil.
func (w *stateWriter) writeEntry(next []byte) error {
	l := w.list
	node, err := linkeddb.Codec.Marshal(linkeddb.CodecVersion, &listNode{
		Value: l.value, HasNext: next != nil, Next: next, HasPrevious: l.before != nil, Previous: l.before,
	})
	if err != nil {
		return fmt.Errorf("writing a staker of the P-Chain: %w", err)
	}
	return w.put(slices.Concat(l.section, []byte{listEntry}, l.key), node)
}

// endList writes the end of the list that is open, if one is.
func (w *stateWriter) endList() error {
	if w.list == nil {
		return nil
	}
	err := w.writeEntry(nil)
	if err == nil {
		err = w.put(append(slices.Clone(w.list.section), listHead), w.list.first)
	}
	w.list = nil
	return err
}

// validatorMetadata is what the VM stores of a current validator (avalanchego, vms/platformvm/state).
type validatorMetadata struct {
	UpDuration               time.Duration `v0:"true"`
	LastUpdated              uint64        `v0:"true"`
	PotentialReward          uint64        `v0:"true"`
	PotentialDelegateeReward uint64        `v0:"true"`
	StakerStartTime          uint64        `          v1:"true"`
	AccruedValidationRewards uint64        `                    v2:"true"`
	AccruedDelegateeRewards  uint64        `                    v2:"true"`
	AutoCompoundRewardShares uint32        `                    v2:"true"`
	NextPeriod               uint64        `                    v2:"true"`
	StakerEndTime            uint64        `                    v2:"true"`
}

// withEndTime is the version of validatorMetadata that has StakerEndTime.
const withEndTime = 2

// canonical returns the metadata of a validator without what depends on restarts.
func (w *stateWriter) canonical(txID, metadata []byte) ([]byte, error) {
	var m validatorMetadata
	if len(metadata) < 2 || metadata[0] != 0 || metadata[1] != withEndTime {
		return metadata, nil
	}
	if _, err := state.MetadataCodec.Unmarshal(metadata, &m); err != nil {
		return nil, fmt.Errorf("reading a validator of the P-Chain: %w", err)
	}
	tx, err := w.tx(txID)
	if err != nil {
		return nil, err
	}
	if _, renewed := tx.Unsigned.(*txs.AddAutoRenewedValidatorTx); renewed {
		return metadata, nil
	}
	m.StakerEndTime = 0
	return state.MetadataCodec.Marshal(withEndTime, &m)
}

// storedTx is a transaction as the VM stores it.
type storedTx struct {
	Tx     []byte        `serialize:"true"`
	Status status.Status `serialize:"true"`
}

func (w *stateWriter) tx(id []byte) (*txs.Tx, error) {
	b, err := w.db.Get(prefixdb.PrefixKey(txSection, id))
	var stored storedTx
	if err == nil {
		_, err = txs.GenesisCodec.Unmarshal(b, &stored)
	}
	var tx *txs.Tx
	if err == nil {
		tx, err = txs.Parse(txs.GenesisCodec, stored.Tx)
	}
	if err != nil {
		return nil, fmt.Errorf("reading transaction %x of the P-Chain: %w", id, err)
	}
	return tx, nil
}

// writeObjects writes the transactions that are needed, and the last block. They do not change once they are stored.
func (w *stateWriter) writeObjects() error {
	all := make([]ids.ID, 0, len(w.needed))
	for id := range w.needed {
		all = append(all, id)
	}
	slices.SortFunc(all, ids.ID.Compare)
	for _, id := range all {
		key := prefixdb.PrefixKey(txSection, id[:])
		b, err := w.db.Get(key)
		if err != nil {
			return fmt.Errorf("reading transaction %s of the P-Chain: %w", id, err)
		}
		if err := w.put(key, b); err != nil {
			return err
		}
	}
	if err := w.put(prefixdb.PrefixKey(blockIDSection, database.PackUInt64(w.Height)), w.BlockID[:]); err != nil {
		return err
	}
	return w.put(prefixdb.PrefixKey(blockSection, w.BlockID[:]), w.last)
}

// Census counts what a state has.
type Census struct {
	// Validators are the current ones of the primary network, SubnetValidators those of all subnets that are no L1s, and
	// ActiveL1 the L1 validators that pay for their activity.
	Validators, SubnetValidators, ActiveL1 int
}

// Count counts a key of a state.
func (c *Census) Count(key []byte) {
	switch {
	case len(key) <= sectionSize:
	case bytes.HasPrefix(key, validatorSection) && key[sectionSize] == listEntry:
		c.Validators++
	case bytes.HasPrefix(key, subnetValidators) && key[sectionSize] == listEntry:
		c.SubnetValidators++
	case bytes.HasPrefix(key, activeL1Section):
		c.ActiveL1++
	}
}
