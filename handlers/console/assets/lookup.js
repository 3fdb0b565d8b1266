import { messageURL, messagesURL } from "./messages.js";
import { connection } from "./networks.js";
import { h, amount, ask, copyButton, name, stamp, when, number, percent, share, subnet, table, time, weight, PRIMARY } from "./dom.js";

const V1 = "../v1/networks/";
const PAGE = 25;

/** The page that looks things up, through the public API. */
export function lookup(main, live, query) {
  let ended = false;
  let turn = 0;
  const network = h("select", { id: "lookup-network", "aria-label": "Network" });
  const input = h("input", { id: "query", type: "search", spellcheck: "false", autocomplete: "off", autocapitalize: "off", placeholder: "Address, transaction, block, ID", value: query.get("q") ?? "" });
  const form = h("form", { class: "card find", role: "search", onsubmit: (e) => {
    e.preventDefault();
    const next = `#/lookup?network=${encodeURIComponent(network.value)}&q=${encodeURIComponent(input.value.trim())}`;
    if (location.hash === next) find();
    else location.hash = next;
  } },
    h("div", { class: "field grow" }, h("label", { for: "query" }, "What to look for"), input),
    h("div", { class: "field" }, h("label", { for: "lookup-network" }, "Network"), network),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Look up")));
  const results = h("div", { class: "stack", id: "results", "aria-live": "polite" });
  main.append(form, results);

  function onStatus() {
    const names = (live.status?.networks ?? []).map((n) => n.name);
    if (!names.length || [...network.options].map((o) => o.value).join() === names.join()) return;
    const want = network.value || query.get("network");
    network.replaceChildren(...names.map((n) => h("option", { value: n }, n)));
    if (names.includes(want)) network.value = want;
    if (!turn && input.value) find();
  }

  async function find() {
    const mine = ++turn;
    const text = input.value.trim();
    const current = () => !ended && mine === turn;
    if (!text) {
      results.replaceChildren(h("p", { class: "empty" }, "Nothing to look for yet."));
      return;
    }
    const on = network.value;
    const sections = kindOf(text);
    results.replaceChildren(...sections.map(([title, read]) => {
      const body = h("div", {}, h("p", { class: "muted" }, "Looking…"));
      const box = h("section", { class: "card", "aria-label": title }, h("h2", {}, title), body);
      read(on, text, live).then(
        (found) => current() && body.replaceChildren(...[found].flat().filter(Boolean)),
        (error) => current() && body.replaceChildren(h("p", { class: "muted" }, error.message)));
      return box;
    }));
    if (!sections.length) results.replaceChildren(h("p", { class: "empty" }, "This is no address, no ID, no hash and no number. Addresses are like P-avax1…, X-fuji1… or 0x…, IDs like 2b8q… or NodeID-…"));
  }

  onStatus();
  if (!input.value) results.replaceChildren(h("p", { class: "empty" }, "Addresses of the P-, X- and C-Chain show what they own and stake; a NodeID shows who delegates to it; IDs and hashes are looked for among transactions, subnets and signed messages, numbers among the blocks of EVM chains."));
  live.addEventListener("status", onStatus);
  return () => {
    ended = true;
    live.removeEventListener("status", onStatus);
  };
}

/** What a text may be: titles and what reads each. */
function kindOf(text) {
  if (/^NodeID-[1-9A-HJ-NP-Za-km-z]+$/.test(text)) return [["Validator", validator], ["Delegations to it", delegationsTo]];
  if (/^0x[0-9a-fA-F]{40}$/.test(text)) return [["Atomic UTXOs of the C-Chain", utxosOf("c-chain")], ["Contracts it deployed", deployments]];
  if (/^\d{1,15}$/.test(text)) return [["Block of an EVM chain", evmBlock]];
  if (/^0x[0-9a-fA-F]{64}$/.test(text)) return [["Transaction of an EVM chain", evmTransaction], ["Warp message of the transaction", warpMessage]];
  if (/^([PXC]-)?[a-z]+1[02-9ac-hj-np-z]{38}$/.test(text)) {
    return [["P-Chain balances", balancesOf("p-chain")], ["X-Chain balances", balancesOf("x-chain")], ["P-Chain UTXOs", utxosOf("p-chain")], ["Delegations", delegationsOf], ["Staking transactions", staking]];
  }
  if (/^[1-9A-HJ-NP-Za-km-z]{40,60}$/.test(text)) return [["Subnet", subnetOf], ["Transaction", transaction], ["Signed messages", signedMessages], ["Warp message of the transaction", warpMessage]];
  return [];
}

const BALANCES = {
  unlockedUnstaked: "Unlocked", unlockedStaked: "Staked", lockedPlatform: "Locked", lockedStakeable: "Locked, may be staked",
  lockedStaked: "Locked and staked", pendingStaked: "Stake that is pending", atomicMemoryUnlocked: "Between chains", atomicMemoryLocked: "Between chains, locked",
  unlocked: "Unlocked", locked: "Locked",
};

function balancesOf(chain) {
  return async (network, address) => {
    const { balances } = await ask(`${V1}${network}/blockchains/${chain}/balances?addresses=${encodeURIComponent(address)}`);
    if (balances.unlockedUnstaked) delete balances.unlocked; // one under two names
    const rows = Object.entries(balances).flatMap(([kind, list]) => list.map((b) => [
      BALANCES[kind] ?? kind, asset(b), b.type === "nft" ? `${number(b.amount)} NFT` : amount(b.amount, b.denomination), number(b.utxoCount)]));
    if (!rows.length) return h("p", { class: "muted" }, "Nothing.");
    return table(`Balances on the ${chain}`, ["", "Asset", { title: "Amount", right: true }, { title: "UTXOs", right: true }], rows);
  };
}

function asset(a) {
  return h("span", { title: a.assetId }, a.symbol || a.name || a.assetId);
}

const more = (page) => (page.nextPageToken ? h("p", { class: "muted" }, `These are the first ${PAGE}; the API has the rest.`) : null);

function utxosOf(chain) {
  return async (network, address) => {
    const page = await ask(`${V1}${network}/blockchains/${chain}/utxos?addresses=${encodeURIComponent(address)}&pageSize=${PAGE}`);
    if (!page.utxos.length) return h("p", { class: "muted" }, "None.");
    return [table("UTXOs", ["Transaction", { title: "Amount", right: true }, "Asset", "From", "State"], page.utxos.map((u) => [
      link(network, u.txHash), amount(u.asset?.amount ?? u.amount, u.asset?.denomination ?? 9), asset(u.asset ?? { assetId: u.assetId }),
      time(u.blockTimestamp ?? u.timestamp), u.staked ? "staked" : "unspent"])), more(page)];
  };
}

function link(network, id) {
  const a = h("a", { href: `#/lookup?network=${encodeURIComponent(network)}&q=${encodeURIComponent(id)}` });
  a.append(name(id, 8, 5));
  return a;
}

function delegationTable(network, page) {
  if (!page.delegators.length) return h("p", { class: "muted" }, "None.");
  return [table("Delegations", ["Validator", "Rewarded", { title: "AVAX", right: true }, "Until", "State", { title: "Reward, net", right: true }], page.delegators.map((d) => [
    link(network, d.nodeId), link(network, `P-${d.rewardAddresses[0] ?? ""}`), amount(d.amountDelegated, 9), time(d.endTimestamp), d.delegationStatus,
    d.netReward ? amount(d.netReward, 9) : "—"])), more(page)];
}

const delegationsOf = async (network, address) => delegationTable(network, await ask(`${V1}${network}/delegators?rewardAddresses=${encodeURIComponent(address)}&pageSize=${PAGE}`));
const delegationsTo = async (network, nodeId) => delegationTable(network, await ask(`${V1}${network}/delegators?nodeIds=${encodeURIComponent(nodeId)}&pageSize=${PAGE}`));

async function staking(network, address) {
  const page = await ask(`${V1}${network}/blockchains/p-chain/transactions:listStaking?addresses=${encodeURIComponent(address)}&pageSize=${PAGE}`);
  if (!page.transactions.length) return h("p", { class: "muted" }, "None.");
  return [table("Staking transactions", ["Transaction", "Kind", "Time", "Validator", { title: "AVAX staked", right: true }], page.transactions.map((t) => [
    link(network, t.txHash), t.txType, time(t.blockTimestamp), t.nodeId ? link(network, t.nodeId) : "", t.amountStaked?.[0] ? amount(t.amountStaked[0].amount, 9) : ""])), more(page)];
}

/** The subnets that a node is a validator of, and its connection. */
async function validator(network, nodeId) {
  const { validators } = await ask(`api/validators?${new URLSearchParams({ network, node: nodeId })}`);
  if (!validators.length) return h("p", { class: "muted" }, "It is a validator of no subnet now.");
  const one = validators[0];
  return [connection(one),
    table("Subnets", ["Subnet", { title: "Weight", right: true }, { title: "Share", right: true }], validators.map((v) => [
      subnet(network, v.subnetId), weight(v.weight, v.subnetId), percent(share(v.weight, v.totalWeight), 2)]))];
}

async function subnetOf(network, id, live) {
  const status = live.status?.networks.find((n) => n.name === network)?.subnets.find((s) => s.subnetId === id);
  const connected = status ? [["Validators", number(status.validators)], ["Weight", weight(status.weight, id)], ["Connected", percent(status.connected)], ["Validators now", h("a", { href: `#/subnet?${new URLSearchParams({ network, id })}` }, "All")]] : [];
  if (id === PRIMARY) return facts([["Subnet", "Primary network"], ...connected]);
  // There is no operation for one subnet: it is looked for among the latest.
  const [size, pages] = [100, 10];
  let token = "";
  for (let i = 0; i < pages; i++) {
    const page = await ask(`${V1}${network}/subnets?pageSize=${size}${token ? `&pageToken=${encodeURIComponent(token)}` : ""}`);
    const s = page.subnets.find((one) => one.subnetId === id);
    if (s) {
      return [facts([
        ["Created", `${time(s.createBlockTimestamp)}, block ${s.createBlockIndex}`], ["An L1", s.isL1 ? "yes" : "no"], ["Signatures of its owners", s.threshold], ...connected]),
        s.ownerAddresses.length ? h("p", {}, "Owners: ", ...s.ownerAddresses.flatMap((a) => [link(network, `P-${a}`), " "])) : null,
        s.blockchains.length ? table("Blockchains", ["Blockchain", "Name"], s.blockchains.map((b) => [name(b.blockchainId, 12, 8), b.blockchainName ?? ""])) : h("p", { class: "muted" }, "It has no blockchains.")];
    }
    token = page.nextPageToken;
    if (!token) return connected.length ? facts(connected) : h("p", { class: "muted" }, "No subnet has this ID.");
  }
  return h("p", { class: "muted" }, `It is not among the ${size * pages} latest subnets.`);
}

/** A transaction as the node surface has it, if this instance serves that. */
async function transaction(network, id) {
  for (const [path, method, chain] of [["P", "platform.getTx", "P-Chain"], ["X", "avm.getTx", "X-Chain"]]) {
    let answer;
    try {
      answer = await ask(`../${network}/ext/bc/${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { txID: id, encoding: "json" } }) });
    } catch (error) {
      if (error.status === 404) return h("p", { class: "muted" }, "This instance does not serve single transactions.");
      throw error;
    }
    if (answer.result?.tx) return [h("p", {}, `On the ${chain}.`), h("pre", { tabindex: "0" }, JSON.stringify(answer.result.tx, null, 2))];
  }
  return h("p", { class: "muted" }, "No transaction of the P- or X-Chain has this ID.");
}

/** Looking does not set validators to work: that is for the page of rounds. */
async function warpMessage(network, id) {
  return h("p", {}, h("a", { href: `#/rounds?network=${encodeURIComponent(network)}&message=${encodeURIComponent(id)}` }, "Have the message signed that follows from it"), ", if one does.");
}

/** The stored messages with an ID, that of a source blockchain or of a signing subnet included. */
async function signedMessages(network, id) {
  const { messages } = await ask(`api/messages?${new URLSearchParams({ network, id, limit: 10 })}`);
  if (!messages.length) return h("p", { class: "muted" }, "None among the latest.");
  return [table("Signed messages", ["Signed", "Content", "Message", ""], messages.map((m) => [when(m.signedAt), m.payload.title, name(m.messageId),
    h("a", { href: messageURL(network, m.number) }, "Details")])), h("p", {}, h("a", { href: messagesURL(network, id) }, "All of them"))];
}

/** The IDs of the network's EVM chains that are indexed. */
const evmChains = (network, live) => (live.status?.chains ?? []).filter((c) => c.network === network && c.chain.startsWith("evm-")).map((c) => c.chain.slice(4));

const NO_CHAIN = "No EVM chain is indexed here. To index chains, set record of the network to all and name them in evm.";

/** What the EVM chains have, each read by one function; those without it are left out. */
async function onChains(network, live, none, read) {
  const ids = evmChains(network, live);
  if (!ids.length) return h("p", { class: "muted" }, NO_CHAIN);
  const found = await Promise.all(ids.map(async (id) => {
    try {
      return await read(id);
    } catch (error) {
      if (error.status === 404) return [];
      throw error;
    }
  }));
  return found.some((f) => f.length) ? found.flat() : h("p", { class: "muted" }, none);
}

const ether = (wei, symbol) => `${amount(wei ?? "0", 18)} ${symbol}`;
const moment = (seconds) => h("span", {}, when(1000 * seconds), ` · ${stamp(1000 * seconds)}`);
const copied = (text, href = null) => h("span", { class: "copied" }, href ? h("a", { href }, h("code", {}, text)) : h("code", {}, text), copyButton(text));
const list = (rows) => h("dl", { class: "facts-of" }, rows.filter(Boolean).map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value))));
const search = (network, q) => `#/lookup?${new URLSearchParams({ network, q })}`;

const evmTransaction = (network, hash, live) => onChains(network, live, "No indexed EVM chain has this transaction.", async (id) => {
  const found = await ask(`../v1/chains/${id}/transactions/${hash}`);
  const t = found.nativeTransaction;
  const token = found.networkTokenDetails?.networkToken?.symbol ?? "";
  const transfers = found.erc20Transfers ?? [];
  return [
    list([["Chain", `EVM chain ${id}`], ["Hash", copied(t.txHash)], ["Result", h("span", { class: "badge", "data-state": t.txStatus === "1" ? "good" : "bad" }, t.txStatus === "1" ? "Succeeded" : "Failed")],
      ["Block", h("a", { href: search(network, t.blockNumber) }, t.blockNumber)], ["Time", moment(t.blockTimestamp)],
      ["From", copied(t.from.address, search(network, t.from.address))], t.to?.address ? ["To", copied(t.to.address, search(network, t.to.address))] : null,
      ["Value", ether(t.value, token)], ["Fee", ether(String(BigInt(t.gasUsed) * BigInt(t.gasPrice)), token)], ["Method", t.method?.methodName || t.method?.methodHash || "—"], ["Nonce", t.nonce]]),
    transfers.length ? table("Transfers of tokens", ["Token", "From", "To", { title: "Amount", right: true }], transfers.map((x) => [
      x.erc20Token.symbol || name(x.erc20Token.address), link(network, x.from.address), link(network, x.to.address), amount(x.value, x.erc20Token.decimals ?? 0)])) : ""];
});

const evmBlock = (network, number_, live) => onChains(network, live, "No indexed EVM chain has this block yet.", async (id) => {
  const b = await ask(`../v1/chains/${id}/blocks/${number_}`);
  const { transactions, nextPageToken } = await ask(`../v1/chains/${id}/blocks/${number_}/transactions?pageSize=${PAGE}`);
  return [
    list([["Chain", `EVM chain ${id}`], ["Number", number(BigInt(b.blockNumber))], ["Hash", copied(b.blockHash)], ["Time", moment(b.blockTimestamp)], ["Transactions", number(b.txCount)],
      ["Gas", `${number(BigInt(b.gasUsed))} of ${number(BigInt(b.gasLimit))}`], Number(b.blockNumber) > 0 ? ["Before it", h("a", { href: search(network, String(Number(b.blockNumber) - 1)) }, String(Number(b.blockNumber) - 1))] : null,
      ["After it", h("a", { href: search(network, String(Number(b.blockNumber) + 1)) }, String(Number(b.blockNumber) + 1))]]),
    table("Transactions", ["Transaction", "From", "To", { title: "Value", right: true }, "Method"], transactions.map((t) => [
      link(network, t.txHash), link(network, t.from.address), t.to?.address ? link(network, t.to.address) : "", amount(t.value, 18), t.method?.methodName || t.method?.methodHash || "—"])),
    more({ nextPageToken }) ?? ""];
});

async function deployments(network, address, live) {
  const ids = evmChains(network, live);
  if (!ids.length) return h("p", { class: "muted" }, NO_CHAIN);
  return (await Promise.all(ids.map(async (id) => {
    const page = await ask(`../v1/chains/${id}/contracts/${address}/deployments?pageSize=${PAGE}`);
    const list = page.contracts ?? [];
    if (!list.length) return h("p", { class: "muted" }, `None on chain ${id}.`);
    return [h("p", {}, `On chain ${id}:`), table("Contracts", ["Contract", "Kind"], list.map((c) => [name(c.address, 12, 8), c.ercType ?? c.name ?? ""])), more(page)];
  }))).flat();
}

function facts(rows) {
  return h("dl", { class: "figures" }, rows.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value instanceof Node ? value : String(value)))));
}
