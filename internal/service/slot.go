package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/handlers/signing"
	"quorate/internal/service/network"
	"quorate/internal/service/nodeapi"
)

// slot is the place of one configured network, from before its node has answered
// until the process ends. It is the handlers' Signer throughout.
type slot struct {
	name  string
	state atomic.Pointer[slotState]
}

// slotState is one of three: waiting for the node (both nil), open, or failed
// for good.
type slotState struct {
	network *network.Network
	api     *nodeapi.API // with network
	failed  error
}

// unavailable is what clients hear of a network that does not sign; the reason is
// for operators.
func (s *slot) unavailable() *aggregator.Error {
	message := fmt.Sprintf("the network %s is starting and its node has not answered yet; try again in a moment", s.name)
	state := s.state.Load()
	if state.failed != nil {
		message = fmt.Sprintf("the network %s is out of service; its operator finds the reason at /readyz", s.name)
	}
	return &aggregator.Error{Code: aggregator.CodeNodeUnavailable, Message: message, Err: state.failed}
}

func (s *slot) waiting() bool {
	state := s.state.Load()
	return state.network == nil && state.failed == nil
}

// open is the network, nil while or once there is none.
func (s *slot) open() *network.Network {
	if state := s.state.Load(); state.failed == nil {
		return state.network
	}
	return nil
}

// nodeAPI is what the network answers as a node does, nil as long as open is.
func (s *slot) nodeAPI() *nodeapi.API {
	if state := s.state.Load(); state.failed == nil {
		return state.api
	}
	return nil
}

// Sign implements signing.Signer.
func (s *slot) Sign(ctx context.Context, req aggregator.Request) (*aggregator.Result, error) {
	if n := s.open(); n != nil {
		return n.Signer.Sign(ctx, req)
	}
	return nil, s.unavailable()
}

// SignTransaction implements signing.Signer.
func (s *slot) SignTransaction(ctx context.Context, txID ids.ID) (*aggregator.Result, error) {
	if n := s.open(); n != nil {
		return n.Messages.Sign(ctx, txID, nil)
	}
	return nil, s.unavailable()
}

// Verify implements signing.Signer.
func (s *slot) Verify(ctx context.Context, req aggregator.VerifyRequest) (*aggregator.Verdict, error) {
	if n := s.open(); n != nil {
		return n.Signer.Verify(ctx, req)
	}
	return nil, s.unavailable()
}

// ready is what /readyz shows: nil, or why requests cannot be expected to succeed.
func (s *slot) ready() error {
	if n := s.open(); n != nil {
		return n.Ready()
	}
	if failed := s.state.Load().failed; failed != nil {
		return failed
	}
	return errors.New("the node has not answered yet; is it up, and is networks." + s.name + ".nodes right?")
}

// subnetReady is ready for the validators of one subnet.
func (s *slot) subnetReady(subnet ids.ID) error {
	if err := s.ready(); err != nil {
		return err
	}
	share, ok := s.open().Coverage.Share(subnet)
	if !ok {
		return fmt.Errorf("subnet %s: %w", subnet, signing.ErrNoSubnet)
	}
	return network.Enough(share, "subnet")
}
