package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/handlers/networks"
	live "quorate/handlers/stream"
	"quorate/internal/node"
	"quorate/internal/store"
	"quorate/validators"
)

// fakeChanges has one change at height 820, and no further height than 830.
type fakeChanges struct {
	unknown bool // no height is known
	fail    error
}

func (f *fakeChanges) Range() (oldest, newest uint64, ok bool) { return 800, 810, !f.unknown }

func (f *fakeChanges) Check(_ context.Context, subnetID ids.ID) error {
	if subnetID != (ids.ID{1}) {
		return validators.ErrUnknownSubnet
	}
	return nil
}

func (f *fakeChanges) Next(_ context.Context, _ ids.ID, after uint64) (*validators.Change, uint64, error) {
	switch {
	case f.fail != nil:
		return nil, after, f.fail
	case after < 820:
		return &validators.Change{Height: 820, TotalWeight: 60, InactiveWeight: 5, Nodes: []validators.NodeChange{
			{NodeID: ids.NodeID{1}, After: &validators.Member{Weight: 10, Key: make([]byte, 48)}},
			{NodeID: ids.NodeID{2}, Before: &validators.Member{Weight: 20}},
			{NodeID: ids.NodeID{3}, Before: &validators.Member{Weight: 1}, After: &validators.Member{Weight: 2, Key: []byte{0xab}}},
		}}, 820, nil
	}
	return nil, max(after, 2000), nil
}

// sentEvent is a server-sent event.
type sentEvent struct{ id, name, data string }

func parseEvents(t *testing.T, body string) (events []sentEvent) {
	t.Helper()
	for text := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var e sentEvent
		for line := range strings.SplitSeq(text, "\n") {
			switch field, value, _ := strings.Cut(line, ": "); field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			}
		}
		events = append(events, e)
	}
	return events
}

func TestStreamOfValidators(t *testing.T) {
	f := new(fakeChanges)
	streams := live.New(live.Options{Life: 50 * time.Millisecond})
	defer streams.Close()
	h := newPublic(t, new(fakeSigner), func(o *Options) {
		o.Networks = networks.Fixed(map[string]Network{"fuji": {NetworkID: 5, Signer: new(fakeSigner), Changes: f}, "mainnet": {NetworkID: 1, Signer: new(fakeSigner)}})
		o.Streams = streams
	})
	path := func(subnetID ids.ID) string {
		return "/v1/signatureAggregator/fuji/subnets/" + subnetID.String() + "/validators:stream"
	}
	of := path(ids.ID{1})

	w := do(h, http.MethodGet, of, "")
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	events := parseEvents(t, w.Body.String())
	require.Len(t, events, 4)
	names := []string{"open", "validators", "height", "end"}
	for i, cursor := range []string{"810", "820", "2000", ""} {
		require.Equal(t, names[i], events[i].name)
		require.Equal(t, cursor, events[i].id)
	}
	require.JSONEq(t, `{"oldest":"800"}`, events[0].data)
	require.JSONEq(t, `{"subnetId":"`+ids.ID{1}.String()+`","pChainHeight":"820","totalWeight":"60","inactiveWeight":"5","validators":[
		{"nodeId":"`+ids.NodeID{1}.String()+`","change":"JOINED","weight":"10","publicKey":"0x`+strings.Repeat("0", 96)+`"},
		{"nodeId":"`+ids.NodeID{2}.String()+`","change":"LEFT","previousWeight":"20"},
		{"nodeId":"`+ids.NodeID{3}.String()+`","change":"CHANGED","weight":"2","publicKey":"0xab","previousWeight":"1"}]}`, events[1].data)
	require.JSONEq(t, `{"pChainHeight":"2000"}`, events[2].data)

	for from, first := range map[string]string{"oldest": "800", "800": "800", "805": "805", "820": "820", "874": "874"} {
		events := parseEvents(t, do(h, http.MethodGet, of+"?from="+from, "").Body.String())
		require.Equal(t, first, events[0].id)
	}
	for _, test := range []struct {
		path   string
		status int
		parts  []string
	}{
		{of + "?from=799", http.StatusGone, []string{"max_height_age", "from=oldest"}},
		{of + "?from=875", http.StatusBadRequest, []string{"ahead", "810"}},
		{of + "?from=8x", http.StatusBadRequest, []string{"cursor"}},
		{path(ids.ID{2}), http.StatusNotFound, []string{"subnetId: the network has no subnet"}},
		{"/v1/signatureAggregator/fuji/subnets/nonsense/validators:stream", http.StatusBadRequest, []string{"subnetId"}},
		{"/v1/signatureAggregator/mainnet/subnets/" + ids.Empty.String() + "/validators:stream", http.StatusNotFound, []string{"not followed"}},
	} {
		requireAPIError(t, do(h, http.MethodGet, test.path, ""), test.status, test.parts...)
	}

	for cause, want := range map[error]struct{ code, text string }{
		node.ErrUnavailable:  {"NODE_UNAVAILABLE", "the upstream node did not report them"},
		validators.ErrMerged: {"NODE_UNAVAILABLE", "platform.getValidatorsAt"},
		store.ErrUnavailable: {"NOT_INDEXED", "the index cannot be read"},
	} {
		f.fail = fmt.Errorf("requesting the set: %w", cause)
		events = parseEvents(t, do(h, http.MethodGet, of, "").Body.String())
		require.Equal(t, "error", events[1].name)
		var body map[string]any
		require.NoError(t, json.Unmarshal([]byte(events[1].data), &body))
		require.EqualValues(t, http.StatusServiceUnavailable, body["statusCode"])
		require.Equal(t, want.code, body["code"])
		require.Contains(t, body["message"], want.text)
	}
	f.unknown = true
	requireAPIError(t, do(h, http.MethodGet, of, ""), http.StatusServiceUnavailable, "P-Chain height")
}
