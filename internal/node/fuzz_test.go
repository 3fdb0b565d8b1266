package node

import (
	"errors"
	"net/http"
	"testing"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
)

// fuzzed returns a client of a node that answers every call with status and body.
func fuzzed(t *testing.T, status int, body string) *Client {
	c, err := New(Options{
		Endpoints: []string{"http://a"},
		HTTP:      &http.Client{Transport: hosts{"a": answer(status, body)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requireKnown fails unless err has a kind that callers can test.
func requireKnown(t *testing.T, err error) {
	t.Helper()
	var refused *RPCError
	if !errors.As(err, &refused) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want a refusal, ErrMalformed or ErrUnavailable", err)
	}
}

func requireKey(t *testing.T, key []byte, needed bool) {
	t.Helper()
	if key == nil && !needed {
		return
	}
	if len(key) != 48 {
		t.Fatalf("got a key of %d bytes", len(key))
	}
}

func wrap(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + `}` }

// FuzzReply covers the parts that all calls share: the envelope and the status.
func FuzzReply(f *testing.F) {
	for _, body := range []string{
		height7, "", "null", "[]", "{}", `{"result":null}`, `{"error":{}}`, `{"error":null,"result":{"height":"1"}}`,
		`{"error":{"code":-32601,"message":"method not found"}}`, `{"error":{"code":1e99}}`, `{"error":"text"}`,
		`{"result":{"height":7}}`, `{"result":{"height":"-1"}}`, `{"result":{"height":"18446744073709551616"}}`, `{"result":{"height":"7"}} x`,
	} {
		for _, status := range []uint16{200, 400, 404, 500} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status uint16, body string) {
		c := fuzzed(t, int(status), body)
		height, err := c.Height(t.Context())
		if err != nil {
			requireKnown(t, err)
			return
		}
		if status != http.StatusOK {
			t.Fatalf("got height %d with status %d", height, status)
		}
	})
}

func FuzzValidatorsAt(f *testing.F) {
	f.Add(`{"NodeID-111111111111111111116DBWJs":{"publicKey":null,"weight":"3"}}`)
	f.Add(`{"` + nodeA + `":{"publicKey":"0x` + key48 + `","weight":"18446744073709551615"},"` + nodeB + `":{"weight":"1"}}`)
	f.Add(`{"` + nodeA + `":{"publicKey":"` + key48 + `","weight":5},"` + nodeA + `":{"weight":"6"}}`)
	f.Add(`{"` + nodeA + `":{"publicKey":"0x00","weight":"5"}}`)
	f.Add(`{"NodeID-":{}}`)
	f.Fuzz(func(t *testing.T, result string) {
		set, err := fuzzed(t, 200, wrap(result)).ValidatorsAt(t.Context(), ids.Empty, 1)
		if err != nil {
			requireKnown(t, err)
			return
		}
		var sum uint64
		seen := make(map[ids.NodeID]bool)
		for _, v := range set.Validators {
			if sum+v.Weight < sum {
				t.Fatal("weights exceed 64 bits")
			}
			sum += v.Weight
			requireKey(t, v.Key, false)
			if len(v.NodeIDs) != 1 || seen[v.NodeIDs[0]] {
				t.Fatalf("got nodes %v, want each once", v.NodeIDs)
			}
			seen[v.NodeIDs[0]] = true
		}
		if sum != set.TotalWeight {
			t.Fatalf("weights add up to %d, the total is %d", sum, set.TotalWeight)
		}
	})
}

func FuzzAllValidatorsAt(f *testing.F) {
	const subnet = "11111111111111111111111111111111LpoYY"
	f.Add(`{"validatorSets":{"` + subnet + `":{"validators":[{"publicKey":"0x` + key48 + `","weight":"5","nodeIDs":["` + nodeA + `","` + nodeA + `"]}],"totalWeight":"9"}}}`)
	f.Add(`{"validatorSets":{"` + subnet + `":{"validators":null,"totalWeight":"9"}}}`)
	f.Add(`{"validatorSets":{"` + subnet + `":{"validators":[{"publicKey":"","weight":"5"}],"totalWeight":"1"}}}`)
	f.Add(`{"validatorSets":{"x":{}}}`)
	f.Add(`{"validatorSets":null}`)
	f.Fuzz(func(t *testing.T, result string) {
		sets, err := fuzzed(t, 200, wrap(result)).AllValidatorsAt(t.Context(), 1)
		if err != nil {
			requireKnown(t, err)
			return
		}
		for _, set := range sets {
			for _, v := range set.Validators {
				requireKey(t, v.Key, true)
			}
		}
	})
}

func FuzzCurrentValidators(f *testing.F) {
	f.Add(`{"validators":[{"nodeID":"` + nodeA + `","weight":"20","validationID":"11111111111111111111111111111111LpoYY","publicKey":"0x` + key48 + `","balance":"2047"}]}`)
	f.Add(`{"validators":[{"nodeID":"` + nodeB + `","weight":"2","signer":{"publicKey":"0x` + key48 + `"}},{"nodeID":"` + nodeC + `","weight":"1","signer":{}}]}`)
	f.Add(`{"validators":[null,{}]}`)
	f.Add(`{"validators":[{"balance":-1}]}`)
	f.Fuzz(func(t *testing.T, result string) {
		if _, err := fuzzed(t, 200, wrap(result)).CurrentValidators(t.Context(), ids.Empty); err != nil {
			requireKnown(t, err)
		}
	})
}

// FuzzPeers gives the same response to all three calls of Peers.
func FuzzPeers(f *testing.F) {
	f.Add(`{"nodeID":"` + nodeA + `","ip":"9.9.9.9:9651","peers":[{"ip":"127.0.0.1:1","publicIP":"1.2.3.4:9651","nodeID":"` + nodeB + `"},{"ip":"[::1]:2","publicIP":"","nodeID":"` + nodeC + `"}]}`)
	f.Add(`{"nodeID":"` + nodeA + `","ip":"0.0.0.0:0","peers":[{"ip":"0.0.0.0:1","publicIP":"","nodeID":"` + nodeA + `"}]}`)
	f.Add(`{"peers":[{"ip":"1.2.3.4:0","publicIP":"[::ffff:1.2.3.4]:9651","nodeID":"NodeID-111111111111111111116DBWJs"}]}`)
	f.Add(`{"peers":null}`)
	f.Add(`{"nodeID":1}`)
	f.Fuzz(func(t *testing.T, result string) {
		peers, err := fuzzed(t, 200, wrap(result)).Peers(t.Context())
		if err != nil {
			requireKnown(t, err)
			return
		}
		seen := make(map[ids.NodeID]bool)
		for _, p := range peers {
			if !reachable(p.Addr) || seen[p.NodeID] {
				t.Fatalf("got %+v, want each once and with an address", p)
			}
			seen[p.NodeID] = true
		}
	})
}

func FuzzCurrentEpoch(f *testing.F) {
	f.Add(`{"number":"3","startTime":"1700000000","pChainHeight":"11"}`)
	f.Add(`{"number":3,"startTime":"18446744073709551615","pChainHeight":"18446744073709551615"}`)
	f.Add(`{"pChainHeight":"-1"}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, result string) {
		c := fuzzed(t, 200, wrap(result))
		for _, chain := range []ids.ID{constants.PlatformChainID, {1}} {
			if _, err := c.CurrentEpoch(t.Context(), chain); err != nil {
				requireKnown(t, err)
			}
		}
	})
}
