import { env, exports } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { eventLog } from "../../src/rpc/stubs.ts";
import { randomFrom } from "../crash/random.ts";
import { amount } from "../support/long.ts";
import { allocation, deployment, evaluation, job, node, nodePool, send, service, uuid } from "./reports.ts";
import { dump } from "./stored-rows.ts";
import { append, closeAll, event, noReaders, openStream, state } from "./streams.ts";

/* Malformed requests: each is refused with the field's name or understood, never fails, and leaves nothing behind. */

afterEach(closeAll);

const SEED = Date.now() % 1_000_000;
const QUERIES = amount(600, 10_000);
const BODIES = amount(300, 3_000);
const AT_ONCE = 25;
const RESENT = 300;

const random = randomFrom(SEED);
const below = (most: number): number => Math.floor(random() * most);
const pick = <T>(items: readonly T[]): T => items[below(items.length)] as T;
const many = <T>(most: number, make: () => T): T[] => Array.from({ length: below(most + 1) }, make);

const ask = (query: string, headers: Record<string, string> = {}, signal: AbortSignal | null = null) =>
  exports.default.fetch(`https://x/v1/event/stream?${query}`, {
    headers: { "X-Orch-Token": "root", ...headers },
    signal,
  });

const SSE = { Accept: "text/event-stream" };

const digits = "9".repeat(400);
const INDEXES = [
  "-",
  "+",
  "--1",
  "+-1",
  "1 1",
  "1%00",
  "1;",
  "0b1",
  "1n",
  "１",
  "latest",
  "null",
  "%F0%9F%98%80",
  digits,
  `-${digits}`,
  "x&index=1",
  "18446744073709551616",
  "1.0",
  "1,0",
  "%09",
];
const UNMEANT: readonly (readonly [query: string, headers: Record<string, string>, name: string])[] = [
  ...INDEXES.map((index) => [`index=${index}`, {}, "index"] as const),
  ...["::", "Job:a:", "*&topic=*:*:*", "a:".repeat(5_000), "%3A%3A"].map(
    (topic) => [`topic=${topic}`, {}, "topic"] as const,
  ),
  ...["2", "yes", "true%20", "null", "%00"].map((errors) => [`errors=${errors}`, {}, "errors"] as const),
  ...["x", "-", "-1", "-5", "1.5", "1e3", "0x10", "18446744073709551616", digits, "1, 2"].map(
    (id) => ["", { ...SSE, "Last-Event-ID": id }, "Last-Event-ID"] as const,
  ),
];

it("an invalid query is refused with its parameter's name, and opens no stream", async () => {
  for (const [query, headers, name] of UNMEANT) {
    const refused = await ask(query, headers);
    const text = await refused.text();
    const context = `${query.slice(0, 80)} ${JSON.stringify(headers).slice(0, 80)}`;
    expect([refused.status, refused.headers.get("Content-Type")], context).toEqual([400, "text/plain; charset=utf-8"]);
    expect(text, context).toContain(name);
    expect(text.length, context).toBeLessThan(500);
    expect((await state()).readers, context).toBe(0);
  }
});

it("any Accept header gets JSON lines, or server-sent events if it prefers nothing else", async () => {
  const [lines, events] = ["application/json", "text/event-stream"];
  for (const [accept, type] of [
    ["application/json", lines],
    ["*/*", lines],
    ["", lines],
    [";;;,,,=q", lines],
    ["text/html", lines],
    ["text/event-stream;q=x", lines],
    ["text/event-stream;q=0", lines],
    ["text/event-stream;q=-1", lines],
    ["text/event-stream, application/json", lines],
    ["text/event-stream;q=0.5, application/json", lines],
    ["text/event-stream;q=0.5, */*", lines],
    ["TEXT/EVENT-STREAM", events],
    ["text/event-stream, */*;q=0.1", events],
    [`${"a/b,".repeat(3_000)}text/event-stream`, events],
  ] as const) {
    const { response, close } = await openStream("", { headers: { Accept: accept } });
    expect([accept.slice(-60), response.status, response.headers.get("Content-Type")]).toEqual([
      accept.slice(-60),
      200,
      type,
    ]);
    await close();
  }
});

