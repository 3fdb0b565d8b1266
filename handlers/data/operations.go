package data

import (
	"context"
	"net/http"
	"slices"

	"quorate/handlers/operation"
	"quorate/handlers/query"
	"quorate/internal/index/ledger"
)

const tag = "Primary network"

// Parameters that several operations have.
var (
	networkName = query.Parameter{
		Name: "network", Description: "`testnet` is another name for `fuji`. An instance serves the networks that it is configured for.", Example: "fuji",
	}
	blockchainID = query.Parameter{
		Name: "blockchainId", Description: "`p-chain`, `x-chain`, `c-chain` or the blockchain's ID. UTXOs and balances are served for all three, stakes for the P-Chain, vertices for the X-Chain.", Example: "p-chain",
	}
	onlyXChain = query.Parameter{Name: "blockchainId", Description: "`x-chain` or the X-Chain's ID.", Example: "x-chain"}
	addresses  = query.Parameter{
		Name: "addresses", Kind: query.Commas, Required: true, Item: "address",
		Description: "Bech32 addresses with or without `P-`, `X-` or `C-` in front, separated by commas.",
		Example:     "fuji1l8nkl3dhl4t5jd3kfvqnqc2trhm6t2fnw5lnlp",
	}
	pageSize = query.PageSize(100, 10)
	// outputFilters are those of lists of outputs besides the addresses.
	outputFilters = []query.Parameter{
		query.PageToken, pageSize,
		{Name: "assetId", Description: "Only this asset; on the X-Chain alone."},
		{Name: "minUtxoAmount", Kind: query.Number, Default: "0", Description: "Only outputs of at least this amount, in the asset's smallest unit."},
		{Name: "includeSpent", Kind: query.Boolean, Default: "false"},
		{Name: "sortBy", OneOf: []string{"timestamp", "amount"}, Default: "timestamp"},
		sortOrder,
	}
)

// Operations returns the operations on the primary network.
func (a *API) Operations() []operation.Operation {
	return slices.Concat(a.networkOperations(), a.registryOperations(), a.addressOperations(), a.blockOperations(), a.transactionOperations(), a.assetOperations(), a.presenceOperations(), a.activityOperations(), a.rewardOperations(), a.stakeOperations(), a.detailOperations())
}

func (a *API) networkOperations() []operation.Operation {
	return []operation.Operation{
		{
			ID: "listSubnets", Path: "/v1/networks/{network}/subnets", Tag: tag,
			Summary:     "Subnets and their blockchains",
			Description: "Every subnet of the network and, as the oldest, the primary network itself.",
			Order:       "time of creation, by default newest first",
			Index:       "subnets",
			Parameters:  []query.Parameter{networkName, query.PageToken, query.PageSize(10_000, 100), sortOrder},
			Returns:     "A page of subnets.", Schema: "SubnetPage",
			Handle: a.serve(a.listSubnets),
		},
		{
			ID: "listDelegators", Path: "/v1/networks/{network}/delegators", Tag: tag,
			Summary:     "Delegations",
			Description: "Delegations to validators of the primary network. If both filters are given, a delegation has to match each of them.",
			Order:       "start of the delegation, by default newest first",
			Index:       "ledger",
			Parameters: []query.Parameter{
				networkName, query.PageToken, pageSize,
				{Name: "rewardAddresses", Kind: query.Commas, Item: "address", Description: "Addresses that are rewarded, separated by commas."},
				sortOrder,
				{Name: "delegationStatus", OneOf: []string{string(ledger.DelegationCompleted), string(ledger.DelegationActive), string(ledger.DelegationPending)}},
				{Name: "nodeIds", Kind: query.Commas, Item: "node ID", Description: "Validators, separated by commas.", Example: "NodeID-111111111111111111116DBWJs"},
			},
			Returns: "A page of delegations.", Schema: "DelegatorPage",
			Handle: a.serve(a.listDelegators),
		},
		{
			ID: "listVerticesByHeight", Path: "/v1/networks/{network}/blockchains/{blockchainId}/vertices:listByHeight", Tag: tag,
			Summary:     "Vertices of the X-Chain at a height",
			Description: "What the X-Chain accepted before it had blocks. Several vertices can have one height, and most heights have none.",
			Order:       "index, then hash, by default descending",
			Index:       "vertices",
			Parameters: []query.Parameter{
				networkName, blockchainID,
				{Name: "vertexHeight", Kind: query.Integer, Required: true},
				query.PageToken, pageSize, sortOrder,
			},
			Returns: "A page of vertices.", Schema: "VertexPage",
			Handle: a.serve(a.listVertices),
		},
		{
			ID: "listLatestXChainVertices", Path: "/v1/networks/{network}/blockchains/{blockchainId}/vertices", Tag: tag,
			Summary:    "Latest vertices of the X-Chain",
			Order:      "index, highest first",
			Index:      "vertices",
			Parameters: []query.Parameter{networkName, onlyXChain, query.PageToken, pageSize},
			Returns:    "A page of vertices.", Schema: "VertexPage",
			Handle: a.serve(a.latestVertices),
		},
		{
			ID: "getVertexByHash", Path: "/v1/networks/{network}/blockchains/{blockchainId}/vertices/{vertexHash}", Tag: tag,
			Summary:    "A vertex of the X-Chain",
			Index:      "vertices",
			Parameters: []query.Parameter{networkName, onlyXChain, {Name: "vertexHash", Description: "The ID of the vertex."}},
			Returns:    "The vertex.", Schema: "Vertex",
			Handle: a.serve(a.getVertex),
		},
	}
}

