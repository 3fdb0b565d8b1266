package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/ava-labs/avalanchego/ids"
)

// heights sends batches of 100 messages, ten at a time. Each message needs something else from the node: the set of
// another height, another subnet, or another source or verifying blockchain.
func heights(ctx context.Context, t *target) error {
	return repeat(ctx, 10, func(ctx context.Context, worker, turn int) {
		var body bytes.Buffer
		body.WriteString(`{"requests":[`)
		for i := range 100 {
			if i > 0 {
				body.WriteByte(',')
			}
			message := t.unsigned(t.network.Blockchain(), fmt.Sprint(worker, turn, i))
			switch i % 8 {
			case 0:
				fmt.Fprintf(&body, `{"message":"%s"}`, t.unsigned(ids.GenerateTestID(), "unknown source"))
			case 1:
				fmt.Fprintf(&body, `{"message":"%s","signingSubnetId":"%s"}`, message, ids.GenerateTestID())
			case 2:
				fmt.Fprintf(&body, `{"message":"%s","verifyingBlockchainId":"%s"}`, message, ids.GenerateTestID())
			default:
				fmt.Fprintf(&body, `{"message":"%s","pChainHeight":%d}`, t.unsigned(t.network.Blockchain(), "honest"), t.nextHeight())
			}
		}
		body.WriteString(`]}`)
		t.attack(ctx, request{path: signPath + ":batch", body: body.Bytes()})
	})
}

// oldSet is an honest request that needs the set of a height that was not named yet.
func oldSet(t *target, _ int) request {
	q := signAgain(t, 0)
	q.body = fmt.Appendf(nil, `{"message":"%s","pChainHeight":%d}`, t.unsigned(t.network.Blockchain(), "honest"), t.nextHeight())
	return q
}
