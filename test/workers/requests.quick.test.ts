import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { AccessControl } from "../../src/objects/access-control.ts";
import { BodyMemory } from "../../src/platform/limits/body-memory.ts";
import { receiveBody } from "../../src/routes/server/body.ts";
import { secretsRoutes } from "../../src/routes/table.ts";
import { itRows } from "../support/rows.ts";
import { del, get, list, mountKv, patch, put, send } from "./client.ts";

const fetch = (path: string, init: RequestInit = {}) => exports.default.fetch(`https://x${path}`, init);
const root = { "X-Orch-Token": "root" };

describe("the conventions of the two APIs", () => {
  // Proves: E.conv.response-json
  it("the Vault API answers in the envelope, each response with its own id", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => get("/v1/sys/mounts")));
    for (const { body, headers } of answers) {
      expect(Object.keys(body)).toEqual(
        expect.arrayContaining(
          "request_id lease_id renewable lease_duration data wrap_info warnings auth mount_type".split(" "),
        ),
      );
      expect(body.warnings).toBeNull();
      expect(headers.get("content-type")).toBe("application/json");
      expect(headers.get("cache-control")).toBe("no-store");
    }
    expect(new Set(answers.map(({ body }) => body.request_id)).size).toBe(20);
  });

  it("success without content is 204 in the Vault API, and an empty 200 in the Nomad API", async () => {
    const secrets = await put("/v1/sys/policies/acl/p", { policy: 'path "a" { capabilities = ["read"] }' });
    expect([secrets.status, secrets.text, secrets.headers.get("content-type")]).toEqual([204, "", null]);
    const cluster = await put("/v1/namespace/n", {});
    expect([cluster.status, cluster.text]).toEqual([200, ""]);
    expect(cluster.headers.get("content-type") ?? "").not.toMatch(/json/);
  });

  it("a missing object or an empty list is 404 without a message in the Vault API", async () => {
    await mountKv();
    for (const answer of [
      await get("/v1/kv/data/none"),
      await list("/v1/kv/metadata/"),
      await list("/v1/sys/namespaces"),
    ]) {
      expect([answer.status, answer.body]).toEqual([404, { errors: [] }]);
    }
  });

  // Proves: E.conv.header-prefix, E.conv.response-json
  it("the Nomad API answers bare JSON with its headers, in both spellings", async () => {
    const { headers, body, text } = await get("/v1/namespaces");
    expect(body).toBeInstanceOf(Array);
    expect(text).not.toMatch(/\n/);
    for (const system of ["Orch", "Nomad"]) {
      expect(Number(headers.get(`X-${system}-Index`))).toBeGreaterThan(0);
      expect(headers.get(`X-${system}-KnownLeader`)).toBe("true");
      expect(headers.get(`X-${system}-LastContact`)).toBe("0");
    }
    expect(headers.get("content-type")).toBe("application/json");
    const pretty = await get("/v1/namespaces?pretty");
    expect(pretty.text).toMatch(/^\[\n {4}\{[\s\S]*\]\n$/);
    expect((await get("/v1/namespaces?pretty=0")).text).toBe(text);
  });

  it("every response has X-Content-Type-Options: nosniff", async () => {
    for (const path of [
      "/v1/sys/mounts",
      "/v1/sys/health",
      "/v1/nodes",
      "/v1/nowhere",
      "/v1/acl/%zz",
      "/v1/event/stream",
    ]) {
      const response = await fetch(path, { headers: root });
      await response.body?.cancel();
      expect([path, response.headers.get("X-Content-Type-Options")]).toEqual([path, "nosniff"]);
    }
  });

  it("an error has its API's format, also for an invalid path", async () => {
    const secrets = await get("/v1/sys/%zz");
    expect([secrets.status, secrets.body]).toEqual([400, { errors: ["path: bad percent-encoding"] }]);
    const cluster = await get("/v1/acl/%zz");
    expect([cluster.status, cluster.text]).toEqual([400, "path: bad percent-encoding"]);
    expect(cluster.headers.get("content-type")).toMatch(/^text\/plain/);
  });
});