func (a *API) addressOperations() []operation.Operation {
	return []operation.Operation{
		{
			ID: "listBalances", Path: "/v1/networks/{network}/blockchains/{blockchainId}/balances", Tag: tag,
			Summary:     "Balances of addresses, now or at a time",
			Description: "What the addresses own together, now or at a past second. An output counts when as many of them are among its owners as it takes to spend it.",
			Index:       "ledger",
			Parameters: []query.Parameter{
				networkName, blockchainID,
				{Name: "blockTimestamp", Kind: query.Integer, Description: "Second at which the balances are wanted; the chain's present without it. On the X-Chain it must be after the chain got blocks (Cortina)."},
				addresses,
			},
			Returns: "The balances. Which fields there are depends on the chain.", Schema: "AddressBalances", Partial: true,
			Handle: a.serve(a.listBalances),
		},
		{
			ID: "listUtxos", Path: "/v1/networks/{network}/blockchains/{blockchainId}/utxos", Tag: tag,
			Summary:     "Outputs of addresses",
			Description: "Outputs made on the chain or destined to it that the addresses own. Stakes are shown, with `staked` true, until their time is over. A page may have fewer items than `pageSize` if they have thousands of owners; the list ends without `nextPageToken`.",
			Order:       "`sortBy`, then UTXO ID, by default descending",
			Index:       "ledger",
			Parameters:  append([]query.Parameter{networkName, blockchainID, addresses}, outputFilters...),
			Returns:     "A page of outputs.", Schema: "UtxoPage", Partial: true,
			Handle: a.serve(a.listUTXOs),
		},
		{
			ID: "listUtxosOfBody", Method: http.MethodPost, Path: "/v1/networks/{network}/blockchains/{blockchainId}/utxos", Tag: tag,
			Summary:     "Outputs of addresses in the body",
			Description: "The same list; the addresses do not have to fit a URL.",
			Order:       "`sortBy`, then UTXO ID, by default descending",
			Index:       "ledger",
			Parameters:  append([]query.Parameter{networkName, blockchainID}, outputFilters...),
			Body:        "PrimaryNetworkAddresses",
			Returns:     "A page of outputs.", Schema: "UtxoPage", Partial: true,
			Handle: a.serve(a.listUTXOsOfBody),
		},
		{
			ID: "listStakingTransactions", Path: "/v1/networks/{network}/blockchains/{blockchainId}/transactions:listStaking", Tag: tag,
			Summary:     "Staking transactions of addresses",
			Description: "Transactions of the P-Chain whose stake lasts and that consume or create an output of one of the addresses.",
			Order:       "time of the block, by default newest first",
			Index:       "ledger",
			Parameters: []query.Parameter{
				networkName, blockchainID, addresses, txTypes, startTime, endTime, query.PageToken, pageSize, sortOrder,
			},
			Returns: "A page of transactions.", Schema: "StakingTransactionPage",
			Handle: a.serve(a.listStaking),
		},
	}
}

