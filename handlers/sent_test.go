package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/aggregator/evmmessage"
	"quorate/aggregator/l1message"
	"quorate/internal/store"
)

// sentPath is the path of the messages of a transaction.
func sentPath(chain, txHash string) string {
	return "/v1/signatureAggregator/fuji/blockchains/" + chain + "/transactions/" + txHash + "/messages"
}

func sentMessages(t *testing.T, n int) []evmmessage.Sent {
	t.Helper()
	all := make([]evmmessage.Sent, n)
	for i := range all {
		m, err := warp.NewUnsignedMessage(5, ids.ID{1}, []byte{byte(i)})
		require.NoError(t, err)
		all[i] = evmmessage.Sent{LogIndex: uint64(3 + 2*i), Message: m}
	}
	return all
}

func TestMessagesOfEVMTransactionAreSigned(t *testing.T) {
	txHash, subnet := ids.ID{0xab, 31: 9}, ids.GenerateTestID()
	sent := sentMessages(t, 3)
	s := &fakeSigner{
		sent: func(_ context.Context, chain string, got ids.ID) ([]evmmessage.Sent, error) {
			require.Equal(t, "43113", chain)
			require.Equal(t, txHash, got)
			return sent, nil
		},
		sign: func(_ context.Context, req aggregator.Request) (*aggregator.Result, error) {
			if req.Message == sent[1].Message {
				return nil, &aggregator.Error{Code: aggregator.CodeQuorumNotReached, Message: "quorum not reached", Account: &aggregator.Account{TotalWeight: 7}}
			}
			return signed(req), nil
		},
	}
	h := newPublic(t, s, nil)
	query := "?signingSubnetId=" + subnet.String() + "&quorumPercentage=60&quorum-percentage-buffer=5&p-chain-height=18446744073709551615&waitSeconds=2&verifyingBlockchainId="
	w := get(h, sentPath("43113", "0x"+txHash.Hex())+query)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var answer struct {
		Messages []struct {
			MessageID                      ids.ID
			LogIndex                       uint64
			UnsignedMessage, SignedMessage string
			Error                          map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Len(t, answer.Messages, 3)
	for i, m := range answer.Messages {
		require.Equal(t, sent[i].Message.ID(), m.MessageID)
		require.Equal(t, sent[i].LogIndex, m.LogIndex)
		require.Equal(t, hexOf(sent[i].Message.Bytes()), m.UnsignedMessage)
		if i == 1 {
			require.Empty(t, m.SignedMessage)
			require.EqualValues(t, 500, m.Error["statusCode"])
			require.Equal(t, "QUORUM_NOT_REACHED", m.Error["code"])
			require.Contains(t, m.Error, "outcomes")
			continue
		}
		require.Nil(t, m.Error)
		require.Equal(t, hexOf(signed(aggregator.Request{Message: sent[i].Message}).Message.Bytes()), m.SignedMessage)
	}
	for _, req := range s.requests() {
		req.Message = nil
		require.Equal(t, aggregator.Request{SigningSubnetID: &subnet, QuorumPercentage: 60, QuorumPercentageBuffer: 5, Wait: 2 * time.Second}, req)
	}
	require.Len(t, s.requests(), 3)
}

func TestMistakesInRequestsForSentMessages(t *testing.T) {
	good := "0x" + ids.ID{1}.Hex()
	for name, test := range map[string]struct {
		path  string
		parts []string
	}{
		"a short hash":           {sentPath("c-chain", "0xab"), []string{"txHash", "1 bytes"}},
		"no hash":                {sentPath("c-chain", "nonsense"), []string{"txHash"}},
		"an unknown parameter":   {sentPath("c-chain", good) + "?quorum=5", []string{`unknown parameter "quorum" in the query`, "quorumPercentage"}},
		"a message":              {sentPath("c-chain", good) + "?message=00", []string{`unknown parameter "message"`}},
		"two spellings":          {sentPath("c-chain", good) + "?signingSubnet=&signingSubnetId=", []string{"signingSubnet and signingSubnetId in the query are the same field"}},
		"quorum of 101":          {sentPath("c-chain", good) + "?quorumPercentage=101", []string{"quorumPercentage must be an integer from 0 to 100"}},
		"quorum in words":        {sentPath("c-chain", good) + "?quorumPercentage=all", []string{"quorumPercentage must be an integer"}},
		"sum above 100":          {sentPath("c-chain", good) + "?quorumPercentageBuffer=40", []string{"add up to 107"}},
		"no subnet":              {sentPath("c-chain", good) + "?signingSubnetId=x", []string{"signingSubnetId"}},
		"height and blockchain":  {sentPath("c-chain", good) + "?pChainHeight=1&verifyingBlockchainId=" + ids.ID{1}.String(), []string{"both pick the validator set"}},
		"an unreadable encoding": {sentPath("c-chain", good) + "?quorumPercentage=%zz", []string{"quorumPercentage", "percent escape"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSigner{sent: func(context.Context, string, ids.ID) ([]evmmessage.Sent, error) {
				t.Error("the node was asked")
				return nil, errors.New("asked")
			}}
			requireAPIError(t, get(newPublic(t, s, nil), test.path), http.StatusBadRequest, test.parts...)
		})
	}
	requireAPIError(t, get(newPublic(t, &fakeSigner{}, nil), "/v1/signatureAggregator/mainnet/blockchains/c-chain/transactions/"+good+"/messages"), http.StatusNotFound, "network")
}

func TestRefusalsOfEVMTransactions(t *testing.T) {
	for name, test := range map[string]struct {
		err               error
		sent, status      int
		code, retry, part string
	}{
		"unknown":              {err: &aggregator.Error{Code: l1message.CodeUnknownTransaction, Message: "txHash: unknown"}, status: 404, code: "UNKNOWN_TRANSACTION", part: "txHash: unknown"},
		"not accepted":         {err: &aggregator.Error{Code: l1message.CodeProcessing, Message: "ask again"}, status: 503, code: "TRANSACTION_PROCESSING", retry: "1"},
		"reverted":             {err: &aggregator.Error{Code: evmmessage.CodeReverted, Message: "it failed"}, status: 400, code: "TRANSACTION_REVERTED", part: "txHash: it failed"},
		"without messages":     {err: &aggregator.Error{Code: l1message.CodeNoMessage, Message: "none"}, status: 400, code: "NO_WARP_MESSAGE", part: "txHash: none"},
		"chain not configured": {err: &aggregator.Error{Code: evmmessage.CodeUnknownChain, Message: "none"}, status: 404, code: "CHAIN_NOT_CONFIGURED", part: "blockchainId: none"},
		"node away":            {err: &aggregator.Error{Code: aggregator.CodeNodeUnavailable, Message: "no node"}, status: 503, code: "NODE_UNAVAILABLE"},
		"node faulty":          {err: &aggregator.Error{Code: aggregator.CodeNodeFaulty, Message: "bad node"}, status: 502, code: "NODE_FAULTY"},
		"node busy":            {err: &aggregator.Error{Code: aggregator.CodeNodeBusy, Message: "busy", RetryAfter: time.Second}, status: 503, code: "NODE_BUSY", retry: "1"},
		"out of time":          {err: context.DeadlineExceeded, status: 503},
		"store unavailable":    {err: fmt.Errorf("reading: %w", store.ErrUnavailable), status: 503, code: "NOT_INDEXED", retry: "5"},
		"101 messages":         {sent: 101, status: 400, code: "TOO_MANY_MESSAGES", part: "101 messages, at most 100"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSigner{sent: func(context.Context, string, ids.ID) ([]evmmessage.Sent, error) {
				return sentMessages(t, test.sent), test.err
			}}
			w := get(newPublic(t, s, nil), sentPath("c-chain", "0x"+ids.ID{1}.Hex()))
			body := requireAPIError(t, w, test.status, test.part)
			require.Equal(t, test.retry, w.Header().Get("Retry-After"))
			if test.code != "" {
				require.Equal(t, test.code, body["code"])
			}
			require.Empty(t, s.requests(), "nothing is signed")
		})
	}
}

// Reading the transaction and signing its messages take no longer together than one request may.
func TestSentMessagesHaveOneDeadline(t *testing.T) {
	for query, want := range map[string]time.Duration{"": 15 * time.Second, "?waitSeconds=40": 40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeSigner{
				sent: func(context.Context, string, ids.ID) ([]evmmessage.Sent, error) {
					time.Sleep(10 * time.Second)
					return sentMessages(t, 2), nil
				},
				sign: func(ctx context.Context, _ aggregator.Request) (*aggregator.Result, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			}
			h := newPublic(t, s, func(o *Options) { o.RequestTimeout = 15 * time.Second })
			began := time.Now()
			w := get(h, sentPath("c-chain", "0x"+ids.ID{1}.Hex())+query)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Equal(t, 2, strings.Count(w.Body.String(), "could not be signed in the time allowed"))
			require.Equal(t, want, time.Since(began))
		})
	}
}
