// Package webhook sends events of blockchains to HTTP receivers that clients name: transactions that involve an address
// of an EVM chain, and what happens to validators.
//
// A Book holds the webhooks in the store. A Worker follows the index of each chain that a webhook watches. For each
// block it writes the messages of a webhook to a durable outbox and moves the webhook's cursor, in one batch. It sends
// the messages in the outbox until the receiver accepts them or the attempts are used up. A process that dies at any
// moment therefore loses no message; it may send one again, with the same message ID.
//
// The package does not parse requests; see package handlers/webhooks.
package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// EventType is the kind of events that a webhook reports.
type EventType string

const (
	// AddressActivity reports transactions of an EVM chain that involve an address.
	AddressActivity EventType = "address_activity"
	// ValidatorActivity reports events of the validators of a node or a subnet.
	ValidatorActivity EventType = "validator_activity"
)

// Webhook is a client's order to report events.
type Webhook struct {
	ID string `json:"id"`
	// Owner is the name of the client's API key, empty without API keys.
	Owner       string    `json:"owner"`
	URL         string    `json:"url"`
	Name        string    `json:"name,omitempty"`
	Description string    `json:"description,omitempty"`
	EventType   EventType `json:"eventType"`
	// Chain identifies the Source of the events.
	Chain string `json:"chain"`
	// ChainID is the chain's name in answers.
	ChainID string `json:"chainId"`
	// From is the first block whose events are reported. Activation sets it to the block after the tip. Messages about
	// earlier blocks are those of an earlier activation.
	From uint64 `json:"from"`
	// Network is the name of the network in answers, empty for EVM chains.
	Network string `json:"network,omitempty"`
	// Validators is set for ValidatorActivity. The fields from Addresses to IncludeLogs are for AddressActivity.
	Validators *ValidatorFilter `json:"validators,omitempty"`
	// Addresses have the chain's canonical spelling.
	Addresses []string `json:"addresses,omitempty"`
	// EventSignatures are first topics of logs. If there are any, only transactions with such a log are reported.
	EventSignatures  []string `json:"eventSignatures,omitempty"`
	IncludeInternals bool     `json:"includeInternals,omitempty"`
	IncludeLogs      bool     `json:"includeLogs,omitempty"`
	Active           bool     `json:"active"`
	// Created and Changed are in Unix seconds. Changed is the time of the last change between active and inactive.
	Created int64 `json:"created"`
	Changed int64 `json:"changed"`
}

// Bounds. A webhook that has MaxPending messages or maxPendingBytes in its outbox gets further events when it has room
// again: its cursor waits.
const (
	// MaxAddresses is the maximum number of addresses of a webhook.
	MaxAddresses = 500
	// MaxSignatures is the maximum number of event signatures of a webhook.
	MaxSignatures = 50
	// MaxWebhooks is the maximum number of webhooks of all owners.
	MaxWebhooks = 1000
	// MaxPending is the maximum number of messages that wait for a receiver, except that all messages of one block wait
	// together.
	MaxPending      = 1000
	maxPendingBytes = 32 << 20

	// Attempts is the number of requests with one message before the message is given up.
	Attempts = 10
	// firstPause is the pause after the first attempt. Each further pause is pauseFactor times as long: all together
	// last 45 hours.
	firstPause  = 16500 * time.Millisecond
	pauseFactor = 3
	// answerTime is the time that a receiver has to answer.
	answerTime = 10 * time.Second
	// maxAnswer is the number of bytes of an answer that are read.
	maxAnswer = 16 << 10
	// maxSending is the number of requests in flight, one for each webhook.
	maxSending = 64
)

var (
	// ErrNotFound means that the owner has no such webhook.
	ErrNotFound = errors.New("no such webhook")
	// ErrLimit means that the owner has as many active webhooks as allowed.
	ErrLimit = errors.New("too many webhooks")
	// ErrFull means that all owners together have as many webhooks as allowed.
	ErrFull = errors.New("too many webhooks of all owners")
	// ErrNoSecret means that the owner has no secret.
	ErrNoSecret = errors.New("no shared secret")
)

// retryPause returns the time between an attempt, counted from 1, and the next.
func retryPause(attempt int) time.Duration {
	d := firstPause
	for range attempt - 1 {
		d *= pauseFactor
	}
	return d
}

// messageID returns the ID of the message about an event of a block. The same event always has the same ID.
func messageID(w *Webhook, height []byte, event string) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(w.ID), []byte(w.Chain), height, []byte(event)} {
		h.Write([]byte{byte(len(part))})
		h.Write(part)
	}
	var id [16]byte
	copy(id[:], h.Sum(nil))
	return uuid(id)
}

// uuid formats bytes as a UUID of version 8 (RFC 9562).
func uuid(b [16]byte) string {
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