describe("paths", () => {
  // Proves: E.versioning.2
  it("work with and without /v1 in the Vault API, and only with it in the Nomad API", async () => {
    await mountKv();
    await put("/kv/data/a", { data: { b: 1 } });
    expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ b: 1 });
    expect((await get("/sys/mounts")).status).toBe(200);
    const without = await get("/namespaces");
    expect([without.status, without.headers.get("content-type")]).toEqual([404, "application/json"]);
  });

  it("have one meaning in any spelling", async () => {
    await mountKv();
    await put("/v1/kv/data/a/b", { data: { c: 1 } });
    for (const path of ["//v1//kv///data/a//b", "/v1/kv/data/a%2Fb", "/v1/k%76/dat%61/a/b", "/v1/kv/data/x/../a/./b"]) {
      expect((await get(path)).body?.data?.data, path).toEqual({ c: 1 });
    }
    expect((await get("/v1/sys/%6dounts/kv")).status).toBe(200);
  });

  it("are authorized in decoded form: encoding does not bypass a policy", async () => {
    await mountKv();
    await put("/v1/kv/data/secret", { data: { c: 1 } });
    await put("/v1/sys/policies/acl/open", { policy: 'path "kv/data/open/*" { capabilities = ["read"] }' });
    const token = (await put("/v1/auth/token/create", { policies: ["open"] })).body.auth.client_token;
    for (const path of [
      "open/../secret",
      "open/%2e%2e/secret",
      "open%2F..%2Fsecret",
      "open/..%2fsecret",
      "open%2f%2e%2e%2fsecret",
      "//secret",
    ]) {
      expect([400, 403], path).toContain((await get(`/v1/kv/data/${path}`, { token })).status);
    }
  });
});

describe("methods", () => {
  it("PUT equals POST in both APIs", async () => {
    await mountKv();
    for (const method of ["PUT", "POST"]) {
      expect((await send(method, "/v1/kv/data/a", { data: { method } })).status).toBe(200);
      expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ method });
      expect((await send(method, `/v1/namespace/${method}`, {})).status).toBe(200);
    }
  });

  it.each([
    ["GET with list=true", "GET", "/v1/kv/metadata/?list=true", {}],
    ["GET with list=1", "GET", "/v1/kv/metadata/?list=1", {}],
    ["X-HTTP-Method-Override", "GET", "/v1/kv/metadata/", { "X-HTTP-Method-Override": "list" }],
  ])("LIST can be sent as %s", async (_name, method, path, headers) => {
    await mountKv();
    await put("/v1/kv/data/a", { data: {} });
    expect((await send(method, path, undefined, { headers })).body.data.keys).toEqual(["a"]);
  });

  it("HEAD returns status and headers of GET without a body, also for errors", async () => {
    await mountKv();
    await put("/v1/kv/data/a", { data: {} });
    for (const path of [
      "/v1/kv/data/a",
      "/v1/kv/data/none",
      "/v1/namespaces",
      "/v1/nodes",
      "/v1/sys/health",
      "/v1/acl/%zz",
    ]) {
      const [head, whole] = [await send("HEAD", path), await get(path)];
      expect([path, head.status, head.text]).toEqual([path, whole.status, ""]);
      expect(head.headers.get("content-type")).toBe(whole.headers.get("content-type"));
    }
  });

  it("OPTIONS returns the methods of a path without a token, and 404 for an unknown path", async () => {
    const asked = (path: string) => fetch(path, { method: "OPTIONS" });
    for (const [path, allow] of [
      ["/v1/sys/policies/acl/p", "GET, HEAD, POST, PUT, DELETE, OPTIONS"],
      ["/v1/sys/policies/acl", "LIST, OPTIONS"],
      ["/v1/acl/token", "POST, PUT, OPTIONS"],
      ["/v1/event/stream", "GET, HEAD, OPTIONS"],
      ["/v1/kv/data/a", "GET, HEAD, LIST, POST, PUT, PATCH, DELETE, OPTIONS"],
    ] as const) {
      const { status, headers } = await asked(path);
      expect([path, status, headers.get("Allow")]).toEqual([path, 204, allow]);
    }
    expect((await asked("/v1/sys/nothing")).status).toBe(404);
    const cluster = await asked("/v1/jobs/nothing");
    expect([cluster.status, await cluster.text()]).toEqual([404, "not found"]);
  });
});

