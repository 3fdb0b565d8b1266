package simnet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/codec"
	"github.com/ava-labs/avalanchego/codec/linearcodec"
	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/p2p"
	"github.com/ava-labs/avalanchego/network/p2p/acp118"
	snowcommon "github.com/ava-labs/avalanchego/snow/engine/common"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/utils/units"
	"github.com/ava-labs/avalanchego/vms/components/gas"
	platformconfig "github.com/ava-labs/avalanchego/vms/platformvm/config"
	platformnetwork "github.com/ava-labs/avalanchego/vms/platformvm/network"
	platformstate "github.com/ava-labs/avalanchego/vms/platformvm/state"
	"github.com/ava-labs/avalanchego/vms/platformvm/txs/mempool"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"
	"github.com/ava-labs/libevm/common"
)

// app answers the application requests of one chain of a validator. It is avalanchego's own
// code: the router of network/p2p, the ACP-118 handler, and the verifier of the P-Chain.
// Only EVM chains have a verifier of simnet, because theirs takes a whole VM to import.
type app interface {
	AppRequest(ctx context.Context, nodeID ids.NodeID, requestID uint32, deadline time.Time, request []byte) error
}

// request returns the answer of v's node to an application request, with Times 0 if there is
// none. Errors are simnet's own.
func (v *Validator) request(ctx context.Context, chainID ids.ID, from ids.NodeID, requestID uint32, deadline time.Time, request []byte) (Answer, error) {
	// The VMs before SAE drop even request IDs, which belong to another protocol (graft,
	// network/network.go).
	if chainID != constants.PlatformChainID && chainID != v.network.xChain && !v.network.sae(chainID) && requestID%2 == 0 {
		return Answer{}, nil
	}
	app, err := v.app(chainID)
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	err = app.AppRequest(context.WithValue(ctx, answerKey{}, &answer), from, requestID, deadline, request)
	return answer, err
}

// app returns the application of a chain that v validates.
func (v *Validator) app(chainID ids.ID) (app, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a, ok := v.apps[chainID]; ok {
		return a, nil
	}
	a, err := v.newApp(chainID)
	if err != nil {
		return nil, fmt.Errorf("simnet: starting the application of chain %s: %w", chainID, err)
	}
	v.apps[chainID] = a
	return a, nil
}

func (v *Validator) newApp(chainID ids.ID) (app, error) {
	metrics := prometheus.NewRegistry()
	s := signer{v: v, chainID: chainID}
	if chainID == constants.PlatformChainID {
		pool, err := mempool.New("mempool", gas.Dimensions{1, 1, 1, 1}, 1, ids.Empty, metrics)
		if err != nil {
			return nil, err
		}
		return platformnetwork.New(logging.NoLog{}, v.NodeID, constants.PrimaryNetworkID, snowState{n: v.network}, nil, pool, false,
			answerer{}, new(sync.Mutex), platformState{v: v}, s, metrics, platformconfig.DefaultNetwork)
	}
	router, err := p2p.NewNetwork(logging.NoLog{}, answerer{}, metrics, "p2p")
	if err != nil || chainID == v.network.xChain {
		return router, err // the X-Chain has no ACP-118 handler
	}
	return router, router.AddHandler(acp118.HandlerID, acp118.NewHandler(evmVerifier{v: v, chainID: chainID}, s))
}

// answerKey is the context key of the answer to a request.
type answerKey struct{}

// answerer records what an application sends in the answer of the context.
type answerer struct{ snowcommon.AppSender }

func (answerer) SendAppResponse(ctx context.Context, _ ids.NodeID, _ uint32, response []byte) error {
	*ctx.Value(answerKey{}).(*Answer) = Answer{Bytes: response, Times: 1}
	return nil
}

func (answerer) SendAppError(ctx context.Context, _ ids.NodeID, _ uint32, code int32, text string) error {
	*ctx.Value(answerKey{}).(*Answer) = Answer{Refuse: true, Code: code, Text: text, Times: 1}
	return nil
}

// signer signs like avalanchego's warp.NewSigner, with signatures that the network caches.
type signer struct {
	v       *Validator
	chainID ids.ID
}

func (s signer) Sign(m *warp.UnsignedMessage) ([]byte, error) {
	switch {
	case m.SourceChainID != s.chainID:
		return nil, warp.ErrWrongSourceChainID
	case m.NetworkID != s.v.network.options.NetworkID:
		return nil, warp.ErrWrongNetworkID
	}
	return s.v.network.signature(m, s.v.Index), nil
}

// lagging returns whether v has not accepted what others sign.
func (v *Validator) lagging() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.hook == nil && v.behaviour == Refusing
}

// sae returns whether a chain is a C-Chain that runs SAE.
func (n *Network) sae(chainID ids.ID) bool {
	return chainID == n.chain && (!time.Now().Before(n.upgradeTime()) || n.cChain != nil && n.cChain.Generator().SAE())
}

// Codes of refusals of EVM chains (avalanchego, vms/saevm/cchain/warp and, before SAE, graft,
// warp/verifier_backend.go).
const (
	evmParse          = 1
	evmVerify         = 2
	saeParse          = 2
	saeUnknownMessage = 3
	saeNotAccepted    = 4
)

// evmVerifier decides what the node of an EVM chain signs: every addressed call, as if a
// contract had sent it, and the hashes of accepted blocks. Where simnet has no blocks of a
// chain, each hash is that of one.
type evmVerifier struct {
	v       *Validator
	chainID ids.ID
}

