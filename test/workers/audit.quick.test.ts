import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { handle } from "../../src/routes/handle.ts";
import { get, mountKv, patch, put, send } from "./client.ts";
import { deployment } from "./deployment.ts";
import { parseText, valueIn } from "./metrics-text.ts";
import { agentWithOperation, done } from "./scripted-agent.ts";
import { eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";

type Line = Record<string, unknown>;

let printed: string[] = [];

beforeEach(() => {
  printed = [];
  for (const method of ["log", "info", "warn", "error", "debug"] as const) {
    vi.spyOn(console, method).mockImplementation((...words: unknown[]) => void printed.push(words.join(" ")));
  }
});

const audit = (texts: readonly string[]): Line[] =>
  texts.filter((text) => text.startsWith('{"level":"audit"')).map((text) => JSON.parse(text));
const answers = (): Line[] => audit(printed).filter(({ kind }) => kind === "answer");
const actions = (): Line[] => audit(printed).filter(({ kind }) => kind === "action");

/** A bucket in memory; `put` can be replaced. */
class Bucket {
  readonly objects = new Map<string, string>();
  before: (text: string) => Promise<void> = async () => undefined;

  async put(key: string, text: string): Promise<null> {
    await this.before(text);
    this.objects.set(key, text);
    return null;
  }

  get lines(): Line[] {
    return audit([...this.objects.values()].flatMap((text) => text.trimEnd().split("\n")));
  }
}

const asBucket = (bucket: Bucket) => bucket as unknown as R2Bucket;
const broken = async (): Promise<never> => {
  throw new Error("no such bucket");
};

describe("each request", () => {
  it("has one line with caller, operation and outcome", async () => {
    await mountKv();
    const { client_token: token, accessor } = (await put("/v1/auth/token/create", { policies: ["default", "p"] })).body
      .auth;
    await put("/v1/sys/policies/acl/p", { policy: 'path "kv/data/app/*" { capabilities = ["create", "update"] }' });
    printed = [];
    const ask = deployment({});
    const body = { data: { password: "x" } };
    await ask("/v1/kv/data/app/db?a=b", { method: "PUT", token, from: "203.0.113.7", body });
    expect(answers()).toEqual([
      {
        level: "audit",
        kind: "answer",
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        area: "secrets",
        method: "PUT",
        path: "/v1/kv/data/app/db",
        route: "POST /v1/{kv}/data/:path+",
        namespace: "",
        namespaceId: "root",
        mount: "kv/",
        accessor,
        policies: ["default", "p"],
        token: expect.stringMatching(/^hmac-sha256:[0-9a-f]{64}$/),
        address: expect.stringMatching(/^hmac-sha256:[0-9a-f]{64}$/),
        bytes: null,
        status: 200,
        durationMs: expect.any(Number),
      },
    ]);
    expect(audit(printed)).toHaveLength(1);
  });

  it("has the request id of its answer", async () => {
    const { body } = await get("/v1/sys/mounts");
    expect(answers().at(-1)?.["requestId"]).toBe(body.request_id);
  });

  it.each([
    ["a caller nobody knows", "/v1/sys/mounts", "guess", 403, "caller not known", "GET /v1/sys/mounts"],
    ["a path that leads nowhere", "/v1/nowhere/x", "root", 404, "nothing there", null],
    ["bad input", "/v1/nodes?per_page=-1", "root", 400, "invalid or in use", "GET /v1/nodes"],
    ["a path that cannot be read", "/v1/sys/%zz", "root", 400, "invalid or in use", null],
  ])("that is refused has a line, too: %s", async (_what, path, token, status, error, route) => {
    await get(path, { token });
    expect(answers()).toEqual([expect.objectContaining({ status, error, route })]);
  });

  it("to a public path names the caller of a token", async () => {
    await get("/v1/sys/internal/ui/mounts");
    expect(answers()).toEqual([expect.objectContaining({ accessor: expect.any(String), status: 200 })]);
  });

  it("has a line although its caller hangs up", async () => {
    await mountKv();
    const exec = createExecutionContext();
    const body = JSON.stringify({ data: { password: "x" } });
    const init = { method: "PUT", headers: { "X-Orch-Token": "root" }, body };
    void handle(new Request("https://x/v1/kv/data/a", init), env, exec);
    // Waits for all promises passed to `waitUntil`.
    await waitOnExecutionContext(exec);
    expect(answers()).toContainEqual(expect.objectContaining({ path: "/v1/kv/data/a", status: 200 }));
  });

  it("to the Vault API has its namespace, from header or path", async () => {
    await put("/v1/sys/namespaces/team", {});
    printed = [];
    await get("/v1/sys/policies/acl?list=true", { headers: { "X-Orch-Namespace": "team" } });
    await get("/v1/team/sys/policies/acl?list=true");
    await get("/v1/sys/policies/acl?list=true");
    expect(answers().map(({ namespace, path }) => [namespace, path])).toEqual([
      ["team/", "/v1/sys/policies/acl"],
      ["team/", "/v1/team/sys/policies/acl"],
      ["", "/v1/sys/policies/acl"],
    ]);
  });

  it("to the Nomad API has its namespace, unless the name is invalid", async () => {
    await get("/v1/jobs?namespace=n1");
    await get("/v1/jobs?namespace=hvs.a+token");
    expect(answers().map(({ namespace }) => namespace)).toEqual(["n1", null]);
  });

  it("has equal hashes for equal tokens and addresses, as `audit-hash` returns", async () => {
    const ask = deployment({});
    for (const token of ["guess", "guess", "another"]) await ask("/v1/sys/mounts", { token, from: "203.0.113.7" });
    const [one, two, other] = answers();
    const hashOf = async (input: string) => (await put("/v1/sys/audit-hash", { input })).body.data.hash;
    expect(one?.["token"]).toBe(await hashOf("guess"));
    expect(two?.["token"]).toBe(one?.["token"]);
    expect(other?.["token"]).not.toBe(one?.["token"]);
    expect(one?.["address"]).toBe(await hashOf("203.0.113.7"));
  });

  it.each([
    ["plain", "203.0.113.7"],
    ["none", undefined],
  ])("has the caller's address in the configured form: %s", async (AUDIT_ADDRESS, address) => {
    await deployment({ AUDIT_ADDRESS })("/v1/sys/mounts", { from: "203.0.113.7" });
    expect(answers()[0]?.["address"]).toBe(address);
  });

  it("has no hash while the service is sealed", async () => {
    await deployment({ MASTER_KEY: undefined })("/v1/sys/mounts", { from: "203.0.113.7" });
    expect(answers()).toEqual([expect.objectContaining({ token: null, address: null })]);
  });

  it("is not in the Worker's own log if the deployment disables that", async () => {
    const bucket = new Bucket();
    await deployment({ AUDIT_LOG: "off", AUDIT_BUCKET: asBucket(bucket) })("/v1/sys/mounts");
    expect(audit(printed)).toEqual([]);
    expect(bucket.lines).toHaveLength(2);
  });
});

describe("a bound sink", () => {
  it("receives the line of a request before the request is performed, and the line of its answer afterwards", async () => {
    await mountKv();
    const bucket = new Bucket();
    const seen: unknown[] = [];
    bucket.before = async (text) => {
      for (const { kind } of audit(text.trimEnd().split("\n")))
        seen.push([kind, (await get("/v1/kv/data/a")).status === 200]);
    };
    const ask = deployment({ AUDIT_BUCKET: asBucket(bucket) });
    const body = { data: { password: "x" } };
    expect((await ask("/v1/kv/data/a", { method: "PUT", body })).status).toBe(200);
    expect(seen).toEqual([
      ["request", false],
      ["answer", true],
    ]);
    const [request, answer] = bucket.lines;
    expect(answer).toMatchObject({ ...request, kind: "answer", time: answer?.["time"], status: 200 });
  });

  it("that is a bucket contains objects of lines by day and hour", async () => {
    const ask = deployment({ AUDIT_BUCKET: env.FILES });
    await Promise.all(Array.from({ length: 20 }, () => ask("/v1/sys/mounts")));
    const { objects } = (await env.FILES?.list()) ?? { objects: [] };
    const keys = objects.map(({ key }) => key);
    for (const key of keys) expect(key).toMatch(/^\d{4}-\d\d-\d\d\/\d\d\/[0-9a-f-]{36}\.jsonl$/);
    expect(keys.length).toBeLessThan(20);
    const texts = await Promise.all(keys.map(async (key) => (await env.FILES?.get(key))?.text()));
    const lines = audit(texts.flatMap((text) => text?.trimEnd().split("\n") ?? []));
    const ids = (kind: string) => lines.filter((line) => line["kind"] === kind).map(({ requestId }) => requestId);
    expect(new Set(ids("request")).size).toBe(20);
    expect(ids("answer").toSorted()).toEqual(ids("request").toSorted());
  });

  it("that is a queue receives one message per line, in batches of its maximum", async () => {
    const calls: Line[][] = [];
    const sendBatch = async (messages: Iterable<MessageSendRequest<string>>) => {
      calls.push([...messages].map(({ body }) => JSON.parse(body)));
    };
    const ask = deployment({ AUDIT_QUEUE: { sendBatch } as unknown as Queue<string> });
    await Promise.all(Array.from({ length: 150 }, () => ask("/v1/sys/health")));
    expect(Math.max(...calls.map((call) => call.length))).toBe(100);
    expect(new Set(calls.flat().map(({ requestId }) => requestId)).size).toBe(150);
  });
});

describe("a sink that fails", () => {
  const failing = (own: Record<string, unknown> = {}) => {
    const bucket = new Bucket();
    bucket.before = broken;
    return { bucket, ask: deployment({ AUDIT_BUCKET: asBucket(bucket), ...own }) };
  };
  const body = { data: { password: "x" } };

  /** Retries happen at once. */
  beforeEach(() => void vi.spyOn(scheduler, "wait").mockImplementation(async (ms) => void (ms > 5_000)));

  it("makes the Vault API refuse requests without an effect, and the Nomad API continue", async () => {
    await mountKv();
    const { ask } = failing();
    for (const [method, path, sent] of [
      ["PUT", "/v1/kv/data/a", body],
      ["PUT", "/v1/sys/policies/acl/p", { policy: 'path "a" { capabilities = ["read"] }' }],
      ["PUT", "/v1/auth/token/create", {}],
      ["GET", "/v1/sys/mounts", undefined],
    ] as const) {
      const refused = await ask(path, { method, body: sent });
      expect([refused.status, refused.headers.get("Retry-After")]).toEqual([503, "1"]);
      expect(JSON.parse(refused.text).errors[0]).toMatch(/^the audit log cannot be written/);
    }
    expect((await get("/v1/kv/data/a")).status).toBe(404);
    expect((await get("/v1/sys/policies/acl/p")).status).toBe(404);
    expect((await ask("/v1/namespace/n", { method: "PUT", body: {} })).status).toBe(200);
    expect((await get("/v1/namespace/n")).status).toBe(200);
  });

  it.each([
    ["closed", 503, 503],
    ["open", 200, 200],
    ["secrets=open,cluster=closed", 200, 503],
  ])("has the effect that AUDIT_ON_FAILURE configures: %s", async (AUDIT_ON_FAILURE, secrets, cluster) => {
    const { ask } = failing({ AUDIT_ON_FAILURE });
    expect((await ask("/v1/sys/mounts")).status).toBe(secrets);
    expect((await ask("/v1/nodes")).status).toBe(cluster);
  });

  it("is logged with the number of lost lines, and the lines are in the log", async () => {
    const { ask } = failing();
    await ask("/v1/nodes");
    expect(printed.filter((text) => text.includes("audit-lost")).map((text) => JSON.parse(text))).toEqual([
      { level: "warn", event: "audit-lost", lines: 1, because: "failed" },
    ]);
    expect(answers()).toHaveLength(1);
  });

  it("increments a metric that exists before the first loss", async () => {
    const told = async () => {
      const samples = parseText((await get("/v1/metrics")).text);
      return ["failed", "full"].map((reason) => valueIn(samples, "sallyport_audit_lines_lost_total", { reason }));
    };
    // The isolate also counts the lines that the tests before this one have lost.
    const [failed, full] = await told();
    expect([failed, full]).toEqual([expect.any(Number), expect.any(Number)]);
    const { ask } = failing();
    await ask("/v1/nodes");
    expect(await told()).toEqual([Number(failed) + 1, full]);
    await ask("/v1/nodes");
    expect(await told()).toEqual([Number(failed) + 2, full]);
  });

  it("receives the missed lines later, and another sink receives no line twice", async () => {
    const { bucket } = failing();
    let failures = 2;
    bucket.before = async () => {
      if (failures-- > 0) await broken();
    };
    const messages: string[] = [];
    const sendBatch = async (batch: Iterable<MessageSendRequest<string>>) => {
      messages.push(...[...batch].map((message) => message.body));
    };
    const ask = deployment({
      AUDIT_BUCKET: asBucket(bucket),
      AUDIT_QUEUE: { sendBatch } as unknown as Queue<string>,
      AUDIT_ON_FAILURE: "open",
    });
    expect((await ask("/v1/sys/mounts")).status).toBe(200);
    expect(bucket.lines).toHaveLength(1);
    expect(messages).toHaveLength(1);
  });

  it("and is a service over HTTP appears by status only, without URL, token or answer", async () => {
    const answers = [new Error("https://canary.example/?key=canary-token"), new Response("canary", { status: 418 })];
    vi.spyOn(globalThis, "fetch").mockImplementation(async () => {
      const answer = answers.shift() ?? new Response("canary", { status: 503 });
      if (answer instanceof Error) throw answer;
      return answer;
    });
    const bound = { AUDIT_HTTP_URL: "https://canary.example/lines", AUDIT_HTTP_TOKEN: "canary-token" };
    const ask = deployment(bound);
    expect((await ask("/v1/sys/mounts")).status).toBe(503);
    const failed = printed.filter((text) => text.includes("audit-sink-failed")).map((text) => JSON.parse(text).because);
    expect(failed).toEqual(expect.arrayContaining(["no answer", "status 418", "status 503"]));
    const listed = (await deployment({ ...bound, AUDIT_ON_FAILURE: "open" })("/v1/sys/audit")).text;
    expect(Object.keys(JSON.parse(listed).data)).toEqual(["log/", "http/"]);
    expect([...printed, listed].filter((text) => text.includes("canary"))).toEqual([]);
  });

  it("does not affect the health check of load balancers", async () => {
    const { ask } = failing();
    expect((await ask("/v1/sys/health", { token: null })).status).toBe(200);
  });

  it("that does not answer is awaited for a limited time", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { bucket, ask } = failing();
    bucket.before = () => promise;
    expect((await ask("/v1/sys/mounts", { leaves: true })).status).toBe(503);
    resolve();
  });
});

