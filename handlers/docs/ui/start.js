import { fill } from "./examples.js";

// The theme is the console's; without one, the system decides.
function darken() {
  let theme;
  try {
    theme = localStorage.getItem("quorate.theme");
  } catch {
    // Without storage the system decides.
  }
  const dark = theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.classList.toggle("dark-mode", dark);
}
darken();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", darken);

// headers returns the headers of a request to show, without those that browsers add.
const headers = (request) => [...(request.get("headers")?.entries() ?? [])];

function javaScript(request) {
  const options = [];
  if (request.get("method") !== "GET") options.push(`  method: ${JSON.stringify(request.get("method"))},`);
  if (headers(request).length > 0) options.push(`  headers: ${JSON.stringify(Object.fromEntries(headers(request)))},`);
  if (request.get("body")) options.push(`  body: ${JSON.stringify(request.get("body"))},`);
  const rest = options.length > 0 ? `, {\n${options.join("\n")}\n}` : "";
  return `const response = await fetch(${JSON.stringify(request.get("url"))}${rest});\nconsole.log(response.status, await response.json());`;
}

function go(request) {
  const body = request.get("body") ? `strings.NewReader(${JSON.stringify(request.get("body"))})` : "nil";
  return [
    `request, err := http.NewRequest(${JSON.stringify(request.get("method"))}, ${JSON.stringify(request.get("url"))}, ${body})`,
    "if err != nil {\n\treturn err\n}",
    ...headers(request).map(([name, value]) => `request.Header.Set(${JSON.stringify(name)}, ${JSON.stringify(value)})`),
    "response, err := http.DefaultClient.Do(request)",
    "if err != nil {\n\treturn err\n}",
    "defer response.Body.Close()",
  ].join("\n");
}

const source = await (await fetch("docs/openapi.json")).json();
window.ui = SwaggerUIBundle({
  spec: await fill(source),
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  requestSnippetsEnabled: true,
  requestSnippets: {
    generators: {
      curl_bash: { title: "curl", syntax: "bash" },
      javascript: { title: "JavaScript", syntax: "javascript" },
      go: { title: "Go", syntax: "go" },
    },
    languages: ["curl_bash", "javascript", "go"],
    defaultExpanded: true,
  },
  plugins: [{ fn: { requestSnippetGenerator_javascript: javaScript, requestSnippetGenerator_go: go } }],
  validatorUrl: null, // nothing leaves for another host
});
