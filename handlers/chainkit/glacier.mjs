// Prints the requests that each method of glacier-sdk makes: a list of {method, path, query}, where path is a template
// and query has the names of all parameters that it can send.
import sdk from "@avalabs/glacier-sdk";

const requests = [];
class Recorder extends sdk.BaseHttpRequest {
  request({ method, url, query }) {
    requests.push({ method, path: url, query: Object.keys(query ?? {}) });
  }
}
const client = new sdk.Glacier({}, Recorder);
for (const [name, service] of Object.entries(client)) {
  if (name === "request") continue;
  for (const method of Object.getOwnPropertyNames(Object.getPrototypeOf(service))) {
    if (method !== "constructor") service[method]({});
  }
}
process.stdout.write(JSON.stringify(requests));
