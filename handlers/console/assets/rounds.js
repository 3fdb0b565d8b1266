import { h, ask, copyButton, failure, milliseconds, name, node, number, offerNetworks, percent, sentence, share, stamp, subnet, table, weight } from "./dom.js";
import { REPLIES, elapsed, replyOf } from "./live.js";
import { squarify } from "./tiles.js";

/** The quorum that the service uses by default, in percent. */
const DEFAULT_QUORUM = 67;

const OUTCOMES = {
  "": "Under way",
  SIGNED: "Signed",
  ABANDONED: "Nobody waited for it",
};
const outcome = (round) => OUTCOMES[round.outcome] ?? round.outcome.toLowerCase().replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase());

/** The page of live rounds, with the form that starts one. */
export function rounds(main, live, query) {
  let shown = null; // the round on display
  let pinned = false; // the user chose it
  let expected = null; // {network, hash, before} of what was sent from here: without a hash it is the first round that was not there before
  let playing = null; // {from, speed} of a replay
  let asTable = false;
  let frame = 0;
  let ended = false;

  // ---- the form
  const network = h("select", { id: "network", "aria-label": "Network" });
  const message = h("textarea", { id: "message", rows: "3", spellcheck: "false", autocomplete: "off", placeholder: "0x… an unsigned Warp message, or a transaction hash", value: query.get("message") ?? "" });
  const quorum = h("input", { id: "quorum", type: "number", min: "1", max: "100", value: String(DEFAULT_QUORUM) });
  // Optional fields of a request by their names in the API, and the chain of a transaction.
  const more = {
    quorumPercentageBuffer: h("input", { id: "buffer", type: "number", min: "0", max: "99", placeholder: "0" }),
    signingSubnetId: h("input", { id: "subnet", spellcheck: "false", autocomplete: "off", placeholder: "the source chain's" }),
    pChainHeight: h("input", { id: "height", type: "number", min: "0", placeholder: "proposed" }),
    verifyingBlockchainId: h("input", { id: "destination", spellcheck: "false", autocomplete: "off", placeholder: "none: the height decides" }),
    justification: h("input", { id: "justification", spellcheck: "false", autocomplete: "off", placeholder: "0x…" }),
  };
  const chain = h("input", { id: "chain", spellcheck: "false", autocomplete: "off", placeholder: "c-chain" });
  const example = h("button", { type: "button", id: "example", hidden: true, onclick: fillExample }, "Use an example");
  const submit = h("button", { type: "submit", class: "primary" }, "Sign");
  const verdict = h("div", { id: "verdict", class: "verdict", role: "status", "aria-live": "polite" });
  const form = h("form", { class: "card send", onsubmit: send },
    h("div", { class: "field grow" }, h("label", { for: "message" }, "Message or transaction hash"), message),
    h("div", { class: "fields" },
      h("div", { class: "field" }, h("label", { for: "network" }, "Network"), network),
      h("div", { class: "field" }, h("label", { for: "quorum" }, "Quorum, %"), quorum),
      h("div", { class: "buttons" }, example, submit)),
    h("details", { class: "more" }, h("summary", {}, "More"),
      h("div", { class: "fields" },
        h("div", { class: "field" }, h("label", { for: "buffer" }, "Buffer, %"), more.quorumPercentageBuffer),
        h("div", { class: "field" }, h("label", { for: "height" }, "P-Chain height"), more.pChainHeight),
        h("div", { class: "field grow" }, h("label", { for: "subnet" }, "Signing subnet"), more.signingSubnetId),
        h("div", { class: "field grow" }, h("label", { for: "destination" }, "Blockchain that will verify it"), more.verifyingBlockchainId),
        h("div", { class: "field grow" }, h("label", { for: "justification" }, "Justification"), more.justification),
        h("div", { class: "field grow" }, h("label", { for: "chain" }, "EVM chain of a transaction (ID)"), chain))),
    verdict);

  // ---- the round
  const heading = h("h2", {}, "No round yet");
  const facts = h("p", { class: "facts" }, "Rounds of all clients appear here as they begin. Sign a message to see one.");
  const clock = h("div", { class: "clock", id: "clock" }, "");
  const bar = h("div", { class: "quorum", hidden: true });
  const barLabel = h("div", { class: "quorum-label" });
  const legend = h("ul", { class: "legend" });
  const tiles = h("div", { id: "tiles", class: "tiles", tabindex: "0", role: "img", "aria-label": "Validators as tiles sized by weight", hidden: true, onkeydown: walk, onmouseleave: () => point(-1), onblur: () => point(-1) });
  const detail = h("p", { class: "detail", id: "detail", "aria-live": "polite" });
  const listing = h("div", { hidden: true });
  const tableButton = h("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => {
    asTable = !asTable;
    tableButton.setAttribute("aria-pressed", String(asTable));
    tableButton.textContent = asTable ? "Show as tiles" : "Show as table";
    paint(true);
  } }, "Show as table");
  const replay = h("button", { type: "button", class: "quiet", id: "replay", onclick: () => {
    if (!shown) return;
    const length = Math.max(shown.elapsed, 1);
    playing = { from: performance.now(), speed: Math.min(1, length / 4000), length };
    schedule();
  } }, "Replay slowly");
  const tools = h("div", { class: "tools", hidden: true }, replay, tableButton);
  const display = h("section", { class: "card round", "aria-labelledby": "round-heading" },
    h("div", { class: "round-head" }, h("div", {}, heading, facts), clock),
    bar, barLabel, tiles, listing, detail, h("div", { class: "round-foot" }, legend, tools));
  heading.id = "round-heading";

  // ---- the feed
  const feed = h("ol", { class: "feed", "aria-label": "Latest rounds" });
  const follow = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => {
    pinned = false;
    const newest = [...live.rounds.values()].at(-1);
    if (newest) choose(newest, false);
  } }, "Follow the newest");
  const side = h("section", { class: "card", "aria-labelledby": "feed-heading" },
    h("div", { class: "row" }, h("h2", { id: "feed-heading" }, "Latest rounds"), follow), feed, h("p", { class: "below" }, h("a", { href: "#/messages" }, "All stored messages")));

  main.append(form, h("div", { class: "columns" }, display, side));

  // ---- what is on display
  let validators = [];
  let cells = [];
  let places = [];
  let built = ""; // whose validators the tiles are
  let chosen = -1; // the tile that is pointed at
  let width = 0;

  async function choose(round, pin) {
    shown = round;
    pinned = pin;
    playing = null;
    follow.hidden = !pinned;
    display.dataset.message = round.messageHash;
    if (built !== round.set) { // else the tiles are the same
      built = "";
      chosen = -1;
      validators = [];
      cells = [];
      tiles.replaceChildren();
      try {
        const all = await live.validators(round);
        if (shown !== round || ended) return;
        validators = all;
        build();
        built = round.set;
      } catch (error) {
        if (shown === round) detail.textContent = `${error.message}.`;
      }
    }
    paint(true);
    list();
  }

  function build() {
    cells = validators.map((v, i) => h("div", { class: "tile", onmouseenter: () => point(i) }));
    tiles.hidden = false;
    tiles.replaceChildren(...cells);
    width = 0;
    lay();
  }

  function lay() {
    const box = tiles.getBoundingClientRect();
    if (!cells.length || box.width === width || box.width === 0) return;
    width = box.width;
    places = squarify(validators.map((v) => Number(v.weight)), box.width, box.height);
    cells.forEach((cell, i) => {
      const [x, y, w, v] = places[i];
      const gap = w > 6 && v > 6 ? 1.5 : 0.5;
      cell.style.left = `${x + gap}px`;
      cell.style.top = `${y + gap}px`;
      cell.style.width = `${Math.max(w - 2 * gap, 1)}px`;
      cell.style.height = `${Math.max(v - 2 * gap, 1)}px`;
      cell.textContent = w > 50 && v > 26 ? percent(share(validators[i].weight, shown.totalWeight)) : "";
    });
  }

  /** The replies to show: those of a moment of the replay, or the latest. */
  function moment() {
    if (!playing) return { replies: shown.replies, at: elapsed(shown) };
    const at = Math.min((performance.now() - playing.from) * playing.speed, playing.length);
    let replies = shown.frames[0]?.replies ?? shown.replies;
    for (const f of shown.frames) {
      if (f.elapsed > at) break;
      replies = f.replies;
    }
    if (at >= playing.length) {
      playing = null;
      return { replies: shown.replies, at: shown.elapsed };
    }
    return { replies, at };
  }

  const running = () => Boolean(playing) || !shown.outcome;

  let painted = "";
  function paint(anew = false) {
    if (!shown) return;
    const { replies, at } = moment();
    clock.textContent = milliseconds(at);
    replay.textContent = playing ? "Replaying…" : "Replay slowly";
    const state = `${shown.id} ${replies} ${shown.outcome} ${shown.targetWeight} ${playing ? "p" : ""} ${validators.length}`;
    if (!anew && state === painted) return;
    painted = state;
    heading.textContent = playing ? "Replay" : outcome(shown);
    heading.dataset.outcome = playing ? "" : shown.outcome;
    facts.replaceChildren(h("span", {}, shown.network), " · ", subnet(shown.network, shown.signingSubnetId), ` · P-Chain height ${number(shown.pChainHeight)} · ${stamp(shown.startedAt)} · message `, h("a", { href: `#/messages?${new URLSearchParams({ network: shown.network, id: shown.messageId })}` }, name(shown.messageId)));
    tools.hidden = false;
    const sums = new Map();
    const counts = new Map();
    validators.forEach((v, i) => {
      const letter = replies[v.index] ?? "u";
      sums.set(letter, (sums.get(letter) ?? 0) + Number(v.weight));
      counts.set(letter, (counts.get(letter) ?? 0) + 1);
      const [kind] = replyOf(letter, false);
      if (cells[i].dataset.reply !== kind) cells[i].dataset.reply = kind;
    });
    const total = Number(shown.totalWeight);
    const target = share(shown.targetWeight, shown.totalWeight);
    const signed = ((sums.get("s") ?? 0) + (sums.get("p") ?? 0)) / total;
    bar.hidden = !validators.length;
    const parts = Object.keys(REPLIES).filter((letter) => sums.get(letter)).map((letter) => {
      const part = h("span", { class: "part", "data-reply": REPLIES[letter][0] });
      part.style.width = `${(100 * sums.get(letter)) / total}%`;
      return part;
    });
    const line = h("span", { class: "line" });
    line.style.left = `${100 * target}%`;
    bar.replaceChildren(...parts, line);
    bar.dataset.reached = String(signed >= target);
    barLabel.replaceChildren(...(!validators.length ? [] : [h("strong", {}, percent(signed)), ` of the weight has signed, the quorum is ${percent(target)}`]));
    legend.replaceChildren(...Object.keys(REPLIES).filter((letter) => counts.get(letter)).map((letter) => {
      const [kind, title, meaning] = replyOf(letter, running());
      return h("li", {}, h("span", { class: "swatch", "data-reply": kind }), h("span", {}, `${title} `, h("b", {}, String(counts.get(letter))), " ", h("small", {}, meaning)));
    }));
    tiles.setAttribute("aria-label", `${validators.length} validators as tiles sized by weight: ${Object.keys(REPLIES).filter((l) => counts.get(l)).map((l) => `${counts.get(l)} ${replyOf(l, running())[1].toLowerCase()}`).join(", ")}. Arrow keys go through them.`);
    tiles.hidden = asTable || !validators.length;
    listing.hidden = !asTable;
    if (asTable) {
      const at = listing.querySelector(".scroll")?.scrollTop ?? 0;
      listing.replaceChildren(table("Validators of the round", ["Validator", { title: "Weight", right: true }, { title: "Share", right: true }, "Reply"],
        validators.map((v) => {
          const [kind, title] = replyOf(replies[v.index], running());
          return [node(shown.network, v.nodeId), weight(v.weight, shown.signingSubnetId), percent(share(v.weight, shown.totalWeight), 2), h("span", { class: "reply" }, h("span", { class: "swatch", "data-reply": kind }), title)];
        })));
      listing.querySelector(".scroll").scrollTop = at;
    } else {
      lay();
    }
    describe(replies);
  }

  function point(i) {
    cells[chosen]?.removeAttribute("data-chosen");
    chosen = i;
    cells[chosen]?.setAttribute("data-chosen", "");
    if (shown) describe(moment().replies);
  }

  function describe(replies) {
    const v = validators[chosen];
    if (!v || asTable) {
      detail.textContent = asTable || !cells.length ? "" : "Each tile is a validator, as large as its weight. Point at one for its name.";
      return;
    }
    const nodes = v.nodes > 1 ? ` and ${v.nodes - 1} more` : "";
    detail.replaceChildren(h("b", {}, v.nodeId + nodes), ` · ${percent(share(v.weight, shown.totalWeight), 2)} of the weight · ${replyOf(replies[v.index], running())[1]}`);
  }

  function walk(e) {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    if (!(e.key in steps) || !cells.length) return;
    e.preventDefault();
    point(Math.min(Math.max(chosen + steps[e.key], 0), cells.length - 1));
  }

  // Whatever comes within a frame is painted once; a round that goes on, and a
  // replay, need every frame for their clock.
  function schedule() {
    if (frame || ended) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      paint();
      if (playing || (shown && !shown.outcome)) schedule();
    });
  }

  let listed = 0;
  function list() {
    if (listed || ended) return;
    listed = requestAnimationFrame(() => {
      listed = 0;
      const latest = [...live.rounds.values()].slice(-11).reverse();
      const focused = document.activeElement?.dataset?.round;
      feed.replaceChildren(...latest.map((round) => {
        const target = share(round.targetWeight, round.totalWeight);
        return h("li", {}, h("button", { type: "button", "data-round": round.id, "aria-pressed": String(shown?.id === round.id), onclick: () => choose(round, true) },
          h("span", { class: "dot", "data-outcome": round.outcome || "running" }),
          h("span", { class: "feed-name" }, name(round.messageId, 8, 4), h("small", {}, `${round.network} · quorum ${percent(target, 0)}`)),
          h("span", { class: "feed-end" }, round.outcome ? milliseconds(round.elapsed) : "…", h("small", {}, outcome(round)))));
      }));
      if (!latest.length) feed.replaceChildren(h("li", { class: "empty" }, "None since this page was opened."));
      if (focused) [...feed.querySelectorAll("button")].find((b) => b.dataset.round === focused)?.focus();
    });
  }

  function onRound({ detail: round }) {
    const ours = expected && round.network === expected.network && (expected.hash ? expected.hash === round.messageHash : !expected.before.has(round.id));
    if (ours) expected = null;
    if (ours) choose(round, true); // whatever begins after it
    else if (!shown || (!pinned && shown !== round && shown.outcome && round.startedAt >= shown.startedAt)) choose(round, false);
    else if (shown.id === round.id && shown !== round) choose(round, pinned);
    else list();
    schedule();
  }

  function onStatus() {
    offerNetworks(network, live.status, query.get("network"));
    example.hidden = !live.status?.example;
  }

  async function fillExample() {
    try {
      const answer = await ask(`api/example?network=${encodeURIComponent(network.value)}`);
      message.value = answer.message;
      message.focus();
    } catch (error) {
      say("bad", "There is no example", error.message);
    }
  }

  function say(kind, title, ...more) {
    verdict.dataset.kind = kind;
    verdict.replaceChildren(h("strong", {}, title), ...more.filter(Boolean).map((m) => (m instanceof Node ? m : h("span", {}, m))));
  }

  /** The fields of a request besides its message. */
  function options() {
    const fields = { quorumPercentage: Number(quorum.value) || DEFAULT_QUORUM };
    for (const [name, input] of Object.entries(more)) {
      const given = input.value.trim();
      if (given) fields[name] = input.type === "number" ? Number(given) : given;
    }
    return fields;
  }

  /** Requests the signed message. */
  async function sign(path, text) {
    return [await stream(path, { message: text, ...options() })];
  }

  /**
   * Requests the signed messages of a P-Chain transaction or, if the P-Chain does not know a hash in hex, of an EVM
   * transaction. Options apply to EVM chains only.
   */
  async function find(path, text, bare) {
    const evm = /^[0-9a-fA-F]{64}$/.test(bare);
    const fields = options();
    const changed = Object.keys(fields).length > 1 || fields.quorumPercentage !== DEFAULT_QUORUM;
    if (!evm && changed) throw new Error(`the message of a P-Chain transaction is signed with a quorum of ${DEFAULT_QUORUM}% and without options: set Quorum to ${DEFAULT_QUORUM} and clear the fields under More, or paste the message itself`);
    if (!evm || (!changed && !chain.value.trim())) {
      try {
        return [await ask(`${path}/aggregateSignatures/${encodeURIComponent(text)}`)];
      } catch (error) {
        if (!evm || error.code !== "UNKNOWN_TRANSACTION") throw error;
      }
    }
    const of = encodeURIComponent(chain.value.trim() || "c-chain");
    return (await ask(`${path}/blockchains/${of}/transactions/0x${bare}/messages?${new URLSearchParams(fields)}`)).messages;
  }

  async function send(e) {
    e.preventDefault();
    const text = message.value.trim();
    if (!text) {
      say("bad", "Nothing to sign", "Paste an unsigned message in hex, or the hash of a P-Chain or EVM transaction.");
      message.focus();
      return;
    }
    const path = `../v1/signatureAggregator/${encodeURIComponent(network.value)}`;
    const bare = text.replace(/^0x/, "");
    const isMessage = /^([0-9a-fA-F]{2})+$/.test(bare) && bare.length > 64;
    submit.disabled = true;
    say("wait", isMessage ? "Asking the validators" : "Looking for the transaction's message");
    const began = performance.now();
    expected = { network: network.value, hash: isMessage ? await sha256(bare) : null, before: new Set(live.rounds.keys()) };
    try {
      const answers = await (isMessage ? sign(`${path}/aggregateSignatures`, `0x${bare}`) : find(path, text, bare));
      const failed = answers.filter((a) => a.error).length;
      const known = answers.length > 0 && answers.every((a) => a.summary?.fromCache);
      say(failed ? "bad" : "good", failed ? `${failed} of ${answers.length} not signed` : `Signed in ${milliseconds(performance.now() - began)}`,
        known && h("span", {}, "It was known: no validator had to be asked."),
        ...answers.flatMap((a) => (a.error ? [sentence(a.error.message), reasons(a.error.outcomes)] : [...signedParts(a.signedMessage), delivery(a.delivery)])));
    } catch (error) {
      say("bad", "Not signed", sentence(error.message), reasons(error.outcomes));
    }
    submit.disabled = false;
    // The round may be heard of a moment later than its end.
    const mine = expected;
    setTimeout(() => {
      if (expected === mine) expected = null;
    }, 500);
  }

  onStatus();
  list();
  const newest = [...live.rounds.values()].at(-1);
  if (newest) choose(newest, false);
  const resized = new ResizeObserver(() => lay());
  resized.observe(tiles);
  live.addEventListener("round", onRound);
  live.addEventListener("status", onStatus);
  schedule();
  return () => {
    ended = true;
    cancelAnimationFrame(frame);
    resized.disconnect();
    live.removeEventListener("round", onRound);
    live.removeEventListener("status", onStatus);
  };
}

