package peernode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gorilla/rpc/v2"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/upgrade"
	"github.com/ava-labs/avalanchego/utils/constants"
	avajson "github.com/ava-labs/avalanchego/utils/json"
	"github.com/ava-labs/avalanchego/utils/set"
	"github.com/ava-labs/avalanchego/vms/platformvm/status"
	"github.com/ava-labs/avalanchego/vms/proposervm"
)

// Scheme is the scheme of the URLs that a Node answers; see Node.RoundTrip.
const Scheme = "p2p"

// newInfo returns the handler of the service info.
func newInfo(n *Node) (http.Handler, error) {
	server := rpc.NewServer()
	server.RegisterCodec(avajson.NewCodec(), "application/json")
	server.RegisterCodec(avajson.NewCodec(), "application/json;charset=UTF-8")
	if err := server.RegisterService(&infoService{n}, "info"); err != nil {
		return nil, fmt.Errorf("making the service info: %w", err)
	}
	return server, nil
}

// infoService is a node's service info (avalanchego, api/info), as far as it is known here.
type infoService struct{ node *Node }

// GetNetworkID returns the network's ID.
func (s *infoService) GetNetworkID(_ *http.Request, _ *struct{}, reply *info.GetNetworkIDReply) error {
	reply.NetworkID = avajson.Uint32(s.node.o.Genesis.NetworkID)
	return nil
}

// GetBlockchainID returns the ID of a chain of the primary network.
func (s *infoService) GetBlockchainID(_ *http.Request, args *info.GetBlockchainIDArgs, reply *info.GetBlockchainIDReply) error {
	var ok bool
	if reply.BlockchainID, ok = s.node.blockchain(args.Alias); !ok {
		return fmt.Errorf("there is no ID with alias %s", args.Alias)
	}
	return nil
}

// Peers returns none: the addresses of nodes come from the nodes to begin with.
func (s *infoService) Peers(_ *http.Request, _ *info.PeersArgs, reply *info.PeersReply) error {
	reply.Peers = []info.Peer{}
	return nil
}

// Upgrades returns the upgrade times.
func (s *infoService) Upgrades(_ *http.Request, _ *struct{}, reply *upgrade.Config) error {
	*reply = s.node.o.Upgrades
	return nil
}

// offered are the methods of the P-Chain's API that the executed blocks decide. Others need a node: a transaction
// cannot be issued here, and uptimes are not measured. The index of outputs by address, which getUTXOs and getBalance read,
// is incomplete if the state began with a checkpoint.
var offered = set.Of(
	"getBlock", "getBlockByHeight", "getHeight", "getProposedHeight", "getTimestamp", "getTx", "getTxStatus",
	"getValidatorsAt", "getAllValidatorsAt", "getCurrentValidators", "getL1Validator", "getTotalStake", "getMinStake", "getCurrentSupply",
	"getSubnet", "getSubnets", "getBlockchains", "validatedBy", "validates", "getStakingAssetID",
	"getRewardUTXOs", "getValidatorFeeConfig", "getValidatorFeeState", "getFeeConfig", "getFeeState",
)

const maxRequest = 1 << 20

// RoundTrip implements http.RoundTripper for URLs of the scheme p2p, whose paths are those of a node.
func (n *Node) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(io.LimitReader(r.Body, maxRequest))
		_ = r.Body.Close() // it was read
		if err != nil {
			return nil, fmt.Errorf("reading a call: %w", err)
		}
	}
	w := &answer{header: make(http.Header), status: http.StatusOK}
	n.serve(w, r, body)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// answer collects what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// serve answers a call as a node would.
func (n *Node) serve(w *answer, r *http.Request, body []byte) {
	inner := r.Clone(r.Context())
	inner.Body = io.NopCloser(bytes.NewReader(body))
	var call struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(body, &call); err != nil {
		http.Error(w, "a call is a JSON object", http.StatusBadRequest)
		return
	}
	switch path := r.URL.Path; {
	case path == infoPath:
		n.info.ServeHTTP(w, inner)
	case isPChain(path):
		method := strings.TrimPrefix(call.Method, "platform.")
		if !offered.Contains(method) {
			refuse(w, call.ID, fmt.Sprintf("rpc: can't find method %q where the P-Chain is followed over the peer-to-peer network; configure a node", call.Method))
			return
		}
		n.servePChain(w, inner)
		switch method {
		case "getCurrentValidators":
			w.dropObserved()
		case "getBlock", "getBlockByHeight", "getTx", "getTxStatus":
			n.tellMissing(w, body)
		}
	default:
		if chain, ok := epochOf(path, call.Method); ok {
			n.serveEpoch(w, r, chain, call.ID)
			return
		}
		http.Error(w, "the peer-to-peer network serves the P-Chain only; configure a node", http.StatusNotFound)
	}
}

