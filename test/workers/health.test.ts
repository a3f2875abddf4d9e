import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { clearHealthCache } from "../../src/monitoring/health.ts";
import { AccessControl } from "../../src/objects/access-control.ts";
import { ClusterRegistry } from "../../src/objects/cluster-registry.ts";
import { EventLog } from "../../src/objects/event-log.ts";
import { SyncControl } from "../../src/objects/sync-control.ts";
import { holderOf, issue } from "./access.ts";
import { type Answer, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deployment } from "./deployment.ts";
import { ScriptedAgent } from "./scripted-agent.ts";
import { deployWithMasterKey, FIRST_KEY, key } from "./sealing-helpers.ts";
import { eventually } from "./sync-helpers.ts";

/** docs/operate/metrics.md, "Health": any broken part is reported, without further details. */
clock.moves = true;

const anyone = { token: null };

const health = (query = "", options: Parameters<typeof get>[1] = anyone): Promise<Answer> => {
  clearHealthCache();
  return get(`/v1/sys/health${query}`, options);
};

const WELL = {
  access_control: "ok",
  event_log: "ok",
  cluster_registry: "ok",
  sync_control: "ok",
  listings: "ok",
  outbox: "ok",
};

const broken = {
  fails: () => Promise.reject(new Error("canary-of-a-failure")),
  hangs: () => new Promise<never>(() => {}),
};

describe("a degraded part of the service", () => {
  it.each([
    ["event_log", "fails", EventLog],
    ["event_log", "hangs", EventLog],
    ["cluster_registry", "fails", ClusterRegistry],
    ["cluster_registry", "hangs", ClusterRegistry],
    ["sync_control", "fails", SyncControl],
    ["sync_control", "hangs", SyncControl],
  ] as const)("is named when it is unreachable: %s %s", async (part, how, type) => {
    const down = vi.spyOn(type.prototype, "vitals").mockImplementation(broken[how] as never);
    const { status, body, text } = await health();
    expect([status, body.failing, body.degraded]).toEqual([200, [], [part]]);
    expect(body.parts).toEqual({ ...WELL, [part]: "unreachable" });
    expect(text).not.toContain("canary");
    down.mockRestore();
    expect((await health()).body).toMatchObject({ parts: WELL, failing: [], degraded: [] });
  });

  it("is D1 with lists that lag or cannot be read", async () => {
    await env.LISTINGS.exec("DROP TABLE destinations");
    const { status, body } = await health();
    expect([status, body.degraded, body.parts]).toEqual([200, ["listings"], { ...WELL, listings: "unreachable" }]);
    expect((await get("/v1/agent/health", anyone)).status).toBe(200);
  });

  it("is D1 without an answer", async () => {
    clearHealthCache();
    const LISTINGS = { prepare: () => ({ all: broken.hangs }) } as unknown as D1Database;
    const { status, text } = await deployment({ LISTINGS })("/v1/sys/health", { token: null });
    expect([status, JSON.parse(text).degraded]).toEqual([200, ["listings"]]);
  });

  it("is an outbox with rows older than a minute", async () => {
    await health();
    const down = vi.spyOn(EventLog.prototype, "append").mockRejectedValue(new Error("down"));
    const written = put("/v1/acl/policy/p", { Name: "p", Rules: 'path "a" {}' });
    await eventually(async () => expect((await health("?counts=true", {})).body.outbox.rows).toBe(1));
    expect((await health()).body.degraded).toEqual([]);
    const real = Date.now.bind(Date);
    const moved = vi.spyOn(Date, "now").mockImplementation(() => real() + 61_000);
    const { status, body } = await health("?counts=true", {});
    moved.mockRestore();
    expect([status, body.degraded, body.parts.outbox]).toEqual([200, ["outbox"], "behind"]);
    expect(body.outbox.oldest_seconds).toBeGreaterThanOrEqual(61);
    down.mockRestore();
    await written;
    await eventually(async () => expect((await health("?counts=true", {})).body.outbox.rows).toBe(0));
  });
});

