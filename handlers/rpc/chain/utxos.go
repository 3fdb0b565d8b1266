package chain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/components/avax"

	"quorate/handlers/rpc"
	"quorate/internal/index/ledger"
	"quorate/internal/node"
)

const (
	// MaxAddresses and maxPage are a node's limits.
	MaxAddresses = 1024
	maxPage      = 1024
	// maxBalance is the maximum number of outputs added up for a balance. For more, upstream nodes are asked.
	maxBalance = 100_000
	// atATime is the number of outputs that are read before their memory is accounted for.
	atATime = 128
	// copies is the memory for an output until it is sent, as a multiple of its bytes: the bytes, their hex, and JSON in a
	// growing buffer.
	copies = 8
	// freeBytes is the memory of outputs that clients are not charged for.
	freeBytes = 64 << 10
)

var (
	errNoAddresses = errors.New("no addresses provided")
	// errEncoding is a node's error for JSON where it is not supported.
	errEncoding = errors.New("unsupported encoding in method")
)

// UTXOs answers getUTXOs. It sorts the UTXOs of each address by ID, so that pages stay contiguous while UTXOs are
// spent.
func (c *Chain) UTXOs(ctx context.Context, args *api.GetUTXOsArgs, reply *api.GetUTXOsReply) error {
	switch n := len(args.Addresses); {
	case n == 0:
		return errNoAddresses
	case n > MaxAddresses:
		return fmt.Errorf("number of addresses given, %d, exceeds maximum, %d", n, MaxAddresses)
	}
	source := c.ID
	if args.SourceChain != "" {
		var err error
		if source, err = c.Aliases.Lookup(args.SourceChain); err != nil {
			return fmt.Errorf("problem parsing source chainID %q: %w", args.SourceChain, err)
		}
	}
	addresses, err := c.parseAddresses(args.Addresses)
	if err != nil {
		return err
	}
	var last ids.ShortID
	var after ids.ID
	if start := args.StartIndex; start.Address != "" || start.UTXO != "" {
		if last, err = avax.ParseServiceAddress(c.Addresses, start.Address); err != nil {
			return fmt.Errorf("couldn't parse start index address %q: %w", start.Address, err)
		}
		if after, err = ids.FromString(start.UTXO); err != nil {
			return fmt.Errorf("couldn't parse start index utxo: %w", err)
		}
	}
	if source != c.ID {
		if indexed := c.Sources[source]; indexed == nil || !indexed() {
			return rpc.ErrForward
		}
	}
	limit := int(args.Limit)
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	found, last, after, err := c.page(ctx, source, addresses, last, after, limit)
	if err != nil {
		return err
	}
	if args.Encoding == formatting.JSON && len(found) > 0 {
		return &UTXOError{found[0].ID}
	}
	address, err := c.Addresses.FormatLocalAddress(last)
	if err != nil {
		return fmt.Errorf("problem formatting address: %w", err)
	}
	reply.NumFetched, reply.UTXOs = avajson.Uint64(len(found)), make([]string, len(found))
	for i := range found {
		if reply.UTXOs[i], err = formatting.Encode(args.Encoding, found[i].Bytes); err != nil {
			return err
		}
	}
	reply.EndIndex, reply.Encoding = api.Index{Address: address, UTXO: after.String()}, args.Encoding
	return nil
}

// parseAddresses parses as avax.ParseServiceAddresses does. Texts with a separator are parsed only as addresses with a
// chain prefix.
func (c *Chain) parseAddresses(texts []string) (set.Set[ids.ShortID], error) {
	addresses := set.NewSet[ids.ShortID](len(texts))
	for _, text := range texts {
		if !strings.Contains(text, "-") {
			address, err := avax.ParseServiceAddress(c.Addresses, text)
			if err != nil {
				return nil, err
			}
			addresses.Add(address)
			continue
		}
		address, err := c.Addresses.ParseLocalAddress(text)
		if err != nil {
			return nil, fmt.Errorf("couldn't parse address %q: %w", text, err)
		}
		addresses.Add(address)
	}
	return addresses, nil
}

// UTXOError reports that a UTXO cannot be encoded as JSON.
type UTXOError struct{ ID ids.ID }

// Error returns the text of the X-Chain's service.
func (e *UTXOError) Error() string {
	return fmt.Sprintf("couldn't encode UTXO %s as string: %s", e.ID, errEncoding)
}

// page returns a page of UTXOs of addresses, starting at address last after UTXO ID. It also returns where the page
// ends. Errors: rpc.ErrForward, or rpc.ErrBusy if there is no memory for the outputs.
func (c *Chain) page(ctx context.Context, source ids.ID, addresses set.Set[ids.ShortID], last ids.ShortID, after ids.ID, limit int) ([]ledger.Owned, ids.ShortID, ids.ID, error) {
	sorted := addresses.List()
	slices.SortFunc(sorted, ids.ShortID.Compare)
	var all []ledger.Owned
	var seen set.Set[ids.ID]
	held := int64(-freeBytes)
	for _, address := range sorted {
		order := bytes.Compare(address[:], last[:])
		if order < 0 {
			continue
		}
		q := ledger.OwnedQuery{ChainID: c.ID, SourceID: source, Address: address}
		if order == 0 {
			q.After = after
		}
		last = address
		for {
			q.Limit = min(limit-len(all), atATime)
			found, err := c.Ledger.Owned(ctx, q)
			if err != nil {
				return nil, last, after, c.Failed(ctx, err)
			}
			for i := range found {
				held += int64(copies * len(found[i].Bytes))
			}
			if held > 0 {
				if err := node.Take(ctx, held); err != nil {
					return nil, last, after, rpc.ErrBusy
				}
				held = 0
			}
			if len(found) > 0 {
				after = found[len(found)-1].ID
			}
			for i := range found {
				if len(sorted) > 1 {
					if seen.Contains(found[i].ID) {
						continue
					}
					seen.Add(found[i].ID)
				}
				all = append(all, found[i])
			}
			if len(all) >= limit {
				return all, last, after, nil
			}
			if len(found) < q.Limit {
				break
			}
			q.After = after
		}
	}
	return all, last, after, nil
}

// Owned calls f once for each UTXO that lists one of the addresses as an owner. The error is rpc.ErrForward if there
// are too many.
func (c *Chain) Owned(ctx context.Context, addresses set.Set[ids.ShortID], f func(one *ledger.Owned) error) error {
	sorted := addresses.List()
	slices.SortFunc(sorted, ids.ShortID.Compare)
	var seen set.Set[ids.ID]
	n := 0
	for _, address := range sorted {
		q := ledger.OwnedQuery{ChainID: c.ID, SourceID: c.ID, Address: address, Limit: maxPage}
		for {
			found, err := c.Ledger.Owned(ctx, q)
			if err != nil {
				return c.Failed(ctx, err)
			}
			for i := range found {
				if len(sorted) > 1 {
					if seen.Contains(found[i].ID) {
						continue
					}
					seen.Add(found[i].ID)
				}
				if err := f(&found[i]); err != nil {
					return err
				}
			}
			if n += len(found); n >= maxBalance {
				return rpc.ErrForward
			}
			if len(found) < q.Limit {
				break
			}
			q.After = found[len(found)-1].ID
		}
	}
	return nil
}
