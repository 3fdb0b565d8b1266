package evm

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/chain/evm"
	"quorate/internal/store"
)

// contractTransferSize is the length of the keys of FamilyEVMContractTransfer.
const contractTransferSize = placeSize + 4

// contractTransfer lists a transfer for its contract. The sender's lists have the rest.
func (a *application) contractTransfer(t *evm.Transfer, at place) {
	at.minor = t.LogIndex
	k := binary.BigEndian.AppendUint32(at.appendTo(a.reserve(contractTransferSize)), ^t.Position)
	v := a.kept(append(append(a.value(), byte(t.Standard)), t.From[:]...))
	a.batch.Add(store.FamilyEVMContractTransfer, store.PK{P: a.in(t.Contract[:]), K: k}, v)
}

// ContractTransfers lists the transfers of the token of a contract, which is the query's wallet, newest first. The list is
// empty if the contract follows no standard. It returns an OffError if AddressTransactions is off.
func (r *Index) ContractTransfers(ctx context.Context, q WalletQuery) (*TransferPage, error) {
	q.Limit = limitOf(q.Limit)
	return classified(ctx, r, func(s *state, c *classifier) (*TransferPage, error) { return s.contractTransfers(ctx, c, q) })
}

func (s *state) contractTransfers(ctx context.Context, c *classifier, q WalletQuery) (*TransferPage, error) {
	first, err := s.firstOf(ctx, AddressTransactions)
	if err != nil {
		return nil, err
	}
	p := &TransferPage{First: first}
	k, ok, err := s.rangeOf(&q, first, contractTransferSize, false)
	if err != nil || !ok {
		return p, err
	}
	if err := c.learn(1, func(int) common.Address { return q.Wallet }); err != nil {
		return nil, err
	}
	standard := c.standards[q.Wallet]
	if standard == evm.Unknown {
		return p, nil
	}
	var kept []store.Row
	for chunk, full := range chunks(q.Limit) {
		rows, err := s.Scan(ctx, store.FamilyEVMContractTransfer, s.chain.partition(q.Wallet[:]), k.lo, k.hi, k.dir, chunk)
		if err != nil {
			return nil, fmt.Errorf("reading the transfers of %s: %w", q.Wallet, err)
		}
		for _, row := range rows {
			if len(row.K) != contractTransferSize || len(row.V) != 2+common.AddressLength {
				return nil, fmt.Errorf("%w: transfer at %x", store.ErrCorrupt, row.K)
			}
			if evm.Standard(row.V[1]) == standard && len(kept) <= q.Limit {
				kept = append(kept, row)
			}
		}
		if len(rows) < chunk || len(kept) > q.Limit {
			break
		}
		last := rows[len(rows)-1].K
		if full {
			p.Next = last
			break
		}
		if !k.skip(last) {
			break
		}
	}
	if some, next := page(kept, q.Limit); next != nil {
		kept, p.Next = some, next
	}
	p.Transfers, err = s.sent(ctx, q.Wallet, standard, kept)
	return p, err
}

// sent reads the transfers of rows of FamilyEVMContractTransfer, all of one standard, from the lists of their senders.
func (s *state) sent(ctx context.Context, contract common.Address, standard evm.Standard, rows []store.Row) ([]TokenTransfer, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	family, kind := store.FamilyEVMTokenTransfer, []byte{transfersKind(standard)}
	if standard == evm.ERC1155 {
		family, kind = store.FamilyEVMTransfer, nil
	}
	keys, places := make([]store.PK, len(rows)), make([]place, len(rows))
	for i, row := range rows {
		at, _ := placeOf(row.K[:placeSize])
		if standard == evm.ERC1155 {
			at = place{number: at.number, major: at.minor, minor: ^binary.BigEndian.Uint32(row.K[placeSize:])}
		}
		places[i], keys[i] = at, store.PK{P: s.chain.partition(row.V[2:], kind), K: at.appendTo(nil)}
	}
	values, err := s.Get(ctx, family, keys)
	if err != nil {
		return nil, fmt.Errorf("reading %d transfers of %s: %w", len(keys), contract, err)
	}
	transfers, v := make([]TokenTransfer, len(rows)), new(reader)
	for i, at := range places {
		if values[i] == nil {
			return nil, fmt.Errorf("%w: no transfer of %s at %x", store.ErrCorrupt, contract, rows[i].K)
		}
		v.Begin(values[i])
		if standard == evm.ERC1155 {
			v.tokenTransfer(at, &transfers[i])
		} else {
			transfers[i].Transfer = v.transfer(at.minor, 0)
		}
		if err := v.End(); err != nil {
			return nil, err
		}
	}
	if standard == evm.ERC1155 {
		return transfers, nil
	}
	return transfers, s.locate(ctx, rows, transfers)
}
