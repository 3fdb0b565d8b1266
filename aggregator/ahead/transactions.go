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

// L1Transactions are the recorded transactions from which messages follow, in the
// order of their blocks.
type L1Transactions interface {
	// Height is that of the first block which is not recorded yet.
	Height(ctx context.Context) (next uint64, err error)
	// Since returns the transactions of blocks from a height on, and the height to
	// go on from.
	Since(ctx context.Context, height uint64, limit int) ([]*pchain.L1Transaction, uint64, error)
}

// Messages says what is to be signed for a transaction.
type Messages interface {
	Request(ctx context.Context, txID ids.ID) (aggregator.Request, error)
}

const (
	// lookback is how many blocks before the present are gone over at the start,
	// for what was accepted while nobody followed.
	lookback = 4096
	// maxAge is how old a transaction may be, by the time of its block: whoever
	// wanted the message of an older one has got it by now.
	maxAge = time.Hour
	// transactionsAtOnce is how many transactions are read in one step.
	transactionsAtOnce = 256
)

// FollowL1 queues the messages of L1 transactions as they are recorded, which
// wake tells, until ctx ends.
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
			a.options.Log.Error("recorded L1 transactions cannot be read; their messages are not signed ahead of requests", slog.Any("error", err))
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
