package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp/payload"

	"quorate/aggregator"
	"quorate/internal/index"
	"quorate/internal/simnet"
	"quorate/internal/simnet/history"
)

// Network is a simulated network in a process of its own.
type Network struct {
	*child
	networkReady
}

// networkReady describes a network that has started.
type networkReady struct {
	// URL is the address of the node API.
	URL       string
	NetworkID uint32
	// Chain is a source chain of messages.
	Chain ids.ID
	// Online is the number of validators that accept connections.
	Online int
	// Heights are those of the chains, and Transactions their numbers of transactions, by
	// the names that the index status uses.
	Heights      map[string]uint64
	Transactions map[string]int
	EVM          []EVMChain
}

// EVMChain identifies an EVM chain.
type EVMChain struct {
	ChainID      uint64
	BlockchainID ids.ID
}

// Name returns the name that the index status uses.
func (c EVMChain) Name() string { return index.EVMChain(c.ChainID) }

// networkTask is the task of the child process.
type networkTask struct{ simnet.Options }

// networkOrder asks the child process for some work, and for the counts in any case.
type networkOrder struct {
	// Sign has the validators sign Count messages from number First on.
	First, Count int
	// Grow adds transactions to EVM chains, by position.
	Grow map[int]int
}

type networkReply struct {
	// Grown reports one chain's growth. Replies with it come before the one that ends the order.
	Grown    *Growth `json:",omitempty"`
	Messages []Message
	Heights  map[string]uint64
	Counts   Counts
}

// Growth is what an EVM chain has grown to.
type Growth struct {
	Chain  string // the name that the index status uses
	Height uint64
	// At is when the node had the block at that height.
	At time.Time
}

// Message is a message that the validators have signed ahead of the round.
type Message struct {
	Unsigned []byte
	// Floor is when the fastest possible quorum answers if all validators are asked at
	// once.
	Floor time.Duration
}

// Counts are requests that a network has received so far.
type Counts struct {
	// Signatures are requests to validators, Calls HTTP requests to the node API.
	Signatures, Calls uint64
}

// HistoryOptions returns the options of a P-, X- and C-Chain history in which the balance
// of one address changes with nearly every transaction.
func HistoryOptions(seed uint64, transactions int) history.Options {
	return history.Options{Seed: seed, Txs: transactions, BusyEvents: transactions}
}

// StartNetwork starts a network, on one processor if its number is given.
func StartNetwork(ctx context.Context, processor string, o simnet.Options) (*Network, error) {
	n := new(Network)
	var err error
	if n.child, err = startChild(ctx, processor, networkTask{o}, &n.networkReady); err != nil {
		return nil, fmt.Errorf("starting the simulated network: %w", err)
	}
	return n, nil
}

// AllTransactions returns the number of transactions on all chains.
func (n *Network) AllTransactions() (sum int) {
	for _, count := range n.Transactions {
		sum += count
	}
	return sum
}

// AllBlocks returns the number of blocks on all chains.
func (n *Network) AllBlocks() (sum int) {
	for _, height := range n.Heights {
		sum += int(height) + 1
	}
	return sum
}

// Messages has the validators sign messages ahead, so that making signatures is not part of
// what is measured. Messages have numbers; no more than simnet.RecentSignings are kept.
func (n *Network) Messages(first, count int) ([]Message, error) {
	if count > simnet.RecentSignings {
		return nil, fmt.Errorf("%d messages at a time: validators keep the signatures of %d", count, simnet.RecentSignings)
	}
	reply, err := n.order(networkOrder{First: first, Count: count})
	return reply.Messages, err
}

// Grow adds transactions to EVM chains, by position, one chain after the other. It calls grown, if not nil, when a chain
// has its new blocks, while others still grow, and updates n.Heights at the end.
func (n *Network) Grow(transactions map[int]int, grown func(Growth)) error {
	reply, err := n.order(networkOrder{Grow: transactions})
	for ; err == nil && reply.Grown != nil; reply, err = n.next() {
		if grown != nil {
			grown(*reply.Grown)
		}
	}
	if err == nil {
		n.Heights = reply.Heights
	}
	return err
}

// Counts returns what the network has counted so far.
func (n *Network) Counts() (Counts, error) {
	reply, err := n.order(networkOrder{})
	return reply.Counts, err
}

func (n *Network) order(order networkOrder) (reply networkReply, err error) {
	if err := n.send(order); err != nil {
		return reply, fmt.Errorf("simulated network: %w", err)
	}
	return n.next()
}

