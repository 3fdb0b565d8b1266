// Drives a browser over the console of a running service. Standard input is {url,
// chromium, address, validator, subnet, shots}: shots is a folder for screenshots, or empty. Standard
// output is a list of {name, error}, error being empty where a check passed.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";

let input = "";
for await (const chunk of process.stdin) input += chunk;
const { url, chromium: executablePath, address, validator, subnet, shots } = JSON.parse(input);
const origin = new URL(url).origin;
const PAGES = ["rounds", "networks", "index", "charts", "lookup"];
const DESK = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
const PATIENCE = 120_000;

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
  try {
    await f(page);
    assert.deepEqual(wrong, [], "on the side");
    results.push({ name, error: "" });
  } catch (error) {
    results.push({ name, error: `${error.message}${wrong.length ? `\nbesides: ${wrong.join("; ")}` : ""}` });
  } finally {
    await context.close();
  }
}

async function open(page, path) {
  await page.goto(`${url}#/${path}`);
  await page.locator("h1").waitFor();
  await page.locator("#connection[data-state=live]").waitFor();
}

const loaded = {
  rounds: (page) => page.locator("#network option").first().waitFor({ state: "attached" }),
  networks: (page) => page.locator(".meter").first().waitFor(),
  index: (page) => page.locator("[role=progressbar]").first().waitFor(),
  charts: async (page) => {
    await page.locator("#latency canvas").waitFor();
    await page.locator("#tps canvas").waitFor();
  },
  lookup: (page) => page.locator("#lookup-network option").first().waitFor({ state: "attached" }),
};

async function shoot(page, name) {
  if (!shots) return;
  await page.waitForTimeout(300); // a figure of two may still be on its way to the screen
  await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
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
};

for (const colorScheme of ["light", "dark"]) {
  for (const viewport of [DESK, PHONE]) {
    const on = viewport === DESK ? "desk" : "phone";
    await check(`pages, ${colorScheme}, ${on}`, { colorScheme, viewport }, async (page) => {
      const grounds = new Set();
      for (const path of PAGES) {
        await open(page, path);
        await loaded[path](page);
        await wide(page);
        grounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
        assert.equal(await page.locator("nav a[aria-current=page]").getAttribute("href"), `#/${path}`);
        if (path === "charts" && on === "desk") await shoot(page, `${path}-${colorScheme}`);
        if ((path === "networks" || path === "index") && on === "desk" && colorScheme === "light") await shoot(page, path);
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
      await shoot(page, `rounds-${colorScheme}${on === "phone" ? "-phone" : ""}`);
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
  const { message } = await (await fetch(`${url}api/example?network=fuji`)).json();
  const response = await fetch(`${origin}/v1/signatureAggregator/fuji/aggregateSignatures`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ message }) });
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

// Whether there is a node surface is the service's affair.
await check("an address, a validator and a subnet are looked up", { expected: ["/ext/bc/"] }, async (page) => {
  await open(page, "lookup");
  await loaded.lookup(page);
  await page.locator("#query").fill(address);
  await page.locator("button[type=submit]").click();
  const row = page.locator("section[aria-label='P-Chain balances'] tbody tr", { hasText: /Unlocked\s*AVAX/ }).first();
  await row.waitFor();
  assert.match(await row.textContent(), /AVAX[\d,]+/);
  await page.locator("section[aria-label='P-Chain UTXOs'] tbody tr").first().waitFor();
  await page.locator("section[aria-label='Staking transactions'] tbody tr, section[aria-label='Staking transactions'] p").first().waitFor();
  await shoot(page, "lookup");
  await page.locator("#query").fill(validator);
  await page.keyboard.press("Enter");
  await page.locator("section[aria-label='Delegations to it'] tbody tr").first().waitFor();
  await page.locator("#query").fill(subnet);
  await page.keyboard.press("Enter");
  await page.locator("section[aria-label='Subnet'] dl", { hasText: "Created" }).waitFor();
  await page.locator("#query").fill("<img src=x onerror=alert(1)>");
  await page.keyboard.press("Enter");
  await page.locator("#results", { hasText: "This is no address" }).waitFor();
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
  await page.locator("#connection[data-state=live]").waitFor();
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
