package data

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"quorate/handlers/compat"
	"quorate/handlers/data/genesis"
	"quorate/handlers/operation"
	"quorate/internal/index/ledger/subnets"
)

type subnet struct {
	CreateBlockTimestamp        int64            `json:"createBlockTimestamp"`
	CreateBlockIndex            string           `json:"createBlockIndex"`
	SubnetID                    string           `json:"subnetId"`
	OwnerAddresses              []string         `json:"ownerAddresses"`
	Threshold                   uint32           `json:"threshold"`
	Locktime                    uint64           `json:"locktime"`
	SubnetOwnershipInfo         ownership        `json:"subnetOwnershipInfo"`
	IsL1                        bool             `json:"isL1"`
	L1ConversionTransactionHash string           `json:"l1ConversionTransactionHash,omitempty"`
	L1ValidatorManagerDetails   *l1Manager       `json:"l1ValidatorManagerDetails,omitempty"`
	Blockchains                 []chainOfASubnet `json:"blockchains"`
}

type ownership struct {
	Locktime  uint64   `json:"locktime"`
	Threshold uint32   `json:"threshold"`
	Addresses []string `json:"addresses"`
}

type l1Manager struct {
	BlockchainID    string `json:"blockchainId"`
	ContractAddress string `json:"contractAddress"`
}

type chainOfASubnet struct {
	CreateBlockTimestamp int64          `json:"createBlockTimestamp"`
	CreateBlockNumber    string         `json:"createBlockNumber"`
	BlockchainID         string         `json:"blockchainId"`
	VMID                 string         `json:"vmId"`
	SubnetID             string         `json:"subnetId"`
	BlockchainName       string         `json:"blockchainName"`
	EVMChainID           json.Number    `json:"evmChainId"`
	GenesisData          map[string]any `json:"genesisData,omitempty"`
}

// subnetsAtATime is the number of subnets that are read at a time. A page of 10,000 subnets with each genesis may be
// large.
const subnetsAtATime = 64

// genesesAtATime is the number of geneses in memory; each has at most 1 MiB.
const genesesAtATime = 8

// geneses reads the geneses of blockchains, in the order of a page.
type geneses struct {
	index   Subnets
	of      []subnets.Founded // not read yet
	content [][]byte          // read and not returned
}

func genesesOf(index Subnets, page []*subnets.Subnet) *geneses {
	g := &geneses{index: index}
	for _, s := range page {
		for _, b := range s.Chains {
			g.of = append(g.of, subnets.Founded{SubnetID: s.ID, ChainID: b.ID})
		}
	}
	return g
}

// next returns the next genesis; nil if it is not indexed.
func (g *geneses) next(ctx context.Context) (content []byte, err error) {
	if len(g.content) == 0 {
		n := min(genesesAtATime, len(g.of))
		if g.content, err = g.index.Geneses(ctx, g.of[:n]...); err != nil {
			return nil, err
		}
		g.of = g.of[n:]
	}
	content, g.content = g.content[0], g.content[1:]
	return content, nil
}

func (a *API) listSubnets(ctx context.Context, r operation.Request, n *network) error {
	p := a.readPaging(r.Query, "subnets", n.shown)
	if err := r.Query.Err(); err != nil {
		return err
	}
	at, err := position(p.After, subnets.ParsePosition)
	if err != nil {
		return err
	}
	if n.Subnets == nil {
		return absent("subnets")
	}
	if err := n.current(r, nil, n.platform()); err != nil {
		return err
	}
	clientsForm := compat.Enabled(ctx)
	return newStream(r.Response(), a.log).list(ctx, "subnets", p.Size, p.Token, func(left int, element func(any) error) ([]byte, error) {
		page, err := n.Subnets.List(ctx, p.ascending, min(left, subnetsAtATime), at)
		if err != nil {
			return nil, err
		}
		began := genesesOf(n.Subnets, page.Subnets)
		for _, one := range page.Subnets {
			shown, err := n.subnet(ctx, one, began, clientsForm)
			if err == nil {
				err = element(shown)
			}
			if err != nil {
				return nil, err
			}
		}
		if at = page.Next; at == nil {
			return nil, nil
		}
		return at.Bytes(), nil
	})
}

func (n *network) subnet(ctx context.Context, s *subnets.Subnet, began *geneses, clientsForm bool) (*subnet, error) {
	owners, err := n.bech32(s.Owners.Addresses)
	if err != nil {
		return nil, err
	}
	shown := &subnet{
		CreateBlockTimestamp: s.Created.Unix(),
		CreateBlockIndex:     strconv.FormatUint(s.Height, 10),
		SubnetID:             s.ID.String(),
		OwnerAddresses:       owners,
		Threshold:            s.Owners.Threshold,
		Locktime:             s.Owners.Locktime,
		SubnetOwnershipInfo:  ownership{Locktime: s.Owners.Locktime, Threshold: s.Owners.Threshold, Addresses: owners},
		Blockchains:          make([]chainOfASubnet, len(s.Chains)),
	}
	if s.Conversion != nil {
		shown.IsL1 = true
		shown.L1ConversionTransactionHash = s.Conversion.TxID.String()
		shown.L1ValidatorManagerDetails = &l1Manager{
			BlockchainID:    s.Conversion.ManagerChainID.String(),
			ContractAddress: "0x" + hex.EncodeToString(s.Conversion.ManagerAddress),
		}
	}
	for i, b := range s.Chains {
		shown.Blockchains[i] = chainOfASubnet{
			CreateBlockTimestamp: b.Created.Unix(),
			CreateBlockNumber:    strconv.FormatUint(b.Height, 10),
			BlockchainID:         b.ID.String(),
			VMID:                 b.VMID.String(),
			SubnetID:             s.ID.String(),
			BlockchainName:       b.Name,
			EVMChainID:           "0",
		}
		content, err := began.next(ctx)
		if err != nil {
			return nil, err
		}
		if g, ok := genesis.Parse(content); ok {
			shown.Blockchains[i].EVMChainID, shown.Blockchains[i].GenesisData = g.ChainID(), g.Data(clientsForm)
		}
	}
	return shown, nil
}
