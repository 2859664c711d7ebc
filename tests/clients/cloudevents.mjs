// SPDX-License-Identifier: Apache-2.0
// The SDK of CloudEvents against the daemon: binary mode, structured mode, and a batch.
import { CloudEvent, HTTP, Mode, emitterFor, httpTransport } from "cloudevents";

const url = process.argv[2] + "/v1/events";
// The SDK writes headers as they are: what is not ASCII is sent as Latin-1, which the binding does not allow.
const event = (id, more = {}) => new CloudEvent({
  id, source: "/gateway", type: "usage", subject: "customer-1", namespace: "team",
  time: "2026-03-04T05:06:07.123Z", data: { input_tokens: 12, text: "ü" }, ...more,
});

for (const mode of [Mode.BINARY, Mode.STRUCTURED]) {
  const emit = emitterFor(httpTransport(url), { mode });
  for (const more of [{}, {}, { id: "ce-both", datacontenttype: "application/json" },
                      { id: `ce-${mode}-name`, subject: "Müller" }]) {
    const sent = event(`ce-${mode}`, more);
    const answer = await emit(sent);
    console.log(JSON.stringify({ mode, id: sent.id, body: JSON.parse(answer.body) }));
  }
}
const text = HTTP.binary(event("ce-text", { datacontenttype: "text/plain", data: "plain ü" }));
let answer = await fetch(url, { method: "POST", headers: text.headers, body: text.body });
console.log(JSON.stringify({ mode: "text", status: answer.status }));
const batch = [event("ce-batch-1"), event("ce-batch-2")].map((e) => JSON.parse(HTTP.structured(e).body));
answer = await fetch(url, {
  method: "POST", headers: { "content-type": "application/cloudevents-batch+json" }, body: JSON.stringify(batch),
});
console.log(JSON.stringify({ mode: "batch", status: answer.status, body: await answer.json() }));
