// Prints the requests that each method of glacier-sdk makes: a list of {call, method, path, query}, where call is the path
// of the method in the client, path is a template, and query has the names of all parameters that it can send.
import sdk from "@avalabs/glacier-sdk";

const requests = [];
let call;
class Recorder extends sdk.BaseHttpRequest {
  request({ method, url, query }) {
    requests.push({ call, method, path: url, query: Object.keys(query ?? {}) });
  }
}
const client = new sdk.Glacier({}, Recorder);
for (const [name, service] of Object.entries(client)) {
  if (name === "request") continue;
  for (const method of Object.getOwnPropertyNames(Object.getPrototypeOf(service))) {
    if (method === "constructor") continue;
    call = `${name}.${method}`;
    service[method]({});
  }
}
process.stdout.write(JSON.stringify(requests));
