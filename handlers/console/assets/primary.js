// What the P- and the X-Chain have: transactions, blocks, assets, subnets, blockchains, and what addresses own. Each
// function takes what is looked up, {network, text, live}, and returns elements, or null if there is nothing.
import { h, amount, ask, copied, facts, link, lookupURL, moment, name, number, paged, pageSize, percent, subnet, table, time, weight, when, PRIMARY } from "./dom.js";

const SIZE = pageSize(25);
const TITLES = { "p-chain": "P-Chain", "x-chain": "X-Chain" };

export const api = (network, path, query = {}) => ask(`../v1/networks/${encodeURIComponent(network)}/${path}?${new URLSearchParams(query)}`);

/** One page of a list of the API, as paged wants it. */
const read = (network, path, query, list, row) => async (pageToken) => {
  const page = await api(network, path, { ...query, pageSize: SIZE, ...(pageToken ? { pageToken } : {}) });
  return { rows: page[list].map(row), next: page.nextPageToken };
};

const value = (a) => (a.type === "nft" ? `${number(a.amount)} NFT ${a.symbol}` : `${amount(a.amount, a.denomination)} ${a.symbol || a.name}`);
const values = (list) => list.map(value).join(", ");
const address = (network, prefix, a) => link(network, `${prefix}-${a}`);
const addresses = (network, prefix, list) => h("span", {}, list.flatMap((a) => [address(network, prefix, a), " "]));
const chainOf = (network, id) => (id === PRIMARY ? "P-Chain" : link(network, id));
const asset = (network, a) => (a.symbol === "AVAX" ? "AVAX" : h("a", { href: lookupURL(network, a.assetId), title: a.assetId }, a.symbol || a.name || name(a.assetId, 8, 5)));
const blockLink = (network, chain, height) => h("a", { href: lookupURL(network, String(height), chain) }, number(height));

/** A transaction of a chain: what it did, what it consumed and what it made. */
export const transaction = (chain) => async ({ network, text }) => {
  const t = await api(network, `blockchains/${chain}/transactions/${text}`);
  const prefix = chain === "p-chain" ? "P" : "X";
  const height = t.blockNumber ?? t.blockHeight;
  const made = t.assetCreated;
  return [
    facts([
      ["Transaction", copied(t.txHash)], ["Chain", TITLES[chain]], ["Type", t.txType], ["Time", moment(t.blockTimestamp ?? t.timestamp)],
      ["Block", h("span", {}, blockLink(network, chain, height), " ", link(network, t.blockHash))],
      t.sourceChain && t.sourceChain !== t.destinationChain ? ["From chain", chainOf(network, t.sourceChain)] : null,
      t.destinationChain && t.sourceChain !== t.destinationChain ? ["To chain", chainOf(network, t.destinationChain)] : null,
      amounts("Value", t.value), amounts("Value", t.amountCreated), amounts("Burned", t.amountBurned), amounts("Staked", t.amountStaked),
      amounts("Burned from balances of L1 validators", t.amountL1ValidatorBalanceBurned),
      t.nodeId ? ["Validator", copied(t.nodeId, lookupURL(network, t.nodeId))] : null,
      t.subnetId ? ["Subnet", subnet(network, t.subnetId)] : null,
      t.startTimestamp ? ["Begins", moment(t.startTimestamp)] : null, t.endTimestamp ? ["Ends", moment(t.endTimestamp)] : null,
      t.delegationFeePercent ? ["Delegation fee", `${t.delegationFeePercent}%`] : null,
      t.estimatedReward ? ["Estimated reward", `${amount(t.estimatedReward, 9)} AVAX`] : null,
      t.rewardAddresses?.length ? ["Rewarded", addresses(network, "P", t.rewardAddresses)] : null,
      t.stakingTxHash ? ["Staking transaction", copied(t.stakingTxHash, lookupURL(network, t.stakingTxHash))] : null,
      t.rewardTxHash ? ["Reward transaction", copied(t.rewardTxHash, lookupURL(network, t.rewardTxHash))] : null,
      t.blockchainInfo ? ["Blockchain", t.blockchainInfo.chainName] : null,
      t.subnetOwnershipInfo?.addresses.length ? ["Owners", addresses(network, "P", t.subnetOwnershipInfo.addresses)] : null,
      made ? ["Asset created", h("a", { href: lookupURL(network, made.assetId) }, `${made.name} (${made.symbol})`)] : null,
      t.memo && t.memo !== "0x" ? ["Memo", h("code", {}, t.memo)] : null,
      chain === "p-chain" ? ["Warp message", h("a", { href: `#/rounds?${new URLSearchParams({ network, message: t.txHash })}` }, "Sign its Warp message, if it has one")] : null,
    ]),
    h("h3", {}, `Inputs: ${t.consumedUtxos.length}`),
    t.consumedUtxos.length ? table("Inputs", ["Made by", { title: "Amount", right: true }, "Owners", "Chain"], t.consumedUtxos.map((u) => [
      madeBy(network, u), value(u.asset), addresses(network, prefix, u.addresses), chainOf(network, u.createdOnChainId)])) : h("p", { class: "muted" }, "It consumes no output."),
    h("h3", {}, `Outputs: ${t.emittedUtxos.length}`),
    t.emittedUtxos.length ? table("Outputs", ["Index", { title: "Amount", right: true }, "Owners", "State"], t.emittedUtxos.map((u) => [
      String(u.outputIndex), value(u.asset), addresses(network, prefix, u.addresses), state(network, u)])) : h("p", { class: "muted" }, "It makes no output."),
  ];
};