describe("a service that cannot work", () => {
  const ALL = "?activecode=299&sealedcode=299&uninitcode=299&standbycode=299";

  it.each(Object.entries(broken))(
    "reports that for any requested status code when AccessControl %s",
    async (_how, answer) => {
      vi.spyOn(AccessControl.prototype, "status").mockImplementation(answer as never);
      vi.spyOn(AccessControl.prototype, "vitals").mockImplementation(answer as never);
      const { status, body } = await health(ALL);
      expect([status, body.failing, body.degraded]).toEqual([503, ["access_control"], []]);
      expect(body).toMatchObject({ initialized: false, sealed: false, standby: false, cluster_id: "" });
      const agent = await get("/v1/agent/health", anyone);
      expect([agent.status, agent.body]).toEqual([
        503,
        { server: { ok: false, message: "unreachable: access_control" } },
      ]);
    },
  );

  it.each(Object.entries(broken))("answers health checks although every object %s", async (_how, answer) => {
    for (const type of [AccessControl, EventLog, ClusterRegistry, SyncControl])
      vi.spyOn(type.prototype, "vitals").mockImplementation(answer as never);
    vi.spyOn(AccessControl.prototype, "status").mockImplementation(answer as never);
    vi.spyOn(AccessControl.prototype, "authorize").mockImplementation(answer as never);
    vi.spyOn(AccessControl.prototype, "authorizeFor").mockImplementation(answer as never);
    const { status, body } = await health("?counts=true", {});
    expect([status, body.failing]).toEqual([503, ["access_control"]]);
    expect(body.degraded).toEqual(["event_log", "cluster_registry", "sync_control"]);
    expect(body.agents).toBeUndefined();
    for (const path of ["/v1/sys/seal-status", "/v1/sys/init"]) {
      const asked = await get(path, anyone);
      expect([path, asked.status, asked.body.errors]).toEqual([path, 503, ["access_control: unreachable"]]);
    }
    expect((await get("/v1/agent/health", anyone)).body.server).toEqual({
      ok: false,
      message: "unreachable: access_control, event_log, cluster_registry",
    });
  });

  describe("with a key problem", () => {
    afterEach(() => deployWithMasterKey(FIRST_KEY));

    it.each([
      ["missing", ""],
      ["wrong", key("another")],
    ])("reports a %s key without showing it", async (_what, text) => {
      await health();
      await deployWithMasterKey(text);
      const { status, body, text: answer } = await health();
      expect([status, body.sealed, body.initialized]).toEqual([503, true, true]);
      expect(body.sealed_because).toMatch(/MASTER_KEY/);
      expect((await health(ALL)).status).toBe(299);
      const agent = await get("/v1/agent/health", anyone);
      expect([agent.status, agent.body.server.ok]).toEqual([503, false]);
      for (const secret of [FIRST_KEY, key("another")]) expect(answer + agent.text).not.toContain(secret);
    });
  });
});

describe("counts in health", () => {
  it("are absent without agents, which is no fault", async () => {
    const { status, body } = await health("?counts=true", {});
    expect([status, body.degraded, body.agents]).toEqual([200, [], { connected: 0, known: 0 }]);
  });

  it("are shown on request to tokens with agent:read", async () => {
    const [, socket] = await ScriptedAgent.connected();
    const token = async (rules: string) => (await holderOf(rules)).client_token as string;
    const counts = { agents: { connected: 1, known: 1 }, outbox: { rows: expect.any(Number), oldest_seconds: 0 } };
    await eventually(async () => expect((await health("?counts=true", {})).body).toMatchObject(counts));
    const reader = { token: await token('agent { policy = "read" }') };
    expect((await health("?counts=true", reader)).body).toMatchObject(counts);
    await put("/v1/sys/policies/acl/agents", { policy: 'agent { policy = "read" }' });
    await put("/v1/auth/token/roles/near", { allowed_policies: "agents", token_bound_cidrs: "192.0.2.0/24" });
    const near = (await put("/v1/auth/token/create/near", {})).body.auth.client_token as string;
    const from = (address: string) => ({ token: near, headers: { "CF-Connecting-IP": address } });
    expect((await health("?counts=true", from("192.0.2.1"))).body).toMatchObject(counts);
    for (const [query, options] of [
      ["", {}],
      ["", reader],
      ["?counts=true", anyone],
      ["?counts=true", { token: "unknown" }],
      ["?counts=true", from("198.51.100.1")],
      ["?counts=true", { token: await token('node { policy = "write" }') }],
    ] as const) {
      const { status, body } = await health(query, options);
      expect([status, "agents" in body, "outbox" in body]).toEqual([200, false, false]);
    }
    socket.close();
    await eventually(async () =>
      expect((await health("?counts=true", {})).body.agents).toEqual({ connected: 0, known: 1 }),
    );
  });

  it("cost a token with limited uses one use only when it requests them", async () => {
    const { client_token } = await issue({ policies: ["root"], num_uses: 2 });
    for (let n = 0; n < 4; n++) await health("", { token: client_token });
    expect((await get("/v1/auth/token/lookup-self", { token: client_token })).body.data).toMatchObject({ num_uses: 1 });
  });
});

it("frequent health checks inspect once a second and all get an answer", async () => {
  const status = vi.spyOn(AccessControl.prototype, "status");
  const vitals = vi.spyOn(EventLog.prototype, "vitals");
  clearHealthCache();
  const answers = await Promise.all(Array.from({ length: 40 }, () => get("/v1/sys/health", anyone)));
  expect(answers.every((answer) => answer.status === 200)).toBe(true);
  expect(status.mock.calls.length).toBeLessThanOrEqual(2);
  expect(vitals.mock.calls.length).toBeLessThanOrEqual(2);
});

it("a slow health check is shared by concurrent callers, and the next call checks again", async () => {
  vi.spyOn(AccessControl.prototype, "status").mockImplementationOnce(() => new Promise<never>(() => {}) as never);
  clearHealthCache();
  const [first, second] = await Promise.all([get("/v1/sys/health", anyone), get("/v1/sys/health", anyone)]);
  expect([first.status, second.status]).toEqual([503, 503]);
  expect((await health()).status).toBe(200);
});
