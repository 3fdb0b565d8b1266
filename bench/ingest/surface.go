package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/formatting/address"

	"quorate/handlers"
	"quorate/handlers/data"
	"quorate/handlers/networks"
	"quorate/internal/chain/genesis"
	"quorate/internal/index/ledger"
)

// surface serves a record as the service does, and asks it, through HTTP.
type surface struct {
	server *http.Server
	client *http.Client
	url    string
	hrp    string
}

const (
	// network is its name in paths.
	network = "bench"
	// nothing is answered without any work: what an answer takes at least.
	nothing = "/nothing"
)

func newSurface(g *genesis.Genesis, record *ledger.Index) (*surface, error) {
	e, err := handlers.New(handlers.Options{Data: networks.Fixed(map[string]data.Network{network: {
		NetworkID: g.NetworkID, XChainID: g.XChainID, CChainID: g.CChainID, AVAXAssetID: g.AVAXAssetID, Ledger: record,
		// What is recorded so far is served, which the service does not while it catches up.
		Progress: func(chainID ids.ID) data.Progress {
			height, now, err := record.Tip(context.Background(), chainID)
			return data.Progress{Height: height, Time: now, CaughtUp: true, Err: err}
		},
	}})})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &surface{
		server: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path != nothing {
				e.ServeHTTP(w, request)
			}
		})},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}},
		url:    "http://" + listener.Addr().String(), hrp: constants.GetHRP(g.NetworkID),
	}
	go func() { _ = s.server.Serve(listener) }() // until close
	return s, nil
}

func (s *surface) close() {
	s.client.CloseIdleConnections()
	_ = s.server.Close()
}

// page reads the first unspent outputs of an address.
func (s *surface) page(ctx context.Context, r *reader) error {
	chain, owner := r.owner()
	text, err := address.FormatBech32(s.hrp, owner[:])
	if err != nil {
		return err
	}
	return s.get(ctx, "/v1/networks/"+network+"/blockchains/"+[...]string{"p-chain", "x-chain"}[chain]+"/utxos?"+
		url.Values{"addresses": {text}, "pageSize": {strconv.Itoa(pageSize)}}.Encode())
}

// get asks for a path and reads the answer.
func (s *surface) get(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, body)
	}
	return nil
}
