package store

import "fmt"

// Family is a table of rows. The list of families is fixed.
type Family uint8

// The families. A family's number is part of every key on disk: never change it, and never reuse it.
var (
	// FamilyMeta holds facts about the store itself: format version, accounts.
	FamilyMeta = family(1, "meta")
	// FamilyCursor holds cursors: p is the name, k is empty. See Batch.Move.
	FamilyCursor = family(2, "cursor")
	// FamilyOrder holds the order of insertion of bounded families. See Bounded.
	FamilyOrder = family(3, "order")
	// FamilyMessage holds finished signed messages.
	FamilyMessage = family(4, "message")
	// FamilySignature holds signatures that were verified one by one.
	FamilySignature = family(5, "signature")
	// FamilyIndexed says where each index of a chain begins and with which block
	// it ends: p is the name of its cursor, k is empty. See package index.
	FamilyIndexed = family(6, "indexed")
	// FamilyL1Tx holds P-Chain transactions that concern L1s: p is the network ID
	// and the transaction's, k is empty. See package l1, for the next three, too.
	FamilyL1Tx = twins(7, "l1_tx")
	// FamilyL1Height holds the same transactions in their order: p is the network
	// ID, k is the block's height and the transaction's number in it.
	FamilyL1Height = twins(8, "l1_height")
	// FamilyL1Subnet holds the conversions of subnets: p is the network ID and the
	// subnet's, k is empty.
	FamilyL1Subnet = twins(9, "l1_subnet")
	// FamilyL1Validation holds the events of L1 validators: p is the network ID and
	// the validation's, k is 0 for the beginning, 1 and the nonce for changes.
	FamilyL1Validation = twins(10, "l1_validation")
	// FamilyPState holds the state that decoding P-Chain blocks needs: p is the network ID,
	// k names a part. See package index/primary.
	FamilyPState = twins(11, "p_state")
	// FamilyOutput holds outputs of the primary network's chains: p is the network
	// ID and the output's; k is 0 for what made it, 1 for what consumed it, each
	// written by the chain where that happened. See package index/ledger, for all
	// up to FamilyValidation.
	FamilyOutput = twins(20, "utxo")
	// FamilyUnspentByTime and FamilySpentByTime list the outputs of an account: p is
	// the account, k is the time of creation and the output's ID as text.
	FamilyUnspentByTime = twins(21, "utxo_uns_t")
	FamilySpentByTime   = twins(22, "utxo_spt_t")
	// FamilyUnspentByAmount and FamilySpentByAmount list the same with the amount in
	// place of the time.
	FamilyUnspentByAmount = twins(23, "utxo_uns_a")
	FamilySpentByAmount   = twins(24, "utxo_spt_a")
	// FamilyAccount lists the accounts that owners have on a chain.
	FamilyAccount = twins(25, "account")
	// FamilyOwners lists the groups of owners an address is part of: p is network,
	// chain and address. Without the address it holds the groups with many owners.
	FamilyOwners = twins(26, "owners")
	// FamilyBalanceEvent holds what changed the balance of an account: p is the
	// account and a series, k begins with the time from which on it counts.
	FamilyBalanceEvent = twins(27, "bal_ev")
	// FamilyBalanceCheckpoint holds sums of the events before k, a time or the beginning
	// of an event's key.
	FamilyBalanceCheckpoint = twins(28, "bal_ck")
	// FamilyAtomic holds exports and imports in the order of the chain that has
	// them: p is network and chain, k is height and number.
	FamilyAtomic = twins(29, "atomic")
	// FamilyClock says how far each chain is: p is the network, k the chain.
	FamilyClock = twins(30, "clock")
	// FamilyAsset holds what is known of assets: p is network and asset.
	FamilyAsset = twins(31, "asset")
	// FamilyStaking holds staking transactions: p is network and transaction.
	FamilyStaking = twins(32, "stake")
	// FamilyStakingByAddress lists those that have not been settled by the addresses
	// in them: p is network and address, k time, height and transaction.
	FamilyStakingByAddress = twins(33, "stk_addr")
	// FamilyDelegation, FamilyDelegationByNode and FamilyDelegationByAddress list
	// delegations: p is the network, what the list is of, and whether it is settled;
	// k is start and transaction.
	FamilyDelegation          = twins(34, "deleg_all")
	FamilyDelegationByNode    = twins(35, "deleg_node")
	FamilyDelegationByAddress = twins(36, "deleg_addr")
	// FamilyValidation lists the validations of a node: p is network, subnet and
	// node, k the start.
	FamilyValidation = twins(37, "validation")
	// FamilySubnet lists subnets by their creation: p is the network. See package
	// index/ledger/subnets, for the next, too.
	FamilySubnet = twins(38, "subnet")
	// FamilySubnetFact holds what is known of a subnet: p is network and subnet.
	FamilySubnetFact = twins(39, "subnet_fact")
	// FamilyVertex lists the X-Chain's pre-Cortina vertices by height: p is the network
	// ID and a height, k the vertex's place in their order and its ID. See package
	// index/vertices, for FamilyVertexTx and FamilyVertexFetched, too.
	FamilyVertex = twins(40, "vertex")

	// The families of EVM chains, p of which begins with the network ID and the
	// chain. See package index/evm.

	// FamilyEVMHead says how far a chain is: k is empty.
	FamilyEVMHead = twins(41, "evm_head")
	// FamilyEVMBlock holds blocks: p continues with a range of heights, k is the height.
	FamilyEVMBlock = twins(42, "evm_block")
	// FamilyEVMTx lists transactions, newest first: p continues with how they ended and
	// a range of heights, k is place. FamilyEVMTxRange lists the ranges that have any.
	FamilyEVMTx      = twins(43, "evm_tx")
	FamilyEVMTxRange = twins(44, "evm_tx_range")
	// FamilyEVMTxHash says where a transaction is: p continues with its hash.
	FamilyEVMTxHash = twins(45, "evm_tx_hash")
	// FamilyEVMInternal and FamilyEVMTransfer list internal transactions and
	// ERC-1155 transfers, newest first: p continues with the wallet, k is place.
	FamilyEVMInternal = twins(46, "evm_internal")
	FamilyEVMTransfer = twins(47, "evm_transfer")
	// FamilyEVMBalance holds balances of ERC-1155 tokens: p continues with the wallet, k
	// is contract and token. FamilyEVMBalanceAt has the height, too, and holds what
	// the balance was from there on.
	FamilyEVMBalance   = twins(48, "evm_balance")
	FamilyEVMBalanceAt = twins(49, "evm_balance_at")
	// FamilyEVMOwner and FamilyEVMSupply list the tokens of ERC-721 and ERC-1155
	// contracts that there are: p continues with the contract, k is the token.
	FamilyEVMOwner  = twins(50, "evm_owner")
	FamilyEVMSupply = twins(51, "evm_supply")
	// FamilyEVMContract lists known contracts: p continues with the address, k is empty,
	// or the place of a deployment, newest first.
	FamilyEVMContract = twins(52, "evm_contract")
	// FamilyEVMDeployer lists deployments, newest first: p continues with the address of
	// who deployed, k is place.
	FamilyEVMDeployer = twins(53, "evm_deployer")
	// FamilyEVMDeployment holds all about transactions that deployed something: p continues
	// with the transaction's place, k is a kind and a number.
	FamilyEVMDeployment = twins(54, "evm_deployment")
	// FamilyEVMDay counts transactions: k is the day.
	FamilyEVMDay = twins(55, "evm_day")
	// FamilyEVMUntraced lists the blocks whose internal transactions are unknown:
	// p continues with a kind of rows, k is a height.
	FamilyEVMUntraced = twins(59, "evm_untraced")
	// FamilyEVMICM holds the events of ICM messages: p continues with the message's ID, k is
	// a kind of event. Without these, the row says that all blocks were searched for them.
	FamilyEVMICM = twins(77, "evm_icm")
	// FamilyEVMICMList lists sent and delivered messages, newest first: p continues with
	// what the list is of, k is time and place.
	FamilyEVMICMList = twins(78, "evm_icm_list")
	// FamilyEVMICMLog lists the events of ICM messages in their order: p is the chain, k is
	// height and log index. The row without k has the first height that was searched.
	FamilyEVMICMLog = twins(85, "evm_icm_log")
	// FamilyEVMAddressTx lists the transactions of addresses, newest first: p continues with the address and a kind, k is the
	// transaction's place. The row whose p is the chain says which blocks the lists cover.
	FamilyEVMAddressTx = twins(95, "evm_address_tx")
	// FamilyEVMTokenTransfer lists their ERC-20 and ERC-721 transfers: p continues with the address and a kind, k is the
	// transaction's place and the index of the log.
	FamilyEVMTokenTransfer = twins(96, "evm_token_transfer")
	// FamilyEVMContractTransfer lists the transfers of contracts: p continues with the contract, k is the transaction's place,
	// the index of the log, and that of the item in it.
	FamilyEVMContractTransfer = twins(103, "evm_contract_transfer")
	// FamilyEVMTokenBalance holds what the transfers of ERC-20 tokens add up to, and the ERC-721 tokens of wallets: p continues
	// with the wallet and a kind, k is the contract and, of ERC-721, the token. The row whose p is the chain says which
	// blocks it covers. FamilyEVMTokenBalanceAt has the height, too, and holds what the sum was from there on.
	FamilyEVMTokenBalance   = twins(97, "evm_token_balance")
	FamilyEVMTokenBalanceAt = twins(98, "evm_token_balance_at")
	// FamilyEVMPeriod has what the blocks of an hour, day, week or month add up to: p continues with the interval, k is the
	// first second. The row whose p is the chain says which blocks it covers. FamilyEVMActor has the hours when addresses
	// were last active: p continues with the address, k is empty. FamilyEVMLastActive counts these addresses by the hour, day
	// and month of that: p continues with the interval, k is the first second.
	FamilyEVMPeriod     = twins(100, "evm_period")
	FamilyEVMActor      = twins(101, "evm_actor")
	FamilyEVMLastActive = twins(102, "evm_last_active")

	// FamilyEVMChecked says which blocks at the end of a chain were checked against hashes and roots: k is empty. With the
	// height as k, it holds the receipts that no later block has settled yet.
	FamilyEVMChecked = twins(107, "evm_checked")

	// Facts about contracts of EVM chains that nodes and metadata servers report: p
	// is network ID, blockchain and contract.

	// FamilyEVMAsked holds what contracts say they are: k is empty. With the byte 1 as k,
	// it holds the time since when a contract follows no standard. See package
	// index/evm/contracts, for the next, too.
	FamilyEVMAsked = family(56, "evm_asked")
	// FamilyEVMTokenURI holds where the metadata of tokens are: k is standard and
	// token.
	FamilyEVMTokenURI = family(57, "evm_token_uri")
	// FamilyEVMMetadata holds fetched metadata and the result of each fetch: k is the
	// token. See package index/evm/metadata.
	FamilyEVMMetadata = family(58, "evm_metadata")

	// FamilyContainer holds block bytes as nodes sent them, from which indexes are rebuilt: p is network,
	// chain and a part of the height, k is the height. See package index/container, for
	// the next, too.
	FamilyContainer = family(60, "cont")
	// FamilyContainerID maps container IDs to heights: p is network, chain and the beginning of the
	// container's ID. Rows with network and chain as p say at which heights, k, containers
	// without an ID begin.
	FamilyContainerID = family(61, "cont_id")
	// FamilyAnswer holds replies of nodes about P-Chain blocks, such as rewards: p is
	// the network, what was asked, and the transaction. See package index/primary.
	FamilyAnswer = family(62, "p_answer")

	// FamilyTxPlace says where transactions of the P-Chain and the X-Chain are: p is
	// network, chain and the beginning of the transaction's ID. See package index/lookup,
	// for the next, too.
	FamilyTxPlace = twins(65, "tx_place")
	// FamilyBlockPlace says the same of blocks by their own IDs, which are not those of
	// containers.
	FamilyBlockPlace = twins(66, "block_place")
	// FamilyProposed lists the blocks whose envelope a node signed: p is network, chain and node ID, k is the height.
	// See package index/lookup, for the next, too.
	FamilyProposed = twins(104, "proposed")
	// FamilyAssetTx lists the transactions that move an asset other than AVAX: p is network, chain and asset, k is
	// height and index.
	FamilyAssetTx = twins(105, "asset_tx")
	// FamilyActivity holds the last activity of addresses: p is network, chain and address, k tells what the chain's
	// own outputs and the imported ones say. See package index/ledger.
	FamilyActivity = twins(106, "activity")
	// FamilyOwned lists the outputs that an address has a part in and that can be
	// consumed: p is a hash of network, the chain on which, the one that made them, and
	// the address, k is the output's ID. See package index/ledger.
	FamilyOwned = twins(67, "utxo_own")

	// FamilyContainerCertificate holds the certificates of those who signed containers,
	// each once: p is network, chain and what the certificate is known by. See package
	// index/container.
	FamilyContainerCertificate = family(68, "cont_cert")

	// FamilyVertexTx says which vertex has a pre-Cortina transaction: p is the network ID
	// and a part of the transaction's place, k is the place.
	FamilyVertexTx = twins(75, "vertex_tx")
	// FamilyVertexFetched holds vertices until they are in order, and what that takes: p
	// begins with the network ID and a kind of row. Afterwards it is empty.
	FamilyVertexFetched = twins(76, "vertex_got")

	// FamilySigned holds the stream of signed messages: p is the network ID, k a number. Behind
	// the network ID and the letter f, it holds failures. See Log and package aggregator.
	FamilySigned = family(79, "signed")
	// FamilySignedKey holds the keys of that stream's entries: p is the network ID and a
	// key, k is empty.
	FamilySignedKey = family(80, "signed_key")

	// FamilyWebhook holds webhooks: p is empty, k is a digest of the owner's name and the webhook's ID. See package
	// webhook, for the next three, too.
	FamilyWebhook = family(81, "webhook")
	// FamilyWebhookOutbox holds messages to deliver: p is the webhook's ID, k is the time of the next attempt and the
	// place of the event.
	FamilyWebhookOutbox = family(82, "webhook_outbox")
	// FamilyWebhookSecret holds the secrets that messages are signed with: p is a digest of the owner's name, k is empty.
	FamilyWebhookSecret = family(83, "webhook_secret")
	// FamilyWebhookState counts the messages to deliver: p is the webhook's ID, k is empty.
	FamilyWebhookState = family(84, "webhook_state")

	// What the P-Chain registers: blockchains, validations and L1 validators. p begins with the network ID. See package
	// index/registry.

	// FamilyRegistryState holds the state that decoding blocks needs: k names a part. With a longer p
	// it holds the last block and the fees of L1 validators.
	FamilyRegistryState = twins(89, "reg_state")
	// FamilyBlockchain lists blockchains by their creation: k is height and number.
	FamilyBlockchain = twins(90, "blockchain")
	// FamilyRegistered says when subnets and blockchains were created: p continues with the ID, k is empty.
	FamilyRegistered = twins(91, "registered")
	// FamilyValidator lists validations: p continues with a state and what the list is of, k is height and number.
	FamilyValidator = twins(92, "validator")
	// FamilyL1Validator holds L1 validators: p continues with the validation's ID, k is empty.
	FamilyL1Validator = twins(93, "l1_validator")
	// FamilyL1ValidatorList lists them: p continues with a state and what the list is of, k is height, number and index.
	FamilyL1ValidatorList = twins(94, "l1_vdr_list")
	// FamilyValidatorActivity holds what blocks changed about validators: p continues with a part of the height, k is the
	// height. With a validation's ID in p it holds L1Validator.Ends from that height on.
	FamilyValidatorActivity = twins(99, "vdr_activity")
	// FamilyStakeDay counts validators and their weight by day: p continues with a subnet or with all, k is the day's first
	// second.
	FamilyStakeDay = twins(86, "stake_day")
)

