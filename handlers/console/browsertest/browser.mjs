// Drives a browser over the console of a running service. Standard input is {url,
// private, chromium, address, validator, subnet, shots}: private is the private address, shots is a folder for screenshots, or empty. Standard
// output is a list of {name, error}, error being empty where a check passed.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { faults } from "./faults.mjs";

let input = "";
for await (const chunk of process.stdin) input += chunk;
const { url, private: operators, chromium: executablePath, address, validator, subnet, shots } = JSON.parse(input);
const origin = new URL(url).origin;
const PAGES = ["overview", "rounds", "messages", "message?network=local&number=1", "networks", "subnet?network=local&id=11111111111111111111111111111111LpoYY", "index", "charts", "lookup"];
const DESK = { width: 1280, height: 900 };
// The pages that the navigation does not list are below others.
const BELOW = { message: "messages", subnet: "networks" };
const PHONE = { width: 390, height: 844 };
const PATIENCE = 60_000;
// What is not found is answered with 404 or 400, which browsers report.
const LOOKUPS = ["/v1/networks/", "/v1/chains/", "/v1/icm/", "/console/api/messages"];

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"] });
const results = [];

// What goes wrong beside a check counts against it: text on the browser's console,
// exceptions, requests that fail, and requests to anybody but the service.
async function check(name, options, f) {
  const context = await browser.newContext({ viewport: DESK, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const wrong = [];
  const expected = options.expected ?? [];
  page.on("console", (m) => {
    if (["error", "warning"].includes(m.type()) && !expected.some((e) => m.location().url.includes(e))) wrong.push(`${m.type()}: ${m.text()} (${m.location().url})`);
  });
  page.on("pageerror", (e) => wrong.push(`exception: ${e.message}`));
  page.on("request", (r) => {
    const to = new URL(r.url());
    if (to.origin !== origin) wrong.push(`request to ${to.origin}`);
  });
  const began = Date.now();
  try {
    await f(page);
    assert.deepEqual(wrong, [], "on the side");
    results.push({ name, error: "", seconds: (Date.now() - began) / 1000 });
  } catch (error) {
    results.push({ name, error: `${error.message}${wrong.length ? `\nbesides: ${wrong.join("; ")}` : ""}` });
  } finally {
    await context.close();
  }
}

async function open(page, path) {
  await page.goto(`${url}#/${path}`);
  await page.locator("h1").waitFor();
  await page.locator("#connection[data-state=ready]").waitFor();
}

const loaded = {
  overview: async (page) => {
    await page.locator("#health[data-state=good]").waitFor();
    await page.locator("#trend-latency canvas").waitFor();
    await page.locator("section[aria-label=Index] .badge").first().waitFor();
  },
  rounds: (page) => page.locator("#network option").first().waitFor({ state: "attached" }),
  messages: (page) => page.locator("#archive tbody tr").first().waitFor(),
  message: (page) => page.locator("section[aria-label=Content] dd").first().waitFor(),
  networks: (page) => page.locator(".meter").first().waitFor(),
  subnet: (page) => page.locator("#validators tbody tr").nth(9).waitFor(),
  index: (page) => page.locator("[role=progressbar]").first().waitFor(),
  charts: async (page) => {
    await page.locator("#latency canvas").waitFor();
    await page.locator("#tps canvas").waitFor();
  },
  lookup: (page) => page.locator("section[aria-label='Latest messages between chains'] tbody tr").first().waitFor(),
};

/** Takes a screenshot as the page is now, or with a theme and a viewport. */
async function shoot(page, name, colorScheme, viewport) {
  if (!shots) return;
  if (viewport) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(viewport);
  }
  await page.evaluate(() => scrollTo(0, 0)); // else the header is in the middle
  await page.waitForTimeout(300); // a figure of two may still be on its way to the screen
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
}

/** Takes screenshots of a page in both themes, on a desk and a phone. */
async function shootAll(page, name) {
  if (!shots) return;
  const before = page.viewportSize();
  for (const colorScheme of ["dark", "light"]) {
    for (const [on, viewport] of [["desk", DESK], ["phone", PHONE]]) {
      await shoot(page, `${name}-${colorScheme}-${on}`, colorScheme, viewport);
      await wide(page);
    }
  }
  await page.setViewportSize(before);
}

/** Signs an example from the page and waits until its round is seen to have the quorum. */
async function signExample(page) {
  await page.locator("#example").click();
  await page.waitForFunction(() => document.getElementById("message").value.startsWith("0x"));
  const text = await page.locator("#message").inputValue();
  await page.locator("button[type=submit]").click();
  await page.locator("#verdict[data-kind=good]").waitFor();
  // The round on display may still be an earlier one, of another message.
  const round = `.round[data-message="${createHash("sha256").update(Buffer.from(text.slice(2), "hex")).digest("hex")}"]`;
  await page.locator(`${round} h2[data-outcome=SIGNED]`).waitFor();
  await page.locator(`${round} .quorum[data-reached=true]`).waitFor();
  await page.locator(`${round} .tile[data-reply=signed]`).first().waitFor();
}

const wide = async (page) => {
  const { all, seen } = await page.evaluate(() => ({ all: document.documentElement.scrollWidth, seen: document.documentElement.clientWidth }));
  assert.ok(all <= seen, `the page is ${all} px wide on a screen of ${seen}`);
  assert.deepEqual(await page.evaluate(faults), [], "text that cannot be read");
};

for (const colorScheme of ["light", "dark"]) {
  for (const viewport of [DESK, PHONE]) {
    const on = viewport === DESK ? "desk" : "phone";
    await check(`pages, ${colorScheme}, ${on}`, { colorScheme, viewport }, async (page) => {
      const grounds = new Set();
      for (const path of PAGES) {
        await open(page, path);
        const [kind] = path.split("?");
        await loaded[kind](page);
        await wide(page);
        grounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
        assert.equal(await page.locator("nav a[aria-current=page]").getAttribute("href"), `#/${BELOW[kind] ?? kind}`);
        await shoot(page, `${kind}-${colorScheme}-${on}`);
      }
      assert.deepEqual([...grounds], [colorScheme === "dark" ? "rgb(15, 20, 27)" : "rgb(245, 246, 248)"]);
    });
    await check(`a message is signed, ${colorScheme}, ${on}`, { colorScheme, viewport }, async (page) => {
      await open(page, "rounds");
      await loaded.rounds(page);
      // Every change of a tile is kept, as most last for milliseconds.
      await page.evaluate(() => {
        window.seen = [];
        new MutationObserver((all) => all.forEach((m) => window.seen.push(m.target.dataset.reply)))
          .observe(document.getElementById("tiles"), { subtree: true, attributes: true, attributeFilter: ["data-reply"] });
      });
      await signExample(page);
      const count = await page.locator("#tiles .tile").count();
      assert.ok(count >= 30, `${count} tiles`);
      assert.match(await page.locator("#clock").textContent(), /\d (ms|s)$/);
      assert.match(await page.locator("#verdict").textContent(), /^Signed in /);
      await wide(page);
      await shoot(page, `signed-${colorScheme}-${on}`);
      // In slow motion, so that not even a busy machine skips what is between.
      await page.locator("#replay").click();
      await page.locator("h2", { hasText: "Replay" }).waitFor();
      await page.locator("h2[data-outcome=SIGNED]").waitFor();
      const seen = new Set(await page.evaluate(() => window.seen));
      for (const kind of ["asked", "signed"]) assert.ok(seen.has(kind), `no tile was ever ${kind}: ${[...seen]}`);
      // The same as a table.
      await page.locator("button", { hasText: "Show as table" }).click();
      assert.equal(await page.locator(".round tbody tr").count(), count);
      assert.ok((await page.locator(".round tbody tr", { hasText: "Signed" }).count()) > 3);
    });
  }
}

await check("the first page is the overview, with the numbers of the API", {}, async (page) => {
  await page.goto(`${origin}/`);
  await page.locator("h1", { hasText: "Overview" }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/console/");
  const { ready } = await (await fetch(`${operators}/readyz`)).json();
  assert.equal(ready, true);
  await page.locator("#connection", { hasText: /^ready$/ }).waitFor();
  const { message } = await (await fetch(`${url}api/example?network=local`)).json();
  const response = await fetch(`${origin}/v1/signatureAggregator/local/aggregateSignatures`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ message, quorumPercentage: 99 }) });
  const { code } = await response.json();
  assert.equal(code, "QUORUM_NOT_REACHED"); // a fifth of the validators is faulty
  const row = page.locator("#failures tr", { hasText: code });
  await row.waitFor();
  // The metric counts since the start, the page in the last hour, which is the same here.
  const metrics = await (await fetch(`${operators}/metrics`)).text();
  const counted = metrics.split("\n").filter((l) => l.startsWith("quorate_sign_seconds_count") && l.includes(code)).reduce((a, l) => a + Number(l.split(" ").at(-1)), 0);
  await page.locator("#failures tr", { hasText: new RegExp(`^${counted}\\s*local\\s*${code}$`) }).waitFor();
  await page.locator("#span").selectOption("day");
  await page.locator("#trend-text", { hasText: "signed and" }).waitFor();
});