function signedParts(signed) {
  return [h("code", {}, signed.length > 160 ? `${signed.slice(0, 100)}…${signed.slice(-40)}` : signed), copyButton(signed, "Copy the signed message")];
}

/** Whether the blockchain that was named would accept the message; null if none was. */
function delivery(d) {
  if (!d) return null;
  const verdict = { true: "The destination accepts it now.", false: "The destination would not accept it now." }[d.deliverable] ?? "Whether the destination accepts it is not known.";
  return [verdict, d.detail, d.remedy].filter(Boolean).join(" ");
}

/** Why weight is missing, as a table; null if the account does not say. */
export function reasons(account) {
  if (!account?.reasons?.length) return null;
  return table("Reasons", [{ title: "Weight", right: true }, { title: "Validators", right: true }, "Reason and what to do"], account.reasons.map((r) => [
    percent(share(r.weight, account.totalWeight)),
    h("span", { title: r.nodeIds.join("\n") }, String(r.count ?? "")),
    h("span", {}, h("code", {}, r.code), r.detail ? ` ${r.detail}` : "", r.remedy ? h("small", { class: "wrap" }, r.remedy) : null),
  ]));
}

/** The hash of a message, by which its round is known; null where the browser has none to offer (plain HTTP from afar). */
async function sha256(hex) {
  if (!globalThis.crypto?.subtle) return null;
  const bytes = Uint8Array.from(hex.match(/../g), (b) => parseInt(b, 16));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** Signs through the public API, as events. */
async function stream(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: JSON.stringify(body),
  });
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    throw failure(await response.json().catch(() => null), response.status);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The service went away before it answered.");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const kind = event.match(/^event: (.*)$/m)?.[1];
      const data = JSON.parse(event.match(/^data: (.*)$/m)?.[1] ?? "null");
      if (kind === "result") return data;
      if (kind === "error") throw failure(data, data.statusCode);
    }
  }
}
