// Package info answers info.* as a node does (avalanchego, package api/info), from
// what the service knows itself.
package info

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/ava-labs/avalanchego/api/info"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/utils/json"
)

// Options of a Service. All but those that say otherwise are required.
type Options struct {
	NetworkID uint32
	// Aliases are the names of the blockchains that are served.
	Aliases ids.AliaserReader
	// Bootstrapped reports whether requests for a blockchain can be answered.
	Bootstrapped func(ids.ID) bool
}

// Service has the methods.
type Service struct{ o Options }

// New makes a service.
func New(o Options) *Service { return &Service{o} }

// GetNetworkID answers info.getNetworkID.
func (s *Service) GetNetworkID(_ *http.Request, _ *struct{}, reply *info.GetNetworkIDReply) error {
	reply.NetworkID = json.Uint32(s.o.NetworkID)
	return nil
}

// GetNetworkName answers info.getNetworkName.
func (s *Service) GetNetworkName(_ *http.Request, _ *struct{}, reply *info.GetNetworkNameReply) error {
	reply.NetworkName = constants.NetworkName(s.o.NetworkID)
	return nil
}

// GetBlockchainID answers info.getBlockchainID.
func (s *Service) GetBlockchainID(_ *http.Request, args *info.GetBlockchainIDArgs, reply *info.GetBlockchainIDReply) (err error) {
	reply.BlockchainID, err = s.o.Aliases.Lookup(args.Alias)
	return err
}

var errNoChain = errors.New("argument 'chain' not given")

// IsBootstrapped answers info.isBootstrapped.
func (s *Service) IsBootstrapped(_ *http.Request, args *info.IsBootstrappedArgs, reply *info.IsBootstrappedResponse) error {
	if args.Chain == "" {
		return errNoChain
	}
	id, err := s.o.Aliases.Lookup(args.Chain)
	if err != nil {
		return fmt.Errorf("there is no chain with alias/ID '%s'", args.Chain)
	}
	reply.IsBootstrapped = s.o.Bootstrapped(id)
	return nil
}