await check("what is wrong is said first, and since when", {}, async (page) => {
  const status = { networks: [{ name: "fuji", networkId: 5, ready: false, reason: "connected to 40.0% of the primary network's weight, 67% are needed", pChainHeight: 1, peers: 3, allSubnets: 1,
    subnets: [{ subnetId: "11111111111111111111111111111111LpoYY", validators: 5, weight: "100", connected: 0.4, since: Date.now() - 7_380_000 }] }],
  chains: [], example: false, readiness: "not ready",
  problems: [{ severity: "bad", kind: "network", network: "fuji", title: "fuji is not ready to sign", text: "connected to 40.0% of the primary network's weight, 67% are needed", since: Date.now() - 7_380_000 }] };
  await page.route("**/api/live", (route) => route.fulfill({ contentType: "text/event-stream", body: `event: status\ndata: ${JSON.stringify(status)}\n\n` }));
  await page.goto(url);
  await page.locator("#health[data-state=bad]", { hasText: "fuji is not ready to sign" }).waitFor();
  await page.locator(".problems .since", { hasText: "for 2 h 3 min" }).waitFor();
  await page.locator("section[aria-label=Weight] tr", { hasText: "40%" }).waitFor();
  await page.locator("section[aria-label=Index]", { hasText: "set record" }).waitFor();
  await shootAll(page, "overview-problem");
  await wide(page);
});

