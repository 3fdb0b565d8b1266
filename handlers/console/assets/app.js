import { h } from "./dom.js";
import { Live } from "./live.js";
import { rounds } from "./rounds.js";
import { networks } from "./networks.js";
import { chains } from "./chains.js";
import { charts } from "./charts.js";
import { lookup } from "./lookup.js";

// A page is a function of the live stream, which fills main and returns what ends it.
const PAGES = {
  rounds: ["Signing rounds", rounds],
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
  const page = path in PAGES ? path : "rounds";
  const [title, fill] = PAGES[page];
  leave();
  main.replaceChildren(h("h1", {}, title));
  document.title = `${title} · quorate console`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${page}`) link.setAttribute("aria-current", "page");
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

const connection = document.getElementById("connection");
live.addEventListener("connection", () => {
  connection.textContent = live.state;
  connection.dataset.state = live.state;
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
