import { h, ask, copyButton, figure, lookupURL, milliseconds, networkOf, node, number, pageSize, percent, sentence, share, subnet, table, weight, when, PRIMARY } from "./dom.js";

/** The page of networks: how much of each subnet is connected. */
export function networks(main, live) {
  const body = h("div", { class: "stack" });
  main.append(body);
  const paint = () => {
    if (!live.status) {
      body.replaceChildren(h("p", { class: "empty" }, "Waiting for the service…"));
      return;
    }
    body.replaceChildren(...live.status.networks.map(card));
  };
  const card = (n) => {
    const primary = n.subnets[0];
    return h("section", { class: "card", "aria-label": n.name },
      h("div", { class: "row" },
        h("h2", {}, n.name),
        h("span", { class: "badge", "data-state": n.ready ? "good" : "bad" }, n.ready ? "Ready to sign" : "Not ready")),
      n.reason || n.degraded ? h("p", { class: "muted" }, sentence(n.reason || n.degraded)) : null,
      h("dl", { class: "figures" },
        figure("Network ID", n.networkId || "not known"),
        figure("P-Chain height", n.pChainHeight === null ? "not known" : number(n.pChainHeight)),
        figure("Connections", number(n.peers)),
        figure("Subnets", number(n.allSubnets)),
        figure("Primary network connected", primary ? percent(primary.connected) : "not known")),
      n.ready && !n.subnets.length ? h("p", { class: "muted" }, "No validator set is known here: a replica with the role api reads none, others read it from the upstream node.") : null,
      n.subnets.length ? table(`Subnets of ${n.name}`,
        ["Subnet", { title: "Validators", right: true }, { title: "Weight", right: true }, "Connected", "Below 67% since"],
        n.subnets.map((s) => [subnet(n.name, s.subnetId), number(s.validators), weight(s.weight, s.subnetId), meter(s.connected), s.since ? when(s.since) : "—"])) : null,
      n.subnets.length ? h("p", { class: "muted" }, "No more weight can sign than is connected. The mark is at 67%, the default quorum.") : null,
      n.allSubnets > n.subnets.length ? h("p", { class: "muted" }, `These are the ${n.subnets.length} with the most validators.`) : null);
  };
  paint();
  live.addEventListener("status", paint);
  return () => live.removeEventListener("status", paint);
}

/** A share as a bar with the default quorum marked. */
export function meter(share) {
  const bar = h("span", { class: "fill", "data-enough": String(share >= 0.67) });
  bar.style.width = `${100 * share}%`;
  return h("span", { class: "meter" }, h("span", { class: "track" }, bar, h("span", { class: "mark", title: "67%, the default quorum" })), h("span", { class: "meter-text" }, percent(share)));
}

/** Since when there is no connection to a validator. */
const lostSince = (v, started) => (v.lost ? h("span", {}, "Lost ", when(v.lost), ".") : h("span", {}, "Not connected since the service started ", when(started), "."));

/** The connection to a validator. */
export function connection(v, started) {
  const answers = v.answerTime ? `Median answer time ${milliseconds(v.answerTime)}.` : "It has not been asked for a signature yet, or has not answered.";
  if (v.connected) return h("p", {}, h("span", { class: "badge", "data-state": "good" }, "Connected"), " ", when(v.since), `, version ${v.version}. ${answers}`);
  return h("p", {}, h("span", { class: "badge", "data-state": "bad" }, v.reason || "Not connected"), " ", lostSince(v, started), v.meaning ? ` The reason is given for validators that ${v.meaning}. ${v.remedy}` : "", v.answerTime ? ` ${answers}` : "");
}

const EVERY = 5000; // ms between two looks at the connections

