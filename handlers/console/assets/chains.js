import { h, duration, figure, number, sentence } from "./dom.js";

const TITLES = { P: "P-Chain", X: "X-Chain", vertices: "X-Chain, vertices", C: "C-Chain, atomic transactions" };
const STATES = {
  following: ["good", "At the tip"],
  "catching up": ["wait", "Catching up"],
  rebuilding: ["wait", "Rebuilding"],
  retrying: ["bad", "Retrying"],
  waiting: ["bad", "Needs its operator"],
  stalled: ["bad", "Stalled"],
  stopped: ["bad", "Stopped"],
  idle: ["idle", "Waiting for a node"],
};

/** The name of a chain. */
export const titleOf = (c) => TITLES[c.chain] ?? (c.chain.startsWith("evm-") ? `EVM chain ${c.chain.slice(4)}` : c.chain);

const ORDER = Object.keys(TITLES);
const place = (c) => (ORDER.includes(c.chain) ? ORDER.indexOf(c.chain) : ORDER.length);

/** Chains by network, those of the primary network first. */
export const inOrder = (all) => [...all].sort((a, b) => a.network.localeCompare(b.network) || place(a) - place(b) || a.chain.localeCompare(b.chain, "en", { numeric: true }));

/** The state of a chain's index. */
export function badge(c) {
  const [kind, state] = STATES[c.state] ?? ["idle", c.state];
  return h("span", { class: "badge", "data-state": kind }, state);
}

/** The page of chains: how far each is indexed. */
export function chains(main, live) {
  const body = h("div", { class: "grid" });
  main.append(h("p", { class: "muted lead" }, "The Data API and the page ", h("a", { href: "#/lookup" }, "Look up"), " answer from these indexes. A chain at the tip is followed as blocks are accepted."), body);
  const paint = () => {
    const all = live.status?.chains ?? [];
    if (!all.length) {
      body.replaceChildren(h("p", { class: "empty" }, live.status ? "No chain is indexed here. To index chains, set record of the network to all, primary or l1, and name its EVM chains in evm." : "Waiting for the service…"));
      return;
    }
    body.replaceChildren(...inOrder(all).map(card));
  };
  paint();
  live.addEventListener("status", paint);
  return () => live.removeEventListener("status", paint);
}

function card(c) {
  const [kind] = STATES[c.state] ?? ["idle"];
  const title = titleOf(c);
  const all = c.tip === null ? 0 : c.tip + 1 - c.from;
  const indexed = Math.max(c.next - c.from, 0); // from is above next until all parts of the index have begun
  const done = c.state === "rebuilding" ? c.rebuilt / 100 : all > 0 ? Math.min(indexed / all, 1) : 0;
  const fill = h("span", { class: "fill", "data-enough": String(kind === "good") });
  fill.style.width = `${100 * done}%`;
  const left = c.lag === 0 ? "none" : c.blocksPerSecond > 0 ? duration(c.lag / c.blocksPerSecond) : "not known";
  const percentDone = done >= 1 ? "100" : (Math.floor(1000 * done) / 10).toFixed(1);
  return h("section", { class: "card", "aria-label": `${c.network} ${title}` },
    h("div", { class: "row" }, h("h2", {}, title, " ", h("small", {}, c.network)), badge(c)),
    ...reason(c),
    h("div", { class: "track tall", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": percentDone, "aria-label": `${title}: ${percentDone}% indexed` }, fill),
    h("dl", { class: "figures" },
      figure("Blocks indexed", number(indexed)),
      c.from ? figure("First block", number(c.from)) : null,
      figure("Height of the tip", c.tip === null ? "not known" : number(c.tip)),
      figure("Indexed", `${percentDone}%`),
      figure("Blocks behind", c.tip === null ? "not known" : number(c.lag)),
      ...(c.provenTo === undefined ? [] : [figure("Proven by stake", `${number(c.provenFrom)} to ${number(c.provenTo)}`)]),
      // At the tip the rate is that of the time before it.
      ...(c.state === "following" ? [] : [figure("Blocks a second", c.blocksPerSecond.toFixed(c.blocksPerSecond < 10 ? 1 : 0)), figure("Time left", left)])));
}

/** Why the index does not go on, as far as everyone may know. */
function reason(c) {
  if (c.needs) return [h("p", {}, sentence(c.needs))];
  if (c.state === "stopped") return [h("p", {}, "It does not go on by itself. Its operator finds the reason with quorate index status.")];
  if (c.failing) return [h("p", {}, `Fails at the moment: ${c.failing}.`)];
  return [];
}
