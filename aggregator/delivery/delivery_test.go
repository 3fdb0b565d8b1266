package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/crypto/bls/signer/localsigner"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/message"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/internal/node"
	"quorate/validators"
)

const (
	networkID = 12345
	epochTime = 30 * time.Second
	// The destination's epoch is at epochHeight, and the P-Chain proposes proposedHeight.
	earlierHeight, epochHeight, proposedHeight = 10, 20, 30
)

var (
	cChain  = ids.ID{'C'}
	l1Chain = ids.ID{'L'} // of subnet l1
	l1      = ids.ID{1}
	other   = ids.ID{2} // a subnet without chains
)

// world is a network as its node reports it.
type world struct {
	t *testing.T
	// sets holds the signers of each subnet, all of weight 100, by the height from which on they are the set.
	sets       map[ids.ID]map[uint64][]*localsigner.LocalSigner
	followed   uint64 // height of the sets that Set returns for the proposed height
	epoch      node.Epoch
	configs    node.WarpConfigs
	fail       map[string]error
	configured int // calls of WarpConfigs
}

func newWorld(t *testing.T) *world {
	primary, own := signers(t, 5), signers(t, 4)
	return &world{
		t: t,
		sets: map[ids.ID]map[uint64][]*localsigner.LocalSigner{
			constants.PrimaryNetworkID: {0: primary},
			l1:                         {0: own},
			other:                      {0: signers(t, 3)},
		},
		followed: proposedHeight,
		epoch:    node.Epoch{Number: 7, PChainHeight: epochHeight, StartTime: time.Now().Add(-10 * time.Second)},
		configs:  node.WarpConfigs{{BlockTimestamp: new(uint64)}},
		fail:     make(map[string]error),
	}
}

// signers returns new signers in canonical order.
func signers(t *testing.T, n int) (all []*localsigner.LocalSigner) {
	t.Helper()
	for range n {
		s, err := localsigner.New()
		require.NoError(t, err)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *localsigner.LocalSigner) int {
		return slices.Compare(bls.PublicKeyToUncompressedBytes(a.PublicKey()), bls.PublicKeyToUncompressedBytes(b.PublicKey()))
	})
	return all
}

// change gives a subnet other validators from a height on.
func (w *world) change(subnet ids.ID, from uint64, to []*localsigner.LocalSigner) {
	w.sets[subnet][from] = to
}

// at returns the validators of a subnet at a height.
func (w *world) at(subnet ids.ID, height uint64) (signers []*localsigner.LocalSigner) {
	newest := uint64(0)
	for from, s := range w.sets[subnet] {
		if from <= height && from >= newest {
			newest, signers = from, s
		}
	}
	return signers
}

func (w *world) set(subnet ids.ID, height uint64) (*validators.Set, error) {
	var warpSet snow.WarpSet
	for _, s := range w.at(subnet, height) {
		key := s.PublicKey()
		warpSet.Validators = append(warpSet.Validators, &snow.Warp{PublicKey: key, PublicKeyBytes: bls.PublicKeyToUncompressedBytes(key), Weight: 100, NodeIDs: []ids.NodeID{{byte(len(warpSet.Validators))}}})
		warpSet.TotalWeight += 100
	}
	return validators.NewSet(subnet, height, warpSet), w.fail["set"]
}

func (w *world) Set(_ context.Context, subnet ids.ID, height uint64) (*validators.Set, error) {
	if height == 0 {
		height = w.followed
	}
	if height > proposedHeight+50 {
		return nil, validators.ErrHeightUnavailable
	}
	return w.set(subnet, height)
}

func (w *world) NewestSet(_ context.Context, subnet ids.ID) (*validators.Set, error) {
	return w.set(subnet, proposedHeight)
}

func (w *world) SetOfEpoch(_ context.Context, subnet ids.ID, epoch node.Epoch) (*validators.Set, error) {
	return w.set(subnet, epoch.PChainHeight)
}

func (w *world) SubnetOf(_ context.Context, blockchainID ids.ID) (ids.ID, error) {
	switch blockchainID {
	case constants.PlatformChainID, cChain, ids.ID{'X'}:
		return constants.PrimaryNetworkID, w.fail["subnet"]
	case l1Chain:
		return l1, w.fail["subnet"]
	}
	return ids.Empty, validators.ErrUnknownBlockchain
}

