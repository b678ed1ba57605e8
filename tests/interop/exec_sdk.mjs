// The official TypeScript SDK drives `exec` of a program: ours, or Codex itself.
// Says `works: WHAT` for each thing that does; the first one that does not ends it.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const { Codex } = await import(pathToFileURL(process.env.SDK).href);
const work = process.env.TURNLANE_WORK;
const client = () => new Codex({ codexPathOverride: process.env.TURNLANE });
const options = { workingDirectory: work, skipGitRepoCheck: true };
const works = (what) => console.log(`works: ${what}`);

async function streamed(thread, input, more) {
  const events = [];
  for await (const event of (await thread.runStreamed(input, more)).events) events.push(event);
  return events;
}

// A small picture that is one.
const picture = path.join(work, "dot.png");
fs.writeFileSync(
  picture,
  Buffer.from(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "base64",
  ),
);

const thread = client().startThread(options);
const first = await thread.run("hello");
assert.equal(first.finalResponse, "you said hello");
assert.ok(first.usage.input_tokens > 0);
const id = thread.id;
assert.ok(id);
works("start and run");

const second = await thread.run("again");
assert.equal(second.finalResponse, "you said again");
assert.equal(thread.id, id);
assert.ok(second.usage.input_tokens > first.usage.input_tokens, "usage is the thread's total");
works("run twice");

const resumed = client().resumeThread(id, options);
assert.equal((await resumed.run("from another client")).finalResponse, "you said from another client");
assert.equal(resumed.id, id);
works("resume from a new client");

// A warning about the configuration may stand before the turn.
const warning = (event) => event.type === "item.completed" && event.item.type === "error";
const all = await streamed(client().startThread(options), "run echo 4711");
const events = all.filter((event) => !warning(event));
assert.deepEqual(
  events.map((event) => [event.type, event.item?.type]),
  [
    ["thread.started", undefined],
    ["turn.started", undefined],
    ["item.started", "command_execution"],
    ["item.completed", "command_execution"],
    ["item.completed", "agent_message"],
    ["turn.completed", undefined],
  ],
);
assert.equal(events[3].item.aggregated_output.trim(), "4711");
assert.equal(events[3].item.exit_code, 0);
assert.deepEqual(Object.keys(events[1]), ["type"]);
assert.equal(Object.keys(events[5].usage).length, 5);
works("the exact sequence of events");

const schema = {
  type: "object",
  properties: { answer: { type: "integer" } },
  required: ["answer"],
  additionalProperties: false,
};
const json = await client().startThread(options).run("answer as json", { outputSchema: schema });
assert.deepEqual(JSON.parse(json.finalResponse), { answer: 42 });
works("schema");

const seeing = client().startThread(options);
const look = [
  { type: "text", text: "count the pictures" },
  { type: "local_image", path: picture },
];
assert.equal((await seeing.run(look)).finalResponse, "1 pictures");
assert.equal((await seeing.run(look)).finalResponse, "2 pictures");
works("images on the first and a resumed turn");

const abort = new AbortController();
const aborted = client().startThread(options);
const waiting = (async () => {
  for await (const event of (await aborted.runStreamed("wait", { signal: abort.signal })).events) {
    if (event.type === "turn.started") abort.abort();
  }
})();
await assert.rejects(waiting, (error) => error.name === "AbortError");
works("abort");

const broken = client().startThread(options);
for await (const event of (await broken.runStreamed("wait")).events) {
  if (event.type === "turn.started") break;
}
works("break out of the loop");

const long = "grüße 🌍 ".repeat(20_000);
const measured = await client().startThread(options).run(`measure ${long}`);
assert.equal(measured.finalResponse, `${Buffer.byteLength(long)} bytes`);
works("a prompt of 200 kB");

const answer = await client().startThread(options).run("answer at length");
assert.equal(answer.finalResponse, "line\u2028".repeat(50_000));
works("an answer of 300 kB with U+2028");

await assert.rejects(client().startThread(options).run("fail"), /./);
const failing = await streamed(client().startThread(options), "fail").catch((error) => error);
assert.match(String(failing), /exited with code 1/);
works("failures");

const answers = await Promise.all(
  [1, 2, 3, 4].map(async (n) => (await client().startThread(options).run(`number ${n}`)).finalResponse),
);
assert.deepEqual(answers, [1, 2, 3, 4].map((n) => `you said number ${n}`));
works("four threads at once");
