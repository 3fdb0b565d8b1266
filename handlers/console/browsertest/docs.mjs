// Opens the reference of a running service in a browser. Standard input is {page, chromium, shots}, shots being a
// folder for screenshots or empty. Standard output is what the page shows, and the status of each operation when it is
// executed with its examples.
import { chromium } from "playwright-core";

const PATIENCE = 120_000;

let input = "";
for await (const chunk of process.stdin) input += chunk;
const { page: url, chromium: executablePath, shots } = JSON.parse(input);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"] });
try {
  const page = await browser.newPage({ colorScheme: "dark" });
  page.setDefaultTimeout(PATIENCE);
  const wrong = [];
  page.on("pageerror", (e) => wrong.push(`exception: ${e.message}`));
  await page.goto(url);
  await page.locator(".opblock").first().waitFor();
  const dark = await page.evaluate(() => document.documentElement.classList.contains("dark-mode"));

  const statuses = await page.evaluate(async (patience) => {
    const spec = window.ui.specSelectors.specJson().toJS();
    const results = {};
    for (const [path, item] of Object.entries(spec.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        if (!["get", "post"].includes(method) || path.startsWith("/v1/webhooks")) continue;
        let at = path;
        const query = new URLSearchParams();
        for (const p of [...(item.parameters ?? []), ...(operation.parameters ?? [])]) {
          if (p.example === undefined || p.in === "header") continue;
          if (p.in === "path") at = at.replace(`{${p.name}}`, encodeURIComponent(p.example));
          else query.set(p.name, p.example);
        }
        const body = operation.requestBody?.content["application/json"].example;
        let response, text;
        do {
          const stop = new AbortController();
          response = await fetch(`${at}?${query}`, { method: method.toUpperCase(), signal: stop.signal, body: body && JSON.stringify(body), headers: body ? { "Content-Type": "application/json" } : {} });
          text = response.status === 200 ? "" : await response.text();
          stop.abort();
          if (!text.includes("INDEX_CATCHING_UP")) break;
          await new Promise((done) => setTimeout(done, 500));
        } while (performance.now() < patience);
        results[`${method} ${path}`] = `${response.status} ${text}`.trim();
      }
    }
    return results;
  }, PATIENCE);

  // One operation is opened by its link, executed by hand, and still open after the page is loaded again.
  const operation = "#/EVM/listLatestTransactions";
  await page.goto(`${url}${operation}`);
  await page.reload();
  const open = page.locator(".opblock.is-open");
  await open.waitFor();
  const opened = await open.locator(".opblock-summary-path").innerText();
  await open.locator("button.execute").click();
  await open.locator(".live-responses-table .response-col_status", { hasText: "200" }).waitFor();
  const tabs = await open.locator(".request-snippets .opblock-body button, .request-snippets h4, .request-snippets .btn").allInnerTexts();
  const console = await page.locator('a[href="console/"]').count();
  // In both themes, on a desk and a phone, the operation open that was executed.
  const beyond = {};
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.reload();
    await open.waitFor();
    for (const [on, viewport] of [["desk", { width: 1280, height: 900 }], ["phone", { width: 390, height: 844 }]]) {
      await page.setViewportSize(viewport);
      const { all, seen } = await page.evaluate(() => ({ all: document.documentElement.scrollWidth, seen: document.documentElement.clientWidth }));
      if (all > seen) beyond[`${colorScheme} ${on}`] = all;
      if (shots) await page.screenshot({ path: `${shots}/reference-${colorScheme}-${on}.png` });
    }
  }
  process.stdout.write(JSON.stringify({ dark, statuses, opened, tabs, console, wrong, beyond }));
} finally {
  await browser.close();
}
