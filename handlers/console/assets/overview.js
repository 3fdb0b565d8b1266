import { h, ask, when, figure, milliseconds, number, sentence, subnet, table, weight, PRIMARY } from "./dom.js";
import { badge, inOrder, titleOf } from "./chains.js";
import { Plots, axis, color, utc } from "./plots.js";
import { meter } from "./networks.js";
import uPlot from "./lib/uPlot.js";

const EVERY = 5000; // ms between two looks at the history
const SHORTEST = 60_000; // ms that a chart shows at least
const MOST_SUBNETS = 12;

/** The page that says whether all is well. */
export function overview(main, live) {
  let ended = false;
  let history = null; // of the last hour
  const verdict = h("section", { class: "card health", id: "health", "aria-label": "Health" });
  const numbers = h("dl", { class: "figures tiles-of", id: "numbers" });
  const details = h("div", { class: "stack" });
  const over = trends();
  main.append(verdict, h("section", { class: "card", "aria-label": "Numbers" }, numbers), over.section, details);

  function paint() {
    const status = live.status;
    if (!status) {
      verdict.replaceChildren(h("p", { class: "muted" }, "Waiting for the service…"));
      return;
    }
    verdict.dataset.state = status.problems.some((p) => p.severity === "bad") ? "bad" : status.problems.length ? "wait" : "good";
    verdict.replaceChildren(...health(status, history));
    numbers.replaceChildren(...figures(status, history));
    details.replaceChildren(...[weights(status), failures(history), h("div", { class: "grid" }, indexes(status), storage(history))].flat());
  }

  async function read() {
    try {
      const answer = await ask("api/history");
      if (ended) return;
      history = answer;
    } catch {
      return; // what was read before remains; the header says that the service is away
    }
    paint();
  }

  paint();
  read();
  const every = setInterval(read, EVERY);
  live.addEventListener("status", paint);
  return () => {
    ended = true;
    clearInterval(every);
    over.end();
    live.removeEventListener("status", paint);
  };
}

/** The verdict: whether all is well, else what is wrong and since when. */
function health(status, history) {
  const { problems, chains } = status;
  const behind = chains.filter((c) => c.state === "catching up" || c.state === "rebuilding");
  const title = problems.length ? `${problems.length} ${problems.length === 1 ? "problem" : "problems"}` : "All is well";
  const ready = { ready: "Every network is ready to sign.", degraded: "Every network signs, but not all works as it should.", "not ready": "Not every network is ready to sign." }[status.readiness];
  const failed = (history?.networks ?? []).reduce((a, n) => a + n.notSigned, 0);
  return [
    h("h2", {}, title),
    h("p", { class: "muted" }, ready, failed ? ` ${number(failed)} ${failed === 1 ? "request was" : "requests were"} not signed in the last hour: see the reasons below.` : null, behind.length ? ` ${behind.map((c) => `${titleOf(c)} of ${c.network}`).join(", ")} ${behind.length === 1 ? "is" : "are"} still being indexed.` : null),
    problems.length ? h("ul", { class: "problems" }, problems.map((p) => h("li", { "data-severity": p.severity },
      h("div", {}, h("a", { href: PAGE_OF[p.kind] }, p.title), p.text ? h("p", { class: "muted" }, sentence(p.text)) : null),
      h("span", { class: "since" }, when(p.since, "for"))))) : null,
  ].filter(Boolean);
}

const PAGE_OF = { network: "#/networks", subnets: "#/networks", index: "#/index", nodes: "#/networks", store: "#/overview" };

function figures(status, history) {
  const sum = (f) => (history ? number(history.networks.reduce((a, n) => a + f(n), 0)) : "…");
  const most = (f) => {
    const all = (history?.networks ?? []).map(f).filter((v) => v !== null);
    return all.length ? milliseconds(Math.max(...all)) : "none";
  };
  const span = history && history.to - history.from < 3_540_000 ? "since the start" : "in the last hour";
  return [
    figure(`Signed ${span}`, sum((n) => n.signed)),
    figure("Not signed in the last hour", sum((n) => n.notSigned)),
    figure("Median time to sign", most((n) => n.median)),
    figure("99 of 100 signed within", most((n) => n.p99)),
    figure("Connected validators and peers", number(status.networks.reduce((a, n) => a + n.peers, 0))),
    figure("Upstream nodes that answer", history ? `${sum((n) => n.nodesUp)} of ${sum((n) => n.nodes)}` : "…"),
  ];
}