await check("messages are shown that were signed before the page was opened", { viewport: PHONE, expected: ["/verifySignedMessage"] }, async (page) => {
  const { message } = await (await fetch(`${url}api/example?network=local`)).json();
  const post = (quorumPercentage) => fetch(`${origin}/v1/signatureAggregator/local/aggregateSignatures`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ message, quorumPercentage }) });
  const { signedMessage } = await (await post(67)).json();
  assert.equal((await (await post(98)).json()).code, "QUORUM_NOT_REACHED");
  await open(page, "messages?network=local&result=signed");
  await page.locator("#archive tr", { hasText: "A client" }).first().waitFor();
  await page.locator("#archive tr", { hasText: "Pre-aggregation" }).first().waitFor();
  await page.locator("#archive tr", { hasText: "A client" }).first().locator("a", { hasText: "Details" }).click();
  await page.locator("section[aria-label=Content]", { hasText: "Payload" }).waitFor();
  await page.locator("section[aria-label=Bytes] pre", { hasText: signedMessage }).waitFor();
  await page.locator("button", { hasText: "Verify" }).click();
  await page.locator("#verified[data-kind=good]", { hasText: "Valid" }).waitFor();
  await page.locator("#verified summary").click();
  await page.locator("#verified tbody tr", { hasText: "NodeID-" }).first().waitFor();
  await wide(page);
  await shootAll(page, "message-verified");
  // All of one source blockchain, from the newest to the oldest.
  await page.locator("section[aria-label=Message] dd a").first().click();
  await page.locator("#archive tbody tr").first().waitFor();
  assert.ok(await page.locator("#of").inputValue());
  await open(page, "messages");
  await page.locator("#messages-example").click();
  await page.waitForFunction(() => document.getElementById("of").value.length > 30);
  await page.locator("#archive tbody tr").nth(9).waitFor();
  const newest = await page.locator("#archive tbody a", { hasText: "Details" }).first().getAttribute("href");
  await page.locator("#archive a", { hasText: "Older" }).click();
  await page.locator("#archive a", { hasText: "Newest" }).waitFor();
  assert.notEqual(await page.locator("#archive tbody a", { hasText: "Details" }).first().getAttribute("href"), newest);
  // What failed, with the reasons, and once more.
  await page.locator("#result").selectOption("failed");
  const failed = page.locator("#archive tr", { hasText: "QUORUM_NOT_REACHED" }).first();
  await failed.locator("summary").click();
  await failed.locator("tbody code").first().waitFor();
  assert.doesNotMatch(await failed.textContent(), /\[object/);
  await page.locator("#archive p", { hasText: /failed requests? (is|are) stored/ }).waitFor();
  await wide(page);
  await shootAll(page, "messages-failed");
  await failed.locator("a", { hasText: "Try again" }).click();
  await page.waitForFunction((text) => document.getElementById("message")?.value === text, message);
  // Anybody's signed message is verified.
  await open(page, "messages");
  const form = page.locator("form[aria-label=Verify]");
  await form.locator("summary").first().click();
  await form.locator("#signed").fill(`0x${signedMessage}`);
  await form.locator("button[type=submit]").click();
  await form.locator(".verdict[data-kind=good]").waitFor();
  await form.locator("#verify-quorum").fill("99");
  await form.locator("button[type=submit]").click();
  await form.locator(".verdict[data-kind=bad]", { hasText: "Not valid" }).waitFor();
  await form.locator("#signed").fill(message);
  await form.locator("button[type=submit]").click();
  await form.locator(".verdict[data-kind=bad]", { hasText: "carries no signature" }).waitFor();
});