const TEXTS = [
  "",
  "*",
  "Job",
  "Node",
  "default",
  "prod",
  "web",
  "true",
  "false",
  "0",
  "1",
  "-1",
  "5",
  "+2",
  "99999",
  "a:b",
  "a:b:c",
  ":",
  "::",
  "%",
  "%zz",
  "%00",
  "%0d%0a",
  "é",
  "日本",
  "&",
  "=",
  "#",
  "?",
  " ",
  "+",
  '"',
  "\\",
  "__proto__",
  "constructor",
  "NaN",
  "1e9",
  "0x1",
  "9".repeat(30),
  "x".repeat(3_000),
  "\ud800",
  "'; DROP TABLE lines--",
];
const PARAMETERS = [
  "index",
  "topic",
  "topic",
  "namespace",
  "errors",
  "INDEX",
  "filter",
  "per_page",
  "pretty",
  "region",
  "",
];
const HEADERS = ["Accept", "Last-Event-ID", "Range", "If-None-Match", "X-Nomad-Namespace", "Accept-Encoding", "Cookie"];
const VALUES = [
  "text/event-stream",
  "application/json",
  "*/*",
  "text/event-stream;q=0.5, */*;q=0.4",
  "gzip",
  "bytes=0-1",
  "*",
  "",
  "0",
  "7",
  "-1",
  "x",
  "é",
  "a,b;c=d",
  ";",
  ",,,",
  "q=1",
  "9".repeat(30),
  "x".repeat(2_000),
  "\t",
  "\u00ff",
];

function randomQuery(): string {
  const parts = many(5, () => `${pick(PARAMETERS)}${random() < 0.9 ? "=" : ""}${encoded(pick(TEXTS))}`);
  return parts.join(pick(["&", "&", "&", "&&", ";"]));
}

/** As a careful client writes it, or as it comes. */
const encoded = (text: string): string => (random() < 0.5 ? encodeURIComponent(text.toWellFormed()) : text);

const randomHeaders = (): Record<string, string> => Object.fromEntries(many(3, () => [pick(HEADERS), pick(VALUES)]));

/** Whether a text is an index of 64 bits. */
const isIndex = (text: string): boolean => /^[0-9]{1,100}$/.test(text) && BigInt(text) < 2n ** 64n;

/** Whether the parameters that mean something here can be meant (docs/guides/events.md). */
function isMeant(url: string): boolean {
  const { searchParams } = new URL(url);
  const index = (searchParams.get("index") ?? "").replace(/^[ +]/, "");
  const errors = (searchParams.get("errors") ?? "").toLowerCase();
  const isNumber = index === "" ? (searchParams.get("index") ?? "") === "" : isIndex(index.replace(/^-/, ""));
  return (
    isNumber &&
    searchParams.getAll("topic").every((topic) => topic.split(":").length <= 2) &&
    ["", "0", "1", "f", "t", "false", "true"].includes(errors)
  );
}

it(`${QUERIES} random queries and headers are refused by name or answered, never fail or hang, and leave no reader (seed ${SEED})`, async () => {
  await append([event()], [event({ Key: "b" })]);
  const counts = new Map<number, number>();
  const one = async () => {
    const [query, headers] = [randomQuery(), randomHeaders()];
    const context = JSON.stringify({ SEED, query, headers });
    const controller = new AbortController();
    const answer = await ask(query, headers, controller.signal);
    counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1);
    const sent = headers["Accept"]?.startsWith("text/event-stream") ? headers["Last-Event-ID"]?.trim() : undefined;
    const meant = isMeant(`https://x/?${query}`) && (sent === undefined || sent === "" || isIndex(sent));
    expect(answer.status, context).toBe(meant ? 200 : 400);
    if (answer.status === 400) {
      expect(await answer.text(), context).toMatch(/index|topic|errors|Last-Event-ID/);
      return;
    }
    // The first chunk is sent at once, for any query.
    const reader = answer.body?.getReader();
    expect((await reader?.read())?.done, context).toBe(false);
    if (random() < 0.5) controller.abort();
    else await reader?.cancel();
  };
  for (let done = 0; done < QUERIES; done += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, one));
  for (const status of [200, 400]) expect(counts.get(status)).toBeGreaterThan(QUERIES / 20);
  await noReaders();
}, 180_000);

// ---- bodies of reports ----

const ODD: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  "",
  "x",
  "\u0000",
  "\ud800",
  "日本",
  "x".repeat(300),
  "x".repeat(5_000),
  [],
  {},
  [null],
  [[]],
  { a: 1 },
  [{}],
  { toString: 1 },
  "2026-01-01T00:00:00Z",
  "*",
  "running",
  uuid(9),
];
const ODD_KEYS = [
  "__proto__",
  "constructor",
  "toString",
  "",
  "Deleted",
  "ID",
  "Namespace",
  "x",
  "日本",
  "Events",
  "length",
];

const reports = () => [job(), allocation(), evaluation(), deployment(), service(), nodePool(), node()];

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Changes one place of a value: another value, one less, one more. */
function mutated(value: Json): Json {
  if (value === null || typeof value !== "object" || random() < 0.15) return pick(ODD) as Json;
  if (Array.isArray(value)) {
    const copy = [...value];
    const at = below(copy.length);
    const dice = random();
    if (copy.length === 0 || dice < 0.2) copy.push(pick(ODD) as Json);
    else if (dice < 0.35) copy.splice(at, 1);
    else copy[at] = mutated(copy[at] as Json);
    return copy;
  }
  const entries = Object.entries(value);
  const at = below(entries.length);
  const [key, inner] = entries[at] ?? ["x", null];
  const dice = random();
  if (dice < 0.15) entries.push([pick(ODD_KEYS), pick(ODD) as Json]);
  else if (dice < 0.25) entries.splice(at, 1);
  else if (dice < 0.3) entries[at] = [pick(ODD_KEYS), inner];
  else entries[at] = [key, mutated(inner)];
  return Object.fromEntries(entries);
}

