package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/networks"
	"quorate/internal/config"
	"quorate/internal/node"
	"quorate/internal/service/network"
)

// examineNetwork looks at the nodes of a network and at the connections to its validators. networkID is 0 if no node
// answers.
func examineNetwork(ctx context.Context, name string, o Options) (list []Finding, networkID uint32) {
	c := o.Config.Networks[name]
	subjects := make([]*subject, len(c.Nodes))
	nodes := make([][]Finding, len(c.Nodes)+len(c.EVM))
	var asking sync.WaitGroup
	for i, e := range c.Nodes {
		subjects[i] = &subject{network: c, witness: new(witness)}
		if e.URL == node.PeersEndpoint {
			continue // connect follows it
		}
		asking.Go(func() { nodes[i] = examineNode(ctx, fmt.Sprintf("%s, node %s", name, e.Shown()), e, subjects[i], o) })
	}
	for i, chain := range c.EVM {
		asking.Go(func() { nodes[len(c.Nodes)+i] = examineEVM(ctx, name, chain, c, o) })
	}
	asking.Wait()
	f := &findings{area: name}
	if c.OnlyPeers() {
		networkID = followed(ctx, f, name, o)
	} else {
		networkID = agree(f, name, subjects)
	}
	if networkID != 0 && o.Config.Role.Signs() {
		connect(ctx, f, name, networkID, o)
	}
	for _, n := range nodes {
		list = append(list, n...)
	}
	return append(list, f.list...), networkID
}

// followed returns the ID of a network that has no node, 0 if its P-Chain cannot be followed.
func followed(ctx context.Context, f *findings, name string, o Options) (networkID uint32) {
	client, err := network.NewClient(&network.Options{Name: name, Config: o.Config.Networks[name], Log: o.Log})
	if err == nil {
		defer client.Close()
		networkID, err = client.NetworkID(ctx)
	}
	if err != nil {
		f.fail("P-Chain", config.Redacted(err).Error(), "Correct what it says.")
	}
	return networkID
}

// agree checks that the nodes are of one network, and that none lags behind, and returns the network's ID.
func agree(f *findings, name string, subjects []*subject) (networkID uint32) {
	const behind = 20 // blocks of the P-Chain, about half a minute
	var highest uint64
	for _, s := range subjects {
		highest = max(highest, s.pHeight)
		switch {
		case s.networkID == 0:
		case networkID == 0:
			networkID = s.networkID
		case networkID != s.networkID:
			f.fail("one network", fmt.Sprintf("the nodes are of networks %d and %d", networkID, s.networkID), "Name nodes of one network.")
			return 0
		}
	}
	if networkID == 0 {
		f.skip("validators", "no node answers")
		return 0
	}
	if public, ok := networks.PublicID(name); ok && public != networkID {
		f.warn("name", fmt.Sprintf("the nodes are of network %d, not of the public network %s", networkID, name), "Serve it under another name.")
	}
	for i, s := range subjects {
		if s.networkID != 0 && s.pHeight+behind < highest {
			f.warn("tip", fmt.Sprintf("node %d of %d is %d P-Chain blocks behind", i+1, len(subjects), highest-s.pHeight), "Put it after the others, or find out why it lags.")
		}
	}
	return networkID
}

