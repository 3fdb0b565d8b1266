import { h, ask, copied, copyButton, facts, lookupURL, milliseconds, moment, name, node, number, offerNetworks, pageSize, percent, sentence, share, subnet, table, weight, when, PRIMARY } from "./dom.js";
import { reasons } from "./rounds.js";

const EVERY = 5000; // ms between two looks for newer messages
const MIXED = 100; // failures among which those of a page of messages are found
const RESULTS = { all: "All", signed: "Signed", failed: "Not signed" };
const ORIGINS = { client: "A client", ahead: "Pre-aggregation" };

/** Where the page of a message is. */
export const messageURL = (network, number) => `#/message?${new URLSearchParams({ network, number })}`;

/** Where the messages with an ID are: their own, or that of their source blockchain or signing subnet. */
export const messagesURL = (network, id) => `#/messages?${new URLSearchParams({ network, id })}`;

/** The chain that a message comes from, with a link to its messages. */
const source = (network, id) => h("a", { href: messagesURL(network, id) }, id === PRIMARY ? "P-Chain" : name(id, 8, 5));

/** The page of the messages that are stored, and of the latest failures. */
export function messages(main, live, query) {
  let ended = false;
  const network = h("select", { id: "messages-network", onchange: go });
  const result = h("select", { id: "result", onchange: go }, Object.entries(RESULTS).map(([value, title]) => h("option", { value }, title)));
  result.value = query.get("result") in RESULTS ? query.get("result") : "all";
  const id = h("input", { id: "of", type: "search", spellcheck: "false", autocomplete: "off", autocapitalize: "off", placeholder: "A message, chain or subnet", value: query.get("id") ?? "" });
  const example = h("button", { type: "button", id: "messages-example", hidden: true, onclick: async () => {
    try {
      const { messages } = await ask(`api/messages?${new URLSearchParams({ network: network.value, limit: 10 })}`);
      id.value = messages.find((m) => m.sourceBlockchainId)?.sourceBlockchainId ?? "";
    } catch (error) {
      list.replaceChildren(h("p", { class: "empty" }, error.message));
    }
  } }, "Use an example");
  const form = h("form", { class: "card find", role: "search", onsubmit: (e) => {
    e.preventDefault();
    go();
  } },
    h("div", { class: "field grow" }, h("label", { for: "of" }, "Only those with this ID"), id),
    h("div", { class: "field" }, h("label", { for: "result" }, "Result"), result),
    h("div", { class: "field" }, h("label", { for: "messages-network" }, "Network"), network),
    h("div", { class: "buttons" }, example, h("button", { type: "submit", class: "primary" }, "Filter")));
  const list = h("section", { class: "card", id: "archive", "aria-label": "Messages" }, h("p", { class: "muted" }, "…"));
  main.append(form, verifier(() => network.value), list);

  function go() {
    const next = { network: network.value };
    if (result.value !== "all") next.result = result.value;
    if (id.value.trim()) next.id = id.value.trim();
    location.hash = `#/messages?${new URLSearchParams(next)}`;
  }

  async function read() {
    if (!network.value) return;
    const of = new URLSearchParams({ network: network.value, limit: pageSize(25) });
    for (const key of ["before", "id"]) if (query.get(key)) of.set(key, query.get(key));
    let page = { messages: [], before: null, newest: 0, oldest: 1 };
    let failed = { failures: [], before: null, newest: 0, oldest: 1 };
    try {
      if (result.value !== "failed") page = await ask(`api/messages?${of}`);
      if (result.value === "all") {
        of.set("limit", MIXED);
        of.delete("before");
      }
      if (result.value !== "signed") failed = await ask(`api/failures?${of}`);
    } catch (error) {
      if (!ended) list.replaceChildren(h("p", { class: "empty" }, error.message));
      return;
    }
    if (ended) return;
    list.replaceChildren(...listing(page, failed));
  }

  function listing(page, failed) {
    const until = Number(query.get("until")) || Infinity;
    const from = page.before === null || result.value === "failed" ? 0 : page.messages.at(-1)?.signedAt ?? 0;
    const wanted = query.get("id");
    const all = [...page.messages.map((m) => ({ ...m, at: m.signedAt ?? 0 })), ...failed.failures.filter((f) => f.at > from && f.at <= until).map((f) => ({ ...f, failed: true }))];
    const before = result.value === "failed" ? failed.before : page.before;
    // Gaps have no time, and stay where they are among the messages.
    for (const [i, m] of all.entries()) if (!m.at) m.at = all[i - 1]?.at ?? Infinity;
    all.sort((a, b) => b.at - a.at);
    const stored = page.newest ? `${number(page.newest - page.oldest + 1)} signed messages are stored; the oldest are removed when the archive is full. ` : "";
    const heading = h("div", { class: "row" }, h("h2", {}, "Messages"), query.get("before") ? h("a", { href: older({}) }, "Newest") : null);
    const count = failed.newest - failed.oldest + 1;
    const lost = result.value === "signed" ? "" : count ? `${number(count)} failed ${count === 1 ? "request is" : "requests are"} stored. ` : "No failed request is stored. ";
    const note = h("p", { class: "muted" }, stored, lost, result.value === "all" && failed.before !== null ? "The list has the latest of them; filter by result for all." : "");
    if (!all.length) {
      const none = wanted ? "No message here has this ID." : result.value === "failed" ? "No request failed." : "No message was signed yet.";
      return [heading, note, h("p", { class: "empty" }, none, " ", h("a", { href: "#/rounds" }, "Sign a message")),
        before === null ? null : h("p", {}, h("a", { href: older({ before }) }, "Search older messages"))].filter(Boolean);
    }
    return [heading, note,
      table("Messages", ["Time", "Source", "Content", { title: "Weight signed", right: true }, "Asked by", "Result", ""], all.map((m) => (m.missed ? gapRow(m) : m.failed ? failedRow(m) : signedRow(m)))),
      before === null ? null : h("p", { class: "pages" }, h("a", { class: "button", href: older({ before, until: page.messages.at(-1)?.signedAt ?? "" }) }, "Older"))].filter(Boolean);
  }

  function older(more) {
    const next = new URLSearchParams({ network: network.value, ...more });
    for (const key of ["result", "id"]) if (query.get(key)) next.set(key, query.get(key));
    return `#/messages?${next}`;
  }

  const signedRow = (m) => [when(m.signedAt), source(network.value, m.sourceBlockchainId), h("span", {}, m.payload.title),
    h("span", { title: `${m.signers} validators, ${m.weight} of ${m.totalWeight}` }, percent(share(m.weight, m.totalWeight))), ORIGINS[m.origin] ?? "Not known",
    h("span", { class: "badge", "data-state": "good" }, "Signed"), h("a", { href: messageURL(network.value, m.number) }, "Details")];

  const failedRow = (f) => [when(f.at), source(network.value, f.sourceBlockchainId), h("span", {}, f.payload.title),
    f.outcomes ? h("span", { title: `${f.outcomes.signedWeight} of ${f.outcomes.totalWeight}` }, percent(share(f.outcomes.signedWeight, f.outcomes.totalWeight))) : "—", ORIGINS[f.origin] ?? "Not known",
    h("details", { class: "failed" }, h("summary", {}, h("span", { class: "badge", "data-state": "bad" }, f.code)),
      h("p", { class: "wrap" }, sentence(f.message)), h("p", { class: "muted" }, f.outcomes ? ["P-Chain height ", number(f.outcomes.pChainHeight), ", ", subnet(network.value, f.outcomes.signingSubnetId), ". "] : null, `It took ${milliseconds(f.elapsed)}. The message has ${number(f.size)} bytes.`), reasons(f.outcomes)),
    f.unsignedMessage ? h("a", { href: `#/rounds?${new URLSearchParams({ network: network.value, message: f.unsignedMessage })}` }, "Try again") : ""];

  const gapRow = (m) => ["—", "—", `${number(m.missed)} ${m.failed ? "failed requests" : "signed messages"} could not be stored`, "—", "—", "", ""];

  function onStatus() {
    example.hidden = !live.status?.example || query.has("id");
    if (offerNetworks(network, live.status, query.get("network"))) read();
  }

  onStatus();
  const every = setInterval(() => {
    // Rows that someone has opened stay.
    if (!query.get("before") && !list.querySelector("details[open]") && !list.contains(document.activeElement)) read();
  }, EVERY);
  live.addEventListener("status", onStatus);
  return () => {
    ended = true;
    clearInterval(every);
    live.removeEventListener("status", onStatus);
  };
}