/** Each subnet's connected weight against the quorum, the worst first. */
function weights(status) {
  const rows = status.networks.flatMap((n) => n.subnets.map((s) => ({ ...s, network: n.name })));
  rows.sort((a, b) => (b.since ? 1 : 0) - (a.since ? 1 : 0));
  const shown = rows.slice(0, MOST_SUBNETS);
  return h("section", { class: "card", "aria-label": "Weight" },
    h("div", { class: "row" }, h("h2", {}, "Connected weight of each subnet"), h("a", { href: "#/networks" }, "All networks")),
    h("p", { class: "muted" }, "No more weight can sign than is connected. The mark is at 67%, the default quorum."),
    rows.length ? table("Subnets", ["Network", "Subnet", { title: "Validators", right: true }, { title: "Weight", right: true }, "Connected", { title: "Highest quorum", right: true }, "Below 67% since"],
      shown.map((s) => [s.network, subnet(s.network, s.subnetId), number(s.validators), weight(s.weight, s.subnetId), meter(s.connected), `${Math.floor(100 * s.connected + 1e-9)}%`, s.since ? when(s.since) : "—"]))
      : h("p", { class: "empty" }, "No validator set is known yet. The service reads the sets from its upstream node; a replica with the role api has none."),
    rows.some((s) => s.since && !s.required && s.subnetId !== PRIMARY) ? h("p", { class: "muted" }, "Only the primary network and the subnets of health_subnets count as problems.") : null,
    rows.length > shown.length ? h("p", { class: "muted" }, `These are ${shown.length} of ${rows.length}.`) : null);
}

/** What was not signed in the last hour, by reason. */
function failures(history) {
  const of = history?.networks ?? [];
  const outcomes = of.flatMap((n) => n.outcomes.map((o) => [number(o.count), n.network, h("code", {}, o.code === "cancelled" ? "cancelled by the client" : o.code)]));
  const reasons = of.flatMap((n) => n.shortfalls.map((o) => [number(o.count), h("span", {}, h("code", {}, o.code), h("small", { class: "wrap" }, ` Validators ${o.meaning}. ${o.remedy}`))]));
  return h("section", { class: "card", "aria-label": "Failures", id: "failures" },
    h("h2", {}, "Not signed in the last hour"),
    outcomes.length ? table("Requests that were not signed", [{ title: "Requests", right: true }, "Network", "Result"], outcomes)
      : h("p", { class: "empty" }, history ? "No request failed." : "Waiting for the service…"),
    outcomes.length ? h("p", { class: "muted" }, "These are requests of clients. ", h("a", { href: "#/messages?result=failed" }, "The latest ones, with their reasons")) : null,
    reasons.length ? h("h3", {}, "Why weight was missing") : null,
    reasons.length ? h("p", { class: "muted" }, "This also counts messages that are signed ahead of requests.") : null,
    reasons.length ? table("Reasons of missing weight", [{ title: "Requests", right: true }, "Reason"], reasons) : null);
}

function indexes(status) {
  return h("section", { class: "card", "aria-label": "Index" },
    h("div", { class: "row" }, h("h2", {}, "Index"), h("a", { href: "#/index" }, "Details")),
    status.chains.length ? table("Indexed chains", ["Network", "Chain", "State", { title: "Blocks behind", right: true }],
      inOrder(status.chains).map((c) => [c.network, titleOf(c), badge(c), c.tip === null ? "not known" : number(c.lag)]))
      : h("p", { class: "empty" }, "No chain is indexed here. To index chains, set record of the network to all, primary or l1."));
}

function storage(history) {
  if (!history) return h("section", { class: "card" }, h("h2", {}, "Store"), h("p", { class: "empty" }, "Waiting for the service…"));
  const { store, dropped, networks } = history;
  const ahead = networks.reduce((a, n) => a + (n.ahead.signed ?? 0), 0);
  return h("section", { class: "card", "aria-label": "Store" }, h("h2", {}, "Store and messages signed ahead"),
    h("dl", { class: "figures" },
      store.diskBytes ? figure("On disk", bytes(store.diskBytes)) : null,
      figure("Batches written", number(store.commits)),
      figure("Messages and failures not stored", number(dropped)),
      figure("Signed ahead of requests", number(ahead)),
      figure("Waiting to be signed ahead", number(networks.reduce((a, n) => a + n.waiting, 0)))));
}

function bytes(n) {
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (n >= size) return `${(n / size).toFixed(1)} ${unit}`;
  return `${n} B`;
}

// Times of day are in UTC, as in logs.
const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 16);
const tick = (seconds) => (seconds % 60 ? `${clock(seconds)}:${String(Math.round(seconds % 60)).padStart(2, "0")}` : clock(seconds));
const clockOf = (_, seconds) => (seconds === null ? "—" : `${clock(seconds)} UTC`);

