package history

import (
	"context"
	"errors"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/snow/engine/avalanche/vertex"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/wrappers"
)

// maxAncestors is a node's default maximum of containers in one answer (avalanchego config,
// bootstrap-ancestors-max-containers-sent).
const maxAncestors = 2000

// Ancestors returns a vertex of the X-Chain and its ancestors, breadth first, like a node (avalanchego
// snow/engine/avalanche/getter). It returns nothing for an unknown vertex; a node does not answer then.
func (n *Node) Ancestors(id ids.ID) ([][]byte, error) {
	var all [][]byte
	size := 0
	queue, seen := []ids.ID{id}, map[ids.ID]bool{id: true}
	for len(queue) > 0 && len(all) < maxAncestors {
		one := queue[0]
		queue = queue[1:]
		n.mu.RLock()
		place, ok := n.vertices[one]
		n.mu.RUnlock()
		if !ok {
			continue
		}
		b, err := n.container(&n.early[earlyVertices], uint64(place))
		if err != nil {
			return nil, err
		}
		if size += wrappers.IntLen + len(b); size > constants.MaxContainersLen {
			break
		}
		all = append(all, b)
		v, err := vertex.Parse(b)
		if err != nil {
			return nil, err
		}
		for _, parent := range v.ParentIDs() {
			if !seen[parent] {
				seen[parent] = true
				queue = append(queue, parent)
			}
		}
	}
	return all, nil
}

// Peer is a Node as the only validator of the network, without a network connection.
type Peer struct{ *Node }

// ConnectedNodes returns the validator.
func (Peer) ConnectedNodes() []ids.NodeID { return []ids.NodeID{{1}} }

// Ancestors answers like the validator.
func (p Peer) Ancestors(_ context.Context, _ ids.NodeID, chainID, containerID ids.ID, engine p2p.EngineType) ([][]byte, error) {
	if chainID != p.generator.ChainID(X) || engine != p2p.EngineType_ENGINE_TYPE_DAG {
		return nil, errors.New("the node drops the request")
	}
	return p.Node.Ancestors(containerID)
}