/** The page of a subnet: its validators and how they are connected. */
export function subnetPage(main, live, query) {
  let ended = false;
  const [network, id] = [query.get("network") ?? "", query.get("id") ?? PRIMARY];
  const of = (more) => `#/subnet?${new URLSearchParams({ network, id, ...more })}`;
  const missing = query.get("state") === "missing";
  const turn = (offset) => of({ ...(missing ? { state: "missing" } : {}), ...(offset ? { offset } : {}) });
  const head = h("section", { class: "card", "aria-label": "Subnet" });
  const list = h("section", { class: "card", id: "validators", "aria-label": "Validators" }, h("p", { class: "empty" }, "Reading…"));
  main.append(head, list);

  function onStatus() {
    const known = networkOf(live.status, network)?.subnets.find((s) => s.subnetId === id);
    head.replaceChildren(
      h("div", { class: "row" }, h("h2", {}, id === PRIMARY ? `Primary network of ${network}` : `Subnet of ${network}`),
        h("div", { class: "tools" }, h("a", { class: "button", href: `#/messages?${new URLSearchParams({ network, id })}` }, "Messages that it signed"),
          id === PRIMARY ? null : h("a", { class: "button", href: lookupURL(network, id) }, "Look up"))),
      h("p", { class: "copied" }, h("code", {}, id), copyButton(id)),
      known ? h("dl", { class: "figures" }, figure("Validators", number(known.validators)), figure("Weight", weight(known.weight, id)), figure("Connected", percent(known.connected)),
        figure("Highest quorum that can be reached", `${Math.floor(100 * known.connected + 1e-9)}%`), known.since ? figure("Below 67%", when(known.since, "for")) : null) : "");
  }

  async function read() {
    const limit = pageSize(50);
    const offset = Number(query.get("offset")) || 0;
    const asked = new URLSearchParams({ network, subnet: id, limit });
    for (const key of ["state", "offset"]) if (query.get(key)) asked.set(key, query.get(key));
    let page;
    try {
      page = await ask(`api/validators?${asked}`);
    } catch (error) {
      if (!ended) list.replaceChildren(h("p", { class: "empty" }, error.message));
      return;
    }
    if (ended || list.contains(document.activeElement)) return;
    list.replaceChildren(
      h("div", { class: "row" }, h("h2", {}, missing ? `${number(page.all)} not connected` : `${number(page.all)} validators`),
        h("a", { class: "button", href: of(missing ? {} : { state: "missing" }) }, missing ? "All validators" : "Only those not connected")),
      page.validators.length ? table("Validators", ["Validator", { title: "Weight", right: true }, { title: "Share", right: true }, "Connection", "Version", { title: "Median answer", right: true }],
        page.validators.map((v) => [
          h("span", {}, v.nodeIds.length ? node(network, v.nodeIds[0]) : "—", v.nodeIds.length > 1 ? ` and ${v.nodeIds.length - 1} more` : ""),
          weight(v.weight, id), percent(share(v.weight, page.totalWeight), 2), state(v, page.started), v.version ?? "—", v.answerTime ? milliseconds(v.answerTime) : "—"]))
        : h("p", { class: "empty" }, missing ? "Every validator is connected." : "None."),
      offset || page.next !== null ? h("p", { class: "pages" },
        offset ? h("a", { class: "button", href: turn(Math.max(offset - limit, 0)) }, "Previous") : null,
        h("span", { class: "muted" }, `${number(Math.min(offset + 1, page.all))} to ${number(offset + page.validators.length)} of ${number(page.all)}`),
        page.next === null ? null : h("a", { class: "button", href: turn(page.next) }, "Next")) : "");
  }

  const state = (v, started) => (v.connected ? h("span", {}, h("span", { class: "badge", "data-state": "good" }, "Connected"), " ", when(v.since))
    : h("span", {}, h("span", { class: "badge", "data-state": "bad", title: v.remedy }, v.reason || "Not connected"), " ", v.lost ? lostSince(v) : null, h("small", { class: "wrap" }, v.meaning ? `For validators that ${v.meaning}. ` : "", v.lost ? null : lostSince(v, started))));

  onStatus();
  read();
  const every = setInterval(read, EVERY);
  live.addEventListener("status", onStatus);
  return () => {
    ended = true;
    clearInterval(every);
    live.removeEventListener("status", onStatus);
  };
}
