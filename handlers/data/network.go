package data

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/handlers/apierr"
	"quorate/handlers/networks"
	"quorate/handlers/query"
	"quorate/handlers/reply"
)

// network is a Network under one of its names.
type network struct {
	Network
	// shown is its name in answers: the one of the path, but fuji for testnet.
	shown  string
	hrp    string // of its addresses
	chains []blockchain
}

// Names of blockchains in paths and answers.
const (
	pChain = "p-chain"
	xChain = "x-chain"
	cChain = "c-chain"
)

// blockchain is a blockchain of the primary network.
type blockchain struct {
	name string
	id   ids.ID
}

func newNetwork(name string, n Network) (*network, error) {
	if n.Needs != "" {
		return &network{Network: n}, nil
	}
	if n.Progress == nil || n.XChainID == ids.Empty || n.CChainID == ids.Empty || n.AVAXAssetID == ids.Empty {
		return nil, errors.New("the IDs of its chains and of AVAX, and the progress of its indexes, are required")
	}
	return &network{
		Network: n, shown: networks.DisplayName(name), hrp: constants.GetHRP(n.NetworkID),
		chains: []blockchain{{pChain, constants.PlatformChainID}, {xChain, n.XChainID}, {cChain, n.CChainID}},
	}, nil
}

// network returns the network that a path names.
func (a *API) network(name string) (*network, error) {
	_, n, err := a.networks.Find(name, "chain data of ")
	if err != nil {
		return nil, err
	}
	if n.Needs != "" {
		return nil, reply.Lacking(nil, "chain data of %s is not indexed: %s", name, n.Needs)
	}
	found, err := newNetwork(name, n)
	if err != nil {
		return nil, apierr.Internal(fmt.Errorf("network %q: %w", name, err))
	}
	return found, nil
}

// publicChains maps the IDs of the public networks' X-Chains and C-Chains to names.
var publicChains = map[string]string{
	"2oYMBNV4eNHyqk2fjjV5nVQLDbtmNJzq5s3qs3Lo6ftnC6FByM": "the X-Chain of mainnet",
	"2JVSBoinj9C2J33VntvzYtVJNZdN2NKiwwKjcumHUWEb5DbBrm": "the X-Chain of fuji",
	"2q9e4r6Mu3U68nU1fYjgbR6JvwrRx36CohpAX5UQxse55x1Q5":  "the C-Chain of mainnet",
	"yH8D7ThNJkxmtkuv2jgBa4P1Rn3Qpr4pPr7QYNfcdoS6k6HWp":  "the C-Chain of fuji",
}

// blockchain returns the blockchain that the path names, which must be among those allowed.
func (n *network) blockchain(c echo.Context, allowed ...string) (blockchain, error) {
	value := c.Param("blockchainId")
	for _, b := range n.chains {
		if value != b.name && value != b.id.String() {
			continue
		}
		if slices.Contains(allowed, b.name) {
			return b, nil
		}
		return blockchain{}, apierr.BadRequest("blockchainId: this operation is not about the %s; use %s", b.name, strings.Join(allowed, ", "))
	}
	if other, ok := publicChains[value]; ok {
		return blockchain{}, apierr.BadRequest("blockchainId: %s is %s, and not one of the path's network %s; use %s", value, other, c.Param("network"), strings.Join(allowed, ", "))
	}
	return blockchain{}, apierr.BadRequest("blockchainId: %q is no blockchain of the primary network; use %s", apierr.Excerpt(value), strings.Join(allowed, ", "))
}

// chainInfo identifies the chain of an answer.
type chainInfo struct {
	ChainName string `json:"chainName"`
	Network   string `json:"network"`
}

func (n *network) info(b blockchain) chainInfo { return chainInfo{ChainName: b.name, Network: n.shown} }

// behind returns an error if the index of b has not caught up, else nil. If at is not nil, the index only has to reach
// that time, in Unix seconds.
func (n *network) behind(ctx context.Context, b blockchain, at *uint64) error {
	p := n.Progress(ctx, b.id)
	covered := at != nil && p.Time.Unix() > 0 && *at < uint64(p.Time.Unix())
	if covered || p.CaughtUp && !p.Rebuilding {
		return nil
	}
	return p.Behind("the " + b.name)
}

// current returns the error of behind, and sets the progress headers.
func (n *network) current(c echo.Context, at *uint64, b blockchain) error {
	if err := n.behind(c.Request().Context(), b, at); err != nil {
		return err
	}
	n.Progress(c.Request().Context(), b.id).Show(c.Response().Header())
	return nil
}

// platform returns the P-Chain.
func (n *network) platform() blockchain { return n.chains[0] }

// maxMembers is the maximum number of addresses or node IDs in a request.
const maxMembers = 64

// addresses parses a list of bech32 addresses, with or without the prefix of a chain. It sorts them and removes
// repetitions.
func (n *network) addresses(q *query.Values, key string) []ids.ShortID {
	members := q.List(key)
	if len(members) > 4*maxMembers { // each may appear in four spellings
		q.Fail(key, "there are %d addresses, at most %d fit one request; send several requests", len(members), maxMembers)
		return nil
	}
	var all []ids.ShortID
	for _, text := range members {
		a, mistake := n.address(text)
		if mistake != "" {
			q.Fail(key, "%q %s", apierr.Excerpt(text), mistake)
			return nil
		}
		all = append(all, a)
	}
	slices.SortFunc(all, ids.ShortID.Compare)
	all = slices.Compact(all)
	if len(all) > maxMembers {
		q.Fail(key, "there are %d addresses, at most %d fit one request; send several requests", len(all), maxMembers)
		return nil
	}
	return all
}

func (n *network) address(text string) (a ids.ShortID, mistake string) {
	bare := text
	if len(text) > 2 && text[1] == '-' && strings.ContainsRune("PXC", rune(text[0])) {
		bare = text[2:]
	}
	hrp, b, err := address.ParseBech32(bare)
	if err != nil || len(b) != len(a) {
		return a, "is no address in bech32; check it for typing errors"
	}
	if hrp != n.hrp {
		return a, "is an address of another network: on this one addresses begin with " + n.hrp + "1"
	}
	return ids.ShortID(b), ""
}

// bech32 returns the texts of a few addresses, [] if there are none.
func (n *network) bech32(all []ids.ShortID) ([]string, error) {
	return (&spelling{hrp: n.hrp}).bech32(all)
}
