package config

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/ava-labs/avalanchego/ids"
	"go.yaml.in/yaml/v3"

	"quorate/internal/node"
	"quorate/p2p"
)

// Secret is a text that no output shows.
type Secret string

// String implements fmt.Stringer without the secret.
func (Secret) String() string { return "***" }

// Endpoint is an upstream node: a URL, or a mapping with url and headers. A network's node can also be
// node.PeersEndpoint.
type Endpoint struct {
	URL string `yaml:"url"`
	// Headers are sent with every call to this node, and to no other.
	Headers map[string]Secret `yaml:"headers"`
}

// String returns the URL and the names of the headers.
func (e Endpoint) String() string {
	if len(e.Headers) == 0 {
		return e.URL
	}
	return e.URL + " with " + strings.Join(slices.Sorted(maps.Keys(e.Headers)), ", ")
}

// Shown returns the URL without what may be secret.
func (e Endpoint) Shown() string { return redact(e.URL) }

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *Endpoint) UnmarshalYAML(value *yaml.Node) error {
	*e = Endpoint{}
	if value.Kind != yaml.MappingNode {
		return value.Decode(&e.URL)
	}
	for i := 0; i+1 < len(value.Content); i += 2 { // Decode accepts unknown keys
		if key := value.Content[i]; key.Value != "url" && key.Value != "headers" {
			return fmt.Errorf("a node has no %s; it has url and headers", key.Value)
		}
	}
	type plain Endpoint
	return value.Decode((*plain)(e))
}

// check reports what is wrong with the node, without its secrets.
func (e Endpoint) check() error {
	if e.URL == node.PeersEndpoint && len(e.Headers) == 0 {
		return nil
	}
	if _, err := node.ParseEndpoint(e.URL); err != nil {
		return err
	}
	for name, value := range e.Headers {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) }) {
			return fmt.Errorf("%q is not the name of a header", name)
		}
		if strings.ContainsAny(string(value), "\r\n\x00") || value == "" {
			return fmt.Errorf("the value of the header %s is empty or has more than one line", name)
		}
	}
	return nil
}

// Endpoints are nodes of one chain, best first: one Endpoint or a list.
type Endpoints []Endpoint

// String returns the only Endpoint, or a list.
func (e Endpoints) String() string {
	if len(e) == 1 {
		return e[0].String()
	}
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.String()
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *Endpoints) UnmarshalYAML(value *yaml.Node) error {
	if value.Kind == yaml.SequenceNode {
		return value.Decode((*[]Endpoint)(e))
	}
	*e = make(Endpoints, 1)
	return (*e)[0].UnmarshalYAML(value)
}

// check reports what is wrong with the nodes.
func (e Endpoints) check() error {
	if len(e) == 0 {
		return errors.New("it is empty; name the URL of the chain's Ethereum API")
	}
	for _, one := range e {
		if one.URL == node.PeersEndpoint {
			return errors.New(node.PeersEndpoint + " is only for nodes, because peers do not serve an Ethereum API; name the URL of the chain's Ethereum API")
		}
		if err := one.check(); err != nil {
			return err
		}
	}
	return nil
}

// URLs returns the URLs of the nodes.
func (e Endpoints) URLs() []string {
	urls := make([]string, len(e))
	for i, one := range e {
		urls[i] = one.URL
	}
	return urls
}

// Headers returns the headers of each node.
func (e Endpoints) Headers() []http.Header {
	all := make([]http.Header, len(e))
	for i, one := range e {
		all[i] = make(http.Header, len(one.Headers))
		for name, value := range one.Headers {
			all[i].Set(name, string(value))
		}
	}
	return all
}

// endpointsOf returns nodes without headers.
func endpointsOf(urls []string) Endpoints {
	all := make(Endpoints, len(urls))
	for i, u := range urls {
		all[i].URL = u
	}
	return all
}

// addHeaders reads host=name: value, several separated by semicolons, and adds the header to all nodes at this host. A host
// without a port stands for all its ports. Errors do not repeat the text, which has secrets.
func (c *Config) addHeaders(text string) error {
	for part := range strings.SplitSeq(text, ";") {
		host, header, ok := strings.Cut(strings.TrimSpace(part), "=")
		name, value, hasValue := strings.Cut(header, ":")
		if !ok || !hasValue || host == "" {
			return errors.New("it is not of the form host=name: value, such as api.example.com=x-api-key: KEY")
		}
		found := false
		add := func(all []Endpoint) {
			for i := range all {
				u, err := url.Parse(all[i].URL)
				if err != nil || u.Host != host && strings.TrimSuffix(u.Host, ":"+u.Port()) != host {
					continue
				}
				found = true
				headers := maps.Clone(all[i].Headers)
				if headers == nil {
					headers = make(map[string]Secret)
				}
				headers[strings.TrimSpace(name)] = Secret(strings.TrimSpace(value))
				all[i].Headers = headers
			}
		}
		for _, n := range c.Networks {
			add(n.Nodes)
			for _, chain := range n.EVM {
				add(chain.RPC)
			}
		}
		if !found {
			return fmt.Errorf("no node is at host %q; give the host of a configured URL, with its port or without", host)
		}
	}
	return nil
}

// ManualPeer is a node of the peer-to-peer network.
type ManualPeer struct {
	NodeID  string `yaml:"node_id"`
	Address string `yaml:"address"` // IP address and port
}

// Peers returns ManualPeers.
func (n Network) Peers() ([]p2p.Address, error) {
	all := make([]p2p.Address, len(n.ManualPeers))
	for i, peer := range n.ManualPeers {
		id, err := ids.NodeIDFromString(peer.NodeID)
		if err != nil {
			return nil, fmt.Errorf("%q is not a node ID such as NodeID-7Xhw2mDxuDS44j42TCB6U5579esbSt3Lg", peer.NodeID)
		}
		addr, err := netip.ParseAddrPort(peer.Address)
		if err != nil || addr.Port() == 0 {
			return nil, fmt.Errorf("%q is not an address such as 203.0.113.7:9651", peer.Address)
		}
		if ip := addr.Addr(); (ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast()) && !n.AllowPrivateIPs {
			return nil, fmt.Errorf("%s is a private address; set allow_private_ips: true", peer.Address)
		}
		all[i] = p2p.Address{NodeID: id, Addr: addr}
	}
	return all, nil
}
