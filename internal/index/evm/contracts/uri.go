package contracts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/node"
	"quorate/internal/store"
)

type tokenKey struct {
	standard chain.Standard
	contract common.Address
	id       uint256.Int
}

// uri is a contract's URI for a token.
type uri struct {
	text string
	// missing reports that the contract has no such token.
	missing bool
	asked   time.Time
}

// fresh returns the time after which the URI is requested again.
func (u *uri) fresh() time.Duration {
	if u.missing {
		return missingFor
	}
	return fresh
}

const (
	// maxURI is the maximum length of a URI in bytes. URIs that embed the document are long.
	maxURI = 1 << 20
	// uriGas is the gas limit of a URI call. Contracts that compose the document with its image use millions.
	uriGas = 10_000_000
	// missingFor is how long the result "no such token" is cached. The node may lag behind the index, which has the token.
	missingFor = time.Minute
	// maxKeptURI is the maximum length of a stored URI; longer ones are fetched each time.
	maxKeptURI = 8 << 10
)

// The first four bytes of the Keccak-256 of the signatures.
var (
	tokenURIMethod = []byte{0xc8, 0x7b, 0x56, 0xdd} // tokenURI(uint256), ERC-721
	uriMethod      = []byte{0x0e, 0x89, 0x34, 0x1c} // uri(uint256), ERC-1155
)

// Token identifies a token of a contract and its standard.
type Token struct {
	Standard chain.Standard
	Contract common.Address
	ID       uint256.Int
}

// TokenURIs returns the URI that each token's contract reports. It is empty if the contract reports none, has no such
// token, or follows a standard without URIs. It is nil if the URI of that token is unknown. TokenURIs returns an error
// of package node or of the store if no URI could be fetched.
func (b *Book) TokenURIs(ctx context.Context, tokens []Token) ([]*string, error) {
	texts := make([]*string, len(tokens))
	var keys []tokenKey
	for i, t := range tokens {
		if t.Standard == chain.ERC721 || t.Standard == chain.ERC1155 {
			keys = append(keys, tokenKey{t.Standard, t.Contract, t.ID})
		} else {
			texts[i] = new(string)
		}
	}
	if len(keys) == 0 {
		return texts, nil
	}
	known, err := load(ctx, b.uris, keys, b.loadURIs)
	if err != nil {
		return nil, fmt.Errorf("asking contracts for the URIs of %d tokens: %w", len(keys), err)
	}
	for i, t := range tokens {
		if found, ok := known[tokenKey{t.Standard, t.Contract, t.ID}]; ok {
			texts[i] = &found.text
		}
	}
	return texts, nil
}

// RememberedURI returns the cached result of TokenURIs; ok is false if TokenURIs must be called. It does not wait.
func (b *Book) RememberedURI(standard chain.Standard, contract common.Address, tokenID *uint256.Int) (text string, ok bool) {
	u, ok := glance(b.uris, tokenKey{standard, contract, *tokenID})
	return u.text, ok
}

// LookUp returns the URI of one token and reports whether the contract has the token. It returns errors of package node
// and of the store.
func (b *Book) LookUp(ctx context.Context, standard chain.Standard, contract common.Address, tokenID *uint256.Int) (text string, exists bool, err error) {
	if standard != chain.ERC721 && standard != chain.ERC1155 {
		return "", false, nil
	}
	key := tokenKey{standard, contract, *tokenID}
	known, err := load(ctx, b.uris, []tokenKey{key}, b.loadURIs)
	if err != nil {
		return "", false, fmt.Errorf("asking contract %s for the URI of a token: %w", contract, err)
	}
	found, ok := known[key]
	if !ok {
		return "", false, fmt.Errorf("asking contract %s for the URI of a token: no answer", contract)
	}
	return found.text, !found.missing, nil
}

func (b *Book) uriKey(k tokenKey) store.PK {
	id := k.id.Bytes32()
	return store.PK{P: append(slices.Clip(b.partition), k.contract[:]...), K: append([]byte{byte(k.standard)}, id[:]...)}
}