describe("actions without a request", () => {
  it("have a line: a push of a secret, with the number of its objects", async () => {
    const { uuid } = await mountKv();
    await makeDestination("in-mem", "d");
    await write("app", { v: "1" });
    await setAssociation("in-mem/d", "app");
    await eventually(() =>
      expect(actions()).toContainEqual(
        expect.objectContaining({
          event: "secret-synced",
          destination: "in-mem/d",
          wish: "present",
          mount: uuid,
          secret: "app",
          pushed: 1,
          failed: 0,
        }),
      ),
    );
  });

  it("have a line: the end of a deleted destination", async () => {
    await makeDestination("in-mem", "d");
    await send("DELETE", "/v1/sys/sync/destinations/in-mem/d");
    await eventually(() =>
      expect(actions()).toContainEqual(
        expect.objectContaining({ event: "destination-ended", destination: "in-mem/d" }),
      ),
    );
  });

  it("have lines: operations of a node's agent, and their outcomes", async () => {
    const { agent, socket, wanted } = await agentWithOperation({
      method: "dhv.create",
      params: { secret: "canary-parameter" },
    });
    socket.send(done(wanted.id, { path: "/canary-result", bytes: 7 }));
    const about = { node: agent.node, operation: wanted.id, about: wanted.key };
    await eventually(() => {
      expect(actions()).toContainEqual(
        expect.objectContaining({ event: "operation-begun", method: "dhv.create", ...about }),
      );
      expect(actions()).toContainEqual(expect.objectContaining({ event: "operation-ended", state: "done", ...about }));
    });
    expect(printed.join()).not.toContain("canary");
  });

  it("have a line: the expiry of a token", async () => {
    const { accessor } = (await put("/v1/auth/token/create", { ttl: "1s" })).body.auth;
    await eventually(() =>
      expect(actions()).toContainEqual(expect.objectContaining({ event: "token-expired", accessor })),
    );
  });
});

