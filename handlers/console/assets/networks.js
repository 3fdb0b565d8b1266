import { h, number, percent, subnet, table, weight } from "./dom.js";

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
      n.reason ? h("p", { class: "muted" }, n.reason) : null,
      h("dl", { class: "figures" },
        figure("Network ID", n.networkId || "not known"),
        figure("P-Chain height", n.pChainHeight === null ? "not known" : number(n.pChainHeight)),
        figure("Connections", number(n.peers)),
        figure("Subnets", number(n.allSubnets)),
        figure("Primary network connected", primary ? percent(primary.connected) : "not known")),
      n.subnets.length ? table(`Subnets of ${n.name}`,
        ["Subnet", { title: "Validators", right: true }, { title: "Weight", right: true }, "Connected"],
        n.subnets.map((s) => [subnet(s.subnetId), number(s.validators), weight(s.weight, s.subnetId), meter(s.connected)])) : null,
      n.allSubnets > n.subnets.length ? h("p", { class: "muted" }, `These are the ${n.subnets.length} with the most validators.`) : null);
  };
  paint();
  live.addEventListener("status", paint);
  return () => live.removeEventListener("status", paint);
}

function figure(title, value) {
  return h("div", {}, h("dt", {}, title), h("dd", {}, String(value)));
}

/** A share as a bar with the usual quorum marked. */
function meter(share) {
  const bar = h("span", { class: "fill", "data-enough": String(share >= 0.67) });
  bar.style.width = `${100 * share}%`;
  return h("span", { class: "meter" }, h("span", { class: "track" }, bar, h("span", { class: "mark", title: "67 %, the usual quorum" })), h("span", { class: "meter-text" }, percent(share)));
}
