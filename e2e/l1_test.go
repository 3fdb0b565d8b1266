package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/genesis"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/units"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/e2e/localnet"
)

// get asks for the message that follows from a transaction.
func (s *service) get(ctx context.Context, txHash string) (int, reply) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+signPath+"/"+txHash, nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	var r reply
	require.NoError(s.t, json.Unmarshal(answer, &r), "%s", answer)
	return response.StatusCode, r
}

// l1Story is what the parts of the test below share.
type l1Story struct {
	t       *testing.T
	node    string
	service *service
	c       *cChain
	p       *pChain
}

// says is what the P-Chain vouches for, as avalanchego builds it.
func says(t testing.TB, p message.Payload, err error) *warp.UnsignedMessage {
	t.Helper()
	require.NoError(t, err)
	call, err := payload.NewAddressedCall(nil, p.Bytes())
	require.NoError(t, err)
	m, err := warp.NewUnsignedMessage(localnet.NetworkID, constants.PlatformChainID, call.Bytes())
	require.NoError(t, err)
	return m
}

func (s *l1Story) converted(l *l1) *warp.UnsignedMessage {
	m, err := message.NewSubnetToL1Conversion(l.conversionID(s.t))
	return says(s.t, m, err)
}

func (s *l1Story) registration(validationID ids.ID, registered bool) *warp.UnsignedMessage {
	m, err := message.NewL1ValidatorRegistration(validationID, registered)
	return says(s.t, m, err)
}

func (s *l1Story) weight(validationID ids.ID, nonce, weight uint64) *warp.UnsignedMessage {
	m, err := message.NewL1ValidatorWeight(validationID, nonce, weight)
	return says(s.t, m, err)
}

// requireMessage asks for the message of a transaction: it must be the one that
// is wanted, byte for byte, and avalanchego must accept its signature by the
// primary network at the height of the C-Chain's epoch.
func (s *l1Story) requireMessage(ctx context.Context, txID ids.ID, want *warp.UnsignedMessage) *warp.Message {
	s.t.Helper()
	status, r := s.service.get(ctx, txID.String())
	require.Equal(s.t, http.StatusOK, status, "%s %s", r.Code, r.Message)
	signed := parseSigned(s.t, r.SignedMessage)
	require.Equal(s.t, hexOf(want.Bytes()), hexOf(signed.UnsignedMessage.Bytes()))
	height := platformapi.Height(epochHeight(s.t, ctx, s.node, "C"))
	if height == 0 {
		height = platformapi.Height(platformapi.ProposedHeight)
	}
	requireVerified(s.t, ctx, s.node, signed, height, 67)
	return signed
}

func (s *l1Story) requireRefusal(ctx context.Context, txHash string, status int, code, part string) {
	s.t.Helper()
	got, r := s.service.get(ctx, txHash)
	require.Equal(s.t, status, got, "%s %s", r.Code, r.Message)
	require.Equal(s.t, code, r.Code)
	require.Equal(s.t, http.StatusText(status), r.Error)
	require.Contains(s.t, r.Message, part)
}

// order has the L1's manager, an account on the C-Chain, say something to the
// P-Chain; it is signed through the service for the height of the P-Chain's epoch.
func (s *l1Story) order(ctx context.Context, p message.Payload, err error) []byte {
	s.t.Helper()
	require.NoError(s.t, err)
	m, _ := s.c.message(ctx, s.c.sendByAccount(ctx, p.Bytes()))
	return s.signOrder(ctx, m, map[string]any{"verifyingBlockchainId": constants.PlatformChainID.String()}).Bytes()
}

func (s *l1Story) signOrder(ctx context.Context, m *warp.UnsignedMessage, body map[string]any) *warp.Message {
	s.t.Helper()
	body["message"] = hexOf(m.Bytes())
	status, r := s.service.post(ctx, signPath, body)
	require.Equal(s.t, http.StatusOK, status, "%s %s", r.Code, r.Message)
	return parseSigned(s.t, r.SignedMessage)
}

// awaitCChainEpoch makes blocks until the C-Chain's epoch has reached a P-Chain
// height.
func (s *l1Story) awaitCChainEpoch(ctx context.Context, height uint64) {
	s.t.Helper()
	for epochHeight(s.t, ctx, s.node, "C") < height {
		s.c.await(ctx, s.c.sendByAccount(ctx, []byte("another block")))
	}
}

func (s *l1Story) setWeight(ctx context.Context, validationID ids.ID, nonce, weight uint64) ids.ID {
	s.t.Helper()
	m, err := message.NewL1ValidatorWeight(validationID, nonce, weight)
	return s.p.accepted(s.p.wallet.IssueSetL1ValidatorWeightTx(s.order(ctx, m, err)))
}

