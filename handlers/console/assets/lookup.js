import { messageURL, messagesURL } from "./messages.js";
import { connection } from "./networks.js";
import { h, ask, copied, facts, name, offerNetworks, percent, share, subnet, table, weight, when } from "./dom.js";
import * as evm from "./evm.js";
import * as primary from "./primary.js";

/** The page that looks things up, through the public API. */
export function lookup(main, live, query) {
  let ended = false;
  let turn = 0;
  const heading = main.querySelector("h1");
  const on = query.get("on");
  const network = h("select", { id: "lookup-network", "aria-label": "Network" });
  const input = h("input", { id: "query", type: "search", spellcheck: "false", autocomplete: "off", autocapitalize: "off", placeholder: "Address, transaction, block, asset, subnet, NodeID", value: query.get("q") ?? "" });
  const example = h("button", { type: "button", id: "lookup-example", hidden: true, onclick: fillExample }, "Use an example");
  const form = h("form", { class: "card find", role: "search", onsubmit: (e) => {
    e.preventDefault();
    const next = `#/lookup?${new URLSearchParams({ network: network.value, q: input.value.trim() })}`;
    if (location.hash === next) find();
    else location.hash = next;
  } },
    h("div", { class: "field grow" }, h("label", { for: "query" }, "What to look for"), input),
    h("div", { class: "field" }, h("label", { for: "lookup-network" }, "Network"), network),
    h("div", { class: "buttons" }, example, h("button", { type: "submit", class: "primary" }, "Look up")));
  const results = h("div", { class: "stack", id: "results", "aria-live": "polite" });
  main.append(form, results);

  function onStatus() {
    example.hidden = !live.status?.example || query.has("q");
    if (offerNetworks(network, live.status, query.get("network"))) find();
  }

  async function fillExample() {
    try {
      const { transactions } = await primary.api(network.value, "blockchains/p-chain/transactions", { pageSize: 1 });
      input.value = transactions[0].txHash;
    } catch (error) {
      results.replaceChildren(h("p", { class: "empty" }, error.message));
    }
  }

  /** Reads all sections. Those without anything are left out, and named if no section has anything. */
  async function find() {
    const mine = ++turn;
    const text = input.value.trim();
    const q = { network: network.value, text, live, on };
    const sections = text ? kindsOf(text).filter(([,, chain]) => !on || chain === on || chain === "evm" && /^\d+$/.test(on)) : latest(q);
    if (!sections.length) {
      results.replaceChildren(h("p", { class: "empty" }, text ? "This is no address, no ID, no hash and no number. Addresses are like P-avax1…, X-fuji1… or 0x…, IDs like 2b8q… or NodeID-…"
        : "No chain of this network is indexed here. To look things up, set record of the network to primary or all."));
      return;
    }
    const boxes = sections.map(([title]) => h("section", { class: "card", "aria-label": title }, h("h2", {}, title), h("p", { class: "muted" }, "Looking…")));
    results.replaceChildren(...boxes);
    heading.textContent = "Look up";
    const reasons = new Set();
    let named = text ? sections.length : -1; // the first section that has something names the page
    const found = await Promise.all(sections.map(async ([title, read], i) => {
      let elements;
      try {
        elements = await read(q);
      } catch (error) {
        elements = h("p", { class: "muted" }, error.message);
        if (error.status === 404 || error.status === 400) {
          reasons.add(error.message);
          elements = null;
        }
      }
      if (ended || mine !== turn) return false;
      if (elements && i < named) {
        named = i;
        document.title = `${title} ${text} · quorate console`;
        heading.textContent = title;
      }
      if (elements) boxes[i].replaceChildren(h("h2", {}, title), ...[elements].flat(3).filter(Boolean));
      else boxes[i].remove();
      return Boolean(elements);
    }));
    if (ended || mine !== turn || found.some(Boolean)) return;
    results.replaceChildren(h("section", { class: "card", "aria-label": "Nothing" }, h("h2", {}, "Nothing was found"),
      h("p", { class: "muted" }, "Nothing that is indexed or stored here has it:"),
      h("ul", {}, [...reasons].map((reason) => h("li", { class: "muted" }, reason)))));
  }

  onStatus();
  live.addEventListener("status", onStatus);
  return () => {
    ended = true;
    live.removeEventListener("status", onStatus);
  };
}