func (w *world) Epoch(context.Context, ids.ID) (node.Epoch, error)    { return w.epoch, w.fail["epoch"] }
func (w *world) BlockchainID(context.Context, string) (ids.ID, error) { return cChain, w.fail["alias"] }
func (w *world) Upgrades(context.Context, uint32) (c upgrade.Config, e error) {
	c.GraniteEpochDuration = epochTime
	return c, w.fail["upgrades"]
}

func (w *world) WarpConfigs(context.Context, ids.ID) (node.WarpConfigs, error) {
	w.configured++
	return w.configs, w.fail["configs"]
}

// sign returns a message from source, signed by the first n validators of a subnet at a height.
func (w *world) sign(source ids.ID, content []byte, subnet ids.ID, height uint64, n int) *warp.Message {
	w.t.Helper()
	m, err := warp.NewUnsignedMessage(networkID, source, content)
	require.NoError(w.t, err)
	bits := set.NewBits()
	var signatures []*bls.Signature
	for i, s := range w.at(subnet, height)[:n] {
		signature, err := s.Sign(m.Bytes())
		require.NoError(w.t, err)
		signatures = append(signatures, signature)
		bits.Add(i)
	}
	aggregate, err := bls.AggregateSignatures(signatures)
	require.NoError(w.t, err)
	signed, err := warp.NewMessage(m, &warp.BitSetSignature{Signers: bits.Bytes(), Signature: [bls.SignatureLen]byte(bls.SignatureToBytes(aggregate))})
	require.NoError(w.t, err)
	return signed
}

func call(t *testing.T, content []byte) []byte {
	t.Helper()
	p, err := payload.NewAddressedCall([]byte{1}, content)
	require.NoError(t, err)
	return p.Bytes()
}

func order(t *testing.T) []byte {
	t.Helper()
	m, err := message.NewL1ValidatorWeight(ids.ID{9}, 1, 2)
	require.NoError(t, err)
	return call(t, m.Bytes())
}