await check("each validator's connection is shown, or why there is none", { expected: LOOKUPS }, async (page) => {
  await open(page, "networks");
  await page.locator("td a", { hasText: "Primary network" }).first().click();
  const rows = page.locator("#validators tbody tr");
  await rows.nth(49).waitFor();
  const good = rows.filter({ has: page.locator("[data-state=good]") });
  let connected = await good.count();
  await rows.filter({ hasText: /v\d+\.\d+\.\d+/ }).filter({ hasText: / ms/ }).first().waitFor();
  await page.locator("#validators .pages", { hasText: "1 to 50 of 60" }).locator("a", { hasText: "Next" }).click();
  await page.locator("#validators .pages", { hasText: "51 to 60 of 60" }).waitFor();
  assert.equal(await rows.count(), 10);
  connected += await good.count();
  await page.locator("#validators a", { hasText: "Previous" }).click();
  await rows.nth(49).waitFor();
  // The metric counts connections, which are all to validators here.
  const metrics = await (await fetch(`${operators}/metrics`)).text();
  const share = Number(metrics.split("\n").find((l) => l.startsWith("quorate_subnet_connected_weight_ratio")).split(" ").at(-1));
  await page.locator("section[aria-label=Subnet] dd", { hasText: `${(100 * share).toFixed(1)}%` }).waitFor();
  await page.locator("#validators a", { hasText: "Only those not connected" }).click();
  await page.locator("#validators h2", { hasText: "not connected" }).waitFor();
  assert.equal(await rows.count(), 60 - connected);
  const missing = rows.filter({ hasText: "NO_ADDRESS" }).first();
  await missing.locator("a").first().click();
  await page.locator("section[aria-label=Validator]", { hasText: "no address of them is known" }).waitFor();
  await page.locator("section[aria-label=Validator] td a", { hasText: "Primary network" }).waitFor();
  assert.equal(await page.locator("h1").textContent(), "Validator");
  await shootAll(page, "validator");
});

await check("a known message is told from one that was signed", {}, async (page) => {
  await open(page, "rounds");
  await loaded.rounds(page);
  await signExample(page);
  await page.locator("button[type=submit]").click();
  await page.locator("#verdict", { hasText: "no validator had to be asked" }).waitFor();
});