// registryOperations returns the operations on what the P-Chain registers.
func (a *API) registryOperations() []operation.Operation {
	return []operation.Operation{
		{
			ID: "getSubnet", Path: "/v1/networks/{network}/subnets/{subnetId}", Tag: tag,
			Summary:    "A subnet and its blockchains",
			Index:      "registry, subnets",
			Parameters: []query.Parameter{networkName, subnetID},
			Returns:    "The subnet.", Schema: "Subnet",
			Handle: a.serve(a.getSubnet),
		},
		{
			ID: "listBlockchains", Path: "/v1/networks/{network}/blockchains", Tag: tag,
			Summary:     "Blockchains",
			Description: "Every blockchain of the network's subnets. The oldest are the X-Chain and the C-Chain; no transaction created the P-Chain.",
			Order:       "time of creation, by default newest first",
			Index:       "registry, subnets",
			Parameters:  []query.Parameter{networkName, query.PageToken, query.PageSize(10_000, 100), sortOrder},
			Returns:     "A page of blockchains.", Schema: "BlockchainPage",
			Handle: a.serve(a.listBlockchains),
		},
		{
			ID: "getBlockchain", Path: "/v1/networks/{network}/blockchains/{blockchainId}", Tag: tag,
			Summary: "A blockchain",
			Index:   "registry, subnets",
			Parameters: []query.Parameter{networkName, {
				Name: "blockchainId", Description: "The blockchain's ID, `x-chain` or `c-chain`.", Example: "c-chain",
			}},
			Returns: "The blockchain.", Schema: "Blockchain",
			Handle: a.serve(a.getBlockchain),
		},
		{
			ID: "listValidators", Path: "/v1/networks/{network}/validators", Tag: tag,
			Summary: "Validators of the primary network and of subnets",
			Description: "Current, pending and past validations, except those of L1s. States and counts are those of a node at the same height: " +
				"a validation is active until the block that ends it. The uptime is what the upstream node observed; it is absent if no node reports it. " +
				"The generated clients require it, so they get 0. Lists that are sorted or limited by uptime get 503 while no node reports uptimes. " +
				"Pages that are sorted by uptime or delegation capacity may repeat or skip validators whose value changes between them.",
			Order: "`sortBy`, then the order of creation, by default descending",
			Index: "registry",
			Parameters: []query.Parameter{
				networkName, query.PageToken, pageSize, nodeNames, validatorSort, sortOrder, validationStatus, capacityLeast, capacityMost,
				timeLeast, timeMost, feeLeast, feeMost, uptimeLeast, uptimeMost, subnetFilter,
			},
			Returns: "A page of validations.", Schema: "ValidatorPage",
			Handle: a.serve(a.listValidators),
		},
		{
			ID: "getValidator", Path: "/v1/networks/{network}/validators/{nodeId}", Tag: tag,
			Summary:    "Validations of a node",
			Order:      "creation, by default newest first",
			Index:      "registry",
			Parameters: []query.Parameter{networkName, nodeID, query.PageToken, pageSize, validationStatus, sortOrder},
			Returns:    "A page of validations.", Schema: "ValidatorPage",
			Handle: a.serve(a.getValidator),
		},
		{
			ID: "listL1Validators", Path: "/v1/networks/{network}/l1Validators", Tag: tag,
			Summary: "Validators of L1s with their balances",
			Description: "The balance is the one that a node reports after the block `blockHeight`. `deactivationTimestamp` is the second in which it is used up " +
				"if the number of active L1 validators of the network stays the same.",
			Order:      "creation, newest first",
			Index:      "registry",
			Parameters: []query.Parameter{networkName, query.PageToken, pageSize, l1ValidationID, inactiveL1, nodeFilter, subnetFilter},
			Returns:    "A page of L1 validators.", Schema: "L1ValidatorPage",
			Handle: a.serve(a.listL1Validators),
		},
	}
}

// serve returns the handler of an operation on a network.
func (a *API) serve(handle func(context.Context, operation.Request, *network) error) func(operation.Request) error {
	return func(r operation.Request) error {
		n, err := a.network(r.Param(networkName.Name))
		if err != nil {
			return err
		}
		request := r.Request().Context()
		ctx, cancel := context.WithTimeout(request, a.timeout)
		defer cancel()
		return n.explain(request, handle(ctx, r, n))
	}
}