// TestCheck has a row for each outcome, and for each rule that leads to it.
func TestCheck(t *testing.T) {
	hello := call(t, []byte("hello"))
	primary := constants.PrimaryNetworkID
	quorum := func(percent uint64, requirePrimary bool) node.WarpConfigs {
		return node.WarpConfigs{{BlockTimestamp: new(uint64), QuorumNumerator: percent, RequirePrimaryNetworkSigners: requirePrimary}}
	}
	rows := map[string]struct {
		prepare func(*world)
		// The message is from source, signed by n validators of subnet at a height.
		source, subnet ids.ID
		content        []byte
		height         uint64
		n              int
		destination    ids.ID
		named          *ids.ID // SigningSubnetID of the request
		known          uint64  // PChainHeight of the request
		want           Code
		remedy         string
	}{
		"to the C-Chain from an L1":                         {source: l1Chain, subnet: l1, n: 3, destination: cChain, want: Deliverable},
		"to the C-Chain from the P-Chain":                   {source: constants.PlatformChainID, subnet: primary, n: 4, destination: cChain, want: Deliverable},
		"to the P-Chain from the C-Chain":                   {source: cChain, content: order(t), subnet: primary, n: 4, destination: constants.PlatformChainID, want: Deliverable},
		"to the P-Chain from an L1":                         {source: l1Chain, content: order(t), subnet: l1, n: 3, destination: constants.PlatformChainID, want: Deliverable},
		"to an L1 from the C-Chain, signed by the L1":       {source: cChain, subnet: l1, n: 3, destination: l1Chain, want: Deliverable},
		"to an L1 from the P-Chain, signed by the L1":       {source: constants.PlatformChainID, subnet: l1, n: 3, destination: l1Chain, want: Deliverable},
		"to an L1 that wants the primary network's signers": {prepare: func(w *world) { w.configs = quorum(0, true) }, source: cChain, subnet: primary, n: 4, destination: l1Chain, want: Deliverable},
		"of the P-Chain to an L1 that wants them of others": {prepare: func(w *world) { w.configs = quorum(0, true) }, source: constants.PlatformChainID, subnet: l1, n: 3, destination: l1Chain, want: Deliverable},
		"to an L1 with a low quorum":                        {prepare: func(w *world) { w.configs = quorum(50, false) }, source: cChain, subnet: l1, n: 2, destination: l1Chain, want: Deliverable},
		"to an L1 whose node does not report its rules":     {prepare: func(w *world) { w.fail["configs"] = &node.RPCError{Code: 404} }, source: cChain, subnet: l1, n: 3, destination: l1Chain, want: Deliverable},
		"to a chain without epochs":                         {prepare: func(w *world) { w.epoch = node.Epoch{PChainHeight: proposedHeight} }, source: cChain, subnet: primary, n: 4, destination: cChain, want: Deliverable},
		"to a chain whose upgrade enabled it": {prepare: func(w *world) {
			w.configs = append(node.WarpConfigs{{BlockTimestamp: new(uint64), Disable: true}}, quorum(0, false)...)
		}, source: cChain, subnet: l1, n: 3, destination: l1Chain, want: Deliverable},
		"signed for the proposed height":   {prepare: func(w *world) { w.change(primary, 25, signers(w.t, 5)) }, source: cChain, subnet: primary, height: proposedHeight, n: 4, destination: cChain, want: EpochBehind, remedy: "Or do not wait: sign the message again"},
		"signed above the proposed height": {prepare: func(w *world) { w.change(primary, 35, signers(w.t, 5)) }, source: cChain, subnet: primary, height: 36, known: 36, n: 4, destination: cChain, want: EpochBehind, remedy: "not before the proposed P-Chain height has reached 36"},
		"to a new L1":                      {prepare: func(w *world) { w.sets[l1] = map[uint64][]*localsigner.LocalSigner{25: signers(w.t, 4)} }, source: cChain, subnet: l1, height: proposedHeight, n: 4, destination: l1Chain, want: EpochBehind, remedy: "later block."},
		"to a chain without blocks": {prepare: func(w *world) {
			w.epoch = node.Epoch{Number: 1, StartTime: time.Unix(0, 0)}
			w.configs = quorum(0, true)
		}, source: cChain, subnet: primary, n: 4, destination: l1Chain, want: EpochBehind, remedy: "make its first block"},
		"below the quorum of a chain without blocks": {prepare: func(w *world) { w.epoch = node.Epoch{Number: 1} }, source: cChain, subnet: l1, n: 2, destination: l1Chain, want: QuorumTooLow, remedy: "again at P-Chain height 30"},
		"signed for a set that neither epoch has": {prepare: func(w *world) {
			w.change(primary, 25, signers(w.t, 5))
			w.change(primary, 28, signers(w.t, 5))
		}, source: cChain, subnet: primary, height: 26, known: 26, n: 4, destination: cChain, want: SetChanged},
		"to an L1 without validators":                            {prepare: func(w *world) { delete(w.sets, l1) }, source: cChain, subnet: primary, n: 4, destination: l1Chain, want: NoValidators},
		"signed before the set changed":                          {prepare: func(w *world) { w.change(primary, 15, signers(w.t, 5)) }, source: cChain, subnet: primary, height: earlierHeight, known: earlierHeight, n: 4, destination: cChain, want: SetChanged, remedy: "(or at P-Chain height 20)"},
		"signed at an unknown height":                            {prepare: func(w *world) { w.change(primary, 15, signers(w.t, 5)) }, source: cChain, subnet: primary, height: earlierHeight, n: 4, destination: cChain, want: SignatureInvalid},
		"signed at a height that is gone":                        {prepare: func(w *world) { w.change(primary, 15, signers(w.t, 5)) }, source: cChain, subnet: primary, height: earlierHeight, known: 1000, n: 4, destination: cChain, want: SignatureInvalid},
		"below the default quorum":                               {source: cChain, subnet: primary, n: 3, destination: cChain, want: QuorumTooLow},
		"below the destination's quorum":                         {prepare: func(w *world) { w.configs = quorum(80, false) }, source: l1Chain, subnet: l1, n: 3, destination: l1Chain, want: QuorumTooLow, remedy: "quorumPercentage at least 80"},
		"of the C-Chain to an L1, signed by the primary network": {source: cChain, subnet: primary, n: 4, destination: l1Chain, want: WrongSigningSubnet, remedy: "signingSubnetId " + l1.String()},
		"signed by the L1, which wants the primary network's":    {prepare: func(w *world) { w.configs = quorum(0, true) }, source: cChain, subnet: l1, n: 4, destination: l1Chain, want: WrongSigningSubnet},
		"of an L1 to the C-Chain, signed by the primary network": {source: l1Chain, subnet: primary, n: 5, destination: cChain, want: WrongSigningSubnet},
		"signed by a third subnet that is named":                 {source: cChain, subnet: other, n: 3, named: &other, destination: cChain, want: WrongSigningSubnet},
		"signed by a third subnet that is not named":             {source: cChain, subnet: other, n: 3, destination: cChain, want: SignatureInvalid},
		"to a chain without the precompile":                      {prepare: func(w *world) { w.configs = node.WarpConfigs{} }, source: cChain, subnet: l1, n: 4, destination: l1Chain, want: WarpDisabled},
		"to a chain that disabled the precompile": {prepare: func(w *world) {
			w.configs = append(w.configs, node.WarpConfig{BlockTimestamp: new(uint64), Disable: true})
		}, source: cChain, subnet: l1, n: 4, destination: l1Chain, want: WarpDisabled},
		"to the X-Chain":                               {source: cChain, subnet: primary, n: 5, destination: ids.ID{'X'}, want: WarpDisabled},
		"with a payload that is none":                  {source: cChain, content: []byte("none"), subnet: primary, n: 5, destination: cChain, want: PayloadNotSupported},
		"to the P-Chain, with a payload for contracts": {source: cChain, content: hello, subnet: primary, n: 5, destination: constants.PlatformChainID, want: PayloadNotSupported},
		"from a chain that does not exist":             {source: ids.ID{'?'}, subnet: primary, n: 5, destination: cChain, want: UnknownSource},
		"to a chain that does not exist":               {source: cChain, subnet: primary, n: 5, destination: ids.ID{'?'}, want: Unknown, remedy: "use a node that runs it"},
		"without an answer about the epoch":            {prepare: func(w *world) { w.fail["epoch"] = node.ErrUnavailable }, source: cChain, subnet: primary, n: 5, destination: cChain, want: Unknown},
		"without an answer about the rules":            {prepare: func(w *world) { w.fail["configs"] = node.ErrUnavailable }, source: cChain, subnet: l1, n: 4, destination: l1Chain, want: Unknown},
		"without an answer about the set":              {prepare: func(w *world) { w.fail["set"] = node.ErrUnavailable }, source: cChain, subnet: primary, n: 5, destination: cChain, want: Unknown},
	}
	seen := map[Code]bool{WrongNetwork: true} // has a test of its own
	for name, row := range rows {
		seen[row.want] = true
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if row.prepare != nil {
				row.prepare(w)
			}
			if row.content == nil {
				row.content = hello
			}
			if row.height == 0 {
				row.height = epochHeight
			}
			req := Request{Message: w.sign(row.source, row.content, row.subnet, row.height, row.n), DestinationID: row.destination, SigningSubnetID: row.named, PChainHeight: row.known}
			d := New(networkID, w, w).Check(t.Context(), req)
			require.Equal(t, row.want, d.Code, d.Detail)
			require.NotEmpty(t, d.Detail)
			require.Contains(t, d.Remedy, row.remedy)
			require.Equal(t, row.want == Unknown, d.Deliverable == nil)
			require.Equal(t, row.want == Unknown, d.Err != nil)
			require.Equal(t, row.want == EpochBehind, d.NextEpoch != nil)
			if row.want == Deliverable {
				require.True(t, *d.Deliverable)
				require.Nil(t, d.ExpiresAt)
				return
			}
			require.NotEmpty(t, d.Remedy)
		})
	}
	for _, code := range []Code{
		Deliverable, EpochBehind, SetChanged, QuorumTooLow, WrongSigningSubnet, NoValidators, SignatureInvalid, WarpDisabled,
		PayloadNotSupported, WrongNetwork, UnknownSource, Unknown,
	} {
		require.True(t, seen[code], "no row has the outcome %s", code)
	}
}

