// Calls operations through an official client. chainkit and avacloud-sdk always validate responses, glacier-sdk never does.
// Standard input is {url, sdk, calls: [{name, path, request, list}]}: sdk is avacloud-sdk, glacier-sdk, or empty for
// chainkit, path is the method's in the client, list the member of a page that has its items, if there are pages. Standard
// output is a list of {name, pages, error}: each page as the client hands it out.
import avacloud from "@avalabs/avacloud-sdk";
import glacier from "@avalabs/glacier-sdk";
import { Avalanche } from "@avalanche-sdk/chainkit";
import { webhookAddressActivityResponseFromJSON } from "@avalanche-sdk/chainkit/models/components";
import { validateSignature } from "@avalanche-sdk/chainkit/utils/index.js";

let input = "";
for await (const chunk of process.stdin) input += chunk;
const { url, sdk, calls } = JSON.parse(input);

// The client reports its use to its makers unless told not to; a test talks to
// nobody but the server under test.
const fetchAnywhere = globalThis.fetch;
globalThis.fetch = (resource, options) => {
  const target = new URL(resource.url ?? resource);
  if (target.origin !== new URL(url).origin) throw new Error(`the test must not call ${target.origin}`);
  return fetchAnywhere(resource, options);
};
const options = { apiKey: "any", network: "fuji", retryConfig: { strategy: "none" } };
const clients = {
  "avacloud-sdk": () => new avacloud.AvaCloudSDK({ ...options, serverURL: url }),
  "glacier-sdk": () => new glacier.Glacier({ BASE: url }),
};
const client = clients[sdk]?.() ?? new Avalanche({ ...options, enableTelemetry: false });
// pagesOf yields the pages of a list.
async function* pagesOf(target, method, request, ...rest) {
  if (sdk !== "glacier-sdk") {
    for await (const page of await target[method](request, ...rest)) yield page.result;
    return;
  }
  for (let pageToken; ; ) {
    const page = await target[method]({ ...request, pageToken });
    yield page;
    if (!(pageToken = page.nextPageToken)) return;
  }
}
// The path receive stands for what a receiver of a webhook does: {secret, signature, body} gives whether the signature
// is valid and the body a message.
console.log = () => {}; // validateSignature writes to standard output
const receive = ({ secret, signature, body }) => ({
  signed: validateSignature(secret, signature, JSON.parse(body)),
  message: webhookAddressActivityResponseFromJSON(body).ok,
});
const results = [];
for (const { name, path, request, list } of calls) {
  const result = { name, pages: [] };
  try {
    if (path === "receive") {
      result.pages.push(receive(request));
      results.push(result);
      continue;
    }
    const steps = path.split(".");
    const method = steps.pop();
    const target = steps.reduce((object, step) => object?.[step], client);
    if (typeof target?.[method] !== "function") {
      result.error = { type: "NoMethod", message: path };
      results.push(result);
      continue;
    }
    const parameters = request === null ? [] : [request]; // some methods have no request
    const overrides = { serverURL: url, retries: { strategy: "none" } };
    if (!list) {
      result.pages.push(await target[method](...parameters, overrides));
    } else {
      for await (const page of pagesOf(target, method, ...parameters, overrides)) result.pages.push(page);
    }
  } catch (error) {
    result.error = { type: error.constructor.name, message: String(error.message), status: error.statusCode };
  }
  results.push(result);
}
process.stdout.write(JSON.stringify(results));