describe("tokens", () => {
  itRows([
    { "X-Orch-Token": "root" },
    { "X-Vault-Token": "root" },
    { "X-Nomad-Token": "root" },
    { Authorization: "Bearer root" },
    { Authorization: "bearer   root " },
    { "X-Orch-Token": "", Authorization: "Bearer root" },
    { "X-Orch-Token": "root", "X-Vault-Token": "other", Authorization: "Bearer other" },
  ])("%j is the root token in both APIs", async (headers) => {
    for (const path of ["/v1/sys/mounts", "/v1/acl/tokens"]) expect((await fetch(path, { headers })).status).toBe(200);
  });
});

describe("namespaces of the Vault API", () => {
  it("are named by header, with or without slashes, or by a leading path segment", async () => {
    await put("/v1/sys/namespaces/team", {});
    await mountKv("kv", { headers: { "X-Orch-Namespace": "team" } });
    const inTeam = (path: string, headers = {}) => send("PUT", path, { data: { in: "team" } }, { headers });
    for (const namespace of ["team", "team/", "/team/", "/team"]) {
      for (const header of ["X-Orch-Namespace", "X-Vault-Namespace"]) {
        expect((await inTeam("/v1/kv/data/a", { [header]: namespace })).status, namespace).toBe(200);
      }
    }
    expect((await inTeam("/v1/team/kv/data/a")).status).toBe(200);
    expect(Object.keys((await get("/v1/team/sys/mounts")).body.data)).toContain("kv/");
    expect((await get("/v1/kv/data/a")).status).toBe(404);
  });

  it.each(["", "/", "root", "root/"])("%j is the root namespace", async (namespace) => {
    await mountKv();
    expect((await get("/v1/sys/mounts/kv", { headers: { "X-Orch-Namespace": namespace } })).status).toBe(200);
  });

  itRows([
    ["nowhere", 404],
    ["../team", 400],
    ["a//b", 404],
    ["a\u00ff", 400],
    ["x".repeat(10_000), 400],
  ])("%s is refused", async (namespace, status) => {
    const answer = await get("/v1/sys/mounts", { headers: { "X-Orch-Namespace": namespace } });
    expect(answer.status).toBe(status);
    expect(answer.body.errors.join()).toMatch(/namespace/);
    expect(answer.text.length).toBeLessThan(500);
  });
});

