// Opens a page of another site in a browser and has it try to reach the service. Standard input is {page, chromium};
// standard output is what the page's attempts ended with.
import { chromium } from "playwright-core";

let input = "";
for await (const chunk of process.stdin) input += chunk;
const { page: url, chromium: executablePath } = JSON.parse(input);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"] });
try {
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForFunction(() => window.results, null, { timeout: 60_000 });
  process.stdout.write(JSON.stringify(await page.evaluate(() => window.results)));
} finally {
  await browser.close();
}
