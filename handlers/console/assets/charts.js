import { h, ask, milliseconds, number } from "./dom.js";
import { Plots, axis, color, utc } from "./plots.js";
import uPlot from "./lib/uPlot.js";

/** The page of charts: how long signing takes, and what chains do. */
export function charts(main, live) {
  const plots = new Plots();
  let ended = false;

  // ---- latency
  const latencyBox = h("div", { class: "plot", id: "latency" });
  const latencyText = h("p", { class: "muted" }, "…");
  const which = h("select", { id: "latency-of", "aria-label": "Network and outcome", onchange: () => drawLatency() });
  let requests = [];
  let latencyPlot = null;
  let drawn = "";
  let range = ""; // of the buckets that are drawn

  function drawLatency() {
    const index = Math.max(0, requests.findIndex((r) => key(r) === which.value));
    const r = requests[index];
    if (!r || !r.count) {
      latencyText.textContent = "There was no request for a signature since the service started. Sign a message on the page Rounds.";
      return;
    }
    const state = JSON.stringify(r);
    if (state === drawn) return;
    drawn = state;
    const all = r.buckets.map((b, i) => b.count - (i ? r.buckets[i - 1].count : 0));
    all.push(r.count - (r.buckets.at(-1)?.count ?? 0));
    // Two empty buckets on each side show that there is nothing further.
    const [from, to] = [Math.max(all.findIndex((n) => n) - 2, 0), Math.min(all.findLastIndex((n) => n) + 3, all.length)];
    const counts = all.slice(from, to);
    const limits = r.buckets.map((b) => milliseconds(1000 * b.upTo).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 "));
    const labels = [...limits.map((l) => `≤ ${l}`), `> ${limits.at(-1)}`].slice(from, to);
    const at = (share) => {
      const i = r.buckets.findIndex((b) => b.count >= share * r.count);
      return i < 0 ? `more than ${limits.at(-1)}` : `at most ${limits[i]}`;
    };
    latencyText.textContent = `${number(r.count)} ${r.count === 1 ? "request" : "requests"} since the service started, ${milliseconds((1000 * r.seconds) / r.count)} on average. Half of them took ${at(0.5)}, 99 of 100 ${at(0.99)}.`;
    const data = [counts.map((_, i) => i), counts];
    if (latencyPlot && range === `${from} ${to}`) {
      latencyPlot.u.setData(data);
      return;
    }
    latencyPlot?.end();
    range = `${from} ${to}`;
    latencyPlot = plots.add(latencyBox, {
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: () => [-0.6, counts.length - 0.4] }, y: { range: (_, __, max) => [0, Math.max(max * 1.1, 1)] } },
      axes: [
        axis({ splits: () => counts.map((_, i) => i), values: (_, splits) => splits.map((i) => labels[i] ?? ""), rotate: latencyBox.clientWidth / counts.length < 80 ? -55 : 0, size: 64, gap: 8, grid: { show: false }, label: "Time to sign", labelSize: 24 }),
        axis({ size: 48, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000, 100000, 1e6], label: "Requests", labelSize: 24 }),
      ],
      series: [{}, { paths: uPlot.paths.bars({ size: [0.82, 64], radius: 0.12 }), stroke: () => color("--accent"), fill: () => color("--accent-soft"), width: 1.5, points: { show: false } }],
    }, data);
  }

  const key = (r) => `${r.network} ${r.outcome}`;
  async function readLatency() {
    try {
      requests = (await ask("api/latency")).requests.filter((r) => r.count);
    } catch (error) {
      latencyText.textContent = error.message;
      return;
    }
    if (ended) return;
    const keys = requests.map(key);
    if ([...which.options].map((o) => o.value).join() !== keys.join()) {
      const before = which.value;
      which.replaceChildren(...requests.map((r) => h("option", { value: key(r) }, `${r.network}, ${r.outcome.toLowerCase().replaceAll("_", " ")}`)));
      const signed = requests.find((r) => r.outcome === "signed");
      which.value = keys.includes(before) ? before : signed ? key(signed) : keys[0] ?? "";
    }
    drawLatency();
  }

  // ---- transactions a second
  const tpsBox = h("div", { class: "plot", id: "tps" });
  const tpsText = h("p", { class: "muted" }, "…");
  const chain = h("select", { id: "chain", "aria-label": "Chain", onchange: () => readTPS() });
  const span = h("select", { id: "tps-span", "aria-label": "Time range", onchange: () => readTPS() }, h("option", { value: "31" }, "Last month"), h("option", { value: "8" }, "Last week"));
  let tpsPlot = null;

  async function readTPS() {
    if (!chain.value) return;
    tpsPlot?.end();
    tpsPlot = null;
    const asked = chain.value;
    let results;
    try {
      ({ results } = await ask(`../v1/avg_tps/${encodeURIComponent(asked)}`));
    } catch (error) {
      tpsText.textContent = error.message;
      return;
    }
    if (ended || chain.value !== asked || tpsPlot) return;
    if (!results.length) {
      tpsText.textContent = "The chain has no days yet.";
      return;
    }
    const days = [...results].reverse().slice(-span.value);
    const most = days.reduce((a, b) => (b.value > a.value ? b : a));
    tpsText.textContent = most.value === 0 ? `${days.length} days, none with as much as 0.005 transactions a second.` : `${days.length} days in UTC. The latest day had ${days.at(-1).value} transactions a second, the busiest ${most.value} (${new Date(1000 * most.timestamp).toISOString().slice(0, 10)}).`;
    tpsPlot = plots.add(tpsBox, {
      tzDate: utc,
      legend: { show: false },
      cursor: { y: false, points: { size: 8 } },
      scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.15, 0.01)] } },
      axes: [axis({ space: 70, values: [[86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1]] }), axis({ size: 52, label: "Transactions a second", labelSize: 24 })],
      series: [{}, { stroke: () => color("--accent"), fill: () => color("--accent-soft"), width: 2, points: { show: days.length < 40, size: 5, fill: () => color("--accent") } }],
    }, [days.map((d) => d.timestamp), days.map((d) => d.value)]);
  }

  function onStatus() {
    const ids = [...new Set((live.status?.chains ?? []).filter((c) => c.chain.startsWith("evm-")).map((c) => c.chain.slice(4)))];
    if (!live.status) return;
    if (!ids.length) {
      tpsText.textContent = "No EVM chain is indexed here. To index chains, set record of the network to all and name them in evm.";
      return;
    }
    if ([...chain.options].map((o) => o.value).join() === ids.join()) return;
    chain.replaceChildren(...ids.map((id) => h("option", { value: id }, id === "43114" || id === "43113" ? `C-Chain (${id})` : `Chain ${id}`)));
    readTPS();
  }

  main.append(
    h("section", { class: "card", "aria-labelledby": "latency-heading" },
      h("div", { class: "row" }, h("h2", { id: "latency-heading" }, "Time to a signed message"), which), latencyText, latencyBox),
    h("section", { class: "card", "aria-labelledby": "tps-heading" },
      h("div", { class: "row" }, h("h2", { id: "tps-heading" }, "Transactions a second, by day"), h("div", { class: "tools" }, chain, span)), tpsText, tpsBox));
  readLatency();
  onStatus();
  const every = setInterval(readLatency, 2000);
  live.addEventListener("status", onStatus);
  return () => {
    ended = true;
    clearInterval(every);
    live.removeEventListener("status", onStatus);
    plots.end();
  };
}