/** The page of one message that is stored. */
export function message(main, live, query) {
  let ended = false;
  const network = query.get("network") ?? "";
  const body = h("div", { class: "stack" }, h("p", { class: "empty" }, "Reading…"));
  main.append(h("p", { class: "back" }, h("a", { href: `#/messages?${new URLSearchParams({ network })}` }, "All messages")), body);
  ask(`api/messages/${encodeURIComponent(query.get("number"))}?network=${encodeURIComponent(network)}`).then(
    (m) => ended || body.replaceChildren(...(m.missed ? [h("p", { class: "empty" }, `${number(m.missed)} messages were signed here that could not be stored.`)] : described(network, m))),
    (error) => ended || body.replaceChildren(h("p", { class: "empty" }, error.message)));
  return () => {
    ended = true;
  };
}

function described(network, m) {
  const verdict = h("div", { class: "verdict", role: "status", "aria-live": "polite", id: "verified" });
  const button = h("button", { type: "button", class: "primary", onclick: () => verify(network, { signedMessage: m.signedMessage, signingSubnetId: m.signingSubnetId, pChainHeight: m.pChainHeight, quorumPercentage: Math.floor(100 * share(m.weight, m.totalWeight)) }, verdict) }, "Verify");
  return [
    h("section", { class: "card", "aria-label": "Message" },
      h("div", { class: "row" }, h("h2", {}, m.payload.title), h("span", { class: "badge", "data-state": "good" }, "Signed")),
      facts([
        ["Message ID", copied(m.messageId)],
        ["Source blockchain", m.sourceBlockchainId === PRIMARY ? "P-Chain" : copied(m.sourceBlockchainId, messagesURL(network, m.sourceBlockchainId))],
        ["Signed", moment(m.signedAt / 1000)],
        ["Asked by", { client: "A client", ahead: "Pre-aggregation: it was signed ahead of requests" }[m.origin] ?? "Not known: an earlier version stored it"],
        ["Signing subnet", subnet(network, m.signingSubnetId)],
        ["P-Chain height", number(m.pChainHeight)],
        ["Weight", `${percent(share(m.weight, m.totalWeight), 2)}, ${weight(m.weight, m.signingSubnetId)} of ${weight(m.totalWeight, m.signingSubnetId)}`],
        ["Signers", `${number(m.signers)} validators`],
      ])),
    h("section", { class: "card", "aria-label": "Content" }, h("h2", {}, "Content"), facts(m.payload.fields.map((f) => [f.name, value(network, f)]))),
    h("section", { class: "card", "aria-label": "Verification" }, h("div", { class: "row" }, h("h2", {}, "Verification"), button),
      h("p", { class: "muted" }, "Verify the signature with the validators of the P-Chain height above, and list the signers."), verdict),
    h("section", { class: "card", "aria-label": "Bytes" },
      h("div", { class: "row" }, h("h2", {}, "Signed message"), copyButton(m.signedMessage)), h("pre", { tabindex: "0" }, m.signedMessage),
      h("div", { class: "row below" }, h("h2", {}, "Unsigned message"), h("div", { class: "tools" }, copyButton(m.unsignedMessage),
        h("a", { class: "button", href: `#/rounds?${new URLSearchParams({ network, message: m.unsignedMessage })}` }, "Sign it with another quorum"))), h("pre", { tabindex: "0" }, m.unsignedMessage)),
  ];
}

