package handlers

import (
	"bytes"
	"strings"
	"testing"

	"quorate/aggregator"
)

func bodyOf(hexText string) string { return `{"message":"` + hexText + `"}` }

// Quorum and buffer are refused if their sum cannot be met.
func TestScenario_7_2_17_QuorumAndBufferBeyond100(t *testing.T) {
	raw := hexOf(message(t, 5).Bytes())
	with := func(members string) string { return `{"message":"` + raw + `",` + members + `}` }
	requireMistakes(t, []mistake{
		{name: "percentage 101", body: with(`"quorumPercentage":101`), want: "quorumPercentage must be an integer from 0 to 100, got 101", peerWant: "quorum-percentage must be an integer"},
		{name: "buffer 101", body: with(`"quorumPercentageBuffer":101`), want: "quorumPercentageBuffer", peerWant: "quorum-percentage-buffer"},
		{name: "sum 101", body: with(`"quorumPercentage":80,"quorumPercentageBuffer":21`), want: "quorumPercentage (80) and quorumPercentageBuffer (21) add up to 101", peerWant: "quorum-percentage (80) and quorum-percentage-buffer (21) add up to 101"},
		{name: "sum with the default", body: with(`"quorumPercentageBuffer":34`), want: "quorumPercentage (67, the default) and quorumPercentageBuffer (34) add up to 101", peerWant: "quorum-percentage (67, the default)"},
		{name: "sum with zero for the default", body: with(`"quorumPercentage":0,"quorumPercentageBuffer":100`), want: "add up to 167", peerWant: "add up to 167"},
	})
}

func TestScenario_7_2_23_MessageOfAnotherNetwork(t *testing.T) {
	of := bodyOf
	requireMistakes(t, []mistake{
		{name: "other network", body: of(hexOf(message(t, 1).Bytes())), want: "message: it belongs to the network with ID 1, but the path's network fuji has ID 5", peerWant: "message: it belongs to the network with ID 1, which is not served here; this instance serves fuji (ID 5)"},
		{name: "other network in log data", body: of(hexOf(logData(t, message(t, 12345).Bytes()))), want: "network with ID 12345", peerWant: "network with ID 12345"},
		{name: "network 0", body: of(hexOf(message(t, 0).Bytes())), want: "network with ID 0", peerWant: "network with ID 0"},
	})
}

func TestScenario_7_2_24_TrailingBytes(t *testing.T) {
	of := bodyOf
	m := message(t, 5)
	raw, wrap := hexOf(m.Bytes()), logData(t, m.Bytes())
	signedHex := hexOf(signed(aggregator.Request{Message: m}).Message.Bytes())
	changed := func(b []byte, f func([]byte)) string {
		b = bytes.Clone(b)
		f(b)
		return of(hexOf(b))
	}
	requireMistakes(t, []mistake{
		{name: "data after the object", body: of(raw) + "x", want: "not valid JSON"},
		{name: "a second object", body: of(raw) + of(raw), want: "not valid JSON"},
		{name: "trailing byte", body: of(raw + "00"), want: "message could not be decoded as an unsigned Warp message: 1 bytes follow"},
		{name: "already signed", body: of(signedHex), want: "it already carries a signature"},
		{name: "log data and more", body: of(hexOf(wrap) + strings.Repeat("00", 32)), want: "message could not be decoded"},
		{name: "log data, dirty padding", body: changed(wrap, func(b []byte) { b[len(b)-1] = 1 }), want: "message could not be decoded"},
		{name: "log data of a signed message", body: of(hexOf(logData(t, signed(aggregator.Request{Message: m}).Message.Bytes()))), want: "it already carries a signature"},
	})
}