// servePChain has the executed chain answer, unless it is behind.
func (n *Node) servePChain(w http.ResponseWriter, r *http.Request) {
	n.mu.RLock() // Run closes the chain afterwards
	defer n.mu.RUnlock()
	if err := n.readyLocked(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	n.chain.ServeHTTP(w, r)
}

// readyLocked is Ready. It requires mu.
func (n *Node) readyLocked() error {
	if n.chain == nil {
		return ErrBehind
	}
	return n.Ready()
}

// serveEpoch answers proposervm.getCurrentEpoch.
func (n *Node) serveEpoch(w *answer, r *http.Request, chain string, id json.RawMessage) {
	chainID, ok := n.blockchain(chain)
	if !ok {
		http.Error(w, fmt.Sprintf("%v %q; check the name in the path", errUnknownBlockchain, chain), http.StatusNotFound)
		return
	}
	e, err := n.epoch(r.Context(), chainID)
	switch {
	case errors.Is(err, errUnknownBlockchain): // avalanchego, too, answers 404 for a chain that it does not run
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.header.Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": id, "result": proposervm.GetEpochResponse{
		Number: avajson.Uint64(e.Number), StartTime: avajson.Uint64(e.StartTime), PChainHeight: avajson.Uint64(e.PChainHeight),
	}})
}

// blockchain returns the ID of a chain, which may be given by its alias.
func (n *Node) blockchain(name string) (ids.ID, bool) {
	switch name {
	case "P":
		return constants.PlatformChainID, true
	case "X":
		return n.o.Genesis.XChainID, true
	case "C":
		return n.o.Genesis.CChainID, true
	}
	id, err := ids.FromString(name)
	return id, err == nil
}

// refuse answers that there is no such method, as a node does.
func refuse(w *answer, id json.RawMessage, message string) { refuseWith(w, id, -32000, message) }

func refuseWith(w *answer, id json.RawMessage, code int, message string) {
	w.header.Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "error": map[string]any{"code": code, "message": message, "data": nil}, "id": id})
}

// dropObserved removes from a list of validators what a node observes and an executed chain does not tell.
func (a *answer) dropObserved() {
	var reply map[string]json.RawMessage
	var result struct {
		Validators []map[string]json.RawMessage `json:"validators"`
	}
	if json.Unmarshal(a.body.Bytes(), &reply) != nil || json.Unmarshal(reply["result"], &result) != nil {
		return // a refusal
	}
	for _, v := range result.Validators {
		delete(v, "uptime")
		delete(v, "connected")
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		return
	}
	reply["result"] = encoded
	a.body.Reset()
	_ = json.NewEncoder(&a.body).Encode(reply)
}

// tellMissing replaces the answer that there is no such block or transaction, if that can be because the state began with a
// checkpoint.
func (n *Node) tellMissing(w *answer, body []byte) {
	first := n.First()
	if first == 0 {
		return
	}
	var call struct {
		Method string `json:"method"`
		ID     json.RawMessage
		Params json.RawMessage
	}
	var params struct{ Height *avajson.Uint64 }
	var reply struct {
		Error  *struct{ Message string }
		Result struct{ Status status.Status }
	}
	if json.Unmarshal(body, &call) != nil || json.Unmarshal(w.body.Bytes(), &reply) != nil {
		return // a refusal
	}
	if json.Unmarshal(call.Params, &params) != nil { // the only element of an array otherwise
		_ = json.Unmarshal(bytes.TrimRight(bytes.TrimLeft(call.Params, "[ "), "] "), &params)
	}
	above := params.Height != nil && uint64(*params.Height) >= first
	absent := reply.Error != nil && strings.HasSuffix(reply.Error.Message, database.ErrNotFound.Error())
	if unknown := call.Method == "platform.getTxStatus" && reply.Error == nil && reply.Result.Status == status.Unknown; !unknown && !absent || above {
		return
	}
	w.body.Reset()
	refuseWith(w, call.ID, http.StatusNotFound, fmt.Sprintf("it is not known here: the state began with a checkpoint at height %d, and older blocks and transactions are only partly here; look them up at a service that began with genesis, or at a node", first))
}