function value(network, { kind, value: text }) {
  if (kind === "time") return moment(Number(text));
  if (kind === "blockchain" && text === PRIMARY) return "P-Chain";
  if (kind === "blockchain") return copied(text, messagesURL(network, text));
  if (kind === "subnet") return copied(text, `#/subnet?${new URLSearchParams({ network, id: text })}`);
  if (kind === "node") return copied(text, lookupURL(network, text));
  if (["address", "icm"].includes(kind) && [42, 66].includes(text.length)) return copied(text, lookupURL(network, text));
  if (kind === "number") return number(BigInt(text));
  if (kind !== "hex") return text;
  const said = readable(text);
  return said ? h("span", {}, copied(text), h("small", {}, `as text: ${said}`)) : copied(text);
}

/** The text that bytes in hex are, or "" if they are none. */
function readable(hex) {
  if (!/^0x([0-9a-f]{2}){4,}$/.test(hex)) return "";
  const text = String.fromCharCode(...hex.slice(2).match(/../g).map((b) => parseInt(b, 16)));
  return /^[\x20-\x7e]+$/.test(text) ? text : "";
}

/** A form that verifies a signed message. */
function verifier(network) {
  const text = h("textarea", { id: "signed", rows: "3", spellcheck: "false", autocomplete: "off", placeholder: "0x… a signed Warp message" });
  const quorum = h("input", { id: "verify-quorum", type: "number", min: "1", max: "100", value: "67" });
  const height = h("input", { id: "verify-height", type: "number", min: "0", placeholder: "proposed" });
  const id = h("input", { id: "verify-subnet", spellcheck: "false", autocomplete: "off", placeholder: "the source chain's" });
  const verdict = h("div", { class: "verdict", role: "status", "aria-live": "polite" });
  const example = h("button", { type: "button", onclick: async () => {
    try {
      const { messages: [newest] } = await ask(`api/messages?${new URLSearchParams({ network: network(), limit: 1 })}`);
      if (!newest) throw new Error("No message was signed yet.");
      const m = await ask(`api/messages/${newest.number}?${new URLSearchParams({ network: network() })}`);
      [text.value, height.value, id.value] = [m.signedMessage ?? "", m.pChainHeight ?? "", m.signingSubnetId ?? ""];
    } catch (error) {
      verdict.dataset.kind = "bad";
      verdict.replaceChildren(error.message);
    }
  } }, "Use the newest");
  return h("form", { class: "card send", "aria-label": "Verify", onsubmit: (e) => {
    e.preventDefault();
    const body = { signedMessage: text.value.trim(), quorumPercentage: Number(quorum.value) || 67 };
    if (height.value) body.pChainHeight = Number(height.value);
    if (id.value.trim()) body.signingSubnetId = id.value.trim();
    verify(network(), body, verdict);
  } },
    h("details", {}, h("summary", {}, h("h2", {}, "Verify a signed message")),
    h("div", { class: "field grow" }, h("label", { for: "signed" }, "Signed message"), text),
    h("div", { class: "fields" },
      h("div", { class: "field" }, h("label", { for: "verify-quorum" }, "Quorum, %"), quorum),
      h("div", { class: "field" }, h("label", { for: "verify-height" }, "P-Chain height"), height),
      h("div", { class: "field grow" }, h("label", { for: "verify-subnet" }, "Signing subnet"), id),
      h("div", { class: "buttons" }, example, h("button", { type: "submit", class: "primary" }, "Verify"))),
    verdict));
}

