package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/internal/chain/evm"
	"quorate/internal/chain/evm/icmtest"
	"quorate/internal/store"
)

// fakeArchive has the messages from oldest to newest, of two chains in turn. Number 5 is a gap.
type fakeArchive struct {
	oldest, newest uint64
	reads          int
	removed        bool // since the ends were read
	err            error
}

func (a *fakeArchive) Ends(context.Context) (store.LogEnds, error) {
	return store.LogEnds{ID: 1, Oldest: a.oldest, Newest: a.newest}, a.err
}

func (a *fakeArchive) Read(_ context.Context, after uint64, limit int) ([]aggregator.StreamEvent, error) {
	a.reads++
	if after+1 < a.oldest || a.removed {
		return nil, store.ErrTruncated
	}
	var events []aggregator.StreamEvent
	for number := after + 1; number <= a.newest && len(events) < limit; number++ {
		e := aggregator.StreamEvent{Number: number, Missed: 3}
		if number != 5 {
			e = aggregator.StreamEvent{
				Number: number, Time: time.UnixMilli(int64(1000 * number)), Message: signedMessage(ids.ID{byte(number % 2)}, fmt.Append(nil, number)),
				SigningSubnetID: ids.ID{9}, PChainHeight: 7, Weight: 70, TotalWeight: 100, Signers: 3, Origin: aggregator.Origin(number % 3),
			}
		}
		events = append(events, e)
	}
	return events, nil
}

func unsignedMessage(source ids.ID, content []byte) *warp.UnsignedMessage {
	m, err := warp.NewUnsignedMessage(5, source, content)
	if err != nil {
		panic(err)
	}
	return m
}

func signedMessage(source ids.ID, content []byte) *warp.Message {
	m, err := warp.NewMessage(unsignedMessage(source, content), &warp.BitSetSignature{Signers: []byte{7}})
	if err != nil {
		panic(err)
	}
	return m
}

func TestMessagesArePaged(t *testing.T) {
	a := &fakeArchive{oldest: 3, newest: 40}
	_, e := newTest(t, Options{Archive: func(network string) Archive {
		if network != "fuji" {
			return nil
		}
		return a
	}})
	list := func(query string) (v messagesView, numbers []uint64) {
		t.Helper()
		w := get(e, "/console/api/messages?network=fuji"+query)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v))
		for _, m := range v.Messages {
			numbers = append(numbers, m.Number)
		}
		return v, numbers
	}
	var all []uint64
	v, numbers := list("&limit=15")
	for range 4 {
		all = append(all, numbers...)
		if v.Before == nil {
			break
		}
		v, numbers = list(fmt.Sprintf("&limit=15&before=%d", *v.Before))
	}
	require.Len(t, all, 38)
	for i, number := range all {
		require.Equal(t, uint64(40-i), number)
	}
	require.Nil(t, v.Before)

	v, numbers = list("&limit=2&before=7")
	require.Equal(t, []uint64{6, 5}, numbers)
	require.Equal(t, messageView{Number: 5, Missed: 3}, v.Messages[1])
	m := v.Messages[0]
	require.Equal(t, []any{int64(6000), ids.ID{9}.String(), uint64(7), uint64(70), uint64(100), 3, "unknown", "unknown"},
		[]any{m.SignedAt, m.SigningSubnetID, m.PChainHeight, m.Weight, m.TotalWeight, m.Signers, m.Origin, m.Payload.Kind})
	require.Empty(t, m.SignedMessage, "only with the details")
	_, numbers = list("&limit=3&id=" + ids.ID{1}.String())
	require.Equal(t, []uint64{39, 37, 35}, numbers)
	_, numbers = list("&id=" + m.MessageID)
	require.Equal(t, []uint64{6}, numbers)
	_, numbers = list("&limit=1000")
	require.Len(t, numbers, 38)

	w := get(e, "/console/api/messages/6?network=fuji")
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &m))
	require.Equal(t, hexOf(signedMessage(ids.ID{0}, []byte("6")).Bytes()), m.SignedMessage)
	for path, status := range map[string]int{
		"/2?network=fuji": 404, "/41?network=fuji": 404, "/0?network=fuji": 400, "/x?network=fuji": 400, "/6?network=other": 404,
		"?network=other": 404, "?network=fuji&id=x": 400, "?network=fuji&before=x": 400, "?network=fuji&id=" + strings.Repeat("2", 100): 400,
	} {
		require.Equal(t, status, get(e, "/console/api/messages"+path).Code, path)
	}
	a.removed = true
	v, numbers = list("")
	require.Empty(t, numbers)
	require.Nil(t, v.Before)
	a.err = errors.New("http://10.0.0.7 is down")
	w = get(e, "/console/api/messages?network=fuji")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), "10.0.0.7")
}

// A search reads a bounded number of messages and returns the position to continue from.
func TestSearchIsBounded(t *testing.T) {
	a := &fakeArchive{oldest: 1, newest: 10_000}
	v, err := messageQuery{limit: 25, id: &ids.ID{77}}.read(t.Context(), a)
	require.NoError(t, err)
	require.Empty(t, v.Messages)
	require.Equal(t, uint64(10_001-maxScanned), *v.Before)
	require.Equal(t, maxScanned/scanPage, a.reads)
}