// run runs a part of the story as a subtest.
func (s *l1Story) run(name string, part func(t *testing.T)) {
	whole := s.t
	whole.Run(name, func(t *testing.T) {
		for _, each := range []*testing.TB{&s.service.t, &s.c.t, &s.p.t} {
			defer func(before testing.TB) { *each = before }(*each)
			*each = t
		}
		s.t = t
		defer func() { s.t = whole }()
		part(t)
	})
	if whole.Failed() {
		whole.FailNow() // what follows builds on it
	}
}

// The test follows an L1 from its conversion: validators join, change and leave, and the service
// reports each transaction. The service also signs the manager's own messages to the P-Chain.
func TestL1Messages(t *testing.T) {
	t.Parallel()
	ctx, cancel := testContext(t, 8*time.Minute)
	defer cancel()
	start := time.Now()
	program := buildService(t)
	network := localnet.Start(t)
	node := network.Node(0).URL
	s := &l1Story{t: t, node: node, c: newCChain(t, ctx, node), p: newPChain(t, ctx, node)}
	s.service = startService(t, program, node)
	cChainID, err := info.NewClient(node).GetBlockchainID(ctx, "C")
	require.NoError(t, err)
	t.Logf("ready after %s", time.Since(start))

	var l *l1
	s.run("a conversion is signed by the manager's chain and read back on it", func(t *testing.T) {
		l = s.p.convert(3, cChainID, s.c.account.Bytes())
		began := time.Now()
		signed := s.requireMessage(ctx, l.conversionTx, s.converted(l))
		t.Logf("signed in %s", time.Since(began))
		valid, content := s.c.read(ctx, signed)
		require.True(t, valid, "the precompile does not accept the message")
		call, err := payload.ParseAddressedCall(s.converted(l).Payload)
		require.NoError(t, err)
		require.Equal(t, call.Payload, content)

		// The hash may be hex as well.
		status, r := s.service.get(ctx, "0x"+hexOf(l.conversionTx[:]))
		require.Equal(t, http.StatusOK, status, r.Message)
		require.Equal(t, hexOf(signed.Bytes()), r.SignedMessage)

		times := make([]time.Duration, 500)
		for i := range times {
			began := time.Now()
			status, _ := s.service.get(ctx, l.conversionTx.String())
			times[i] = time.Since(began)
			require.Equal(t, http.StatusOK, status)
		}
		slices.Sort(times)
		t.Logf("asked again %d times: p50 %s, p99 %s", len(times), times[len(times)/2], times[len(times)*99/100])
	})

	s.run("other transactions have no message", func(t *testing.T) {
		s.requireRefusal(ctx, l.id.String(), http.StatusBadRequest, "NO_WARP_MESSAGE", "CreateSubnetTx")
		s.requireRefusal(ctx, l.creationTx.String(), http.StatusBadRequest, "NO_WARP_MESSAGE", "CreateChainTx")
		// AVAX is named by the X-Chain transaction that created it.
		s.requireRefusal(ctx, s.p.wallet.Builder().Context().AVAXAssetID.String(), http.StatusBadRequest, "X_CHAIN_TRANSACTION", "X-Chain")
		s.requireRefusal(ctx, ids.GenerateTestID().String(), http.StatusNotFound, "UNKNOWN_TRANSACTION", "knows")
		s.requireRefusal(ctx, "nonsense", http.StatusBadRequest, "", "txHash")
	})

	// A registered validator's life.
	var registration, firstWeight, secondWeight, removal, validationID ids.ID
	s.run("a registration", func(t *testing.T) {
		v := newIdentity(t)
		order, err := message.NewRegisterL1Validator(l.id, v.nodeID, v.proof.PublicKey, uint64(time.Now().Add(time.Hour).Unix()), message.PChainOwner{}, message.PChainOwner{}, 50)
		require.NoError(t, err)
		validationID = order.ValidationID()
		registration = s.p.accepted(s.p.wallet.IssueRegisterL1ValidatorTx(units.Avax, v.proof.ProofOfPossession, s.order(ctx, order, nil)))
		s.requireMessage(ctx, registration, s.registration(validationID, true))
	})

	s.run("its weight is changed, twice", func(t *testing.T) {
		firstWeight = s.setWeight(ctx, validationID, 0, 60)
		s.requireMessage(ctx, firstWeight, s.weight(validationID, 0, 60))
		secondWeight = s.setWeight(ctx, validationID, 3, 70)
		s.requireMessage(ctx, secondWeight, s.weight(validationID, 3, 70))
		s.requireRefusal(ctx, firstWeight.String(), http.StatusInternalServerError, "SUPERSEDED", "nonce 3")
		require.Eventually(t, func() bool { // once the block is on our record
			_, r := s.service.get(ctx, firstWeight.String())
			return strings.Contains(r.Message, secondWeight.String())
		}, time.Minute, 20*time.Millisecond, "the newer transaction is not named")
		s.requireMessage(ctx, registration, s.registration(validationID, true))
		s.requireMessage(ctx, l.conversionTx, s.converted(l))
	})

	s.run("what follows is signed before anyone asks", func(t *testing.T) {
		service := s.service
		settled := func() bool { return service.metric("quorate_ahead_waiting") == 0 }
		require.Eventually(t, settled, 2*time.Minute, 20*time.Millisecond)
		signed, done := service.metric("quorate_ahead_jobs_total", `outcome="signed"`), 0*time.Second
		thirdWeight := s.setWeight(ctx, l.id.Append(0), 0, 130)
		accepted := time.Now()
		// The C-Chain's message that ordered it counts, too.
		require.Eventually(t, func() bool {
			if service.metric("quorate_ahead_jobs_total", `outcome="signed"`) < signed+2 || !settled() {
				return false
			}
			done = time.Since(accepted)
			return true
		}, 2*time.Minute, 5*time.Millisecond)
		asked := service.metric("quorate_signature_requests_total")
		began := time.Now()
		s.requireMessage(ctx, thirdWeight, s.weight(l.id.Append(0), 0, 130))
		t.Logf("signed at most %s after its acceptance was known here; the GET and the check of its answer took %s", done, time.Since(began))
		require.InDelta(t, asked, service.metric("quorate_signature_requests_total"), 0, "validators were asked by the GET")
	})

	s.run("its balance has no message", func(t *testing.T) {
		tx := s.p.accepted(s.p.wallet.IssueIncreaseL1ValidatorBalanceTx(validationID, units.Avax))
		s.requireRefusal(ctx, tx.String(), http.StatusBadRequest, "NO_WARP_MESSAGE", "balance")
	})

	s.run("it is removed", func(t *testing.T) {
		removal = s.setWeight(ctx, validationID, 4, 0)
		signed := s.requireMessage(ctx, removal, s.registration(validationID, false))
		valid, _ := s.c.read(ctx, signed)
		require.True(t, valid, "the precompile does not accept the message")
		s.requireMessage(ctx, registration, s.registration(validationID, false))
		s.requireRefusal(ctx, firstWeight.String(), http.StatusInternalServerError, "SUPERSEDED", "removed")
		s.requireRefusal(ctx, secondWeight.String(), http.StatusInternalServerError, "SUPERSEDED", "removed")
	})

	s.run("a validator of the conversion is changed and removed", func(t *testing.T) {
		initial := l.id.Append(1)
		change := s.setWeight(ctx, initial, 0, 110)
		s.requireMessage(ctx, change, s.weight(initial, 0, 110))
		gone := s.setWeight(ctx, initial, 1, 0)
		s.requireMessage(ctx, gone, s.registration(initial, false))
		s.requireRefusal(ctx, change.String(), http.StatusInternalServerError, "SUPERSEDED", "removed")
		s.requireMessage(ctx, l.conversionTx, s.converted(l))
	})

	s.run("a service without nodes signs what follows from transactions, too", func(t *testing.T) {
		before := s.service
		defer func() { s.service = before }()
		s.service = startWithoutNodes(t, ctx, program, network)
		s.requireMessage(ctx, l.conversionTx, s.converted(l))
		s.requireMessage(ctx, registration, s.registration(validationID, false))
		s.requireRefusal(ctx, l.id.String(), http.StatusBadRequest, "NO_WARP_MESSAGE", "CreateSubnetTx")
		s.service.compareSets(ctx, node)
	})

	s.run("the command signs what follows from a transaction, too", func(t *testing.T) {
		want := s.registration(validationID, false)
		for _, from := range [][]string{
			{"--server", s.service.url, "--network", "local"},
			{"--node", node, "--allow-private-ips"},
			{"--node", node, "--allow-private-ips", "--quorum", "80"},
		} {
			out, err := exec.CommandContext(ctx, program, append([]string{"sign", "--tx", removal.String()}, from...)...).Output()
			var failed *exec.ExitError
			if errors.As(err, &failed) {
				t.Fatalf("%v: %v: %s", from, err, failed.Stderr)
			}
			require.NoError(t, err)
			signed := parseSigned(t, strings.TrimSpace(string(out)))
			require.Equal(t, hexOf(want.Bytes()), hexOf(signed.UnsignedMessage.Bytes()))
			requireVerified(t, ctx, node, signed, platformapi.ProposedHeight, 67)
		}
		err := exec.CommandContext(ctx, program, "sign", "--tx", firstWeight.String(), "--node", node, "--allow-private-ips").Run()
		var failed *exec.ExitError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 3, failed.ExitCode(), "superseded")
	})

	s.run("the set changes between epochs: the P-Chain accepts what is signed for its epoch", func(t *testing.T) {
		// A height of 0 would stand for the proposed one.
		s.p.awaitEpoch(ctx, 1)
		s.awaitCChainEpoch(ctx, 1)
		s.p.addPrimaryValidator(ctx)
		tip, epoch := s.p.height(ctx), epochHeight(t, ctx, node, "P")
		require.Less(t, epoch, tip, "the new validator must not be in the epoch's set yet")

		v := newIdentity(t)
		order, err := message.NewRegisterL1Validator(l.id, v.nodeID, v.proof.PublicKey, uint64(time.Now().Add(time.Hour).Unix()), message.PChainOwner{}, message.PChainOwner{}, 50)
		require.NoError(t, err)
		m, _ := s.c.message(ctx, s.c.sendByAccount(ctx, order.Bytes()))

		forTip := s.signOrder(ctx, m, map[string]any{"pChainHeight": tip})
		requireVerified(t, ctx, node, forTip, platformapi.Height(tip), 67)
		delivery := deliveryStory{t: t, program: program, node: node}
		delivery.requireDelivery(ctx, forTip, "p-chain", "EPOCH_BEHIND")
		tx := s.p.registration(ctx, v.proof.ProofOfPossession, forTip.Bytes())
		err = s.p.wallet.IssueTx(tx)
		require.Error(t, err, "the P-Chain accepts a message that is signed for the tip's set")
		t.Logf("refused: %v", err)
		s.requireRefusal(ctx, tx.ID().String(), http.StatusNotFound, "TRANSACTION_DROPPED", tx.ID().String())

		forEpoch := s.signOrder(ctx, m, map[string]any{"verifyingBlockchainId": constants.PlatformChainID.String()})
		requireVerified(t, ctx, node, forEpoch, platformapi.Height(epoch), 67)
		delivery.requireDelivery(ctx, forEpoch, "p-chain", "DELIVERABLE")
		tx = s.p.registration(ctx, v.proof.ProofOfPossession, forEpoch.Bytes())
		require.NoError(t, s.p.wallet.IssueTx(tx))
		s.requireMessage(ctx, tx.ID(), s.registration(order.ValidationID(), true))

		// Once its epoch has reached the tip of then, it is the other way round.
		s.p.awaitEpoch(ctx, tip)
		s.awaitCChainEpoch(ctx, tip)
		change, err := message.NewL1ValidatorWeight(order.ValidationID(), 0, 60)
		require.NoError(t, err)
		m, _ = s.c.message(ctx, s.c.sendByAccount(ctx, change.Bytes()))
		past := s.signOrder(ctx, m, map[string]any{"pChainHeight": epoch})
		delivery.requireDelivery(ctx, past, "p-chain", "SET_CHANGED", "--height", strconv.FormatUint(epoch, 10))
		_, err = s.p.wallet.IssueSetL1ValidatorWeightTx(past.Bytes())
		require.Error(t, err, "the P-Chain accepts a message that is signed for a past epoch's set")
		changed := s.p.accepted(s.p.wallet.IssueSetL1ValidatorWeightTx(s.signOrder(ctx, m, map[string]any{"verifyingBlockchainId": constants.PlatformChainID.String()}).Bytes()))
		signed := s.requireMessage(ctx, changed, s.weight(order.ValidationID(), 0, 60))
		valid, _ := s.c.read(ctx, signed)
		require.True(t, valid, "the precompile does not accept the message of the new set")
	})

	s.run("what was indexed of it all is what the nodes have", func(*testing.T) {
		s.service.requireLedger(ctx, [][]ids.ShortID{{genesis.EWOQKey.Address()}})
		var listed struct {
			Subnets []struct {
				SubnetID                    string
				IsL1                        bool
				L1ConversionTransactionHash string
			}
		}
		s.service.records(ctx, "subnets", nil, &listed)
		require.Equal(s.t, l.id.String(), listed.Subnets[0].SubnetID)
		require.True(s.t, listed.Subnets[0].IsL1)
		require.Equal(s.t, l.conversionTx.String(), listed.Subnets[0].L1ConversionTransactionHash)
	})
	t.Logf("all after %s", time.Since(start))
}
