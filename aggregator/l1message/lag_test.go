package l1message

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/internal/node"
)

// TestNodesAtDifferentHeights derives the message of a registration that was just accepted. Behind the URL, one node has
// applied it and another has not. Whichever of them answers which call, no message is a removal that validators could not
// contradict.
func TestNodesAtDifferentHeights(t *testing.T) {
	const calls = 6 // at most, of one derivation
	for _, indexed := range []bool{true, false} {
		t.Run(fmt.Sprint("indexed: ", indexed), func(t *testing.T) {
			for behind := range 1 << calls { // the calls that the node without the registration answers
				w := newWorld(t)
				w.convert(1)
				w.pass(3)
				registration, order := w.register(1)
				if indexed {
					w.indexed[registration].Time = time.Now()
				}
				var asked []string
				w.lagging = func(method string) bool {
					asked = append(asked, method)
					return behind>>(len(asked)-1)&1 == 1
				}
				req, err := w.deriver(indexed).Request(t.Context(), registration)
				require.LessOrEqual(t, len(asked), calls)
				switch code := codeOf(err); {
				case code == CodeProcessing:
				case code == CodeUnknownTransaction:
					require.Equal(t, []string{"TxStatus"}, asked)
				case err != nil:
					t.Errorf("calls %06b: got error %v", behind, err)
				case req.Sent:
					require.Equal(t, saidRegistered(t, order.ValidationID(), true).Bytes(), req.Message.Bytes(), "calls %06b: %v", behind, asked)
				default:
					require.False(t, indexed, "calls %06b: %v", behind, asked)
					require.NotZero(t, req.Wait, "validators may contradict")
				}
			}
		})
	}
}

// TestYoungRegistrationWithoutValidator: only for a while is a node that lags a reason why it does not have the validator
// of an indexed registration.
func TestYoungRegistrationWithoutValidator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.convert(1)
		registration, order := w.register(1)
		w.indexed[registration].Time = time.Now()
		d := w.deriver(true)
		delete(w.validators, order.ValidationID()) // removed in a block that the index lacks
		requireRefused(t, d, registration, CodeProcessing, "not applied")
		time.Sleep(nodeLag - time.Second)
		requireRefused(t, d, registration, CodeProcessing, "not applied")
		time.Sleep(time.Second)
		w.requireFrom(t, d, registration, saidRegistered(t, order.ValidationID(), false))
	})
}

// TestYoungWeightChangeOfRemovedValidator: the validator was there before the change, so the node does not lag that lacks
// it now.
func TestYoungWeightChangeOfRemovedValidator(t *testing.T) {
	w := newWorld(t)
	w.convert(1)
	_, order := w.register(1)
	change := w.setWeight(order.ValidationID(), 1, 9)
	w.indexed[change].Time = time.Now()
	delete(w.validators, order.ValidationID()) // in a block that the index lacks
	requireRefused(t, w.deriver(true), change, CodeSuperseded, "removed")
}

// asAggregator is a Signer that waits as an Aggregator does while all validators refuse for now.
type asAggregator struct{ *world }

func (a asAggregator) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	const unseenTimeout = 2500 * time.Millisecond // of aggregator.DefaultLimits
	account := &aggregator.Account{TotalWeight: 100, RefusedWeight: 100}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := a.vouch(req)
		switch {
		case err == nil:
			return &aggregator.Result{SigningSubnetID: *req.SigningSubnetID}, nil
		case ctx.Err() != nil:
			return nil, &aggregator.Error{Code: aggregator.CodeRefused, Message: err.Error(), Account: account}
		case !req.Sent && time.Since(began) >= max(req.Wait, unseenTimeout):
			return nil, &aggregator.Error{Code: aggregator.CodeNotSeen, Message: err.Error(), Account: account}
		}
	}
}

// TestRemovalThatValidatorsDispute: the node does not have a validator, and the validators of the L1's manager do. The
// request ends long before its deadline, with the message or with an error after which clients retry.
func TestRemovalThatValidatorsDispute(t *testing.T) {
	for name, test := range map[string]struct {
		node       func(w *world, id ids.ID) // after 1 s
		validators time.Duration             // when validators apply a removal; 0 if there is none
		code       aggregator.Code
		within     time.Duration
	}{
		"the node catches up": {
			node:   func(w *world, _ ids.ID) { w.lagging = nil },
			within: 3 * time.Second,
		},
		"the node stays behind":   {code: CodeProcessing, within: 10 * time.Second},
		"the validators catch up": {validators: 4 * time.Second, within: 5 * time.Second},
		"the node fails": {
			node:   func(w *world, _ ids.ID) { w.fail["L1Validator"] = node.ErrUnavailable },
			code:   CodeProcessing,
			within: 3 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.convert(1)
				registration, order := w.register(1)
				id := order.ValidationID()
				w.lagging = func(method string) bool { return method == "L1Validator" }
				time.AfterFunc(time.Second, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					if test.node != nil {
						test.node(w, id)
					}
				})
				if test.validators > 0 {
					time.AfterFunc(test.validators, func() {
						w.mu.Lock()
						defer w.mu.Unlock()
						delete(w.validators, id)
					})
				}
				d := w.deriver(false)
				d.signer = asAggregator{w}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				result, err := d.Sign(ctx, registration, nil)
				require.LessOrEqual(t, time.Since(began), test.within)
				if test.code == "" {
					require.NoError(t, err)
					require.NotNil(t, result)
					return
				}
				var failed *aggregator.Error
				require.True(t, errors.As(err, &failed))
				require.Equal(t, test.code, failed.Code)
				require.Contains(t, failed.Message, "ask again")
				require.NotNil(t, failed.Account, "who refused")
			})
		})
	}
}
