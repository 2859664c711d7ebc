// SPDX-License-Identifier: Apache-2.0
// The SDK of OpenMeter against the daemon's address: one event, many, and one that is refused.
import { OpenMeter } from "@openmeter/sdk";

const client = new OpenMeter({ baseUrl: process.argv[2] });
const event = (id, tokens) => ({
  id, source: "gateway", type: "tokens", subject: "customer-1", time: new Date("2026-03-04T05:06:07Z"),
  data: { input_tokens: tokens },
});

async function attempt(what, events) {
  try {
    await client.events.ingest(events);
    console.log(JSON.stringify({ what, done: true }));
  } catch (error) {
    console.log(JSON.stringify({ what, done: false, name: error.name, status: error.statusCode ?? error.status,
                                 message: String(error.message) }));
  }
}

await attempt("one", event("om-1", 12));
await attempt("again", event("om-1", 12));
await attempt("many", [1, 2, 3].map((n) => event(`om-many-${n}`, n)));
await attempt("conflict", event("om-1", 13));
await attempt("one bad of two", [event("om-2", 1), { ...event("om-3", 1), subject: "" }]);