await check("rounds of others appear", {}, async (page) => {
  await open(page, "rounds");
  await loaded.rounds(page);
  const { message } = await (await fetch(`${url}api/example?network=local`)).json();
  const response = await fetch(`${origin}/v1/signatureAggregator/local/aggregateSignatures`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ message }) });
  assert.equal(response.status, 200);
  await page.locator(".feed [data-outcome=SIGNED]").first().waitFor();
  await page.locator("#tiles .tile[data-reply=signed]").first().waitFor();
});

await check("what cannot be signed is explained", { expected: ["aggregateSignatures", "/messages"] }, async (page) => {
  await open(page, "rounds");
  await loaded.rounds(page);
  await page.locator("button[type=submit]").click();
  await page.locator("#verdict[data-kind=bad]", { hasText: "Nothing to sign" }).waitFor();
  await page.locator("#message").fill("0x" + "ab".repeat(80));
  await page.locator("button[type=submit]").click();
  await page.locator("#verdict[data-kind=bad]", { hasText: "message" }).waitFor();
  await page.locator("#message").fill("0x" + "ab".repeat(32)); // a transaction that nobody knows
  await page.locator("button[type=submit]").click();
  await page.locator("#verdict[data-kind=bad]", { hasText: "Not signed" }).waitFor();
  await page.locator("details.more summary").click();
  await page.locator("#chain").fill("99001");
  const asked = page.waitForResponse((r) => r.url().includes("/blockchains/99001/transactions/0xabab"));
  await page.locator("button[type=submit]").click();
  assert.equal((await asked).status(), 404);
  await page.locator("#verdict[data-kind=bad]", { hasText: "does not know transaction" }).waitFor();
  await page.locator("#buffer").fill("5");
  const options = page.waitForRequest((r) => r.url().endsWith("/messages?quorumPercentage=67&quorumPercentageBuffer=5"));
  await page.locator("button[type=submit]").click();
  await options;
  await page.locator("#message").fill("2QouvFWUbjuySRxeX5xMbNCuAaKWfbk5FeEa2JmoF85RKLk2dD"); // of the P-Chain
  await page.locator("button[type=submit]").click();
  await page.locator("#verdict[data-kind=bad]", { hasText: "without options" }).waitFor();
  await page.locator("#buffer").fill("");
  await page.locator("#example").click();
  await page.waitForFunction(() => document.getElementById("message").value.length > 80);
  await page.locator("#quorum").fill("100"); // a fifth of the validators is faulty
  await page.locator("button[type=submit]").click();
  await page.locator("#verdict[data-kind=bad] tbody tr code").first().waitFor();
  await wide(page);
});

await check("optional fields are sent", { viewport: PHONE }, async (page) => {
  await open(page, "rounds");
  await loaded.rounds(page);
  await page.locator("#example").click();
  await page.waitForFunction(() => document.getElementById("message").value.startsWith("0x"));
  await page.locator("details.more summary").click();
  await page.locator("#buffer").fill("5");
  await page.locator("#height").fill("1");
  await page.locator("#justification").fill("0x01");
  await page.locator("#subnet").fill("11111111111111111111111111111111LpoYY");
  await wide(page);
  const sent = page.waitForRequest((r) => r.method() === "POST" && r.url().endsWith("/aggregateSignatures"));
  await page.locator("button[type=submit]").click();
  const { message, ...rest } = (await sent).postDataJSON();
  assert.ok(message.startsWith("0x"));
  assert.deepEqual(rest, { quorumPercentage: 67, quorumPercentageBuffer: 5, pChainHeight: 1, justification: "0x01", signingSubnetId: "11111111111111111111111111111111LpoYY" });
  await page.locator("#verdict[data-kind=good]").waitFor();
});

const section = (page, title) => page.locator(`section[aria-label='${title}']`);
const api = async (path) => (await fetch(`${origin}/v1/${path}`)).json();