const amounts = (title, list) => (list?.length ? [title, values(list)] : null);
const madeBy = (network, u) => h("span", {}, link(network, u.txHash), ` #${u.outputIndex}`);

/** Whether an output is spent, staked or locked. */
function state(network, u) {
  if (u.consumingTxHash) return h("span", {}, "Spent by ", link(network, u.consumingTxHash));
  const lock = Math.max(Number(u.platformLocktime ?? 0), Number(u.stakeableLocktime ?? 0), Number(u.locktime ?? 0));
  const kind = u.rewardType ? "Reward, " : u.staked ? "Staked, " : "";
  return `${kind}unspent${1000 * lock > Date.now() ? `, locked until ${time(lock)}` : ""}`.replace(/^./, (c) => c.toUpperCase());
}

/** A block of a chain, by its number or its hash. */
export const block = (chain) => async ({ network, text }) => {
  const b = await api(network, `blockchains/${chain}/blocks/${text}`);
  const p = b.proposerDetails ?? {};
  const height = Number(b.blockNumber);
  return [
    facts([
      ["Chain", TITLES[chain]], ["Number", number(height)], ["Hash", copied(b.blockHash)], ["Time", moment(b.blockTimestamp)], ["Type", b.blockType], ["Size", `${number(b.blockSizeBytes)} bytes`],
      p.proposerNodeId ? ["Proposer", copied(p.proposerNodeId, lookupURL(network, p.proposerNodeId))] : null,
      p.proposerPChainHeight ? ["P-Chain height of the proposer", blockLink(network, "p-chain", p.proposerPChainHeight)] : null,
      height > 0 ? ["Before it", h("span", {}, blockLink(network, chain, height - 1), " ", link(network, b.parentHash))] : null, ["After it", blockLink(network, chain, height + 1)]]),
    h("h3", {}, `Transactions: ${b.txCount}`),
    b.transactions.length ? table("Transactions", ["Transaction"], b.transactions.map((id) => [copied(id, lookupURL(network, id))])) : h("p", { class: "muted" }, "It has none."),
  ];
};

