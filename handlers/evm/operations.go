package evm

import (
	"context"
	"slices"
	"strings"

	"quorate/handlers/operation"
	"quorate/handlers/query"
	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
)

// indexName is the name of the index of EVM chains.
const indexName = "evm"

const (
	tag         = "EVM"
	icmTag      = "ICM messages"
	newestFirst = "newest first"
)

// Optional indexes, as the documentation names them.
const (
	addressIndex = "evm: " + string(evm.AddressTransactions)
	balanceIndex = "evm: " + string(evm.TokenBalances)
)

// ChainIDParameter declares the chain in a path.
var ChainIDParameter = query.Parameter{Name: "chainId", Description: "Decimal EVM chain ID, blockchain ID in CB58, or `c-chain`.", Example: "43113"}

// mostPerBlock is the maximum number of transactions of a block on a page. The generated clients send 0 by default.
const mostPerBlock = 100

// Parameters that several operations have.
var (
	addressParameter = query.Parameter{Name: "address", Description: "`0x` and 40 hex digits, in any case.", Example: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"}
	blockIDParameter = query.Parameter{Name: "blockId", Description: "The number of the block, or its hash: `0x` and 64 hex digits. The chain's node looks up hashes: 503 while it cannot be reached.", Example: "46789012"}
	pageSize         = query.PageSize(100, 10)
	blockPageSize    = query.Parameter{Name: pageSize.Name, Kind: query.Integer, Max: mostPerBlock, Default: "0", Description: "Items on a page. 0 means 100."}
	startBlock       = query.Parameter{Name: "startBlock", Kind: query.Integer, Description: "From this block on."}
	endBlock         = query.Parameter{Name: "endBlock", Kind: query.Integer, Description: "Up to the block before this one."}
	balancePageSize  = query.PageSize(500, 10)
	blockNumber      = query.Parameter{Name: "blockNumber", Kind: query.Digits, Description: "After this block; the last one without it."}
	contractAddress  = query.Parameter{Name: "contractAddress", Component: "EvmAddress", Description: "Only tokens of this contract."}
	currency         = query.Parameter{Name: "currency", OneOf: currencies, Default: "usd", Description: "Accepted and checked. Answers have no prices."}
	sortOrder        = query.Parameter{Name: "sortOrder", OneOf: []string{"desc", "asc"}, Default: "desc"}
	tokenIDParameter = query.Parameter{Name: "tokenId", Description: "Decimal ID of the token.", Example: "1"}
	icmNetwork       = query.Parameter{Name: "network", Description: "Only messages between chains of this network. Without it, those of all networks that the instance indexes.", Example: "fuji"}
)

// Operations returns the operations on EVM chains and on ICM messages.
func (a *API) Operations() []operation.Operation {
	return slices.Concat(a.chainListOperations(), a.chainOperations(), a.addressOperations(), a.balanceOperations(), a.icmOperations(), a.metricChainOperations(), a.metricOperations())
}

// chainListOperations are the operations on which chains there are.
func (a *API) chainListOperations() []operation.Operation {
	const emptyFields = " `rpcUrl` and `description` are empty, as this instance publishes no URLs of its nodes and has no descriptions. " +
		"`subnetId`, `vmId` and the name of an L1 come from the index of the P-Chain; without it they are absent, and the name is empty. " +
		"`status` is `UNAVAILABLE` while the index of the chain is catching up, has stopped, or lacks its node."
	return []operation.Operation{
		{
			ID: "listChains", Path: "/v1/chains", Tag: tag,
			Summary:     "Indexed EVM chains",
			Description: "The chains that this instance indexes." + emptyFields,
			Index:       indexName,
			Parameters:  []query.Parameter{chainNetwork, chainFeature},
			Returns:     "The chains.", Schema: "ChainList",
			Handle: a.serveICM(a.listChains),
		},
		{
			ID: "getChain", Path: "/v1/chains/{chainId}", Tag: tag,
			Summary:     "An indexed EVM chain",
			Description: strings.TrimSpace(emptyFields),
			Index:       indexName,
			Parameters:  []query.Parameter{ChainIDParameter},
			Returns:     "The chain.", Schema: "Chain",
			Handle: a.serve(a.getChain),
		},
		{
			ID: "listAddressChains", Path: "/v1/address/{address}/chains", Tag: tag,
			Summary:     "Indexed EVM chains on which an address was active",
			Description: "Chains with a transaction, transfer or internal transaction from or to the address. `unindexedChains` is empty, as this instance knows nothing of other chains. The header `Indexed-Without` names chains on which nothing was found and whose earlier blocks are not indexed. Needs the optional index `" + string(evm.AddressTransactions) + "`: 503 with code `INDEX_OFF` without it.",
			Index:       addressIndex,
			Parameters:  []query.Parameter{addressParameter},
			Returns:     "The chains.", Schema: "ActiveChains", Partial: true,
			Handle: a.serveICM(a.listAddressChains),
		},
	}
}

func (a *API) chainOperations() []operation.Operation {
	return []operation.Operation{
		{
			ID: "listLatestTransactions", Path: "/v1/chains/{chainId}/transactions", Tag: tag,
			Summary:     "Latest transactions",
			Description: "All transactions of the chain.",
			Order:       newestFirst, Index: indexName,
			Parameters: []query.Parameter{
				ChainIDParameter, query.PageToken, pageSize,
				{Name: "status", OneOf: []string{"failed", "success"}, Description: "Only those that succeeded, or failed."},
			},
			Returns: "A page of transactions.", Schema: "NativeTransactionPage",
			Handle: a.serve(a.listLatest),
		},
		{
			ID: "getTransaction", Path: "/v1/chains/{chainId}/transactions/{txHash}", Tag: tag,
			Summary:     "A transaction with its effects",
			Description: "With its token transfers and internal transactions. Unless the transaction deployed a contract, its input and effects come from the chain's node, and are verified against the indexed block: 503 while the node cannot be reached or lacks the block. If the node does not trace the block, `tracesMissing` names it and the internal transactions are unknown.",
			Index:       indexName,
			Parameters: []query.Parameter{ChainIDParameter, {
				Name: "txHash", Description: "`0x` and 64 hex digits, in any case.", Example: "0xacf1c8b06f9aec48e9fcbefbbe576ae8a7ca3b327fcae111396e7cc99956674d",
			}},
			Returns: "The transaction.", Schema: "TransactionDetails",
			Handle: a.serve(a.getTransaction),
		},
		{
			ID: "listLatestBlocks", Path: "/v1/chains/{chainId}/blocks", Tag: tag,
			Summary: "Latest blocks",
			Order:   newestFirst, Index: indexName,
			Parameters: []query.Parameter{ChainIDParameter, query.PageToken, pageSize},
			Returns:    "A page of blocks.", Schema: "EvmBlockPage",
			Handle: a.serve(a.listBlocks),
		},
		{
			ID: "getBlock", Path: "/v1/chains/{chainId}/blocks/{blockId}", Tag: tag,
			Summary: "A block", Index: indexName,
			Parameters: []query.Parameter{ChainIDParameter, blockIDParameter},
			Returns:    "The block.", Schema: "EvmBlock",
			Handle: a.serve(a.getBlock),
		},
		{
			ID: "listBlockTransactions", Path: "/v1/chains/{chainId}/blocks/{blockId}/transactions", Tag: tag,
			Summary: "Transactions of a block",
			Order:   "index in the block, highest first", Index: indexName,
			Parameters: []query.Parameter{ChainIDParameter, blockIDParameter, query.PageToken, blockPageSize},
			Returns:    "A page of transactions.", Schema: "NativeTransactionPage",
			Handle: a.serve(a.listBlockTransactions),
		},
		{
			ID: "listInternalTransactions", Path: "/v1/chains/{chainId}/addresses/{address}/transactions:listInternals", Tag: tag,
			Summary:     "Internal transactions of a wallet",
			Description: "Calls inside transactions that move value, and creations, from or to the wallet. They come from call traces. Blocks that the node could not trace are left out and named in `tracesMissing`; an index without any traces answers 503 with the code `INDEX_UNTRACED`.",
			Order:       newestFirst, Index: indexName,
			Parameters: []query.Parameter{ChainIDParameter, addressParameter, query.PageToken, pageSize, startBlock, endBlock},
			Returns:    "A page of internal transactions.", Schema: "InternalTransactionPage",
			Handle: a.serve(a.listInternals),
		},
		{
			ID: "listErc1155Transfers", Path: "/v1/chains/{chainId}/addresses/{address}/transactions:listErc1155", Tag: tag,
			Summary:     "ERC-1155 transfers of a wallet",
			Description: "Transfers from or to the wallet, mints and burns among them. Each transfer of a batch is an item of its own." + shortPages,
			Order:       newestFirst, Index: indexName,
			Parameters: []query.Parameter{ChainIDParameter, addressParameter, query.PageToken, pageSize, startBlock, endBlock},
			Returns:    "A page of transfers.", Schema: "Erc1155TransferPage",
			Handle: a.serve(a.listTransfers),
		},
		{
			ID: "listErc1155Balances", Path: "/v1/chains/{chainId}/addresses/{address}/balances:listErc1155", Tag: tag,
			Summary:     "ERC-1155 balances of a wallet, now or after a block",
			Description: "Balances other than zero after a block, and the balance of the native token. 503 with code `INDEX_BEGINS_LATER` if the index does not begin with the genesis block, as balances follow from all transfers." + shortPages,
			Order:       "contract, then token ID", Index: indexName,
			Parameters: []query.Parameter{
				ChainIDParameter, addressParameter,
				blockNumber, query.PageToken, balancePageSize, contractAddress,
			},
			Returns: "A page of balances.", Schema: "Erc1155BalancePage",
			Handle: a.serve(a.listBalances),
		},
		{
			ID: "getDeploymentTransaction", Path: "/v1/chains/{chainId}/contracts/{address}/transactions:getDeployment", Tag: tag,
			Summary:     "The transaction that deployed a contract",
			Description: "With its token transfers and internal transactions. A contract that was created inside a call belongs to the transaction around it.",
			Index:       indexName,
			Parameters: []query.Parameter{
				ChainIDParameter, addressParameter,
				currency,
			},
			Returns: "The transaction.", Schema: "TransactionDetails",
			Handle: a.serve(a.getDeployment),
		},
		{
			ID: "listContractDeployments", Path: "/v1/chains/{chainId}/contracts/{address}/deployments", Tag: tag,
			Summary:     "Contracts that an address deployed",
			Description: "By its transactions, or, being a contract itself, by its code. Contracts that calls in blocks without call traces made are left out; see `tracesMissing`.",
			Order:       newestFirst, Index: indexName,
			Parameters: []query.Parameter{ChainIDParameter, addressParameter, query.PageToken, pageSize},
			Returns:    "A page of contracts.", Schema: "DeployedContractPage",
			Handle: a.serve(a.listDeployments),
		},
		{
			ID: "listTokens", Path: "/v1/chains/{chainId}/nfts/collections/{address}/tokens", Tag: tag,
			Summary:     "Tokens of a collection",
			Description: "Of an ERC-721 or ERC-1155 contract; burnt ones are left out.",
			Order:       "token ID", Index: indexName,
			Parameters: []query.Parameter{ChainIDParameter, addressParameter, query.PageToken, pageSize},
			Returns:    "A page of tokens.", Schema: "TokenPage",
			Handle: a.serve(a.listTokens),
		},
		{
			ID: "getToken", Path: "/v1/chains/{chainId}/nfts/collections/{address}/tokens/{tokenId}", Tag: tag,
			Summary:     "A token of a collection",
			Description: "Of an ERC-721 or ERC-1155 contract. 404 if it was burnt.",
			Index:       indexName,
			Parameters:  []query.Parameter{ChainIDParameter, addressParameter, tokenIDParameter},
			Returns:     "The token.", Schema: "Token",
			Handle: a.serve(a.getToken),
		},
		{
			ID: "getContractMetadata", Path: "/v1/chains/{chainId}/addresses/{address}", Tag: tag,
			Summary:     "A contract",
			Description: "What the contract and the token lists of this instance say of it, and its last deployment. `deploymentDetails` is absent if no transaction or call trace of the index deployed it.",
			Index:       indexName,
			Parameters:  []query.Parameter{ChainIDParameter, addressParameter},
			Returns:     "The contract.", Schema: "Contract",
			Handle: a.serve(a.getContract),
		},
	}
}

// addressOperations are the operations that read optional indexes.
func (a *API) addressOperations() []operation.Operation {
	transfers := []query.Parameter{ChainIDParameter, addressParameter, query.PageToken, pageSize, startBlock, endBlock}
	return []operation.Operation{
		{
			ID: "listTransactions", Path: "/v1/chains/{chainId}/addresses/{address}/transactions", Tag: tag,
			Summary:     "Transactions of an address with their effects on it",
			Description: "Transactions that the address sent or received, or that have transfers or internal transactions from or to it. Only these effects are listed. A page may have fewer items than `pageSize` if their transactions have thousands of effects. Internal transactions of the blocks in `tracesMissing` are unknown." + needsAddressIndex,
			Order:       "block and index in the block, by default newest first", Index: addressIndex,
			Parameters: append(slices.Clip(transfers), sortOrder),
			Returns:    "A page of transactions.", Schema: "InteractionPage",
			Handle: a.serve(a.listInteractions),
		},
		{
			ID: "listNativeTransactions", Path: "/v1/chains/{chainId}/addresses/{address}/transactions:listNative", Tag: tag,
			Summary:     "Transactions from or to an address",
			Description: "A transaction that created a contract is to the contract." + needsAddressIndex,
			Order:       newestFirst, Index: addressIndex,
			Parameters: transfers,
			Returns:    "A page of transactions.", Schema: "NativeTransactionPage",
			Handle: a.serve(a.listNative),
		},
		{
			ID: "listErc20Transactions", Path: "/v1/chains/{chainId}/addresses/{address}/transactions:listErc20", Tag: tag,
			Summary:     "ERC-20 transfers of a wallet",
			Description: "Transfers from or to the wallet, mints and burns among them." + shortPages + needsAddressIndex,
			Order:       newestFirst, Index: addressIndex,
			Parameters: transfers,
			Returns:    "A page of transfers.", Schema: "Erc20TransferPage",
			Handle: a.serve(a.listTokenTransfers(chain.ERC20)),
		},
		{
			ID: "listErc721Transactions", Path: "/v1/chains/{chainId}/addresses/{address}/transactions:listErc721", Tag: tag,
			Summary:     "ERC-721 transfers of a wallet",
			Description: "Transfers from or to the wallet, mints and burns among them." + shortPages + needsAddressIndex,
			Order:       newestFirst, Index: addressIndex,
			Parameters: transfers,
			Returns:    "A page of transfers.", Schema: "Erc721TransferPage",
			Handle: a.serve(a.listTokenTransfers(chain.ERC721)),
		},
		{
			ID: "listTransfers", Path: "/v1/chains/{chainId}/tokens/{address}/transfers", Tag: tag,
			Summary:     "Transfers of a token",
			Description: "All transfers of the ERC-20, ERC-721 or ERC-1155 contract at the address, mints and burns among them. The list is empty if the contract follows none of these standards." + shortPages + needsAddressIndex,
			Order:       newestFirst, Index: addressIndex,
			Parameters: transfers,
			Returns:    "A page of transfers, all of the contract's standard.", Schema: "TokenTransferPage",
			Handle: a.serve(a.listContractTransfers),
		},
	}
}

// balanceOperations are the operations on balances, but for those of ERC-1155 tokens.
func (a *API) balanceOperations() []operation.Operation {
	const late = " Needs the optional index `" + string(evm.TokenBalances) + "`: 503 with code `INDEX_OFF` without it. Tokens received before block `Indexed-From` are missing."
	const native = " The native balance comes from the chain's node: 503 while the node cannot be reached."
	return []operation.Operation{
		{
			ID: "getNativeBalance", Path: "/v1/chains/{chainId}/addresses/{address}/balances:getNative", Tag: tag,
			Summary:     "Balance of the native token, now or after a block",
			Description: "From the chain's node, after the last indexed block or the given one. Balances after old blocks need a node that keeps their state.",
			Index:       indexName,
			Parameters:  []query.Parameter{ChainIDParameter, addressParameter, blockNumber, currency},
			Returns:     "The balance.", Schema: "NativeBalance",
			Handle: a.serve(a.getNativeBalance),
		},
		{
			ID: "listErc20Balances", Path: "/v1/chains/{chainId}/addresses/{address}/balances:listErc20", Tag: tag,
			Summary:     "ERC-20 balances of a wallet, now or after a block",
			Description: "Balances other than zero, as the contracts report them after the block. `transferSum` is what the transfers add up to, where that differs: such tokens change balances without transfers, or take fees. If no node can tell what a contract reports, the sum of its transfers is the balance and `balanceSource` is `transfers`. A page may have fewer items than `pageSize`, even none, as tokens without a balance are left out, and if more than 25 tokens are named that the index has never seen; the list ends without `nextPageToken`. Tokens are found by their transfers. Wrapping, as in WAVAX, emits none: name such a token in `contractAddresses`, and its contract is asked." + native + late,
			Order:       "contract", Index: balanceIndex,
			Parameters: []query.Parameter{
				ChainIDParameter, addressParameter, blockNumber, query.PageToken, balancePageSize,
				{Name: "filterSpamTokens", Kind: query.Boolean, Default: "true", Description: "Accepted and checked. The reputation of tokens is not known: `tokenReputation` is null."},
				{Name: "contractAddresses", Kind: query.Commas, Item: "address", Description: "Only these tokens, separated by commas.", Example: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"},
				currency,
			},
			Returns: "A page of balances.", Schema: "Erc20BalancePage",
			Handle: a.serve(a.listERC20Balances),
		},
		{
			ID: "listErc721Balances", Path: "/v1/chains/{chainId}/addresses/{address}/balances:listErc721", Tag: tag,
			Summary:     "ERC-721 tokens of a wallet",
			Description: "Tokens whose last transfer was to the wallet." + shortPages + native + late,
			Order:       "contract, then token ID", Index: balanceIndex,
			Parameters: []query.Parameter{ChainIDParameter, addressParameter, query.PageToken, balancePageSize, contractAddress},
			Returns:    "A page of tokens.", Schema: "Erc721BalancePage",
			Handle: a.serve(a.listERC721Balances),
		},
		{
			ID: "listCollectibleBalances", Path: "/v1/chains/{chainId}/addresses/{address}/balances:listCollectibles", Tag: tag,
			Summary:     "ERC-721 and ERC-1155 tokens of a wallet",
			Description: "503 with code `INDEX_BEGINS_LATER` if the index of the chain does not begin with the genesis block, as balances of ERC-1155 tokens follow from all transfers." + shortPages + late,
			Order:       "contract, then token ID", Index: balanceIndex,
			Parameters: []query.Parameter{ChainIDParameter, addressParameter, query.PageToken, balancePageSize, contractAddress},
			Returns:    "A page of tokens.", Schema: "CollectiblePage",
			Handle: a.serve(a.listCollectibles),
		},
	}
}

// shortPages is part of the description of a list that leaves out rows of the index.
const shortPages = " A page may have fewer items than `pageSize`, even none, if most of 16,384 rows of the index are left out: those of contracts that follow no token standard, and balances of zero. The list ends without `nextPageToken`."

// needsAddressIndex ends the description of an operation that reads the index of transactions by address.
const needsAddressIndex = " Needs the optional index `" + string(evm.AddressTransactions) + "`: 503 with code `INDEX_OFF` without it. The list begins with block `Indexed-From`."

// icmFilters returns the parameters that select messages.
func icmFilters() []query.Parameter {
	const filter = " A blockchain ID, or the EVM chain ID of an indexed chain."
	return []query.Parameter{
		{Name: "sourceBlockchainId", Description: "Only messages from this chain." + filter},
		{Name: "destinationBlockchainId", Description: "Only messages to this chain." + filter},
		{Name: "blockchainId", Description: "Only messages from or to this chain." + filter},
		{Name: "from", Component: "EvmAddress", Description: "Only messages of this sender."},
		{Name: "to", Component: "EvmAddress", Description: "Only messages to this recipient."},
		icmNetwork,
	}
}

func (a *API) icmOperations() []operation.Operation {
	return []operation.Operation{
		{
			ID: "listIcmMessages", Path: "/v1/icm/messages", Tag: icmTag,
			Summary:     "ICM messages",
			Description: "Messages that were sent through Teleporter (ICM). The filters apply together. Only the indexed chains are known: a message to another chain stays `pending`, even if its receipt was returned.",
			Order:       "the time at which they were sent or, if the source is not indexed, delivered; newest first", Index: indexName,
			Parameters: append([]query.Parameter{query.PageToken, pageSize}, icmFilters()...),
			Returns:    "A page of messages. The headers are those of the chain that is furthest behind.", Schema: "IcmMessagePage",
			Handle: a.serveICM(a.listICM),
		},
		{
			ID: "getIcmMessage", Path: "/v1/icm/messages/{messageId}", Tag: icmTag,
			Summary: "An ICM message", Index: indexName,
			Parameters: []query.Parameter{{
				Name: "messageId", Description: "The ID that Teleporter gave to the message, with or without `0x`.",
				Example: "0xacf1c8b06f9aec48e9fcbefbbe576ae8a7ca3b327fcae111396e7cc99956674d",
			}},
			Returns: "The message. The headers are those of the chain, of its two, that is furthest behind.", Schema: "IcmMessage",
			Handle: a.serveICM(a.getICM),
		},
		{
			ID: "listIcmMessagesByAddress", Path: "/v1/icm/addresses/{address}/messages", Tag: icmTag,
			Summary:     "ICM messages of an address",
			Description: "Messages that the address sent or that were sent to it.",
			Order:       "as for all messages, newest first", Index: indexName,
			Parameters: []query.Parameter{addressParameter, query.PageToken, pageSize, icmNetwork},
			Returns:    "A page of messages. The headers are those of the chain that is furthest behind.", Schema: "IcmMessagePage",
			Handle: a.serveICM(a.listICMOfAddress),
		},
	}
}

// serve returns the handler of an operation on a chain.
func (a *API) serve(handle func(context.Context, operation.Request, *Chain) error) func(operation.Request) error {
	return func(r operation.Request) error {
		chain, err := a.chains.Find(r.Param(ChainIDParameter.Name))
		if err != nil {
			return err
		}
		return a.serveICM(func(ctx context.Context, r operation.Request) error { return handle(ctx, r, chain) })(r)
	}
}

// serveICM returns the handler of an operation on the messages of all chains.
func (a *API) serveICM(handle func(context.Context, operation.Request) error) func(operation.Request) error {
	return func(r operation.Request) error {
		request := r.Request().Context()
		ctx, cancel := context.WithTimeout(request, a.timeout)
		defer cancel()
		return Explain(request, handle(ctx, r))
	}
}
