package ahead

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/aggregator/l1message"
	"quorate/internal/chain/pchain"
)

// L1Transactions reads the indexed transactions that lead to messages, in block order.
type L1Transactions interface {
	// Height returns the height of the first block that is not indexed.
	Height(ctx context.Context) (next uint64, err error)
	// Since returns the transactions of the blocks from height on, and the height to continue from.
	Since(ctx context.Context, height uint64, limit int) ([]*pchain.L1Transaction, uint64, error)
}

// Messages returns the request for the message of a transaction.
type Messages interface {
	Request(ctx context.Context, txID ids.ID) (aggregator.Request, error)
}

const (
	// lookback is the number of blocks before the tip that are read at the start, to find transactions accepted while
	// the process was down.
	lookback = 4096
	// maxAge is the maximum age of a transaction by its block's time. Clients have already obtained the messages of
	// older ones.
	maxAge = time.Hour
	// transactionsAtOnce is the number of transactions per read.
	transactionsAtOnce = 256
)

// FollowL1 queues the messages of newly indexed L1 transactions until ctx ends. wake signals new transactions.
func (a *Ahead) FollowL1(ctx context.Context, transactions L1Transactions, messages Messages, wake <-chan struct{}) {
	var next uint64
	started := false
	for {
		err := func() error {
			if !started {
				height, err := transactions.Height(ctx)
				if err != nil {
					return err
				}
				next, started = height-min(height, lookback), true
			}
			for {
				found, after, err := transactions.Since(ctx, next, transactionsAtOnce)
				if err != nil {
					return err
				}
				for _, tx := range found {
					a.offerL1(tx, messages)
				}
				next = after
				if len(found) == 0 {
					return nil
				}
			}
		}()
		if err != nil && ctx.Err() == nil {
			a.options.Log.Error("cannot read indexed L1 transactions; their messages are not signed ahead of requests", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
	}
}

func (a *Ahead) offerL1(tx *pchain.L1Transaction, messages Messages) {
	if time.Since(tx.Time) > maxAge {
		return
	}
	a.Offer(Job{ID: tx.TxID, Request: func(ctx context.Context) (aggregator.Request, error) {
		request, err := messages.Request(ctx, tx.TxID)
		var failed *aggregator.Error
		if errors.As(err, &failed) {
			switch failed.Code {
			case l1message.CodeSuperseded, l1message.CodeNoMessage, l1message.CodeRegistrationNotFound:
				return request, fmt.Errorf("%w: %w", ErrObsolete, err)
			}
		}
		return request, err
	}})
}