/** What a text may be: titles, what reads each, and the chain that it is of. */
function kindsOf(text) {
  if (/^NodeID-[1-9A-HJ-NP-Za-km-z]+$/.test(text)) return [["Validator", validator], ["Validations", primary.validations], ["Validations of L1s", primary.l1Validations], ["Delegations to it", primary.delegationsTo]];
  if (/^0x[0-9a-fA-F]{40}$/.test(text)) return [["Address", evm.balance], ["Transactions", evm.transactions], ["Tokens", evm.tokens], ["Messages between chains", evm.messagesOf], ["Contracts it deployed", evm.deployments]];
  if (/^\d{1,15}$/.test(text)) return [["Block of the P-Chain", primary.block("p-chain"), "p-chain"], ["Block of the X-Chain", primary.block("x-chain"), "x-chain"], ["Block of an EVM chain", evm.block, "evm"]];
  if (/^0x[0-9a-fA-F]{64}$/.test(text)) return [["Transaction of an EVM chain", evm.transaction], ["Block of an EVM chain", evm.block], ["Message between chains", evm.message]];
  if (/^([PXC]-)?[a-z]+1[02-9ac-hj-np-z]{38}$/.test(text)) {
    return [["Address", primary.chainsOf], ["P-Chain balances", primary.balances("p-chain")], ["X-Chain balances", primary.balances("x-chain")], ["C-Chain balances in atomic memory", primary.balances("c-chain")],
      ["P-Chain UTXOs", primary.utxos("p-chain")], ["X-Chain UTXOs", primary.utxos("x-chain")], ["Delegations", primary.delegationsOf], ["Staking transactions", primary.staking]];
  }
  if (/^[1-9A-HJ-NP-Za-km-z]{40,60}$/.test(text)) {
    return [["Transaction of the P-Chain", primary.transaction("p-chain")], ["Transaction of the X-Chain", primary.transaction("x-chain")], ["Block of the P-Chain", primary.block("p-chain")], ["Block of the X-Chain", primary.block("x-chain")],
      ["Subnet", primary.subnetOf], ["Blockchain", primary.blockchain], ["Asset", primary.assetOf], ["Signed messages", signedMessages]];
  }
  return [];
}

/** What the page shows before anything is looked for. */
function latest({ network, live }) {
  const indexed = (live.status?.chains ?? []).filter((c) => c.network === network).map((c) => c.chain);
  const evms = indexed.some((c) => c.startsWith("evm-"));
  return [indexed.includes("P") ? ["Latest blocks of the P-Chain", primary.blocks("p-chain")] : null, indexed.includes("X") ? ["Latest blocks of the X-Chain", primary.blocks("x-chain")] : null,
    evms ? ["Latest blocks of EVM chains", evm.blocks] : null, evms ? ["Latest messages between chains", evm.messages] : null].filter(Boolean);
}

/** The subnets that a node is a validator of, and its connection. */
async function validator({ network, text: nodeId }) {
  const { validators, started } = await ask(`api/validators?${new URLSearchParams({ network, node: nodeId })}`);
  if (!validators.length) return h("p", { class: "muted" }, "It is in no validator set now.");
  const one = validators[0];
  return [facts([["Validator", copied(nodeId)]]), connection(one, started),
    table("Subnets", ["Subnet", { title: "Weight", right: true }, { title: "Share", right: true }], validators.map((v) => [
      subnet(network, v.subnetId), weight(v.weight, v.subnetId), percent(share(v.weight, v.totalWeight), 2)]))];
}

/** The stored messages with an ID, that of a source blockchain or of a signing subnet included. */
async function signedMessages({ network, text: id }) {
  const { messages } = await ask(`api/messages?${new URLSearchParams({ network, id, limit: 10 })}`);
  if (!messages.length) return null;
  return [table("Signed messages", ["Signed", "Content", "Message", ""], messages.map((m) => [when(m.signedAt), m.payload.title, name(m.messageId),
    h("a", { href: messageURL(network, m.number) }, "Details")])), h("p", {}, h("a", { href: messagesURL(network, id) }, "All of them"))];
}
