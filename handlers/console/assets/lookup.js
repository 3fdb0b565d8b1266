import { h, amount, ask, name, number, percent, subnet, table, time, weight, PRIMARY } from "./dom.js";

const V1 = "../v1/networks/";
const PAGE = 25;

/** The page that looks things up, through the public API. */
export function lookup(main, live, query) {
  let ended = false;
  let turn = 0;
  const network = h("select", { id: "lookup-network", "aria-label": "Network" });
  const input = h("input", { id: "query", type: "search", spellcheck: "false", autocomplete: "off", autocapitalize: "off", placeholder: "An address, transaction, subnet or NodeID-…", value: query.get("q") ?? "" });
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
    if (!sections.length) results.replaceChildren(h("p", { class: "empty" }, "This is no address, no ID and no hash. Addresses are like P-avax1…, X-fuji1… or 0x…, IDs like 2b8q… or NodeID-…"));
  }

  onStatus();
  if (!input.value) results.replaceChildren(h("p", { class: "empty" }, "Addresses of the P-, X- and C-Chain show what they own and stake; a NodeID shows who delegates to it; IDs and hashes are looked for among transactions and subnets."));
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
  if (/^0x[0-9a-fA-F]{64}$/.test(text)) return [["Warp message of the transaction", warpMessage]];
  if (/^([PXC]-)?[a-z]+1[02-9ac-hj-np-z]{38}$/.test(text)) {
    return [["P-Chain balances", balancesOf("p-chain")], ["X-Chain balances", balancesOf("x-chain")], ["P-Chain UTXOs", utxosOf("p-chain")], ["Delegations", delegationsOf], ["Staking transactions", staking]];
  }
  if (/^[1-9A-HJ-NP-Za-km-z]{40,60}$/.test(text)) return [["Subnet", subnetOf], ["Transaction", transaction], ["Warp message of the transaction", warpMessage]];
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

/** A validator as the rounds that were seen know it. */
async function validator(network, nodeId, live) {
  for (const round of [...live.rounds.values()].reverse()) {
    if (round.network !== network) continue;
    const found = (await live.validators(round).catch(() => [])).find((v) => v.nodeId === nodeId);
    if (found) {
      const rounds = [...live.rounds.values()].filter((r) => r.set === round.set);
      const signed = rounds.filter((r) => "sp".includes(r.replies[found.index])).length;
      return facts([
        ["Subnet", subnet(round.signingSubnetId)], ["Weight", weight(found.weight, round.signingSubnetId)],
        ["Share", percent(Number(found.weight) / Number(round.totalWeight), 2)], ["Signed", `${signed} of the ${rounds.length} rounds that were watched`]]);
    }
  }
  return h("p", { class: "muted" }, "It was in no round that was watched from here since the console was opened; its weight shows once there is one.");
}

async function subnetOf(network, id, live) {
  const status = live.status?.networks.find((n) => n.name === network)?.subnets.find((s) => s.subnetId === id);
  const connected = status ? [["Validators", number(status.validators)], ["Weight", weight(status.weight, id)], ["Connected", percent(status.connected)]] : [];
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

async function deployments(network, address, live) {
  const ids = (live.status?.chains ?? []).filter((c) => c.network === network && c.chain.startsWith("evm-")).map((c) => c.chain.slice(4));
  if (!ids.length) return h("p", { class: "muted" }, "No EVM chain is recorded here.");
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
