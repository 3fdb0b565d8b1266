// Compiles the contracts of this folder to <Name>.json (ABI and bytecode), which
// are committed so that the tests need no compiler. To do it again:
//
//   npm install --no-save solc@0.8.30 && node compile.mjs
import fs from "node:fs";
import { createRequire } from "node:module";

const solc = createRequire(import.meta.url)("solc");
const sources = fs.readdirSync(".").filter((f) => f.endsWith(".sol"));
const output = JSON.parse(solc.compile(JSON.stringify({
  language: "Solidity",
  sources: Object.fromEntries(sources.map((f) => [f, { content: fs.readFileSync(f, "utf8") }])),
  settings: {
    evmVersion: "shanghai",
    optimizer: { enabled: true, runs: 200 },
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
  },
})));
for (const e of output.errors ?? []) console.error(e.formattedMessage);
if ((output.errors ?? []).some((e) => e.severity === "error")) process.exit(1);
for (const file of Object.values(output.contracts)) {
  for (const [name, c] of Object.entries(file)) {
    if (c.evm.bytecode.object === "") continue;
    fs.writeFileSync(`${name}.json`, JSON.stringify({ abi: c.abi, bytecode: "0x" + c.evm.bytecode.object }, null, 1) + "\n");
  }
}
