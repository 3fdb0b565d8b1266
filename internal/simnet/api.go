package simnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/network/peer"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/version"
	"github.com/ava-labs/avalanchego/vms/platformvm"
	platformapi "github.com/ava-labs/avalanchego/vms/platformvm/api"
	"github.com/ava-labs/avalanchego/vms/proposervm"
	"github.com/ava-labs/avalanchego/vms/types"

	"quorate/internal/simnet/history"
)

// serveAPI starts the node API.
func (n *Network) serveAPI() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the node API: %w", err)
	}
	n.apiURL = "http://" + l.Addr().String()
	n.api = &http.Server{Handler: http.HandlerFunc(n.serveRPC), ReadHeaderTimeout: 5 * time.Second}
	n.running.Go(func() { _ = n.api.Serve(l) })
	return nil
}

// errNotFound is the error for a path that the node does not serve.
var errNotFound = errors.New("404 page not found")

func (n *Network) serveRPC(w http.ResponseWriter, r *http.Request) {
	n.calls.Add(1)
	if f := n.apiFault.Load(); f != nil {
		n.wait(r.Context(), f.Delay)
		if f.Status != 0 {
			w.WriteHeader(f.Status)
			return
		}
		if f.Garbage != "" {
			_, _ = w.Write([]byte(f.Garbage))
			return
		}
	}
	if node := n.evmAt(r.URL.Path); node != nil {
		node.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil && strings.HasSuffix(r.URL.Path, "/rpc") && len(body) > 0 && body[0] == '[' {
		n.serveBatch(w, r.URL.Path, body)
		return
	}
	var request rpcRequest
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	params := request.Params
	if len(params) > 0 && params[0] == '[' { // one argument in a list, as some clients have it
		var list []json.RawMessage
		if json.Unmarshal(params, &list) == nil && len(list) == 1 {
			params = list[0]
		}
	}
	result, err := n.call(r.URL.Path, request.Method, params)
	if errors.Is(err, errNotFound) {
		http.NotFound(w, r)
		return
	}
	if ready, ok := result.(*history.Result); ok && err == nil {
		writeResult(w, request.ID, ready)
		return
	}
	reply := map[string]any{"jsonrpc": "2.0", "id": request.ID}
	if err != nil {
		reply["error"] = map[string]any{"code": -32000, "message": err.Error(), "data": nil}
	} else {
		reply["result"] = result
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(reply)
}

// rpcRequest is a JSON-RPC call.
type rpcRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// serveBatch answers a batch of calls of an Ethereum API.
func (n *Network) serveBatch(w http.ResponseWriter, path string, body []byte) {
	var requests []rpcRequest
	if err := json.Unmarshal(body, &requests); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	replies := make([]map[string]any, len(requests))
	for i, request := range requests {
		replies[i] = map[string]any{"jsonrpc": "2.0", "id": request.ID}
		result, err := n.call(path, request.Method, request.Params)
		switch {
		case errors.Is(err, errNotFound):
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		case err != nil:
			replies[i]["error"] = map[string]any{"code": -32000, "message": err.Error(), "data": nil}
		default:
			replies[i]["result"] = result
		}
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(replies)
}

// writeResult writes a result that is already JSON text.
func writeResult(w http.ResponseWriter, id json.RawMessage, result *history.Result) {
	const head, middle = `{"jsonrpc":"2.0","result":`, `,"id":`
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.FormatInt(int64(len(head)+len(middle)+len(id)+1)+result.Size(), 10))
	_, _ = io.WriteString(w, head)
	if _, err := result.WriteTo(w); err != nil {
		return // the client is gone
	}
	_, _ = io.WriteString(w, middle+string(id)+"}")
}

func (n *Network) call(path, method string, params json.RawMessage) (any, error) {
	if n.past != nil {
		result, err := n.past.Call(path, method, params)
		if !errors.Is(err, history.ErrNotServed) {
			return result, err
		}
	}
	switch {
	case path == "/ext/info":
		return n.info(method, params)
	case path == "/ext/P" || path == "/ext/bc/P":
		return n.platform(method, params)
	case strings.HasPrefix(path, "/ext/bc/") && strings.HasSuffix(path, "/proposervm"):
		name := strings.TrimSuffix(strings.TrimPrefix(path, "/ext/bc/"), "/proposervm")
		return n.proposer(name, method)
	}
	return nil, errNotFound
}

func unknownMethod(method string) error {
	return fmt.Errorf("rpc: can't find method %q", method)
}

func (n *Network) info(method string, params json.RawMessage) (any, error) {
	switch method {
	case "info.getNetworkID":
		return info.GetNetworkIDReply{NetworkID: avajson.Uint32(n.options.NetworkID)}, nil
	case "info.upgrades":
		return n.options.upgrades(), nil
	case "info.getNodeVersion":
		return info.GetNodeVersionReply{Version: version.Current.String()}, nil
	case "info.isBootstrapped":
		return info.IsBootstrappedResponse{IsBootstrapped: true}, nil
	case "info.getNodeID":
		return info.GetNodeIDReply{NodeID: n.validators[0].NodeID}, nil
	case "info.getNodeIP":
		return info.GetNodeIPReply{IP: n.validators[0].Addr()}, nil
	case "info.getBlockchainID":
		var args info.GetBlockchainIDArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		switch args.Alias {
		case "P":
			return info.GetBlockchainIDReply{BlockchainID: constants.PlatformChainID}, nil
		case "C":
			return info.GetBlockchainIDReply{BlockchainID: n.chain}, nil
		case "X":
			if n.past != nil {
				return info.GetBlockchainIDReply{BlockchainID: n.xChain}, nil
			}
		}
		return nil, fmt.Errorf("there is no ID with alias %s", args.Alias)
	case "info.peers":
		var reply info.PeersReply
		for _, v := range n.validators[1:] {
			if !v.listening() {
				continue
			}
			addr := v.Addr()
			reply.Peers = append(reply.Peers, info.Peer{Info: peer.Info{
				IP:             addr,
				PublicIP:       addr,
				ID:             v.NodeID,
				Version:        version.Current.String(),
				TrackedSubnets: set.Of(append(v.trackedSubnets(), constants.PrimaryNetworkID)...),
			}})
		}
		reply.NumPeers = avajson.Uint64(len(reply.Peers))
		return reply, nil
	}
	return nil, unknownMethod(method)
}

// at returns the state at a height; the sentinel stands for the proposed height. Its error ends that of a node
// (avalanchego, vms/platformvm/validators/manager.go).
func (n *Network) at(height platformapi.Height) (state, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	tip := n.height()
	if height.IsProposed() {
		return n.stateAt(n.clock.proposed(time.Now())), nil
	}
	if uint64(height) > tip {
		return nil, fmt.Errorf("current P-chain height (%d) < requested P-Chain height (%d)", tip, uint64(height))
	}
	return n.stateAt(uint64(height)), nil
}

func (n *Network) platform(method string, params json.RawMessage) (any, error) {
	switch method {
	case "platform.getHeight":
		return api.GetHeightResponse{Height: avajson.Uint64(n.Height())}, nil
	case "platform.getProposedHeight":
		return api.GetHeightResponse{Height: avajson.Uint64(n.ProposedHeight())}, nil
	case "platform.getBlockByHeight":
		var args api.GetBlockByHeightArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		b, ok, err := n.blockAt(uint64(args.Height))
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("couldn't get block at height %d: not found", uint64(args.Height))
		}
		text, err := formatting.Encode(formatting.Hex, b.Bytes())
		if err != nil {
			return nil, err
		}
		return map[string]any{"block": text, "encoding": "hex"}, nil
	case "platform.getTxStatus":
		return map[string]any{"status": "Unknown"}, nil
	case "platform.getTx":
		return nil, errors.New("couldn't get tx: not found")
	case "platform.getL1Validator":
		var args platformvm.GetL1ValidatorArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		return n.getL1Validator(args.ValidationID)
	case "platform.getValidatorsAt":
		var args platformvm.GetValidatorsAtArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		s, err := n.at(args.Height)
		if err != nil {
			return nil, fmt.Errorf("failed to get validator set at %d: failed to fetch validator set at unfinalized height with SubnetID = %s: %w",
				uint64(args.Height), args.SubnetID, err)
		}
		return &platformvm.GetValidatorsAtReply{Validators: n.outputs(s[args.SubnetID])}, nil
	case "platform.getAllValidatorsAt":
		var args platformvm.GetAllValidatorsAtArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		s, err := n.at(args.Height)
		if err != nil {
			return nil, fmt.Errorf("failed to get validator sets at %d: failed to fetch validator set at unfinalized height: %w", uint64(args.Height), err)
		}
		reply := platformvm.GetAllValidatorsAtReply{ValidatorSets: make(map[ids.ID]snow.WarpSet)}
		for subnetID, members := range s {
			if reply.ValidatorSets[subnetID], err = snow.FlattenValidatorSet(n.outputs(members)); err != nil {
				return nil, err
			}
		}
		return reply, nil
	case "platform.getCurrentValidators":
		var args platformvm.GetCurrentValidatorsArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		return n.current(args.SubnetID, args.NodeIDs), nil
	case "platform.validatedBy":
		var args platformvm.ValidatedByArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		subnetID, ok := n.chains[args.BlockchainID]
		if !ok && args.BlockchainID != constants.PlatformChainID {
			return nil, fmt.Errorf("problem retrieving blockchain %q: not found", args.BlockchainID)
		}
		return platformvm.ValidatedByResponse{SubnetID: subnetID}, nil
	case "platform.getSubnet":
		var args platformvm.GetSubnetArgs
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, err
		}
		if n.l1 == ids.Empty || args.SubnetID != n.l1 {
			return nil, errors.New("not found")
		}
		return platformvm.GetSubnetResponse{
			ControlKeys:    []string{},
			ConversionID:   n.conversion().ConversionID,
			ManagerChainID: n.conversion().ChainID,
			ManagerAddress: n.conversion().Addr,
		}, nil
	}
	return nil, unknownMethod(method)
}

