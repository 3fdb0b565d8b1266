import { h } from "./dom.js";
import { Live } from "./live.js";
import { overview } from "./overview.js";
import { rounds } from "./rounds.js";
import { message, messages } from "./messages.js";
import { networks, subnetPage } from "./networks.js";
import { chains } from "./chains.js";
import { charts } from "./charts.js";
import { lookup } from "./lookup.js";

// A page is its title, a function of the live stream, which fills main and returns what ends it, and the page in the
// navigation that it belongs to, if it is not there itself.
const PAGES = {
  overview: ["Overview", overview],
  rounds: ["Signing rounds", rounds],
  messages: ["Messages", messages],
  message: ["Message", message, "messages"],
  subnet: ["Subnet", subnetPage, "networks"],
  networks: ["Networks", networks],
  index: ["Index", chains],
  charts: ["Charts", charts],
  lookup: ["Look up", lookup],
};

const live = new Live();
const main = document.getElementById("main");
let leave = () => {};

function show(focus) {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const page = Object.hasOwn(PAGES, path) ? path : "overview";
  const [title, fill, below = page] = PAGES[page];
  leave();
  main.replaceChildren(h("h1", {}, title));
  document.title = `${title} · quorate console`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${below}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave = fill(main, live, new URLSearchParams(query)) ?? (() => {});
  if (focus) main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

addEventListener("hashchange", () => show(true));
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault(); // the address names the page
  main.focus();
});

// The header says what /readyz says, as long as the service is there.
const connection = document.getElementById("connection");
function connected() {
  const state = live.state === "live" && live.status ? live.status.readiness : live.state;
  if (connection.dataset.state === state) return;
  connection.textContent = state;
  connection.dataset.state = state;
}
live.addEventListener("connection", connected);
live.addEventListener("status", connected);

// The search of every page looks up in the network of the page that it is used on.
const search = document.getElementById("search");
search.addEventListener("submit", (e) => {
  e.preventDefault();
  const input = search.querySelector("input");
  const q = input.value.trim();
  if (!q) return;
  const next = new URLSearchParams({ q });
  const network = new URLSearchParams(location.hash.split("?")[1]).get("network");
  if (network) next.set("network", network);
  input.value = "";
  location.hash = `#/lookup?${next}`;
});

const THEMES = ["auto", "light", "dark"];
const button = document.getElementById("theme");
let theme = document.documentElement.dataset.theme ?? "auto";
function paint() {
  button.textContent = `Theme: ${theme}`;
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("theme"));
}
button.addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try {
    localStorage.setItem("quorate.theme", theme);
  } catch {
    // It holds until the page is left.
  }
  paint();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("theme")));
paint();
show(false);