/** Texts that no object produces: duplicate keys, huge numbers, a prototype, depth, a truncated text. */
function textMutated(text: string): string {
  const at = below(text.length);
  return pick([
    () => text.slice(0, at),
    () => text.slice(at),
    () =>
      text.slice(0, at) +
      pick(['"', "{", "}", "[", "]", ",", ":", "\u0000", "\ud83d", "\\", "\n", "\ufeff"]) +
      text.slice(at),
    () => text.replace(/"ID":/, '"ID":"twice","ID":'),
    () => text.replace(/"Payload":/, '"Payload":{},"Payload":'),
    () => text.replace(/"Payload":\{/, '"Payload":{"__proto__":{"ID":"x"},'),
    () => text.replace(/:"[a-z]\w*"/, `:${pick(["1e999", "-0", "00", "9".repeat(400), "NaN", "0.1e-400", "nul"])}`),
    () => text.replace(/:"[a-z]\w*"/, `:${"[".repeat(below(200))}${"]".repeat(below(200))}`),
    () => text.replace(/:"[a-z]\w*"/, `:"${"\\u0000é".repeat(below(20_000))}"`),
    () => text + pick([text, "\n", ",", "null", "\u2028"]),
    () => text.replaceAll(",", "\n,"),
    () => text.replace(/"(\w+)":/, (_all, name: string) => `"${name.toLowerCase()}":`),
  ])();
}

function randomBody(): string {
  let value: Json = many(3, () => pick(reports()) as unknown as Json).concat([pick(reports()) as unknown as Json]);
  if (random() < 0.1) value = { Index: pick([7, -1, "7", null]), Events: value };
  for (let count = below(3); count > 0; count--) value = mutated(value);
  const text =
    Array.isArray(value) && random() < 0.3
      ? value.map((each) => JSON.stringify(each)).join("\n")
      : JSON.stringify(value, null, random() < 0.1 ? 1 : 0);
  return random() < 0.4 ? textMutated(text ?? "") : (text ?? "");
}

const randomReportQuery = (): string =>
  pick([
    "",
    "",
    "",
    `?namespace=${encodeURIComponent(pick(TEXTS).toWellFormed())}`,
    "?source=s",
    `?source=s&source_index=${encodeURIComponent(pick(TEXTS).toWellFormed())}`,
  ]);

/** Start of an error message: the parameter's name. */
const NAMED =
  /^(line \d+: )?(event \d+|request body|Request body|namespace|source|source_index|Index|Events|unknown field|must be a line of a stream)\b/;

it(`${BODIES} mutated reports are stored as one line or refused without an effect; none fails (seed ${SEED})`, async () => {
  const counts = new Map<number, number>();
  const refused: [body: string, query: string][] = [];
  /** @returns the index of the line that it became; null when it changed nothing */
  const one = async (): Promise<number | null> => {
    const [body, query] = [randomBody(), randomReportQuery()];
    const answer = await send(body, query);
    counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1);
    const context = JSON.stringify({ SEED, query, body: body.slice(0, 2_000), answer: answer.text.slice(0, 300) });
    expect([200, 400, 409, 413], context).toContain(answer.status);
    if (answer.status === 200) return answer.body.Applied ? answer.body.Index : null;
    expect(answer.text, context).toMatch(NAMED);
    if (refused.length < RESENT) refused.push([body, query]);
    return null;
  };
  // Before the first line the newest index reads 1, too.
  await append([event()]);
  for (let done = 0; done < BODIES; done += AT_ONCE) {
    const before = await eventLog(env).newest();
    const told = (await Promise.all(Array.from({ length: AT_ONCE }, one))).filter((index) => index !== null);
    const after = await eventLog(env).newest();
    // Each that was taken is one line, and nothing else is a line.
    const indexes = Array.from({ length: after - before }, (_, at) => before + 1 + at);
    expect(told.sort((a, b) => a - b)).toEqual(indexes);
  }
  // No row anywhere is another one after all that was refused has been sent again.
  const stored = await dump();
  for (const [body, query] of refused) expect((await send(body, query)).status).toBeGreaterThanOrEqual(400);
  expect(await dump()).toEqual(stored);
  for (const status of [200, 400]) expect(counts.get(status), JSON.stringify([...counts])).toBeGreaterThan(BODIES / 20);
}, 180_000);