await check("an address, a validator and a subnet are looked up", { expected: LOOKUPS }, async (page) => {
  await open(page, "lookup");
  await loaded.lookup(page);
  await page.locator("#query").fill(address);
  await page.locator("button[type=submit]").click();
  const row = section(page, "P-Chain balances").locator("tbody tr", { hasText: /Unlocked\s*AVAX/ }).first();
  await row.waitFor();
  assert.match(await row.textContent(), /AVAX[\d,]+/);
  await section(page, "P-Chain UTXOs").locator("tbody tr").first().waitFor();
  await section(page, "Staking transactions").locator("tbody tr, p").first().waitFor();
  await page.locator("#results:not(:has-text('Looking…'))").waitFor();
  await shootAll(page, "address");
  await page.locator("#query").fill(validator);
  await page.keyboard.press("Enter");
  await section(page, "Delegations to it").locator("tbody tr").first().waitFor();
  await section(page, "Validations").locator("tbody tr a", { hasText: "Primary network" }).first().waitFor();
  await page.locator("#query").fill(subnet);
  await page.keyboard.press("Enter");
  await section(page, "Subnet").locator("dd", { hasText: /ago · \d{4}-.*, block \d/ }).waitFor();
  await page.locator("#query").fill("<img src=x onerror=alert(1)>");
  await page.keyboard.press("Enter");
  await page.locator("#results", { hasText: "This is no address" }).waitFor();
  await page.locator("#query").fill(subnet.split("").reverse().join(""));
  await page.keyboard.press("Enter");
  await section(page, "Nothing").locator("li").first().waitFor();
});

await check("transactions, blocks and assets of the P- and X-Chain have pages", { expected: LOOKUPS }, async (page) => {
  await open(page, "lookup");
  await loaded.lookup(page);
  await page.locator("#lookup-example").click();
  await page.waitForFunction(() => document.getElementById("query").value.length > 40);
  await page.locator("button[type=submit]").click();
  await section(page, "Transaction of the P-Chain").locator("h3", { hasText: "Outputs" }).waitFor();
  const base = "networks/local/blockchains";
  const { transactions } = await api(`${base}/p-chain/transactions:listStaking?addresses=${address}&pageSize=1`);
  const t = transactions[0] ?? (await api(`${base}/p-chain/transactions?pageSize=1&txTypes=AddPermissionlessDelegatorTx`)).transactions[0];
  await open(page, `lookup?network=local&q=${t.txHash}`);
  const found = section(page, "Transaction of the P-Chain");
  const avax = (nano) => `${Number(nano.slice(0, -9) || 0).toLocaleString("en")}${`.${nano.slice(-9).padStart(9, "0")}`.replace(/\.?0+$/, "")} AVAX`;
  await found.locator("div", { hasText: "Staked" }).locator("dd", { hasText: avax(t.amountStaked[0].amount) }).first().waitFor();
  const outputs = found.locator("table", { has: page.locator("caption", { hasText: "Outputs" }) }).locator("tbody tr");
  const whole = await api(`${base}/p-chain/transactions/${t.txHash}`);
  assert.equal(await outputs.count(), whole.emittedUtxos.length);
  await outputs.filter({ hasText: avax(whole.emittedUtxos[0].amount) }).first().waitFor();
  assert.match(await page.title(), new RegExp(t.txHash));
  assert.equal(await page.locator("h1").textContent(), "Transaction of the P-Chain");
  await wide(page);
  await shootAll(page, "transaction");
  await found.locator("a", { hasText: t.nodeId }).click();
  await section(page, "Validations").locator("tbody tr").first().waitFor();
  await page.goBack();
  await found.locator(`a[href*="q=${t.blockNumber}&on=p-chain"]`).click();
  const block = section(page, "Block of the P-Chain");
  await block.locator("td a", { hasText: t.txHash }).waitFor();
  assert.equal(await page.locator("#results section").count(), 1, "the number is that of one chain");
  await block.locator("a", { hasText: new RegExp(`^${(Number(t.blockNumber) - 1).toLocaleString("en")}$`) }).last().click();
  await block.locator("dd", { hasText: new RegExp(`^${(Number(t.blockNumber) - 1).toLocaleString("en")}$`) }).first().waitFor();
  // An asset of the X-Chain, from its balance.
  const { balances } = await api(`${base}/x-chain/balances?addresses=${address.replace("P-", "X-")}`);
  const asset = balances.unlocked.find((b) => b.symbol !== "AVAX");
  await open(page, `lookup?network=local&q=${address}`);
  await section(page, "X-Chain balances").locator("a", { hasText: asset.symbol }).first().click();
  await section(page, "Asset").locator("dd", { hasText: asset.name }).waitFor();
  const { blocks: [latest] } = await api(`${base}/x-chain/blocks?pageSize=1`);
  await open(page, `lookup?network=local&q=${latest.blockHash}`);
  await section(page, "Block of the X-Chain").locator("td a", { hasText: latest.transactions[0] }).click();
  await section(page, "Transaction of the X-Chain").locator("dd", { hasText: latest.transactions[0] }).waitFor();
  // The latest blocks are listed, page by page.
  await open(page, "lookup");
  const rows = section(page, "Latest blocks of the P-Chain").locator("tbody tr");
  await rows.nth(4).waitFor();
  await section(page, "Latest blocks of the P-Chain").locator("button", { hasText: "More" }).click();
  await rows.nth(9).waitFor();
  assert.equal(new Set(await rows.locator("td:first-child").allTextContents()).size, 10);
});