/** Latency and requests over time. */
function trends() {
  const plots = new Plots();
  let ended = false;
  let drawn = [];
  const span = h("select", { id: "span", "aria-label": "Time range", onchange: () => draw(true) }, h("option", { value: "hour" }, "Last hour"), h("option", { value: "day" }, "Last day"));
  const network = h("select", { id: "trend-network", "aria-label": "Network", hidden: true, onchange: () => draw(true) });
  const text = h("p", { class: "muted", id: "trend-text" }, "…");
  const latency = h("div", { class: "plot", id: "trend-latency" });
  const requests = h("div", { class: "plot low", id: "trend-requests" });
  const section = h("section", { class: "card", "aria-labelledby": "trend-heading" },
    h("div", { class: "row" }, h("h2", { id: "trend-heading" }, "Time to sign"), h("div", { class: "tools" }, network, span)), text, latency, h("h3", { id: "requests-heading" }, "Requests"), requests);

  const times = axis({ space: 70, size: 32, incrs: [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400], values: (_, splits) => splits.map(tick) });
  const line = (label, variable) => ({ label, stroke: () => color(variable), width: 2, spanGaps: true, points: { show: true, size: 6, fill: () => color(variable) } });
  const bars = (label, variable) => ({ label, stroke: () => color(variable), fill: () => color(variable), width: 0, paths: uPlot.paths.bars({ size: [0.9, 24] }), points: { show: false }, value: (_, v) => v ?? "—" });

  async function draw(anew) {
    let answer;
    try {
      answer = await ask(`api/history?range=${span.value}`);
    } catch (error) {
      text.textContent = error.message;
      return;
    }
    if (ended) return;
    const names = answer.networks.map((n) => n.network);
    if ([...network.options].map((o) => o.value).join() !== names.join()) network.replaceChildren(...names.map((n) => h("option", { value: n }, n)));
    network.hidden = names.length < 2;
    const of = answer.networks.find((n) => n.network === network.value) ?? answer.networks[0];
    if (!of || !of.signed && !of.failed) {
      drawn.forEach((p) => p.end());
      drawn = [];
      section.querySelector("#requests-heading").hidden = true;
      text.replaceChildren("No request for a signature in this time. ", h("a", { href: "#/rounds" }, "Sign a message"), " to see how long it takes.");
      return;
    }
    const wide = answer.step < 120 ? `${number(answer.step)} s` : `${number(answer.step / 60)} min`;
    section.querySelector("#requests-heading").hidden = false;
    section.querySelector("#requests-heading").textContent = `Requests in each ${wide}, by time in UTC`;
    text.textContent = `${number(of.signed)} signed and ${number(of.failed)} not signed since ${clock(answer.from / 1000)} UTC. ` +
      (of.median === null ? "" : `Half were signed within ${milliseconds(of.median)}, 99 of 100 within ${milliseconds(of.p99)}, estimated from the metric quorate_sign_seconds.`);
    const points = of.points;
    const x = points.map((p) => p.at / 1000);
    const data = [[x, points.map((p) => p.median), points.map((p) => p.p99)], [x, points.map((p) => p.signed), points.map((p) => p.failed)]];
    const range = [Math.min(answer.from, answer.to - SHORTEST) / 1000, answer.to / 1000];
    if (drawn.length && !anew) {
      drawn.forEach((p, i) => {
        p.range = range;
        p.u.setData(data[i]);
      });
      return;
    }
    drawn.forEach((p) => p.end());
    const shared = (i) => ({ tzDate: utc, padding: [null, 32, null, null], cursor: { y: false, points: { size: 7 } }, scales: { x: { range: () => drawn[i]?.range ?? range }, y: { range: (_, __, max) => [0, Math.max(max * 1.15, 1)] } } });
    drawn = [];
    drawn[0] = plots.add(latency, { height: 220, ...shared(0), axes: [times, axis({ size: 62, values: (_, v) => v.map((ms) => milliseconds(ms).replace(/\.0+ /, " ").replace("0.00 ms", "0")) })],
      series: [{ value: clockOf }, { ...line("Median", "--accent"), value: legend }, { ...line("99 of 100", "--refused"), value: legend }] }, data[0]);
    drawn[1] = plots.add(requests, { height: 150, ...shared(1), axes: [times, axis({ size: 62, incrs: [1, 2, 5, 10, 20, 50, 100, 500, 1000, 10000] })],
      series: [{ value: clockOf }, bars("Signed", "--signed"), bars("Not signed", "--invalid")] }, data[1]);
  }
  const legend = (_, v) => (v === null ? "—" : milliseconds(v));
  draw(true);
  const every = setInterval(() => draw(false), EVERY);
  return { section, end: () => {
    ended = true;
    clearInterval(every);
    plots.end();
  } };
}
