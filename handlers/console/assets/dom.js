// Elements and numbers. Text is only ever set as text: much of it was chosen by
// others.

/** Makes an element: properties that begin with "on" are listeners, others are set as attributes; null leaves one out. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const number = (n) => whole.format(n);

export function percent(share, digits = 1) {
  return `${(100 * share).toFixed(digits)}%`;
}

/** A share of two weights, which may be beyond what a number holds exactly. */
export function share(part, total) {
  const of = Number(total);
  return of > 0 ? Number(part) / of : 0;
}

export function milliseconds(ms) {
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms < 100 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
  return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "unknown";
  // Rounded to the smaller unit first, so that 23 h 59.9 min is 1 d and not 24 h.
  const s = Math.ceil(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  const min = Math.round(s / 60);
  if (min < 1440) return `${Math.floor(min / 60)} h ${min % 60} min`;
  const hours = Math.round(s / 3600);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** An integer in its smallest unit as a decimal number, exactly. */
export function amount(text, decimals) {
  const digits = String(text).padStart(decimals + 1, "0");
  const split = digits.length - decimals;
  const fraction = digits.slice(split).replace(/0+$/, "");
  return number(BigInt(digits.slice(0, split))) + (fraction ? `.${fraction}` : "");
}

/** A weight, which the primary network counts in nAVAX and others as they like. */
export function weight(text, subnetId) {
  if (subnetId === PRIMARY) return `${scaled(Number(text) / 1e9)} AVAX`;
  return scaled(Number(text));
}

function scaled(n) {
  for (const [unit, size] of [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (n >= size) return `${(n / size).toFixed(n / size < 100 ? 1 : 0)} ${unit}`;
  }
  return number(n);
}

export function time(seconds) {
  return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC";
}

/** A moment, given in ms since 1970, as the time that has passed or is left; the title has the moment itself. */
export function when(ms, style = "ago") {
  const left = Math.round((ms - Date.now()) / 1000);
  if (left > 2) return h("time", { datetime: new Date(ms).toISOString(), title: stamp(ms) }, `in ${duration(left).replace(/ 0 (s|min|h)$/, "")}`);
  const seconds = Math.max(Math.round((Date.now() - ms) / 1000), 0);
  const passed = seconds < 1 ? "now" : duration(seconds).replace(/ 0 (s|min|h)$/, "");
  const text = passed === "now" ? "just now" : style === "for" ? `for ${passed}` : `${passed} ago`;
  return h("time", { datetime: new Date(ms).toISOString(), title: stamp(ms) }, text);
}

/** A moment, given in seconds since 1970, as the time that has passed and as such. */
export const moment = (seconds) => h("span", {}, when(1000 * seconds), ` · ${stamp(1000 * seconds)}`);

/** A moment in UTC, to the second. */
export const stamp = (ms) => `${new Date(ms).toISOString().replace("T", " ").slice(0, 19)} UTC`;

/** Text as a sentence: with a capital and a full stop. */
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

export function figure(title, value) {
  return h("div", {}, h("dt", {}, title), h("dd", {}, value instanceof Node ? value : String(value)));
}

/** A long name, shortened in the middle; the whole is its title. */
export function name(text, begin = 10, end = 6) {
  const short = text.length > begin + end + 1 ? `${text.slice(0, begin)}…${text.slice(-end)}` : text;
  return h("span", { class: "name", title: text }, short);
}

export const PRIMARY = "11111111111111111111111111111111LpoYY";

/** The name of a subnet, with a link to its validators. */
export function subnet(network, id) {
  return h("a", { href: `#/subnet?${new URLSearchParams({ network, id })}` }, id === PRIMARY ? "Primary network" : name(id));
}

/** The name of a validator, with a link to its page. */
export function node(network, id, whole = false) {
  return h("a", { href: `#/lookup?${new URLSearchParams({ network, q: id })}` }, whole ? h("code", {}, id) : name(id, 14, 6));
}

/** A table in a frame of its own that can be scrolled sideways, by keyboard too. On a phone its rows are stacked, so that nothing is cut off. */
export function table(caption, columns, rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.right ? "right" : null }, c.title ?? c)))),
      h("tbody", {}, rows.map((cells) => row(columns, cells))),
    ));
}