await check("addresses of EVM chains and messages between chains have pages", { viewport: PHONE, expected: LOOKUPS }, async (page) => {
  const { messages } = await api("icm/messages?network=local&pageSize=50");
  const m = messages.find((one) => one.sourceTransaction);
  await open(page, `lookup?network=local&q=${m.messageId}`);
  const found = section(page, "Message between chains");
  await found.locator("tbody tr", { hasText: "Signed" }).waitFor();
  await wide(page);
  await shootAll(page, "icm");
  await open(page, `lookup?network=local&q=${m.sourceTransaction.txHash}`);
  await section(page, "Transaction of an EVM chain").locator("dd a", { hasText: m.messageId }).click();
  await found.locator("tbody tr", { hasText: "Signed" }).waitFor();
  await found.locator("dd a", { hasText: m.from }).click();
  await section(page, "Messages between chains").locator(`a[href$="q=${m.messageId}"]`).waitFor();
  const { transactions: [t] } = await api("chains/99001/transactions?pageSize=1");
  await open(page, `lookup?network=local&q=${t.from.address}`);
  await section(page, "Transactions").locator(`a[href$="q=${t.txHash}"]`).first().waitFor();
  const { nativeTokenBalance } = await api(`chains/99001/addresses/${t.from.address}/balances:getNative`);
  await section(page, "Address").locator("dd", { hasText: nativeTokenBalance.symbol }).waitFor();
  await section(page, "Tokens").waitFor();
  assert.equal(await page.locator("h1").textContent(), "Address");
  await wide(page);
  await shootAll(page, "account");
  // Without the index, the page says what to set.
  await page.route("**/addresses/*/transactions?*", (route) => route.fulfill({ status: 503, contentType: "application/json", body: JSON.stringify({ message: "this instance does not index it; its operator can add address_transactions to networks.NAME.evm_indexes, and the index begins with the next block", statusCode: 503, code: "INDEX_OFF" }) }));
  await page.reload();
  await section(page, "Transactions").locator("p", { hasText: "evm_indexes" }).waitFor();
});

await check("charts have time ranges, and an index at the tip shows its lag", {}, async (page) => {
  await open(page, "charts");
  await loaded.charts(page);
  await page.locator("#tps-span").selectOption("8");
  await page.locator("section p", { hasText: /^8 days/ }).waitFor();
  await open(page, "index");
  const tip = page.locator(".card", { hasText: "At the tip" }).first();
  await tip.locator("dt", { hasText: "Blocks behind" }).waitFor();
  assert.equal(await tip.locator("dt", { hasText: "Blocks a second" }).count(), 0);
});

