package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/client"
	"quorate/handlers/evm"
	"quorate/internal/service/network"
)

// failedRequest is the error of one message.
type failedRequest struct {
	Message  string              `json:"message"`
	Code     aggregator.Code     `json:"code,omitempty"`
	Outcomes *aggregator.Account `json:"outcomes,omitempty"`
}

// sentMessage is a message that an EVM transaction sent. It has either SignedMessage or Error.
type sentMessage struct {
	MessageID       ids.ID         `json:"messageId"`
	LogIndex        uint64         `json:"logIndex"`
	UnsignedMessage string         `json:"unsignedMessage"`
	SignedMessage   string         `json:"signedMessage,omitempty"`
	Error           *failedRequest `json:"error,omitempty"`
}

// signSentThroughServer signs the messages of an EVM transaction.
func signSentThroughServer(ctx context.Context, cmd *cobra.Command, f signFlags, server *client.Client, o client.SignOptions, txHash ids.ID) error {
	sent, err := server.SignEVMTransaction(ctx, f.evmChain(), txHash, o)
	if err != nil {
		return f.failedThere(cmd, err)
	}
	messages := make([]sentMessage, len(sent))
	for i, s := range sent {
		messages[i] = sentMessage{MessageID: s.Unsigned.ID(), LogIndex: s.LogIndex, UnsignedMessage: hex.EncodeToString(s.Unsigned.Bytes())}
		if failed, ok := errors.AsType[*client.Error](s.Err); ok {
			e := roundError(failed)
			messages[i].Error = &failedRequest{e.Message, e.Code, e.Account}
		} else {
			messages[i].SignedMessage = hex.EncodeToString(s.Signed.Bytes())
		}
	}
	return printSent(cmd, f, messages)
}

// sentAtOnce bounds the messages of a transaction that are signed at a time.
const sentAtOnce = 16

// signSentFromHere signs the messages of an EVM transaction in this process.
func signSentFromHere(ctx context.Context, cmd *cobra.Command, f signFlags, n *network.Network, chain string, txHash ids.ID) error {
	sent, err := n.Sent(ctx, chain, txHash)
	if err != nil {
		return f.failedHere(cmd, err)
	}
	messages := make([]sentMessage, len(sent))
	var signing errgroup.Group
	signing.SetLimit(sentAtOnce)
	for i, s := range sent {
		messages[i] = sentMessage{MessageID: s.Message.ID(), LogIndex: s.LogIndex, UnsignedMessage: hex.EncodeToString(s.Message.Bytes())}
		request := aggregator.Request{Message: s.Message, Wait: f.timeout}
		_ = f.adjust(&request) // the flags were checked before
		signing.Go(func() error {
			result, err := n.Signer.Sign(ctx, request)
			var failed *aggregator.Error
			switch {
			case err == nil:
				messages[i].SignedMessage = hex.EncodeToString(result.Message.Bytes())
			case errors.As(err, &failed):
				messages[i].Error = &failedRequest{failed.Message, failed.Code, failed.Account}
			default:
				return err
			}
			return nil
		})
	}
	if err := signing.Wait(); err != nil {
		return f.failedHere(cmd, err)
	}
	return printSent(cmd, f, messages)
}

// failedHere returns the error of a command that failed in this process.
func (f signFlags) failedHere(cmd *cobra.Command, err error) error {
	var failed *aggregator.Error
	if errors.As(err, &failed) {
		return cmp.Or(f.printFailed(cmd, failed), signFailure(failed))
	}
	return &exitError{code: exitFailed, err: fmt.Errorf("signing: %w", err), hint: "A longer --timeout may help; --log-level info shows what happens."}
}

// printSent prints the messages of a transaction, signed ones on standard output. It fails if one is not signed.
func printSent(cmd *cobra.Command, f signFlags, messages []sentMessage) error {
	var failed error
	for i, m := range messages {
		text := fmt.Sprintf("message %d of %d, %s, log %d: ", i+1, len(messages), m.MessageID, m.LogIndex)
		if m.Error != nil {
			if failed == nil {
				failed = signFailure(&aggregator.Error{Code: m.Error.Code, Message: text + m.Error.Message, Account: m.Error.Outcomes})
			}
			text += m.Error.Message
		} else {
			text += "signed"
		}
		if f.asJSON {
			continue
		}
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), text)
		if m.Error == nil {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), m.SignedMessage); err != nil {
				return err
			}
		}
	}
	if f.asJSON {
		if err := json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"messages": messages}); err != nil {
			return err
		}
	}
	return failed
}

// isUnknown reports whether a failure may mean that a hash belongs to a transaction of another chain.
func (f signFlags) isUnknown(w work, code aggregator.Code) bool {
	return w.hex && f.chain == "" && code == l1message.CodeUnknownTransaction
}

// evmChain returns the name of the EVM chain of --tx.
func (f signFlags) evmChain() string {
	if f.chain == "" {
		return evm.CChain
	}
	return f.chain
}
