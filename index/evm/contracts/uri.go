package contracts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	chain "quorate/chain/evm"
	"quorate/node"
	"quorate/store"
)

type tokenKey struct {
	standard chain.Standard
	contract common.Address
	id       uint256.Int
}

// uri is what a contract said of a token.
type uri struct {
	text string
	// missing says that the contract knows no such token.
	missing bool
	asked   time.Time
}

const (
	// maxURI is the longest URI that is taken, in bytes: those that have the whole
	// document in them are long.
	maxURI = 1 << 20
	// uriGas is what a contract may use for a URI: some compose the document, image
	// and all, which takes millions.
	uriGas = 10_000_000
	// maxKeptURI is the longest that the store keeps; longer ones are asked for.
	maxKeptURI = 8 << 10
)

// The first four bytes of the Keccak-256 of the signatures.
var (
	tokenURIMethod = []byte{0xc8, 0x7b, 0x56, 0xdd} // tokenURI(uint256), ERC-721
	uriMethod      = []byte{0x0e, 0x89, 0x34, 0x1c} // uri(uint256), ERC-1155
)

// TokenURI is what the contract of a token says where its metadata are, as it says it;
// empty, if it says nothing or knows no such token, and for standards whose tokens
// have none. Errors are package node's and the store's.
func (b *Book) TokenURI(ctx context.Context, standard chain.Standard, contract common.Address, tokenID *uint256.Int) (string, error) {
	text, _, err := b.LookUp(ctx, standard, contract, tokenID)
	return text, err
}

// RememberedURI is what TokenURI tells, as far as that is in memory: ok is false if
// TokenURI has to be asked. It waits for nothing.
func (b *Book) RememberedURI(standard chain.Standard, contract common.Address, tokenID *uint256.Int) (text string, ok bool) {
	u, ok := glance(b.uris, tokenKey{standard, contract, *tokenID})
	return u.text, ok
}

// LookUp is TokenURI, and reports whether the contract knows the token.
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

func (b *Book) loadURIs(ctx context.Context, tokens []tokenKey) (map[tokenKey]uri, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	known := make(map[tokenKey]uri, len(tokens))
	for _, token := range tokens {
		u, err := b.loadURI(ctx, token)
		if err != nil {
			return nil, err
		}
		known[token] = u
	}
	return known, nil
}

func (b *Book) loadURI(ctx context.Context, token tokenKey) (uri, error) {
	key := b.uriKey(token)
	rows, err := b.store.Get(ctx, store.FamilyEVMTokenURI, []store.PK{key})
	if err != nil {
		return uri{}, err
	}
	var kept uri
	if rows[0] != nil {
		if kept, err = decodeURI(rows[0]); err != nil {
			return uri{}, err
		}
		if time.Since(kept.asked) < b.fresh {
			return kept, nil
		}
	}
	method := tokenURIMethod
	if token.standard == chain.ERC1155 {
		method = uriMethod
	}
	id := token.id.Bytes32()
	returned, err := b.node.Calls(ctx, nil, []node.EVMCall{{To: token.contract, Data: slices.Concat(method, id[:]), Gas: uriGas}})
	if err != nil {
		if rows[0] != nil {
			return kept, nil
		}
		return uri{}, err
	}
	u := uri{missing: returned[0].Failed, asked: time.Now()}
	if text, ok := dynamic(returned[0]); ok && len(text) <= maxURI {
		u.text = strings.ToValidUTF8(string(text), "")
	}
	if len(u.text) > maxKeptURI {
		return u, nil
	}
	batch := store.Batch{NoSync: true} // it can be asked again
	batch.Put(store.FamilyEVMTokenURI, key, encodeURI(&u))
	return u, b.store.Commit(ctx, &batch)
}
