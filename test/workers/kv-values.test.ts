import { beforeEach, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { get, mountKv, patch, put } from "./client.ts";

/** docs/internals/wire/vault.md, KV version 2: what may be inside `data`, and how exactly it comes back. */

beforeEach(async () => {
  await mountKv();
});

/** Writes JSON text as data and answers the JSON text that a read gives back. */
async function roundTrip(text: string): Promise<string> {
  const written = await put("/v1/kv/data/a", `{"data":${text}}`);
  expect(written.status, written.text).toBe(200);
  const read = (await get("/v1/kv/data/a")).text;
  const start = read.indexOf('"data":{"data":') + '"data":{"data":'.length;
  return read.slice(start, read.indexOf(',"metadata":{"created_time"'));
}

itRows([
  '{"beyond":9007199254740993,"negative":-9007199254740993}',
  '{"int64":9223372036854775807,"uint64":18446744073709551615,"huge":123456789012345678901234567890123456789}',
  '{"price":1.10,"one":1.0,"pi":3.14159265358979323846264338327950288}',
  '{"zero":-0,"zeros":-0.0,"plain":0}',
  '{"infinite":1e400,"tiny":1e-400,"upper":1E5,"plus":1e+5,"long":1.50e-10}',
  '{"nested":{"list":[1.10,[2.20,{"n":10000000000000000000000}]]}}',
])("returns every number verbatim: %s", async (text) => {
  expect(await roundTrip(text)).toBe(text);
});

itRows([
  "{}",
  '{"a":{},"b":[],"c":null,"d":true,"e":false,"f":""}',
  '{"unicode":"snow ☃ 🔑 Ω","escapes":"\\" \\\\ \\n \\u0000 \\u001f"}',
  '{"":"empty key","a.b":"dot","a/b":"slash","sp ace":" "}',
  '{"looks":"1.10","like":"9007199254740993"}',
])("returns any JSON value: %s", async (text) => {
  expect(await roundTrip(text)).toBe(text);
});

it("keeps half a surrogate pair as the given escape", async () => {
  expect(await roundTrip('{"half":"\\ud83d"}')).toBe('{"half":"\\ud83d"}');
});

it("keeps keys such as __proto__ through writes, patches and subkeys", async () => {
  const text = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"x":1}},"hasOwnProperty":1,"toString":null}';
  expect(await roundTrip(text)).toBe(text);
  await patch("/v1/kv/data/a", '{"data":{"__proto__":{"more":2},"toString":null}}');
  expect((await get("/v1/kv/data/a")).text).toContain(
    '{"__proto__":{"polluted":1,"more":2},"constructor":{"prototype":{"x":1}},"hasOwnProperty":1}',
  );
  expect((await get("/v1/kv/subkeys/a")).text).toContain(
    '{"__proto__":{"polluted":null,"more":null},"constructor":{"prototype":{"x":null}},"hasOwnProperty":null}',
  );
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});

it("returns the last of duplicate keys", async () => {
  expect(await roundTrip('{"a":9007199254740993,"a":2}')).toBe('{"a":2}');
  expect(await roundTrip('{"a":2,"a":9007199254740993}')).toBe('{"a":9007199254740993}');
});

it("accepts deep nesting up to its bound and refuses more with 400, never 500", async () => {
  const nested = (depth: number) => `{"n":${"[".repeat(depth)}1.10${"]".repeat(depth)}}`;
  expect(await roundTrip(nested(126))).toBe(nested(126));
  for (const depth of [127, 5_000, 200_000]) {
    const refused = await put("/v1/kv/data/a", `{"data":${nested(depth)}}`);
    expect([refused.status, refused.body.errors]).toEqual([400, ["request body: nested deeper than 128"]]);
  }
});

it("holds a secret of many keys", async () => {
  const text = `{${Array.from({ length: 20_000 }, (_, n) => `"key${n}":${n}.50`).join(",")}}`;
  expect(await roundTrip(text)).toBe(text);
});

it("refuses a body that is not UTF-8", async () => {
  const { exports } = await import("cloudflare:workers");
  const body = new Uint8Array([
    ...new TextEncoder().encode('{"data":{"a":"'),
    0xff,
    0xfe,
    ...new TextEncoder().encode('"}}'),
  ]);
  const answer = await exports.default.fetch("https://x/v1/kv/data/a", {
    method: "PUT",
    headers: { "X-Orch-Token": "root" },
    body,
  });
  expect(answer.status).toBe(400);
});
