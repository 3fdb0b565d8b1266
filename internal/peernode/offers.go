package peernode

import (
	"strings"

	"github.com/ava-labs/avalanchego/utils/set"
)

// offeredInfo are the methods of the API info whose answers are configured. The addresses of nodes are nodes' to report.
var offeredInfo = set.Of("info.getNetworkID", "info.getBlockchainID", "info.upgrades")

// Offers implements node.Peers. Once the tip was confirmed, all that is offered is offered now, even while the voters do not
// agree: URLs are not believed then.
func (n *Node) Offers(path, method string) (offers, now bool) {
	switch {
	case path == infoPath:
		offers = offeredInfo.Contains(method)
		return offers, offers
	case isPChain(path):
		name, ok := strings.CutPrefix(method, "platform.")
		offers = ok && offered.Contains(name)
	default:
		_, offers = epochOf(path, method)
	}
	return offers, offers && !n.Status().Confirmed.IsZero()
}

const infoPath = "/ext/info"

func isPChain(path string) bool { return path == "/ext/bc/P" || path == "/ext/P" }

// epochOf returns the name of the blockchain whose epoch a call asks for, and false for other calls.
func epochOf(path, method string) (chain string, ok bool) {
	chain, ok = strings.CutSuffix(strings.TrimPrefix(path, "/ext/bc/"), "/proposervm")
	return chain, ok && method == "proposervm.getCurrentEpoch"
}