describe("the hash of a value", () => {
  const hashes = async (own: Record<string, unknown>, input = "v") =>
    JSON.parse((await deployment(own)("/v1/sys/audit-hash", { method: "POST", body: { input } })).text).data;
  const keys = ["a", "b"].map((letter) => Buffer.from(letter.repeat(32)).toString("base64"));

  it("is returned at upstream's path, too", async () => {
    const { body } = await put("/v1/sys/audit-hash", { input: "v" });
    const upstream = await put("/v1/sys/audit-hash/log", { input: "v" });
    expect(upstream.body.data.hash).toBe(body.data.hash);
    expect(upstream.body.hash).toBe(body.data.hash);
    expect((await put("/v1/sys/audit-hash/file", { input: "v" })).status).toBe(404);
    expect((await get("/v1/sys/audit")).body.data).toEqual({ "log/": expect.objectContaining({ type: "log" }) });
  });

  it("differs per key, and is returned for each remaining key", async () => {
    const before = await hashes({ MASTER_KEY: keys[0] });
    const after = await hashes({ MASTER_KEY: `${keys[1]},${keys[0]}` });
    expect(after.hash).not.toBe(before.hash);
    expect(Object.values(after.hashes)).toEqual([after.hash, before.hash]);
  });

  it("requires sudo", async () => {
    const policy = 'path "sys/audit-hash*" { capabilities = ["update"] } path "sys/audit" { capabilities = ["read"] }';
    await put("/v1/sys/policies/acl/p", { policy });
    const { client_token: token } = (await put("/v1/auth/token/create", { policies: ["p"] })).body.auth;
    expect((await put("/v1/sys/audit-hash", { input: "v" }, { token })).status).toBe(403);
    expect((await get("/v1/sys/audit", { token })).status).toBe(403);
  });

  it("is not returned without a key", async () => {
    const refused = await deployment({ MASTER_KEY: "" })("/v1/sys/audit-hash", {
      method: "POST",
      body: { input: "v" },
    });
    expect(refused.status).toBe(503);
  });

  it("is the same in all namespaces", async () => {
    await put("/v1/sys/namespaces/n", {});
    const inside = { headers: { "X-Orch-Namespace": "n" } };
    expect((await put("/v1/sys/audit-hash", { input: "v" }, inside)).status).toBe(400);
    expect((await patch("/v1/sys/audit-hash", {}, inside)).status).toBeGreaterThanOrEqual(400);
  });
});