// current lists a subnet's validators as the node does, in the fields that simnet supports: those with the node IDs, or all
// without any.
func (n *Network) current(subnetID ids.ID, nodeIDs []ids.NodeID) any {
	n.mu.Lock()
	s := n.stateAt(n.height())
	n.mu.Unlock()
	type validator struct {
		NodeID       ids.NodeID      `json:"nodeID"`
		Weight       avajson.Uint64  `json:"weight"`
		ValidationID *ids.ID         `json:"validationID,omitempty"`
		Balance      *avajson.Uint64 `json:"balance,omitempty"`
	}
	validators := []validator{}
	for nodeID, m := range s[subnetID] {
		if len(nodeIDs) > 0 && !slices.Contains(nodeIDs, nodeID) {
			continue
		}
		v := validator{NodeID: nodeID, Weight: avajson.Uint64(m.Weight)}
		if subnetID == n.l1 && m.Validator != nil {
			id := m.Validator.validationID()
			balance := avajson.Uint64(m.Balance)
			v.ValidationID, v.Balance = &id, &balance
		}
		validators = append(validators, v)
	}
	slices.SortFunc(validators, func(a, b validator) int { return a.NodeID.Compare(b.NodeID) })
	return map[string]any{"validators": validators}
}

// getL1Validator answers platform.getL1Validator. simnet takes no fees, so the accumulated fee at which a validator becomes
// inactive is its balance. It does not know the owners.
func (n *Network) getL1Validator(validationID ids.ID) (any, error) {
	v, err := n.l1Validator(validationID)
	if err != nil {
		return nil, fmt.Errorf("fetching L1 validator %q failed: %w", validationID, err)
	}
	key := types.JSONByteSlice(bls.PublicKeyToCompressedBytes(bls.PublicKeyFromValidUncompressedBytes(v.PublicKey)))
	balance, nonce := avajson.Uint64(v.EndAccumulatedFee), avajson.Uint64(v.MinNonce)
	return platformvm.GetL1ValidatorReply{
		APIL1Validator: platformapi.APIL1Validator{
			NodeID: v.NodeID,
			Weight: avajson.Uint64(v.Weight),
			BaseL1Validator: platformapi.BaseL1Validator{
				ValidationID: &validationID, PublicKey: &key, MinNonce: &nonce, Balance: &balance,
				RemainingBalanceOwner: &platformapi.Owner{Addresses: []string{}}, DeactivationOwner: &platformapi.Owner{Addresses: []string{}},
			},
		},
		SubnetID: v.SubnetID,
		Height:   avajson.Uint64(n.Height()),
	}, nil
}

func (n *Network) proposer(name, method string) (any, error) {
	var id ids.ID
	switch {
	case name == "P":
		id = constants.PlatformChainID
	case name == "C":
		id = n.chain
	case name == "X" && n.past != nil:
		id = n.xChain
	default:
		var err error
		if id, err = ids.FromString(name); err != nil {
			return nil, errNotFound
		}
		if _, ok := n.chains[id]; !ok {
			return nil, errNotFound
		}
	}
	switch method {
	case "proposervm.getProposedHeight":
		return api.GetHeightResponse{Height: avajson.Uint64(n.ProposedHeight())}, nil
	case "proposervm.getCurrentEpoch":
		e := n.epoch(id)
		return proposervm.GetEpochResponse{Number: avajson.Uint64(e.Number), StartTime: avajson.Uint64(e.StartTime), PChainHeight: avajson.Uint64(e.PChainHeight)}, nil
	}
	return nil, unknownMethod(method)
}
