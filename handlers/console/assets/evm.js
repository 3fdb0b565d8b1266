// What EVM chains have: transactions, blocks, addresses and messages between chains. Each function takes what is looked
// up, {network, text, live, on}, and returns elements, or null if there is nothing.
import { h, amount, ask, copied, facts, link, lookupURL, milliseconds, moment, name, number, paged, pageSize, stamp, table, when } from "./dom.js";

const SIZE = pageSize(25);
const NO_CHAIN = "No EVM chain is indexed here. To index chains, set record of the network to all and name them in evm.";

/** The IDs of the network's EVM chains that are indexed. */
const chainsOf = ({ network, live, on }) => (live.status?.chains ?? []).filter((c) => c.network === network && c.chain.startsWith("evm-")).map((c) => c.chain.slice(4)).filter((id) => !on || on === id);

const api = (id, path, query = {}) => ask(`../v1/chains/${id}/${path}?${new URLSearchParams(query)}`);

/** What the EVM chains have, each read by one function. What is not found is left out; what fails is named. */
async function onChains(q, read) {
  const ids = chainsOf(q);
  if (!ids.length) return h("p", { class: "muted" }, NO_CHAIN);
  const found = (await Promise.all(ids.map(async (id) => {
    try {
      const elements = await read(id);
      return elements && (ids.length > 1 ? [h("h3", {}, `EVM chain ${id}`), elements] : [elements]);
    } catch (error) {
      if (error.status === 404) return null;
      return [h("p", { class: "muted" }, `EVM chain ${id}: ${error.message}`)];
    }
  }))).filter(Boolean);
  return found.length ? found.flat(3) : null;
}

const read = (id, path, query, list, row) => async (pageToken) => {
  const page = await api(id, path, { ...query, pageSize: SIZE, ...(pageToken ? { pageToken } : {}) });
  return { rows: page[list].flatMap((item) => row(item)), next: page.nextPageToken };
};

const ether = (wei, symbol) => `${amount(wei ?? "0", 18)} ${symbol}`;
const blockLink = (network, id, height) => h("a", { href: lookupURL(network, String(height), id) }, number(BigInt(height)));
/** What a transaction calls; the title has the types of its arguments. */
const method = (t) => h("span", { title: t.method?.methodName || null }, (t.method?.methodName || t.method?.methodHash || "—").split("(")[0]);

/** A transaction of an EVM chain. */
export const transaction = (q) => onChains(q, async (id) => {
  const { network } = q;
  const found = await api(id, `transactions/${q.text}`);
  const t = found.nativeTransaction;
  const token = found.networkTokenDetails?.networkToken?.symbol ?? "";
  const transfers = [...(found.erc20Transfers ?? []).map((x) => [x, x.erc20Token, amount(x.value, x.erc20Token.decimals ?? 0)]),
    ...(found.erc721Transfers ?? []).map((x) => [x, x.erc721Token, `#${x.erc721Token.tokenId}`]), ...(found.erc1155Transfers ?? []).map((x) => [x, x.erc1155Token, `${number(BigInt(x.value))} of #${x.erc1155Token.tokenId}`])];
  const internals = found.internalTransactions ?? [];
  const messages = found.teleporterMessageInfo ? [found.teleporterMessageInfo] : [];
  return [
    facts([["Chain", `EVM chain ${id}`], ["Hash", copied(t.txHash)], ["Result", h("span", { class: "badge", "data-state": t.txStatus === "1" ? "good" : "bad" }, t.txStatus === "1" ? "Succeeded" : "Failed")],
      ["Block", blockLink(network, id, t.blockNumber)], ["Time", moment(t.blockTimestamp)],
      ["From", copied(t.from.address, lookupURL(network, t.from.address))], t.to?.address ? ["To", copied(t.to.address, lookupURL(network, t.to.address))] : null,
      ["Value", ether(t.value, token)], ["Fee", ether(String(BigInt(t.gasUsed) * BigInt(t.gasPrice)), token)], ["Method", t.method?.methodName || t.method?.methodHash || "—"], ["Nonce", t.nonce],
      ...messages.map((m) => ["Message between chains", copied(m.teleporterMessageId, lookupURL(network, m.teleporterMessageId))]),
      ["Warp message", h("a", { href: `#/rounds?${new URLSearchParams({ network, message: q.text })}` }, "Sign its Warp message, if it has one")]]),
    ...(transfers.length ? [h("h3", {}, "Transfers of tokens"), table("Transfers of tokens", ["Token", "From", "To", { title: "Amount", right: true }], transfers.map(([x, of, value]) => [
      of.symbol || name(of.address, 8, 5), link(network, x.from.address), link(network, x.to.address), value]))] : []),
    ...(internals.length ? [h("h3", {}, "Internal transactions"), table("Internal transactions", ["Kind", "From", "To", { title: "Value", right: true }], internals.map((x) => [
      x.internalTxType, link(network, x.from.address), x.to?.address ? link(network, x.to.address) : "—", ether(x.value, token)]))] : [])];
});