// Requests may name a network by its alias.
func TestAliases(t *testing.T) {
	var asked []string
	_, e := newTest(t, Options{
		Resolve: func(name string) (string, bool) { return "local", name == "fuji" || name == "local" },
		Archive: func(network string) Archive {
			asked = append(asked, network)
			return &fakeArchive{oldest: 1, newest: 3}
		},
		Failures: func(network string) Failures {
			asked = append(asked, network)
			return &fakeFailures{id: 1}
		},
		Validators: func(network string, _ ids.ID) ([]Validator, uint64, bool) {
			asked = append(asked, network)
			return nil, 0, true
		},
		Memberships: func(network string, _ ids.NodeID) []Membership {
			asked = append(asked, network)
			return nil
		},
		Example: func(network string) ([]byte, bool) {
			asked = append(asked, network)
			return []byte{1}, true
		},
	})
	for _, path := range []string{"messages?", "messages/1?", "failures?", "validators?subnet=" + ids.ID{1}.String() + "&", "validators?node=" + ids.NodeID{1}.String() + "&", "example?"} {
		require.Equal(t, http.StatusOK, get(e, "/console/api/"+path+"network=fuji").Code, path)
	}
	require.Equal(t, []string{"local", "local", "local", "local", "local", "local"}, asked)
}

func TestPayloadsAreDecoded(t *testing.T) {
	call := func(address []byte, content []byte) []byte {
		c, err := payload.NewAddressedCall(address, content)
		require.NoError(t, err)
		return c.Bytes()
	}
	hash, err := payload.NewHash(ids.ID{1})
	require.NoError(t, err)
	conversion, err := message.NewSubnetToL1Conversion(ids.ID{2})
	require.NoError(t, err)
	register, err := message.NewRegisterL1Validator(ids.ID{3}, ids.NodeID{4}, [48]byte{5}, 1_800_000_000, message.PChainOwner{Threshold: 1, Addresses: []ids.ShortID{{1}, {2}}}, message.PChainOwner{}, 50)
	require.NoError(t, err)
	registered, err := message.NewL1ValidatorRegistration(ids.ID{6}, false)
	require.NoError(t, err)
	weight, err := message.NewL1ValidatorWeight(ids.ID{7}, 8, 9)
	require.NoError(t, err)
	source, destination := ids.ID{10}, ids.ID{11}
	teleporter := icmPayload(t, destination)
	icmID := evm.ICMMessageID(source, destination, uint256.NewInt(12)).Hex()
	for _, test := range []struct {
		payload     []byte
		kind, title string
		has         fieldView
	}{
		{[]byte("text"), "unknown", "Unknown payload", fieldView{"Payload, 4 bytes", "0x74657874", "hex"}},
		{hash.Bytes(), "hash", "Block hash", fieldView{"Hash, 32 bytes", "0x01" + strings.Repeat("00", 31), "hex"}},
		{call([]byte{1}, []byte("text")), "addressedCall", "Addressed call", fieldView{"Source address", "0x01", "address"}},
		{call(make([]byte, 300), []byte("text")), "addressedCall", "Addressed call", fieldView{"Source address, the first 256 of 300 bytes", "0x" + strings.Repeat("00", 256) + "…", "hex"}},
		{call(nil, longNode(t)), "addressedCall", "Registration of an L1 validator", fieldView{"Node, the first 256 of 300 bytes", "0x" + strings.Repeat("04", 256) + "…", "hex"}},
		{call([]byte{1}, make([]byte, 300)), "addressedCall", "Addressed call", fieldView{"Payload, the first 256 of 300 bytes", "0x" + strings.Repeat("00", 256) + "…", "hex"}},
		{call(nil, conversion.Bytes()), "addressedCall", "Conversion of a subnet to an L1", fieldView{"Conversion ID", ids.ID{2}.String(), ""}},
		{call(nil, register.Bytes()), "addressedCall", "Registration of an L1 validator", fieldView{"Node", ids.NodeID{4}.String(), "node"}},
		{call(nil, register.Bytes()), "addressedCall", "Registration of an L1 validator", fieldView{"Owner of the remaining balance", "1 of 2 addresses", ""}},
		{call(nil, registered.Bytes()), "addressedCall", "An L1 validator is not registered", fieldView{"Registered", "false", ""}},
		{call(nil, weight.Bytes()), "addressedCall", "Weight of an L1 validator", fieldView{"Nonce", "8", ""}},
		{call(evm.Teleporter[:], teleporter), "addressedCall", "Teleporter message", fieldView{"Message ID", icmID, "icm"}},
		{call(evm.Teleporter[:], teleporter), "addressedCall", "Teleporter message", fieldView{"Destination", destination.String(), "blockchain"}},
		{call([]byte{1}, teleporter), "addressedCall", "Addressed call", fieldView{"Source address", "0x01", "address"}},
	} {
		v := newPayloadView(unsignedMessage(source, test.payload))
		require.Equal(t, test.kind, v.Kind, test.title)
		require.Equal(t, test.title, v.Title)
		require.Contains(t, v.Fields, test.has)
	}
}

// icmPayload returns the payload of the Teleporter message with nonce 12 to destination.
// longNode returns a registration whose node ID is longer than node IDs are.
func longNode(t *testing.T) []byte {
	t.Helper()
	m := &message.RegisterL1Validator{SubnetID: ids.ID{3}, NodeID: bytes.Repeat([]byte{4}, 300), Weight: 50}
	require.NoError(t, message.Initialize(m))
	return m.Bytes()
}

func icmPayload(t *testing.T, destination ids.ID) []byte {
	t.Helper()
	encoder, err := icmtest.New()
	require.NoError(t, err)
	// The data of this event is the message alone, encoded as in the payload.
	l, err := encoder.Log(&evm.ICMEvent{Kind: evm.ICMExecutionFailed, Message: &evm.ICMMessage{Nonce: *uint256.NewInt(12), Data: []byte("hello")}}, destination)
	require.NoError(t, err)
	return l.Data
}