// connect joins the P2P network as serve does, with an identity of its own so that it does not end the connections of
// a running service, and says how much weight it reaches.
func connect(ctx context.Context, f *findings, name string, networkID uint32, o Options) {
	opened := network.Options{Name: name, Config: o.Config.Networks[name], Role: config.RoleSign, Log: o.Log, Metrics: prometheus.NewRegistry()}
	client, err := network.NewClient(&opened)
	if err != nil {
		f.fail("validators", config.Redacted(err).Error(), "Check the nodes.")
		return
	}
	n, err := network.New(client, networkID, opened)
	if err != nil {
		f.fail("validators", config.Redacted(err).Error(), "Correct what it says.")
		return
	}
	subnets, _ := o.Config.Networks[name].HealthSubnetIDs() // which Check has parsed
	subnets = append([]ids.ID{constants.PrimaryNetworkID}, subnets...)
	waiting, cancel := context.WithTimeout(ctx, o.Connect)
	defer cancel()
	stop := n.Start(waiting, func() bool { return wellConnected(n, subnets) })
	defer stop()
	if err := n.Followed(); err != nil {
		f.warn("P-Chain", fmt.Sprintf("it cannot be followed to its tip within %s: %s", o.Connect, err), "Name a node to examine validators. A service needs longer at its first start, and says at /readyz how far it is.")
		return
	}
	f.ok("address", "only outgoing connections are made: no public address and no open port are needed")
	for _, subnet := range subnets {
		check := "validators of subnet " + subnet.String()
		if subnet == constants.PrimaryNetworkID {
			check = "validators"
		}
		share, reasons, ok := n.Reach(subnet)
		detail := fmt.Sprintf("connected to %.1f%% of the weight", 100*share)
		for _, r := range reasons {
			detail += "; " + strings.TrimSuffix(r, ".")
		}
		switch {
		case !ok:
			f.fail(check, "the subnet has no validators", "Correct health_subnets.")
		case network.Enough(share, "") != nil:
			f.fail(check, detail, "Signing needs 67% of the weight. Follow what the reasons say; with more --connect, more connect.")
		default:
			f.ok(check, detail)
		}
	}
	others(f, n, subnets)
}

// others says of the subnets that were not named how many are connected with the weight that signing needs.
func others(f *findings, n *network.Network, named []ids.ID) {
	largest, _ := n.Coverage.Subnets()
	reached, asked := 0, 0
	for _, s := range largest {
		if slices.Contains(named, s.ID) {
			continue
		}
		asked++
		if network.Enough(s.Connected, "") == nil {
			reached++
		}
	}
	if asked > 0 {
		f.ok("other subnets", fmt.Sprintf("%d of the %d with the most validators are connected with at least 67%% of the weight; name those that matter in health_subnets", reached, asked))
	}
}

// wellConnected reports whether so much weight is connected that waiting would hardly add to it.
func wellConnected(n *network.Network, subnets []ids.ID) bool {
	const well = 0.9
	for _, subnet := range subnets {
		if share, _, ok := n.Reach(subnet); !ok || share < well {
			return false
		}
	}
	return true
}

// chainProbes are the questions to each node of an EVM chain, in order.
var chainProbes = []probe{
	{"answers", always, "Check the URL and that the node is running.", askChainID},
	{"logs", better, "Name a node that offers eth_getLogs: signing ahead of requests needs it.", askChainLogs},
	{"traces", forEVM(Warning), "Internal transactions need debug_traceBlockByNumber.", askChainTraces},
}

// examineEVM looks at the Ethereum APIs of a chain.
func examineEVM(ctx context.Context, name string, chain config.EVM, c config.Network, o Options) (list []Finding) {
	for _, e := range chain.RPC {
		f := &findings{area: fmt.Sprintf("%s, EVM chain %s", name, e.Shown())}
		client, err := node.New(node.Options{Endpoints: []string{e.URL}, Headers: config.Endpoints{e}.Headers(), Timeout: callTimeout, Log: o.Log})
		if err != nil {
			f.fail("answers", config.Redacted(err).Error(), "Check the URL.")
			list = append(list, f.list...)
			continue
		}
		s := &subject{client: client, network: c}
		s.probe(ctx, f, chainProbes)
		client.Close()
		list = append(list, f.list...)
	}
	return list
}

func askChainID(ctx context.Context, s *subject) (string, error) {
	var chainID string
	if err := s.client.Call(ctx, "", "eth_chainId", []any{}, &chainID); err != nil {
		return "", err
	}
	tip, err := s.client.EVMHeight(ctx, "")
	return fmt.Sprintf("EVM chain ID %s, block %d", chainID, tip), err
}

func askChainLogs(ctx context.Context, s *subject) (string, error) {
	return logsOf(ctx, s.client, "")
}

func askChainTraces(ctx context.Context, s *subject) (string, error) {
	return tracesOf(ctx, s.client, "")
}