describe("bodies", () => {
  // Proves: E.conv.request-json
  it("are JSON or a form in the Vault API, for any content type", async () => {
    await mountKv();
    const document = 'path "a" { capabilities = ["read"] }';
    for (const type of ["application/json", "application/x-www-form-urlencoded", "text/plain", ""]) {
      const headers = type === "" ? {} : { "Content-Type": type };
      expect((await send("PUT", "/v1/sys/policies/acl/p", { policy: document }, { headers })).status).toBe(204);
      const form = `policy=${encodeURIComponent(document)}`;
      expect((await send("PUT", "/v1/sys/policies/acl/p", form, { headers })).status).toBe(204);
    }
    expect((await get("/v1/sys/policies/acl/p")).body.data.policy).toBe(document);
  });

  it("as forms have a list for a repeated field", async () => {
    await mountKv();
    for (let version = 1; version <= 3; version++) await put("/v1/kv/data/s", { data: { version } });
    expect((await send("PUT", "/v1/kv/destroy/s", "versions=1&versions=2")).status).toBe(204);
    const { versions } = (await get("/v1/kv/metadata/s")).body.data;
    expect([versions["1"].destroyed, versions["2"].destroyed, versions["3"].destroyed]).toEqual([true, true, false]);
  });

  it("keep names of object internals and long numbers exactly", async () => {
    await mountKv();
    const text = '{"__proto__":{"a":1},"constructor":"x","n":12345678901234567890,"f":1.10}';
    expect((await put("/v1/kv/data/a", `{"data":${text}}`)).status).toBe(200);
    expect((await get("/v1/kv/data/a")).text).toContain(`"data":${text}`);
  });

  it("with a long number in a field of another type are refused", async () => {
    for (const number of ["9007199254740993", "1e400", "1.50"]) {
      for (const [path, body] of [
        ["/v1/namespace/n", `{"Meta":${number}}`],
        ["/v1/auth/token/create", `{"meta":${number}}`],
        ["/v1/sys/namespaces/n", `{"custom_metadata":${number}}`],
        ["/v1/sys/mounts/m", `{"type":"kv","options":${number}}`],
        ["/v1/volume/host/create", `{"Volume":{"Name":"n","Parameters":${number}}}`],
      ] as const) {
        expect([path, (await send("PUT", path, body)).status]).toEqual([path, 400]);
      }
    }
  });

  it("of exactly 1 MiB are accepted, and one byte more is refused", async () => {
    await mountKv();
    const body = (size: number) => `{"data":{"a":"${"x".repeat(size - 17)}"}}`;
    expect(body(1_048_576).length).toBe(1_048_576);
    expect((await put("/v1/kv/data/a", body(1_048_576))).status).toBe(200);
    const answer = await put("/v1/kv/data/a", body(1_048_577));
    expect([answer.status, answer.body]).toEqual([413, { errors: ["request body: larger than 1048576 bytes"] }]);
    expect((await get("/v1/kv/data/a")).body.data.metadata.version).toBe(1);
  });

  it("that do not arrive in time are refused, at any constant rate", async () => {
    const route = secretsRoutes.match("POST", "/sys/policies/acl/p")?.route;
    if (!route) throw new Error("no such route");
    for (const headers of [{}, { "Content-Length": "1000" }]) {
      const body = new ReadableStream<Uint8Array>({
        pull: async (controller) => {
          await scheduler.wait(10);
          controller.enqueue(new TextEncoder().encode(" "));
        },
      });
      const request = new Request("https://x/v1/sys/policies/acl/p", { method: "PUT", body, headers });
      await expect(
        receiveBody(route, { request, env: { ...env, REQUEST_BODY_MS: "80" } as Env, grant: null }),
      ).rejects.toMatchObject({
        status: 408,
        messages: ["request body: did not arrive within 0.08 s"],
      });
    }
  });

  it("wait for memory when they are large, and small ones do not", async () => {
    await mountKv();
    const reserve = vi.spyOn(BodyMemory.prototype, "reserve");
    const arePending = (count: number) => vi.waitFor(() => expect(reserve).toHaveBeenCalledTimes(count));
    const writes = Array.from({ length: 8 }, (_, at) => {
      const { readable, writable } = new IdentityTransformStream();
      const writer = writable.getWriter();
      const write = (text: string) => writer.write(new TextEncoder().encode(text));
      const answer = fetch(`/v1/kv/data/slow${at}`, { method: "POST", headers: root, body: readable });
      return { answer, write, close: () => writer.close() };
    });
    // A body without a length counts as the largest one.
    await arePending(8);
    let isAnswered = false;
    const large = put("/v1/kv/data/large", { data: { a: "x".repeat(10_000) } }).finally(() => {
      isAnswered = true;
    });
    await arePending(9);
    for (const name of ["b", "c"]) expect((await put(`/v1/kv/data/${name}`, { data: { a: 1 } })).status).toBe(200);
    expect((await put("/v1/kv/data/d", { data: { a: "x".repeat(1_048_576) } })).status).toBe(413);
    const login = { AuthMethodName: "none", LoginToken: "x".repeat(10_000) };
    expect((await put("/v1/acl/login", login, { headers: { "X-Orch-Token": "" } })).status).toBe(400);
    expect(isAnswered).toBe(false);
    for (const { answer, write, close } of writes) {
      await write('{"data":{"a":1}}');
      await close();
      expect((await answer).status).toBe(200);
      expect((await large).status).toBe(200);
    }
  });

  it("that are small hold no memory of large ones, also without a length", async () => {
    const route = secretsRoutes.match("POST", "/sys/policies/acl/p")?.route;
    if (!route) throw new Error("no such route");
    const received = Array.from({ length: 9 }, () => {
      const body = new Blob([`{"policy":"${"x".repeat(5_000)}"}`]).stream();
      return receiveBody(route, { request: new Request("https://x/", { method: "PUT", body }), env, grant: {} });
    });
    // None is released.
    expect((await Promise.all(received)).map(({ text }) => text.length)).toEqual(Array(9).fill(5_013));
  });

  it("of PATCH require the content type of a patch", async () => {
    await mountKv();
    await put("/v1/kv/data/a", { data: { a: 1 } });
    const headers = (type: string) => ({ headers: { "Content-Type": type } });
    expect((await patch("/v1/kv/data/a", { data: { b: 1 } }, headers("text/csv"))).status).toBe(415);
    expect((await patch("/v1/kv/data/a", { data: { b: 1 } }, headers("application/json; charset=utf-8"))).status).toBe(
      200,
    );
    expect((await patch("/v1/kv/data/a", { data: { c: 1 } })).status).toBe(200);
  });
});