// TestReason names the signature, rather than the weight, if the indices are those of another set.
func TestReason(t *testing.T) {
	w := newWorld(t)
	w.change(constants.PrimaryNetworkID, 15, signers(t, 5))
	m := w.sign(cChain, call(t, nil), constants.PrimaryNetworkID, earlierHeight, 3)
	d := New(networkID, w, w).Check(t.Context(), Request{Message: m, DestinationID: cChain})
	require.Equal(t, SignatureInvalid, d.Code)
	require.Contains(t, d.Detail, warp.ErrInvalidSignature.Error())
}

// TestWrongNetwork checks a message of another network, whose chains have the same IDs.
func TestWrongNetwork(t *testing.T) {
	w := newWorld(t)
	d := New(networkID+1, w, w).Check(t.Context(), Request{Message: w.sign(cChain, call(t, nil), constants.PrimaryNetworkID, epochHeight, 5), DestinationID: cChain})
	require.Equal(t, WrongNetwork, d.Code)
	require.False(t, *d.Deliverable)
}

// TestEpochMoves follows one message through the epochs of its destination: refused until a block seals the epoch, then
// accepted.
func TestEpochMoves(t *testing.T) {
	w := newWorld(t)
	w.change(constants.PrimaryNetworkID, 25, signers(t, 5))
	m := w.sign(cChain, call(t, nil), constants.PrimaryNetworkID, proposedHeight, 4)
	old := w.sign(cChain, call(t, nil), constants.PrimaryNetworkID, epochHeight, 4)
	synctest.Test(t, func(t *testing.T) {
		w.epoch.StartTime = time.Now()
		end := time.Now().Add(epochTime)
		c := New(networkID, w, w)
		check := func(m *warp.Message) *Delivery {
			return c.Check(t.Context(), Request{Message: m, DestinationID: cChain})
		}

		d := check(m)
		require.Equal(t, EpochBehind, d.Code)
		require.Equal(t, NextEpoch{PChainHeight: proposedHeight, NotBefore: end.UTC(), Blocks: 1}, *d.NextEpoch)
		require.Contains(t, d.Remedy, "in 30s")
		d = check(old)
		require.Equal(t, Deliverable, d.Code)
		require.Equal(t, end.UTC(), *d.ExpiresAt)

		// Time alone does not end the epoch.
		time.Sleep(2 * epochTime)
		d = check(m)
		require.Equal(t, EpochBehind, d.Code)
		require.Contains(t, d.Remedy, "Now, have the destination make a block")

		w.epoch = node.Epoch{Number: 8, PChainHeight: proposedHeight, StartTime: time.Now()}
		require.Equal(t, Deliverable, check(m).Code)
		require.Equal(t, SignatureInvalid, check(old).Code)
	})
}

