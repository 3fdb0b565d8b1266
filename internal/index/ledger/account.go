package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ava-labs/avalanchego/ids"

	chain "quorate/internal/chain/ledger"
	"quorate/internal/index/internal/row"
	"quorate/internal/store"
)

// holding is a kind of balance.
type holding uint8

const (
	amounts  holding = iota // an amount of an asset
	tokens                  // NFTs, counted as 1 each
	rights                  // mint rights and properties, which are not part of a balance
	holdings                // the number of kinds
)

func holdingOf(kind chain.OutputKind) holding {
	switch kind {
	case chain.Transfer:
		return amounts
	case chain.NFTTransfer:
		return tokens
	default:
		return rights
	}
}

// groupID identifies a set of owners and its threshold: a single address, or the hash of addresses and threshold.
type groupID [1 + ids.ShortIDLen]byte

const (
	groupSingle = iota
	groupSeveral
)

func singleGroup(address ids.ShortID) (id groupID) {
	id[0] = groupSingle
	copy(id[1:], address[:])
	return id
}

// group is the owners of outputs. Addresses are sorted and unique.
type group struct {
	id        groupID
	threshold uint32
	addresses []ids.ShortID
}

// groupOf returns the owners, or false for outputs without owners.
func groupOf(addresses []ids.ShortID, threshold uint32) (group, bool) {
	if len(addresses) == 0 {
		return group{}, false
	}
	g := group{threshold: threshold, addresses: addresses}
	if len(addresses) == 1 && threshold == 1 {
		g.id = singleGroup(addresses[0])
		return g, true
	}
	if !slices.IsSortedFunc(addresses, ids.ShortID.Compare) {
		g.addresses = slices.Clone(addresses)
		slices.SortFunc(g.addresses, ids.ShortID.Compare)
	}
	g.addresses = slices.Compact(g.addresses)
	w := row.Writer{}
	w.Number(uint64(threshold))
	w.Addresses(g.addresses)
	digest := sha256.Sum256(w.B)
	g.id[0] = groupSeveral
	copy(g.id[1:], digest[:])
	return g, true
}

func (g *group) bytes() []byte {
	w := row.New(8 + len(g.addresses)*ids.ShortIDLen)
	w.Number(uint64(g.threshold))
	w.Addresses(g.addresses)
	return w.B
}

func parseGroup(id groupID, v []byte) (group, error) {
	r := row.Read(v)
	g := group{id: id, threshold: r.Uint32(), addresses: r.Addresses()}
	return g, r.End()
}

// owns reports whether at least threshold of the owners, and at least one, are in addresses.
func (g *group) owns(addresses map[ids.ShortID]struct{}) bool {
	n := uint32(0)
	for _, a := range g.addresses {
		if _, ok := addresses[a]; ok {
			n++
		}
	}
	return n > 0 && n >= g.threshold
}

// account is what one group of owners holds of one asset in one place: on a chain, or between two chains. Each output
// belongs to one account.
type account struct {
	source, destination ids.ID
	group               groupID
	assetID             ids.ID
	holding             holding
}

// accountID identifies an account in keys.
type accountID [20]byte

// atomic reports whether the account is between two chains.
func (a *account) atomic() bool { return a.source != a.destination }

func (a *account) id(networkID uint32) (id accountID) {
	var b [4 + 3*ids.IDLen + len(groupID{}) + 1]byte
	binary.BigEndian.PutUint32(b[:], networkID)
	n := 4 + copy(b[4:], a.source[:])
	n += copy(b[n:], a.destination[:])
	n += copy(b[n:], a.group[:])
	n += copy(b[n:], a.assetID[:])
	b[n] = byte(a.holding)
	digest := sha256.Sum256(b[:])
	copy(id[:], digest[:])
	return id
}

// accountList returns the key of the list of a group's accounts on a chain. The key is a hash to be short.
func accountList(networkID uint32, chainID ids.ID, g groupID) []byte {
	var b [4 + ids.IDLen + len(groupID{})]byte
	binary.BigEndian.PutUint32(b[:], networkID)
	copy(b[4:], chainID[:])
	copy(b[4+ids.IDLen:], g[:])
	digest := sha256.Sum256(b[:])
	return bytes.Clone(digest[:len(accountID{})])
}

// Relations of an account to the chain of its list.
const (
	relationOwn = iota
	relationExport
	relationImport
)

// listKey returns the account's key in the list of its source or destination chain.
func (a *account) listKey(chainID ids.ID) []byte {
	k := make([]byte, 0, 2+2*ids.IDLen)
	switch {
	case !a.atomic():
		k = append(k, relationOwn)
	case a.source == chainID:
		k = append(append(k, relationExport), a.destination[:]...)
	default:
		k = append(append(k, relationImport), a.source[:]...)
	}
	k = append(k, a.assetID[:]...)
	return append(k, byte(a.holding))
}

func parseListKey(chainID ids.ID, g groupID, k []byte) (account, error) {
	a := account{source: chainID, destination: chainID, group: g}
	if want := 2 + ids.IDLen; len(k) > 0 && k[0] != relationOwn {
		if len(k) != want+ids.IDLen || k[0] > relationImport {
			return account{}, fmt.Errorf("%w: account at a key of %d bytes", store.ErrCorrupt, len(k))
		}
		other := ids.ID(k[1:][:ids.IDLen])
		if k[0] == relationExport {
			a.destination = other
		} else {
			a.source = other
		}
		k = k[ids.IDLen:]
	} else if len(k) != want {
		return account{}, fmt.Errorf("%w: account at a key of %d bytes", store.ErrCorrupt, len(k))
	}
	a.assetID = ids.ID(k[1:][:ids.IDLen])
	a.holding = holding(k[len(k)-1])
	if a.holding >= holdings {
		return account{}, fmt.Errorf("%w: account of holding %d", store.ErrCorrupt, a.holding)
	}
	return a, nil
}

// accountOf returns the account and the owners of an output that chainID created. It returns false if the output has no
// owners.
func accountOf(chainID ids.ID, o *chain.Output) (account, group, bool) {
	g, ok := groupOf(o.Addresses, o.Threshold)
	return account{
		source: chainID, destination: o.DestinationID,
		group: g.id, assetID: o.AssetID, holding: holdingOf(o.Kind),
	}, g, ok
}

// paths calls put with the rows that lead from owners to their account, on each chain of the account.
func (a *account) paths(networkID uint32, g *group, put func(store.Family, store.PK, []byte)) {
	for _, chainID := range []ids.ID{a.source, a.destination} {
		put(store.FamilyAccount, store.PK{P: accountList(networkID, chainID, a.group), K: a.listKey(chainID)}, nil)
		if g.id[0] == groupSeveral {
			whole := g.bytes()
			value := whole
			if len(g.addresses) > manyOwners {
				value = nil
			}
			for _, address := range g.addresses {
				put(store.FamilyOwners, ownersRow(networkID, chainID, address, g.id[:]), value)
			}
			if value == nil {
				put(store.FamilyOwners, groupRow(networkID, chainID, g.id), whole)
			}
		}
		if !a.atomic() {
			return
		}
	}
}

func ownersRow(networkID uint32, chainID ids.ID, address ids.ShortID, k []byte) store.PK {
	return store.PK{P: row.Network(networkID, chainID[:], address[:]), K: k}
}

// groupRow returns the row of a group with many owners.
func groupRow(networkID uint32, chainID ids.ID, id groupID) store.PK {
	return store.PK{P: row.Network(networkID, chainID[:]), K: id[:]}
}