/** Of replicas, and of the Workers that ask the owner when a replica fails. */
function failAuthorization(failure: () => unknown): void {
  vi.spyOn(AccessControl.prototype, "authorize").mockImplementation(failure as never);
  vi.spyOn(AccessControl.prototype, "authorizeFor").mockImplementation(failure as never);
}

describe("an internal failure", () => {
  it.each([{ overloaded: true }, { retryable: true }, { durableObjectReset: true }])(
    "of an object that is %j returns 503 with Retry-After",
    async (flags) => {
      failAuthorization(() => {
        throw Object.assign(new Error("Durable Object is overloaded"), flags);
      });
      for (const path of ["/v1/sys/mounts", "/v1/acl/tokens"]) {
        const answer = await get(path);
        expect([answer.status, answer.headers.get("Retry-After")]).toEqual([503, "1"]);
        expect(answer.text).toContain("try again");
      }
    },
  );

  it("returns 500 with only the request id; the log has the cause, without quoting input", async () => {
    const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    failAuthorization(() => JSON.parse('"canary-secret'));
    const secrets = await get("/v1/sys/mounts");
    const cluster = await get("/v1/acl/tokens");
    expect([secrets.status, cluster.status]).toEqual([500, 500]);
    for (const text of [secrets.body.errors[0], cluster.text]) {
      expect(text).toMatch(/^internal error; .* request [0-9a-f-]{36}$/);
      const id = text.slice(-36);
      expect(warned.mock.calls.filter(([line]) => String(line).includes(id)).length).toBe(1);
    }
    expect(JSON.stringify(warned.mock.calls)).not.toContain("canary-secret");
  });
});

it("secrets do not appear in the log while they are served", async () => {
  const printed: string[] = [];
  for (const method of ["log", "info", "warn", "error", "debug"] as const) {
    vi.spyOn(console, method).mockImplementation((...words: unknown[]) => void printed.push(JSON.stringify(words)));
  }
  await mountKv();
  const token = (await put("/v1/auth/token/create", { policies: ["default"] })).body.auth.client_token;
  await put("/v1/kv/data/a", { data: { password: "canary-secret" } });
  await put("/v1/kv/data/a", '{"data":{"password":"canary-secret"');
  await put("/v1/kv/data/a", { data: "canary-secret", options: { cas: "canary-secret" } });
  await put("/v1/sys/policies/acl/p", { policy: 'path "canary-secret' });
  await put("/v1/auth/token/lookup", { token: "canary-secret" });
  await get("/v1/kv/data/a", { token: "canary-secret" });
  await put("/v1/sys/sync/destinations/cloud-a-sm/d", { secret_access_key: "canary-secret", region: 7 });
  await get("/v1/kv/data/a", { token });
  await del("/v1/kv/data/a");
  expect(printed.join("\n")).not.toMatch(new RegExp(`canary-secret|${token}`));
  expect(token).toMatch(/^hvs\./);
});

it("a token is accepted in a header, not in the query", async () => {
  expect((await fetch("/v1/sys/mounts?token=root")).status).toBe(403);
  expect((await fetch("/v1/sys/mounts", { headers: root })).status).toBe(200);
});