await check("an alias names its network", {}, async (page) => {
  await open(page, "subnet?network=fuji&id=11111111111111111111111111111111LpoYY");
  await page.locator("section[aria-label=Subnet] dd", { hasText: "60" }).first().waitFor();
  await page.locator("#validators tbody tr").nth(9).waitFor();
  await open(page, "message?network=testnet&number=1");
  await loaded.message(page);
});

await check("the header of every page looks up", { viewport: PHONE, expected: LOOKUPS }, async (page) => {
  const evm = `${origin}/v1/chains/99001`;
  const [transaction] = (await (await fetch(`${evm}/transactions?pageSize=1`)).json()).transactions;
  await open(page, "networks?network=local");
  const look = async (q) => {
    await page.locator("#search input").fill(q);
    await page.keyboard.press("Enter");
    await page.waitForFunction((text) => document.getElementById("query")?.value === text, q);
  };
  await look(transaction.txHash);
  const found = page.locator("section[aria-label='Transaction of an EVM chain']");
  await found.locator("dd", { hasText: transaction.from.address }).waitFor();
  await found.locator("dd", { hasText: /\d NATIVE$/ }).first().waitFor();
  await found.locator("dd", { hasText: /ago · \d{4}-/ }).waitFor();
  await wide(page);
  await shootAll(page, "evm-transaction");
  await found.locator(`a[href*="q=${transaction.blockNumber}&on=99001"]`).click();
  const block = page.locator("section[aria-label='Block of an EVM chain']");
  await block.locator("tbody tr").first().waitFor();
  assert.match(page.url(), new RegExp(`q=${transaction.blockNumber}&on=99001$`));
  await wide(page);
  await look("999999999");
  await section(page, "Nothing").locator("li", { hasText: "999999999" }).first().waitFor();
  const { messages: [newest] } = await (await fetch(`${url}api/messages?network=local&limit=1`)).json();
  await look(newest.messageId);
  await page.locator("section[aria-label='Signed messages'] tbody a", { hasText: "Details" }).click();
  await page.locator("section[aria-label=Message]", { hasText: newest.messageId }).waitFor();
});

await check("the keyboard is enough", {}, async (page) => {
  await open(page, "rounds");
  await loaded.rounds(page);
  await page.locator("#example").waitFor();
  const focused = () => page.evaluate(() => {
    const e = document.activeElement;
    return e.id || e.textContent.trim();
  });
  const ring = () => page.evaluate(() => parseFloat(getComputedStyle(document.activeElement).outlineWidth));
  const tabTo = async (want) => {
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      if ((await focused()) === want) {
        assert.ok((await ring()) >= 2, `${want} has the focus, which does not show`);
        return;
      }
    }
    assert.fail(`Tab does not lead to ${want}`);
  };
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await focused(), await page.evaluate(() => document.getElementById("main").id));
  await tabTo("example");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.id === "message" && document.activeElement.value.startsWith("0x"));
  await tabTo("Sign");
  await page.keyboard.press("Enter");
  await page.locator("#verdict[data-kind=good]").waitFor();
  await page.locator("#tiles .tile[data-reply=signed]").first().waitFor();
  await tabTo("tiles");
  await page.keyboard.press("ArrowRight");
  await page.locator("#detail", { hasText: "NodeID-" }).waitFor();
  const first = await page.locator("#detail").textContent();
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await page.locator("#detail").textContent(), first);
  await tabTo("replay");
  await page.reload();
  await page.locator("#connection[data-state=ready]").waitFor();
  await tabTo("Networks");
  await page.keyboard.press("Enter");
  await page.locator(".meter").first().waitFor();
  assert.equal(await focused(), "main");
});

await check("the switch changes the theme, and it stays", { colorScheme: "light" }, async (page) => {
  await open(page, "networks");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await ground(), "rgb(245, 246, 248)");
  await page.locator("#theme").click(); // light
  await page.locator("#theme").click(); // dark
  assert.equal(await ground(), "rgb(15, 20, 27)");
  await page.reload();
  await page.locator("h1").waitFor();
  assert.equal(await ground(), "rgb(15, 20, 27)");
  await page.locator("#theme").click();
  assert.equal(await ground(), "rgb(245, 246, 248)");
});

await browser.close();
process.stdout.write(JSON.stringify(results));