// familyNames is written by the declarations above and read-only from then on.
var familyNames [256]string

// twin is the bit in which the numbers of a family and its twin differ.
const twin Family = 0x80

// twins declares a family and its twin.
func twins(number uint8, name string) Family {
	family(number|uint8(twin), name+"_b")
	return family(number, name)
}

// Twin returns the family that holds the rows of f while f is rebuilt. The twin of a twin is the family itself. Without a
// twin, Twin returns f.
func (f Family) Twin() Family {
	if familyNames[f^twin] == "" {
		return f
	}
	return f ^ twin
}

func family(number uint8, name string) Family {
	if number == 0 || familyNames[number] != "" {
		panic(fmt.Sprintf("family number %d of %q is taken", number, name))
	}
	familyNames[number] = name
	return Family(number)
}

// Families returns all families in the order of their numbers, which is the order of dumps.
func Families() []Family {
	var all []Family
	for number, name := range familyNames {
		if name != "" {
			all = append(all, Family(number))
		}
	}
	return all
}

// FamilyNamed finds a family by its name.
func FamilyNamed(name string) (Family, bool) {
	for number, known := range familyNames {
		if known == name && name != "" {
			return Family(number), true
		}
	}
	return 0, false
}

// String returns the name, which is lower case and valid as the name of a table.
func (f Family) String() string {
	if name := familyNames[f]; name != "" {
		return name
	}
	return fmt.Sprintf("family(%d)", uint8(f))
}

func (f Family) check() error {
	if familyNames[f] == "" {
		return fmt.Errorf("%w: unknown family %d", ErrInvalid, uint8(f))
	}
	return nil
}
