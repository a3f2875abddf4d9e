import { gzipSync } from "node:zlib";
import { afterEach, expect, it } from "vitest";
import { type IntakeFormat, LogIntake } from "./log-intake.ts";

const LINE = '{"level":"audit","kind":"answer","time":"2026-11-25T10:00:00.123Z"}';
const open: LogIntake[] = [];
afterEach(async () => {
  for (const intake of open.splice(0)) await intake.close();
});

async function intake(format: IntakeFormat): Promise<LogIntake> {
  const made = new LogIntake(format, "t");
  await made.start();
  open.push(made);
  return made;
}

const post = async (
  to: LogIntake,
  headers: Record<string, string>,
  body: string | Uint8Array<ArrayBuffer>,
): Promise<number> => (await fetch(to.url, { method: "POST", headers, body })).status;

const NDJSON = { "Content-Type": "application/x-ndjson", Authorization: "Bearer t" };
const DATADOG = { "Content-Type": "application/json", "DD-API-KEY": "t" };
const SPLUNK = {
  "Content-Type": "application/json",
  Authorization: "Splunk t",
  "X-Splunk-Request-Channel": crypto.randomUUID(),
};
const entry = (more: object = {}) => ({
  ddsource: "sallyport",
  service: "sallyport",
  timestamp: Date.parse("2026-11-25T10:00:00.123Z"),
  message: LINE,
  ...more,
});

it("a generic intake accepts lines with the token, plain or compressed", async () => {
  const to = await intake("generic");
  expect(await post(to, NDJSON, `${LINE}\n`)).toBe(200);
  expect(await post(to, { ...NDJSON, "Content-Encoding": "gzip" }, gzipSync(`${LINE}\n${LINE}\n`))).toBe(200);
  expect(to.lines).toHaveLength(3);
  expect(await post(to, { ...NDJSON, Authorization: "Bearer u" }, `${LINE}\n`)).toBe(403);
  expect(await post(to, { ...NDJSON, "Content-Type": "text/plain" }, `${LINE}\n`)).toBe(415);
  expect(await post(to, NDJSON, LINE)).toBe(400);
  expect(await post(to, NDJSON, '{"level":"info"}\n')).toBe(400);
  expect(to.lines).toHaveLength(3);
});

it("a Datadog intake accepts arrays of entries with the key", async () => {
  const to = await intake("datadog");
  expect(await post(to, DATADOG, JSON.stringify([entry()]))).toBe(202);
  expect(await post(to, { ...DATADOG, "DD-API-KEY": "u" }, JSON.stringify([entry()]))).toBe(403);
  expect(await post(to, DATADOG, JSON.stringify(entry()))).toBe(400);
  expect(await post(to, DATADOG, JSON.stringify([entry({ host: "h" })]))).toBe(400);
  expect(await post(to, DATADOG, JSON.stringify([entry({ timestamp: 1 })]))).toBe(400);
  expect(await post(to, DATADOG, JSON.stringify(Array.from({ length: 1_001 }, () => entry())))).toBe(400);
  expect(to.lines).toHaveLength(1);
});

it("a Splunk intake accepts events with token and channel, and acknowledges each once", async () => {
  const to = await intake("splunk");
  const time = Date.parse("2026-11-25T10:00:00.123Z") / 1_000;
  const timed = `{"time":${time},"source":"sallyport","sourcetype":"_json","event":${LINE}}`;
  expect(await post(to, SPLUNK, timed)).toBe(200);
  expect(await post(to, { ...SPLUNK, Authorization: "Bearer t" }, timed)).toBe(403);
  expect(await post(to, { ...SPLUNK, "X-Splunk-Request-Channel": "c" }, timed)).toBe(400);
  to.ackAfter = 1;
  expect(await post(to, SPLUNK, timed)).toBe(200);
  expect(to.lines).toHaveLength(1);
  const ask = async () => {
    const url = to.url.replace("/event", "/ack");
    return (await fetch(url, { method: "POST", headers: SPLUNK, body: '{"acks":[0]}' })).json();
  };
  expect([await ask(), await ask(), await ask()]).toEqual([
    { acks: { "0": false } },
    { acks: { "0": true } },
    { acks: { "0": false } },
  ]);
  expect(to.lines).toHaveLength(2);
});
