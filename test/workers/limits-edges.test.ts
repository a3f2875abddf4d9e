import { beforeEach, describe, expect, it } from "vitest";
import { issue, policies } from "./access.ts";
import { type Answer, get, mountKv, put, send } from "./client.ts";
import { addNode, ask, nodeId, ScriptedNodes } from "./host-volumes.ts";

/** docs/reference/limits.md, "Requests" and "Objects": a value at a limit is accepted, and one above is refused without a change. */

beforeEach(() => mountKv());

const xs = (count: number): string => "x".repeat(count);
const numbered = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
const entries = (count: number, value = "v"): Record<string, string> =>
  Object.fromEntries(numbered(count, (at) => [`k${at}`, value]));
const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);

/** The message of a refusal. */
const reason = ({ body, text }: Answer): string => (body?.errors ?? [text]).join();

async function expectEdge(
  within: Promise<Answer>,
  beyond: Promise<Answer>,
  status: number,
  says: RegExp,
  allowed: readonly number[] = [200, 204],
): Promise<void> {
  const [taken, refused] = [await within, await beyond];
  expect(allowed, taken.text).toContain(taken.status);
  expect([refused.status, reason(refused)]).toEqual([status, expect.stringMatching(says)]);
}

describe("a request", () => {
  const path = (length: number) => `/v1/kv/data/${xs(length - "/kv/data/".length)}`;

  it("may have a path of 4096 characters, and not of one more", () =>
    expectEdge(get(path(4_096)), get(path(4_097)), 400, /^path: longer than 4096 characters$/, [404]));

  it("may have a chosen token of 256 characters; a longer one is unknown", async () => {
    const { client_token: token } = await issue({ id: xs(256), policies: ["root"] });
    expect((await get("/v1/sys/mounts", { token })).status).toBe(200);
    for (const other of [`${token}x`, token + xs(256), token + xs(100_000)])
      expect((await get("/v1/sys/mounts", { token: other })).status).toBe(403);
    expect((await put("/v1/auth/token/create", { id: xs(257) })).status).toBe(400);
  });

  it("may name a namespace in 1024 characters, and not in one more", () => {
    const longest = `${xs(127)}/`.repeat(8);
    const inside = (name: string) => get("/v1/sys/mounts", { headers: { "X-Orch-Namespace": name } });
    return expectEdge(inside(longest), inside(`${longest}x`), 400, /^namespace: the header is longer than 1024/, [404]);
  });

  it("may have a body of 1 MiB, and not of one byte more, in either API", async () => {
    const secret = (size: number) => put("/v1/kv/data/a", `{"data":{"k":"${xs(size - 17)}"}}`);
    await expectEdge(secret(1_048_576), secret(1_048_577), 413, /^request body: larger than 1048576 bytes$/);
    const event = (size: number) => put("/v1/namespace/a", `{}${" ".repeat(size - 2)}`);
    await expectEdge(event(1_048_576), event(1_048_577), 413, /^request body: larger than 1048576 bytes$/);
  });

  it("may have JSON of 128 levels, and not of one more", () => {
    const deep = (levels: number) => put("/v1/kv/data/a", { data: { k: nested(levels - 2) } });
    return expectEdge(deep(128), deep(129), 400, /^request body: nested deeper than 128$/);
  });

  it("gets the first ten of its errors", async () => {
    const refused = await put("/v1/sys/mounts/m", {
      type: "kv",
      options: Object.fromEntries(numbered(30, (at) => [`o${at}`, {}])),
    });
    expect(refused.status).toBe(400);
    expect(refused.body.errors.length).toBeLessThanOrEqual(10);
  });
});

describe("the service accepts at most", () => {
  it("64 entries of custom metadata, keys of 128 bytes, values of 512", async () => {
    const set = (custom_metadata: object) => put("/v1/kv/metadata/a", { custom_metadata });
    await expectEdge(set(entries(64)), set(entries(65)), 400, /65 keys provided, at most 64 allowed/);
    await expectEdge(set({ [xs(128)]: "v" }), set({ [xs(129)]: "v" }), 400, /129 bytes, must have 1 to 128/);
    await expectEdge(set({ k: "\u00e9".repeat(256) }), set({ k: `${"\u00e9".repeat(256)}x` }), 400, /513 bytes/);
    expect((await get("/v1/kv/metadata/a")).body.data.custom_metadata).toEqual({ k: "\u00e9".repeat(256) });
  });

  it("a policy of 512 KiB", async () => {
    const document = (size: number) => {
      const rule = 'path "a" { capabilities = ["read"] } # ';
      return put("/v1/sys/policies/acl/p", { policy: rule + xs(size - rule.length) });
    };
    await expectEdge(document(524_288), document(524_289), 400, /524288 bytes/);
  });

  it("256 policies of a token, and 16384 characters of metadata", async () => {
    await policies({ p: 'path "a" {}' });
    const create = (body: object) => put("/v1/auth/token/create", body);
    const named = (count: number) => create({ policies: numbered(count, (at) => `p${at}`), no_default_policy: true });
    await expectEdge(named(256), named(257), 400, /^policies: at most 256 policies$/);
    const meta = (size: number) => create({ meta: { k: xs(size - '{"k":""}'.length) } });
    await expectEdge(meta(16_384), meta(16_385), 400, /^meta: at most 16384 characters/);
  });

  it("16 nested namespaces", async () => {
    const at = (depth: number) =>
      put("/v1/sys/namespaces/n", {}, { headers: { "X-Orch-Namespace": "n/".repeat(depth) } });
    for (let depth = 0; depth < 16; depth++) expect((await at(depth)).status).toBe(200);
    const refused = await at(16);
    expect([refused.status, reason(refused)]).toEqual([400, expect.stringMatching(/at most 16 deep/)]);
  });

  it("128 entries of a volume's map", async () => {
    new ScriptedNodes();
    await addNode(1);
    const make = (count: number) => ask({ Name: `v${count}`, NodeID: nodeId(1), Parameters: entries(count) });
    await expectEdge(make(128), make(129), 400, /Parameters: at most 128 entries/);
    expect((await get("/v1/volumes?type=host")).body).toHaveLength(1);
  });

  it("an hour of a join token", () => {
    const token = (TTL: string) => send("POST", "/v1/agent/tokens", { TTL });
    return expectEdge(token("3600s"), token("3601s"), 400, /^TTL: must be from 1s to 1h$/);
  });
});