// next returns the next reply to an order.
func (n *Network) next() (reply networkReply, err error) {
	if err := n.out.Decode(&reply); err != nil {
		return reply, fmt.Errorf("simulated network: %w", err)
	}
	return reply, nil
}

// Unsigned returns an unsigned message with the given content.
func (n *networkReady) Unsigned(content string) (*warp.UnsignedMessage, error) {
	call, err := payload.NewAddressedCall(make([]byte, 20), []byte(content))
	if err != nil {
		return nil, err
	}
	return warp.NewUnsignedMessage(n.NetworkID, n.Chain, call.Bytes())
}

// Settings returns the part of the service's configuration that has it serve the network
// under the name NetworkName. Lines are further settings of the network.
func (n *Network) Settings(lines ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "networks:\n  %s:\n    nodes: [%s]\n    allow_private_ips: true\n", NetworkName, n.URL)
	for _, line := range lines {
		b.WriteString("    " + line + "\n")
	}
	for i, chain := range n.EVM {
		if i == 0 {
			b.WriteString("    evm:\n")
		}
		fmt.Fprintf(&b, "      - rpc: %s/ext/bc/%s/rpc\n", n.URL, chain.BlockchainID)
	}
	return b.String()
}

// serve runs the network until the standard input ends.
func (t *networkTask) serve() error {
	network, err := simnet.Start(t.Options)
	if err != nil {
		return err
	}
	defer network.Close()
	ready := networkReady{
		URL: network.NodeURL(), NetworkID: network.NetworkID(), Chain: network.Blockchain(),
		Heights: Heights(network), Transactions: make(map[string]int),
	}
	for _, validator := range network.Validators() {
		if validator.Behaviour() != simnet.Offline {
			ready.Online++
		}
	}
	if past := network.History(); past != nil {
		for name, chain := range primaryChains() {
			ready.Transactions[name] = past.Txs(chain)
		}
	}
	for _, node := range network.EVM() {
		chain := EVMChain{ChainID: node.Generator().ChainID(), BlockchainID: node.Generator().BlockchainID()}
		ready.EVM = append(ready.EVM, chain)
		ready.Transactions[chain.Name()] = node.Txs()
	}
	out, in := json.NewEncoder(os.Stdout), json.NewDecoder(os.Stdin)
	if err := out.Encode(ready); err != nil {
		return err
	}
	for {
		var order networkOrder
		if err := in.Decode(&order); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		reply, err := ready.follow(network, order, func(g Growth) error { return out.Encode(networkReply{Grown: &g}) })
		if err != nil {
			return err
		}
		if err := out.Encode(reply); err != nil {
			return err
		}
	}
}

func (n *networkReady) follow(network *simnet.Network, order networkOrder, grown func(Growth) error) (reply networkReply, err error) {
	for i := range order.Count {
		message, err := n.Unsigned(fmt.Sprintf("%d", order.First+i))
		if err != nil {
			return reply, err
		}
		network.Prepare(message)
		floor, ok := network.Floor(message.ID(), aggregator.DefaultQuorumPercentage)
		if !ok {
			return reply, errors.New("the honest validators are no quorum")
		}
		reply.Messages = append(reply.Messages, Message{Unsigned: message.Bytes(), Floor: floor})
	}
	for i, transactions := range order.Grow {
		node := network.EVM()[i]
		if err := node.Grow(context.Background(), transactions); err != nil {
			return reply, err
		}
		if err := grown(Growth{Chain: n.EVM[i].Name(), Height: node.Tip(), At: time.Now()}); err != nil {
			return reply, err
		}
	}
	reply.Heights = Heights(network)
	reply.Counts = Counts{Signatures: network.Requests(), Calls: network.Calls()}
	return reply, nil
}

func primaryChains() map[string]history.Chain {
	return map[string]history.Chain{index.PChain: history.P, index.XChain: history.X, index.CChain: history.C}
}

// Heights returns the heights of the chains of a network by the names that the index status uses.
func Heights(network *simnet.Network) map[string]uint64 {
	heights := make(map[string]uint64)
	if past := network.History(); past != nil {
		for name, chain := range primaryChains() {
			heights[name] = past.Height(chain)
		}
	}
	for _, node := range network.EVM() {
		heights[index.EVMChain(node.Generator().ChainID())] = node.Tip()
	}
	return heights
}