// loadURIs reads URIs from the store, and calls the node for missing and stale ones. The result lacks tokens whose call
// failed. It returns an error if all calls failed.
func (b *Book) loadURIs(ctx context.Context, tokens []tokenKey) (map[tokenKey]uri, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	keys := make([]store.PK, len(tokens))
	for i := range tokens {
		keys[i] = b.uriKey(tokens[i])
	}
	rows, err := b.store.Get(ctx, store.FamilyEVMTokenURI, keys)
	if err != nil {
		return nil, err
	}
	known := make(map[tokenKey]uri, len(tokens))
	var ask []tokenKey
	for i, row := range rows {
		if row != nil {
			kept, err := decodeURI(row)
			if err != nil {
				return nil, err
			}
			known[tokens[i]] = kept // used if the call fails
			if time.Since(kept.asked) < kept.fresh() {
				continue
			}
		}
		ask = append(ask, tokens[i])
	}
	batch := store.Batch{NoSync: true} // can be fetched again
	var failure error
	for len(ask) > 0 {
		some := ask[:min(len(ask), urisAtOnce)]
		ask = ask[len(some):]
		requests := urisRequests
		if err := b.askURIs(ctx, some, &requests, func(token tokenKey, u uri) {
			known[token] = u
			if len(u.text) <= maxKeptURI {
				batch.Put(store.FamilyEVMTokenURI, b.uriKey(token), encodeURI(&u))
			}
		}); err != nil {
			failure = err
			if !ofCalls(err) || ctx.Err() != nil {
				break // the other calls would fail, too
			}
		}
	}
	if failure != nil && (len(known) == 0 || len(known) < len(tokens) && !ofCalls(failure)) {
		return nil, failure
	}
	if batch.Len() == 0 {
		return known, nil
	}
	return known, b.store.Commit(ctx, &batch)
}

const (
	// urisAtOnce is the number of tokens per request: each URI may be long.
	urisAtOnce = 32
	// urisRequests is the maximum number of requests if the node refuses one of the calls and thereby all of them. It
	// suffices to isolate that call.
	urisRequests = 12
	// uriTimeout is the timeout of one of these requests: some contracts compute for long.
	uriTimeout = 5 * time.Second
)

// ofCalls reports whether err may concern single calls.
func ofCalls(err error) bool {
	var refused *node.RPCError
	return errors.As(err, &refused) || errors.Is(err, node.ErrMalformed) || errors.Is(err, context.DeadlineExceeded)
}

// askURIs fetches the URIs of tokens in one request. If that fails, it splits the request as long as requests are left.
// It returns an error if some URIs are missing.
func (b *Book) askURIs(ctx context.Context, tokens []tokenKey, requests *int, found func(tokenKey, uri)) error {
	*requests--
	calls := make([]node.EVMCall, len(tokens))
	for i, token := range tokens {
		method := tokenURIMethod
		if token.standard == chain.ERC1155 {
			method = uriMethod
		}
		id := token.id.Bytes32()
		calls[i] = node.EVMCall{To: token.contract, Data: slices.Concat(method, id[:]), Gas: uriGas}
	}
	attempt, cancel := context.WithTimeout(ctx, uriTimeout)
	returned, err := b.node.Calls(attempt, nil, calls)
	cancel()
	switch {
	case err == nil:
	case len(tokens) == 1 || *requests <= 0 || !ofCalls(err) || ctx.Err() != nil:
		return err
	default:
		half := len(tokens) / 2
		first := b.askURIs(ctx, tokens[:half], requests, found)
		if first != nil && (*requests <= 0 || !ofCalls(first)) {
			return first
		}
		return cmp.Or(b.askURIs(ctx, tokens[half:], requests, found), first)
	}
	for i, token := range tokens {
		u := uri{missing: returned[i].Failed, asked: time.Now()}
		if text, ok := dynamic(returned[i]); ok && len(text) <= maxURI {
			u.text = strings.ToValidUTF8(string(text), "")
		}
		found(token, u)
	}
	return nil
}