// TestHeightJustRose checks messages that were signed at a height that the service has not followed yet.
func TestHeightJustRose(t *testing.T) {
	w := newWorld(t)
	w.followed = epochHeight
	w.change(constants.PrimaryNetworkID, proposedHeight, signers(t, 5))
	w.change(other, proposedHeight, signers(t, 3))
	c := New(networkID, w, w)
	of := func(subnet ids.ID, n int) Request {
		return Request{Message: w.sign(cChain, call(t, nil), subnet, proposedHeight, n), DestinationID: cChain}
	}

	d := c.Check(t.Context(), of(constants.PrimaryNetworkID, 5))
	require.Equal(t, EpochBehind, d.Code)
	require.EqualValues(t, proposedHeight, d.NextEpoch.PChainHeight)

	another := of(other, 3)
	another.SigningSubnetID = &other
	require.Equal(t, WrongSigningSubnet, c.Check(t.Context(), another).Code)
}

// TestConfigIsCached requests the configuration of a destination once a minute.
func TestConfigIsCached(t *testing.T) {
	w := newWorld(t)
	m := w.sign(cChain, call(t, nil), l1, epochHeight, 4)
	synctest.Test(t, func(t *testing.T) {
		c := New(networkID, w, w)
		for range 3 {
			for range 3 {
				require.Equal(t, Deliverable, c.Check(t.Context(), Request{Message: m, DestinationID: l1Chain}).Code)
			}
			time.Sleep(configLife)
		}
		require.Equal(t, 3, w.configured)
	})
}

// TestDefaultDuration uses the library's duration of epochs if the node does not offer its own.
func TestDefaultDuration(t *testing.T) {
	w := newWorld(t)
	w.fail["upgrades"] = node.ErrNotOffered
	m := w.sign(cChain, call(t, nil), constants.PrimaryNetworkID, epochHeight, 4)
	d := New(networkID, w, w).Check(t.Context(), Request{Message: m, DestinationID: cChain})
	require.Equal(t, upgrade.GetConfig(networkID).GraniteEpochDuration, d.Epoch.EndTime.Sub(d.Epoch.StartTime))
	w.fail["upgrades"] = errors.New("no answer")
	require.Equal(t, Unknown, New(networkID, w, w).Check(t.Context(), Request{Message: m, DestinationID: cChain}).Code)
}

// TestJSON checks that an unknown outcome is null rather than a refusal.
func TestJSON(t *testing.T) {
	w := newWorld(t)
	w.fail["epoch"] = node.ErrUnavailable
	d := New(networkID, w, w).Check(t.Context(), Request{Message: w.sign(cChain, call(t, nil), constants.PrimaryNetworkID, epochHeight, 5), DestinationID: cChain})
	text, err := json.Marshal(d)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	require.Contains(t, got, "deliverable")
	require.Nil(t, got["deliverable"])
	require.Equal(t, "UNKNOWN", got["code"])
}