/** A block of an EVM chain, by its number or its hash. */
export const block = (q) => onChains(q, async (id) => {
  const { network } = q;
  const b = await api(id, `blocks/${q.text}`);
  const height = Number(b.blockNumber);
  return [
    facts([["Chain", `EVM chain ${id}`], ["Number", number(height)], ["Hash", copied(b.blockHash)], ["Time", moment(b.blockTimestamp)],
      ["Gas", `${number(BigInt(b.gasUsed))} of ${number(BigInt(b.gasLimit))}`], height > 0 ? ["Before it", h("span", {}, blockLink(network, id, height - 1), " ", link(network, b.parentHash))] : null,
      ["After it", blockLink(network, id, height + 1)]]),
    h("h3", {}, `Transactions: ${b.txCount}`),
    await paged("Transactions", ["Transaction", "From", "To", { title: "Value, native token", right: true }, "Method"], "It has none.", read(id, `blocks/${b.blockNumber}/transactions`, {}, "transactions", (t) => [[
      link(network, t.txHash), link(network, t.from.address), t.to?.address ? link(network, t.to.address) : "—", amount(t.value, 18), method(t)]]))].flat();
});

/** The latest blocks of the EVM chains. */
export const blocks = (q) => onChains(q, (id) => paged(`Blocks of EVM chain ${id}`, ["Block", "Time", { title: "Transactions", right: true }, { title: "Gas", right: true }, "Hash"], "There is no block yet.", async (pageToken) => {
  const page = await api(id, "blocks", { pageSize: 5, ...(pageToken ? { pageToken } : {}) });
  return { next: page.nextPageToken, rows: page.blocks.map((b) => [blockLink(q.network, id, b.blockNumber), when(1000 * b.blockTimestamp), number(b.txCount), number(BigInt(b.gasUsed)), link(q.network, b.blockHash)]) };
}));

/** What an address owns on the EVM chains. */
export const balance = (q) => onChains(q, async (id) => {
  const { nativeTokenBalance: native } = await api(id, `addresses/${q.text}/balances:getNative`);
  return facts([["Address", copied(q.text)], [native.name, `${amount(native.balance, native.decimals)} ${native.symbol}`]]);
});

export const tokens = (q) => onChains(q, (id) => paged("Tokens", ["Token", "Contract", { title: "Balance", right: true }], "It has no tokens of this kind.", read(id, `addresses/${q.text}/balances:listErc20`, {}, "erc20TokenBalances", (t) => [[
  t.symbol || t.name || "—", link(q.network, t.address), amount(t.balance, t.decimals ?? 0)]])));

/** The transactions of an address. */
export const transactions = (q) => onChains(q, (id) => paged("Transactions", ["Transaction", "Time", "Block", "From", "To", { title: "Value, native token", right: true }, "Method"], "It has none.", read(id, `addresses/${q.text}/transactions`, {}, "transactions", ({ nativeTransaction: t }) => [[
  link(q.network, t.txHash), when(1000 * t.blockTimestamp), blockLink(q.network, id, t.blockNumber), link(q.network, t.from.address), t.to?.address ? link(q.network, t.to.address) : "—", amount(t.value, 18), method(t)]])));

export const deployments = (q) => onChains(q, (id) => paged("Contracts", ["Contract", "Kind"], "None.", read(id, `contracts/${q.text}/deployments`, {}, "contracts", (c) => [[link(q.network, c.address), c.ercType ?? c.name ?? "—"]])));

const STATUS = { pending: ["wait", "Not delivered yet"], delivered: ["good", "Delivered"], delivered_source_not_indexed: ["good", "Delivered; the source is not indexed"] };
const status = (m) => h("span", { class: "badge", "data-state": STATUS[m.status]?.[0] ?? "idle" }, STATUS[m.status]?.[1] ?? m.status);
const sent = (m) => m.lifecycle[0]?.timestamp;

/** A message between chains, by its ID. */
export async function message({ network, text }) {
  const m = await ask(`../v1/icm/messages/${text}`);
  return [
    facts([["Message", copied(m.messageId)], ["State", status(m)], ["Executed", m.messageExecuted ? "Yes" : "Not known"], ["Source", copied(m.sourceBlockchainId, lookupURL(network, m.sourceBlockchainId))], ["Destination", copied(m.destinationBlockchainId, lookupURL(network, m.destinationBlockchainId))],
      ["From", copied(m.from, lookupURL(network, m.from))], ["To", copied(m.to, lookupURL(network, m.to))], ["Nonce", m.messageNonce],
      ["Data", h("code", {}, m.data.length > 514 ? `${m.data.slice(0, 514)}…` : m.data)]]),
    h("h3", {}, "Steps"),
    table("Steps", ["Step", "Time", "After the previous step", "Chain", "Transaction"], m.lifecycle.map((s) => [
      s.step.toLowerCase().replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase()), h("span", {}, when(1000 * s.timestamp), " · ", stamp(1000 * s.timestamp)), s.secondsSincePreviousStep === undefined ? "—" : milliseconds(1000 * s.secondsSincePreviousStep),
      s.blockchainId ? link(network, s.blockchainId) : "—", s.txHash ? link(network, s.txHash) : "—"]))];
}

const messageTable = (path, none) => ({ network, text }) => paged("Messages between chains", ["Message", "Time", "From", "To", "State"], none, async (pageToken) => {
  const page = await ask(`../v1/icm/${path(text)}?${new URLSearchParams({ network, pageSize: text ? SIZE : 5, ...(pageToken ? { pageToken } : {}) })}`);
  return { next: page.nextPageToken, rows: page.messages.map((m) => [link(network, m.messageId), sent(m) ? when(1000 * sent(m)) : "—", link(network, m.from), link(network, m.to), status(m)]) };
});

/** The messages of an address, and the latest of all. */
export const messagesOf = messageTable((address) => `addresses/${address}/messages`, "None.");
export const messages = messageTable(() => "messages", "There is none yet.");