async function verify(network, body, verdict) {
  const say = (kind, title, ...more) => {
    verdict.dataset.kind = kind;
    verdict.replaceChildren(h("strong", {}, title), ...more.filter(Boolean));
  };
  if (!body.signedMessage) {
    say("bad", "Nothing to verify", h("span", {}, "Paste a signed message in hex."));
    return;
  }
  say("wait", "Verifying");
  const began = performance.now();
  try {
    const v = await ask(`../v1/signatureAggregator/${encodeURIComponent(network)}/verifySignedMessage`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    say(v.valid ? "good" : "bad", v.valid ? "Valid" : "Not valid",
      h("span", {}, `${v.reason ? `${v.reason}. ` : ""}${percent(share(v.weight, v.totalWeight), 2)} of the weight signed, ${percent(share(v.targetWeight, v.totalWeight), 2)} are needed, at P-Chain height ${number(v.pChainHeight)}. It took ${milliseconds(performance.now() - began)}.`),
      v.signers.length ? h("details", { class: "all" }, h("summary", {}, `${v.signers.length} signers`),
        table("Signers", [{ title: "Index", right: true }, "Node", { title: "Weight", right: true }, { title: "Share", right: true }],
          v.signers.map((s) => [String(s.index), h("span", {}, s.nodeIds.flatMap((id) => [node(network, id), " "])), weight(s.weight, v.signingSubnetId), percent(share(s.weight, v.totalWeight), 2)]))) : null);
  } catch (error) {
    say("bad", "Not verified", h("span", {}, error.message));
  }
}