const row = (columns, cells) => h("tr", {}, cells.map((cell, i) => h("td", { class: columns[i].right ? "right" : null, "data-label": columns[i].title ?? columns[i] }, cell)));

const narrow = matchMedia("(max-width: 700px)");

/** How many rows a list has before the next page: fewer on a phone, where each row is high. */
export const pageSize = (most, fewest = 10) => (narrow.matches ? fewest : most);

/** A table that read fills with {rows, next}, given next of the page before or "". none is its text without rows; null makes it null. */
export async function paged(caption, columns, none, read) {
  let { rows, next } = await read("");
  if (!rows.length && !next) return none === null ? null : h("p", { class: "muted" }, none);
  const box = table(caption, columns, rows);
  if (!next) return box;
  const button = h("button", { type: "button", class: "quiet", onclick: async () => {
    button.disabled = true;
    try {
      const page = await read(next);
      box.querySelector("tbody").append(...page.rows.map((cells) => row(columns, cells)));
      next = page.next;
      button.textContent = "More";
      button.hidden = !next;
    } catch (error) {
      button.textContent = `${error.message} Try again`;
    }
    button.disabled = false;
  } }, "More");
  return [box, h("p", { class: "pages" }, button)];
}

/** Titles and values, one below the other. Rows that are null are left out. */
export const facts = (rows) => h("dl", { class: "facts-of" }, rows.filter(Boolean).map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value))));

/** Text with a button that copies it, and a link if there is a page about it. */
export const copied = (text, href = null) => h("span", { class: "copied" }, href ? h("a", { href }, h("code", {}, text)) : h("code", {}, text), copyButton(text));

/** Where the page about a text is: an ID, an address, a hash, or with on, which names a chain, the number of a block. */
export const lookupURL = (network, q, on = null) => `#/lookup?${new URLSearchParams(on ? { network, q, on } : { network, q })}`;

/** A shortened link to the page about a text. */
export const link = (network, q) => h("a", { href: lookupURL(network, q) }, name(q, 8, 5));

/** Fills a selection with the networks and selects the wanted one, by its name or an alias. It returns whether it did. */
export function offerNetworks(select, status, wanted) {
  const all = status?.networks ?? [];
  const names = all.map((n) => n.name);
  if (!names.length || [...select.options].map((o) => o.value).join() === names.join()) return false;
  const want = select.value || wanted;
  select.replaceChildren(...names.map((n) => h("option", { value: n }, n)));
  const found = networkOf(status, want);
  if (found) select.value = found.name;
  return true;
}

/** The network with a name or an alias. */
export const networkOf = (status, want) => {
  const all = status?.networks ?? [];
  return all.find((n) => n.name === want) ?? all.find((n) => n.aliases?.includes(want));
};

/** Puts text on the clipboard, where the browser lets pages do so. */
export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "quiet", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text to copy it";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}

/** JSON from this service; what it throws says what the service said. */
export async function ask(path, options = {}) {
  const response = await fetch(path, options);
  let body = null;
  try {
    body = await response.json();
  } catch {
    throw new Error(`The service answered with status ${response.status}.`);
  }
  if (!response.ok) throw failure(body, response.status);
  const summary = response.headers.get("Signing-Summary");
  return summary ? { ...body, summary: JSON.parse(summary) } : body;
}

/** The error that an answer describes: message, status, code, and for signing the account. */
export function failure(body, status) {
  const said = body?.message ?? body?.error;
  const error = new Error(Array.isArray(said) ? said.join("; ") : String(said ?? `status ${status}`));
  return Object.assign(error, { status, code: body?.code, outcomes: body?.outcomes });
}