/** The latest blocks of a chain. */
export const blocks = (chain) => ({ network }) => paged(`Blocks of the ${TITLES[chain]}`, ["Block", "Time", "Type", { title: "Transactions", right: true }, "First transaction"], "There is no block yet.", async (pageToken) => {
  const page = await api(network, `blockchains/${chain}/blocks`, { pageSize: 5, ...(pageToken ? { pageToken } : {}) });
  return { next: page.nextPageToken, rows: page.blocks.map((b) => [blockLink(network, chain, b.blockNumber), when(1000 * b.blockTimestamp), b.blockType, number(b.txCount), b.transactions.length ? link(network, b.transactions[0]) : "—"]) };
});

/** An asset of the X-Chain. */
export async function assetOf({ network, text }) {
  const a = await api(network, `blockchains/x-chain/assets/${text}`);
  return facts([["Name", a.name], ["Symbol", a.symbol], ["Asset", copied(a.assetId)], ["Kind", a.type === "nft" ? "NFT" : "Fungible"], a.type === "nft" ? null : ["Decimals", String(a.denomination)],
    ["Supply", a.cap === "variable" ? "Its owners may create more" : "Fixed"], ["Created", h("span", {}, a.createdAtTimestampIsUpperBound ? "Not after " : "", moment(a.createdAtTimestamp))]]);
}

/** A subnet: who owns it and its blockchains. */
export async function subnetOf({ network, text, live }) {
  const now = live.status?.networks.find((n) => n.name === network)?.subnets.find((s) => s.subnetId === text);
  const connected = now ? [["Validators", number(now.validators)], ["Weight", weight(now.weight, text)], ["Connected", percent(now.connected)]] : [];
  const s = await api(network, `subnets/${text}`);
  return [
    facts([["Subnet", copied(text, subnetURL(network, text))], text === PRIMARY ? null : ["Created", h("span", {}, moment(s.createBlockTimestamp), ", block ", blockLink(network, "p-chain", s.createBlockIndex))],
      ["An L1", s.isL1 ? "Yes" : "No"], s.ownerAddresses.length ? ["Owners", addresses(network, "P", s.ownerAddresses)] : null, ["Signatures of its owners", String(s.threshold)], ...connected,
      ["Validators now", h("a", { href: subnetURL(network, text) }, "All")]]),
    s.blockchains.length ? table("Blockchains", ["Blockchain", "Name"], s.blockchains.map((b) => [link(network, b.blockchainId), b.blockchainName ?? ""])) : h("p", { class: "muted" }, "It has no blockchains.")];
}

const subnetURL = (network, id) => `#/subnet?${new URLSearchParams({ network, id })}`;

/** A blockchain of a subnet. */
export async function blockchain({ network, text }) {
  const b = await api(network, `blockchains/${text}`);
  return facts([["Name", b.blockchainName], ["Blockchain", copied(b.blockchainId)], ["Subnet", subnet(network, b.subnetId)], ["Created", h("span", {}, moment(b.createBlockTimestamp), ", block ", blockLink(network, "p-chain", b.createBlockNumber))],
    ["Virtual machine", copied(b.vmId)], b.evmChainId ? ["EVM chain ID", String(b.evmChainId)] : null]);
}

const BALANCES = {
  unlockedUnstaked: "Unlocked", unlockedStaked: "Staked", lockedPlatform: "Locked", lockedStakeable: "Locked, may be staked",
  lockedStaked: "Locked and staked", pendingStaked: "Stake that is pending", atomicMemoryUnlocked: "Between chains", atomicMemoryLocked: "Between chains, locked",
  unlocked: "Unlocked", locked: "Locked",
};

/** What an address owns on a chain. */
export const balances = (chain) => async ({ network, text }) => {
  const { balances } = await api(network, `blockchains/${chain}/balances`, { addresses: text });
  if (balances.unlockedUnstaked) delete balances.unlocked; // one under two names
  const rows = Object.entries(balances).flatMap(([kind, list]) => list.map((b) => [
    BALANCES[kind] ?? kind, asset(network, b), b.type === "nft" ? `${number(b.amount)} NFT` : amount(b.amount, b.denomination), number(b.utxoCount)]));
  if (!rows.length) return h("p", { class: "muted" }, "Nothing.");
  return table(`Balances on the ${chain}`, ["Kind", "Asset", { title: "Amount", right: true }, { title: "UTXOs", right: true }], rows);
};