// Verify refuses with the codes and texts of the C-Chain (of SAE or coreth) or of subnet-evm.
func (e evmVerifier) Verify(_ context.Context, m *warp.UnsignedMessage, _ []byte) *snowcommon.AppError {
	refuse := func(code int32, text string, args ...any) *snowcommon.AppError {
		return &snowcommon.AppError{Code: code, Message: fmt.Sprintf(text, args...)}
	}
	n := e.v.network
	sae, lagging := n.sae(e.chainID), e.v.lagging()
	parsed, err := payload.Parse(m.Payload)
	switch {
	case err != nil && sae:
		return refuse(saeParse, "parsing payload: %s", err)
	case err != nil:
		return refuse(evmParse, "failed to parse payload: %s", err)
	}
	if hash, ok := parsed.(*payload.Hash); ok {
		switch {
		case !lagging && n.hasBlock(e.chainID, hash.Hash):
			return nil
		case sae:
			return refuse(saeNotAccepted, "block not marked as accepted: %s", database.ErrNotFound)
		}
		return refuse(evmVerify, "failed to get block %s: %s", hash.Hash, database.ErrNotFound)
	}
	switch {
	case !lagging:
		return nil
	case sae:
		return refuse(saeUnknownMessage, "unknown %T message", parsed)
	case e.chainID == n.chain:
		return refuse(evmParse, "unknown payload type: %T", parsed)
	}
	// subnet-evm takes a message that no contract sent for an off-chain one.
	var message any
	if _, err := offChain.Unmarshal(parsed.(*payload.AddressedCall).Payload, &message); err != nil {
		return refuse(evmParse, "failed to parse addressed call message: %s", err)
	}
	return refuse(evmVerify, "source address should be empty for offchain addressed messages")
}

// offChain is the codec of subnet-evm's off-chain messages (graft/subnet-evm, warp/messages).
var offChain = func() codec.Manager {
	type validatorUptime struct {
		ValidationID ids.ID `serialize:"true"`
		TotalUptime  uint64 `serialize:"true"`
	}
	types, manager := linearcodec.NewDefault(), codec.NewManager(24*units.KiB)
	if err := errors.Join(types.RegisterType(&validatorUptime{}), manager.RegisterCodec(0, types)); err != nil {
		panic(fmt.Sprintf("simnet: %v", err))
	}
	return manager
}()

// hasBlock returns whether a block belongs to an EVM chain.
func (n *Network) hasBlock(chainID, blockID ids.ID) bool {
	for _, node := range n.evm {
		if node.Generator().BlockchainID() == chainID {
			return node.Has(common.Hash(blockID))
		}
	}
	return true
}

// snowState serves validator sets to the gossip of the P-Chain's application.
type snowState struct {
	snow.State
	n *Network
}

func (s snowState) GetCurrentHeight(context.Context) (uint64, error) { return s.n.Height(), nil }

func (s snowState) GetValidatorSet(_ context.Context, height uint64, subnetID ids.ID) (map[ids.NodeID]*snow.GetValidatorOutput, error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	return s.n.outputs(s.n.stateAt(height)[subnetID]), nil
}

// platformState is the state of v's P-Chain about L1s. That of a lagging validator has none.
type platformState struct {
	platformstate.Chain
	v *Validator
}

func (platformState) GetTimestamp() time.Time { return time.Now() }

// HasExpiry reports whether a message registered the validator. No message did of simnet's own L1.
func (s platformState) HasExpiry(e platformstate.ExpiryEntry) (bool, error) {
	past := s.v.network.past
	return past != nil && past.Registered(e.ValidationID) && !s.v.lagging(), nil
}

func (s platformState) GetSubnetToL1Conversion(subnetID ids.ID) (platformstate.SubnetToL1Conversion, error) {
	n := s.v.network
	if s.v.lagging() {
		return platformstate.SubnetToL1Conversion{}, database.ErrNotFound
	}
	if n.past != nil {
		if c, ok := n.past.Conversion(subnetID); ok {
			return c, nil
		}
	}
	if n.l1 == ids.Empty || subnetID != n.l1 {
		return platformstate.SubnetToL1Conversion{}, database.ErrNotFound
	}
	return n.conversion(), nil
}

func (s platformState) GetL1Validator(validationID ids.ID) (platformstate.L1Validator, error) {
	if s.v.lagging() {
		return platformstate.L1Validator{}, database.ErrNotFound
	}
	return s.v.network.l1Validator(validationID)
}

// conversion returns the conversion of the network's L1.
func (n *Network) conversion() platformstate.SubnetToL1Conversion {
	return platformstate.SubnetToL1Conversion{ConversionID: draw(n.options.Seed, "conversion", 0), ChainID: n.chain, Addr: make([]byte, common.AddressLength)}
}

// validationID returns the ID of v's validation of the L1.
func (v *Validator) validationID() ids.ID { return v.network.l1.Append(uint32(v.Index)) }

// l1Validator returns a current validator of the history's L1s or of the network's own.
func (n *Network) l1Validator(validationID ids.ID) (platformstate.L1Validator, error) {
	if n.past != nil {
		if v, ok := n.past.L1Validator(validationID); ok {
			return v, nil
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.l1 == ids.Empty {
		return platformstate.L1Validator{}, database.ErrNotFound
	}
	for _, m := range n.stateAt(n.height())[n.l1] {
		if m.Validator != nil && m.Validator.validationID() == validationID {
			return platformstate.L1Validator{
				ValidationID:      validationID,
				SubnetID:          n.l1,
				NodeID:            m.Validator.NodeID,
				PublicKey:         bls.PublicKeyToUncompressedBytes(m.Validator.signer.PublicKey()),
				Weight:            m.Weight,
				MinNonce:          m.nonce,
				EndAccumulatedFee: m.Balance,
			}, nil
		}
	}
	return platformstate.L1Validator{}, database.ErrNotFound
}
