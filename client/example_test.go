package client_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/client"
)

// exampleServer stands for a service in the examples: it answers with one body.
func exampleServer(status int, body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
}

// exampleMessage returns a message and its signed form.
func exampleMessage() (*warp.UnsignedMessage, string) {
	m, err := warp.NewUnsignedMessage(5, ids.ID{1}, []byte("hello"))
	if err != nil {
		panic(err)
	}
	signed, err := warp.NewMessage(m, &warp.BitSetSignature{Signers: []byte{0b111}})
	if err != nil {
		panic(err)
	}
	return m, hex.EncodeToString(signed.Bytes())
}

// Sign a message for the chain that will verify it.
func ExampleClient_Sign() {
	message, signedMessage := exampleMessage()
	server := exampleServer(http.StatusOK, `{"signedMessage":"`+signedMessage+`"}`)
	defer server.Close()

	c, err := client.New(client.Options{URL: server.URL, Network: "fuji"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	destination := ids.ID{2}
	signed, err := c.Sign(ctx, client.Request{
		Message:     message.Bytes(),
		SignOptions: client.SignOptions{QuorumPercentage: 67, VerifyingBlockchainID: &destination},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	signers, err := signed.Signature.NumSigners()
	fmt.Println(signers, err)
	// Output: 3 <nil>
}

// Decide on a failure by its code, and read from the account why weight is missing.
func ExampleError() {
	server := exampleServer(http.StatusInternalServerError, `{
		"message": "validators with 60.00% of the weight signed, 67.00% are needed",
		"statusCode": 500, "error": "Internal Server Error", "code": "QUORUM_NOT_REACHED",
		"outcomes": {"targetWeight": "67", "totalWeight": "100", "signedWeight": "60",
			"reasons": [{"code": "PRIVATE_ADDRESS", "weight": "40", "count": 2, "remedy": "set allow_private_ips"}]}}`)
	defer server.Close()

	c, err := client.New(client.Options{URL: server.URL, Network: "fuji"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	message, _ := exampleMessage()
	_, err = c.Sign(context.Background(), client.Request{Message: message.Bytes()})
	if errors.Is(err, &client.Error{Code: client.CodeQuorumNotReached}) {
		fmt.Println("no quorum")
	}
	var failed *client.Error
	if errors.As(err, &failed) && failed.Outcomes != nil {
		for _, reason := range failed.Outcomes.Reasons {
			fmt.Printf("%d of %d: %s: %s\n", reason.Weight, failed.Outcomes.TotalWeight, reason.Code, reason.Remedy)
		}
	}
	// Output:
	// no quorum
	// 40 of 100: PRIVATE_ADDRESS: set allow_private_ips
}

// A relayer that signs in process through icm-services' SignatureAggregator needs only its method.
func ExampleAggregator() {
	message, signedMessage := exampleMessage()
	server := exampleServer(http.StatusOK, `{"signedMessage":"`+signedMessage+`"}`)
	defer server.Close()

	c, err := client.New(client.Options{URL: server.URL, Network: "fuji"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	var aggregator interface {
		CreateSignedMessage(ctx context.Context, log logging.Logger, unsignedMessage *warp.UnsignedMessage, justification []byte,
			inputSigningSubnet ids.ID, requiredQuorumPercentage, pchainHeight uint64) (*warp.Message, error)
	} = client.Aggregator{Client: c}
	const epochHeight = 1234 // of the destination
	signed, err := aggregator.CreateSignedMessage(context.Background(), logging.NoLog{}, message, nil, ids.Empty, 67, epochHeight)
	fmt.Println(signed.UnsignedMessage.ID() == message.ID(), err)
	// Output: true <nil>
}