/** The outputs of an address on a chain. */
export const utxos = (chain) => ({ network, text }) => paged("UTXOs", ["Made by", { title: "Amount", right: true }, "Asset", "Time", "State"], "None.",
  read(network, `blockchains/${chain}/utxos`, { addresses: text }, "utxos", (u) => [
    madeBy(network, u), amount(u.asset?.amount ?? u.amount, u.asset?.denomination ?? 9), asset(network, u.asset ?? { assetId: u.assetId }), when(1000 * (u.blockTimestamp ?? u.timestamp)), state(network, u)]));

const delegations = (filter) => ({ network, text }) => paged("Delegations", ["Validator", "Rewarded", { title: "AVAX", right: true }, "Until", "State", { title: "Reward, net", right: true }], "None.",
  read(network, "delegators", { [filter]: text }, "delegators", (d) => [
    link(network, d.nodeId), d.rewardAddresses[0] ? address(network, "P", d.rewardAddresses[0]) : "—", amount(d.amountDelegated, 9), when(1000 * d.endTimestamp), d.delegationStatus, d.netReward ? amount(d.netReward, 9) : "—"]));

/** The delegations that reward an address, and those to a validator. */
export const delegationsOf = delegations("rewardAddresses");
export const delegationsTo = delegations("nodeIds");

/** The transactions of an address whose stake lasts. */
export const staking = ({ network, text }) => paged("Staking transactions", ["Transaction", "Kind", "Time", "Validator", { title: "AVAX staked", right: true }], "None.",
  read(network, "blockchains/p-chain/transactions:listStaking", { addresses: text }, "transactions", (t) => [
    link(network, t.txHash), t.txType, when(1000 * t.blockTimestamp), t.nodeId ? link(network, t.nodeId) : "—", t.amountStaked?.[0] ? amount(t.amountStaked[0].amount, 9) : "—"]));

/** The chains that had an output of an address. */
export async function chainsOf({ network, text }) {
  const { addresses: [found] } = await api(network, "addresses:listChainIds", { addresses: text });
  if (!found?.blockchainIds.length) return h("p", { class: "muted" }, "No chain of the primary network had an output of this address.");
  const chains = await Promise.all(found.blockchainIds.map(async (id) => {
    if (id === PRIMARY) return "P-Chain";
    const known = await api(network, `blockchains/${id}`).catch(() => null); // without it, the ID is the name
    return known?.blockchainName ? h("a", { href: lookupURL(network, id), title: id }, known.blockchainName) : link(network, id);
  }));
  return [facts([["Address", copied(text)], ["Had outputs on", h("span", {}, chains.flatMap((chain, i) => (i ? [", ", chain] : [chain])))]])];
}

/** The validations of a node on the primary network and on subnets, and on L1s. */
export const validations = ({ network, text }) => paged("Validations", ["Transaction", "Subnet", { title: "Stake", right: true }, { title: "Delegated", right: true }, "Begins", "Ends", "State"], "It was no validator of the primary network or of a subnet.",
  read(network, `validators/${text}`, {}, "validators", (v) => [
    link(network, v.txHash), subnet(network, v.subnetId), weight(v.amountStaked ?? "0", v.subnetId), v.amountDelegated ? `${amount(v.amountDelegated, 9)} AVAX` : "—", when(1000 * v.startTimestamp), when(1000 * (v.removeTimestamp ?? v.endTimestamp)), v.validationStatus]));

export const l1Validations = ({ network, text }) => paged("Validations of L1s", ["Validation", "Subnet", { title: "Weight", right: true }, { title: "Balance, AVAX", right: true }, "Since"], null,
  read(network, "l1Validators", { nodeId: text }, "validators", (v) => [
    name(v.validationId, 8, 5), subnet(network, v.subnetId), number(v.weight), amount(v.remainingBalance, 9), when(1000 * v.creationTimestamp)]));
