import { runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { storeDueSnapshot } from "../../src/backup/scheduled-snapshots.ts";
import { CredentialEngine } from "../../src/objects/credential-engine.ts";
import { clusterRegistry } from "../../src/rpc/stubs.ts";
import { loseEverything, restore, snapshot } from "./backup-world.ts";
import { del, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { addCsiNode, create, ScriptedCsi } from "./csi-world.ts";
import { byItself, creds, dynamicRole, mountEngine, openTenant, revoke, rows, writeRole } from "./engine-helpers.ts";
import { addNode, finish, lose, run } from "./host-volumes.ts";
import { ScriptedAgent } from "./scripted-agent.ts";
import { appendKeys } from "./streams.ts";
import { eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";
import { newHook, subscribe } from "./webhooks.ts";

/** docs/operate/audit.md, "Lines": actions without a request, or after its response. Others are in audit.quick.test.ts. */
clock.moves = true;

type Line = Record<string, unknown>;

let lines: Line[] = [];
beforeEach(() => {
  lines = [];
  for (const method of ["log", "info", "warn"] as const) {
    vi.spyOn(console, method).mockImplementation((text: unknown) => {
      if (String(text).startsWith('{"level":"audit","kind":"action"')) lines.push(JSON.parse(String(text)));
    });
  }
});

const written = (event: string, fields: Line = {}): Promise<void> =>
  eventually(() => {
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(lines).toContainEqual({ level: "audit", kind: "action", time, event, ...fields });
  });

const registry = () => env.CLUSTER_REGISTRY.getByName("main");

/** Lets the registry's alarm ring, so much later. */
async function later(ms: number): Promise<void> {
  const real = Date.now.bind(Date);
  const moved = vi.spyOn(Date, "now").mockImplementation(() => real() + ms);
  await runDurableObjectAlarm(registry());
  moved.mockRestore();
}

describe("actions at a deadline are recorded", () => {
  it("the expiry of a synced version", async () => {
    const { uuid } = await mountKv();
    await makeDestination("in-mem", "d");
    await put("/v1/kv/metadata/app", { delete_version_after: "1s" });
    await write("app", { password: "canary" });
    await setAssociation("in-mem/d", "app");
    await written("version-expired", { mount: uuid, secret: "app" });
    expect(JSON.stringify(lines)).not.toContain("canary");
  });

  it("the loss of a node after its grace period", async () => {
    const node = await addNode(1);
    await lose(node);
    await later(24 * 3_600_000);
    await written("node-down", { node });
  });

  it("the end of a drain at its deadline, but not of a drain without one", async () => {
    const node = await addNode(1);
    await run(node, []);
    await put(`/v1/node/${node}/drain`, { DrainSpec: { Deadline: 3_600_000_000_000 } });
    await later(3_500_000);
    expect(lines.filter(({ event }) => event === "drain-ended")).toEqual([]);
    await later(3_700_000);
    await written("drain-ended", { node });
    await finish(node);
  });

  it("the timeout of a CSI operation that waits for its plugin", async () => {
    const csi = new ScriptedCsi();
    await addCsiNode(1);
    await create({ ID: "a", Name: "a" });
    await create({ ID: "b", Name: "b" });
    csi.behave = () => "hold";
    const first = del("/v1/volume/csi/a/delete");
    await expect.poll(() => csi.holding).toBe(1);
    const second = del("/v1/volume/csi/b/delete");
    await eventually(async () =>
      expect(await clusterRegistry(env).csiOperations({ namespace: "default", id: "b" }, 1_000, 1)).toMatchObject([
        { state: "queued" },
      ]),
    );
    await later(121_000);
    expect((await second).status).toBe(504);
    await written("operation-dropped", {
      operation: expect.any(String),
      method: "csi.controller.delete",
      plugin: "disk",
      namespace: "default",
      volume: "b",
    });
    await csi.release();
    expect((await first).status).toBe(200);
  });
});

describe("actions of the service behind a request are recorded", () => {
  it("the exchange of a one-time token", async () => {
    const { AccessorID, SecretID } = (await put("/v1/acl/token", { Name: "m", Type: "management" })).body;
    const { OneTimeToken } = (await put("/v1/acl/token/onetime", {}, { token: SecretID })).body;
    const { OneTimeSecretID } = OneTimeToken;
    expect((await put("/v1/acl/token/onetime/exchange", { OneTimeSecretID }, { token: null })).status).toBe(200);
    await written("one-time-token-exchanged", { accessor: AccessorID });
    for (const secret of [OneTimeSecretID, SecretID]) expect(JSON.stringify(lines)).not.toContain(secret);
  });

  it("credentials: roles, leases and the root secret", async () => {
    const tenant = await openTenant();
    const uuid = await mountEngine(tenant);
    const engine = `credential-engine ${uuid}`;
    await writeRole("app", dynamicRole(tenant));
    await written("role-written", { engine, role: "app" });
    const { lease_id } = (await creds("app")).body;
    const lease = lease_id.replace("cloud-b/", "");
    await written("lease-issued", { engine, lease, token: expect.any(String), role: "app", ttl: expect.any(Number) });
    await put("/v1/sys/leases/renew", { lease_id });
    await writeRole("app", { share_until: 50 });
    const { lease_id: shared } = (await creds("app")).body;
    expect((await creds("app")).body.lease_id).toBe(shared);
    const token = expect.any(String);
    await written("lease-shared", { engine, lease: shared.replace("cloud-b/", ""), token, role: "app" });
    await revoke(shared);
    await writeRole("app", { share_until: 0 });
    await writeRole("pooled", dynamicRole(tenant, { pool_size: 1 }));
    await byItself(uuid, async () => expect(await rows(uuid, "pooled")).toHaveLength(1));
    const pooled = expect.stringContaining("pooled");
    await written("credentials-pooled", { engine, role: "pooled", pooled });
    await writeRole("pooled", { pool_size: 0 });
    await byItself(uuid, async () => expect(await rows(uuid, "pooled")).toEqual([]));
    await written("pooled-credentials-end", { engine, role: "pooled", pooled });
    await written("lease-renewed", { engine, lease, expires: expect.any(Number) });
    await revoke(lease_id);
    await written("lease-ends", { engine, lease, token: expect.any(String) });
    await written("lease-revoked", { engine, job: expect.any(String), what: expect.any(String) });
    const handOver = vi.spyOn(CredentialEngine.prototype, "handOver").mockImplementation(() => {
      throw new Error("killed");
    });
    expect((await creds("app")).status).toBe(500);
    handOver.mockRestore();
    await byItself(uuid, () => expect(lines.map(({ event }) => event)).toContain("lease-not-handed-over"));
    await written("lease-not-handed-over", { engine, lease: expect.any(String), token: expect.any(String) });
    await put("/v1/cloud-b/rotate-root", {});
    await written("root-rotated", { engine, key: expect.any(String), replaced: expect.anything() });
    await written("removed", { engine, job: expect.any(String), what: "replaced root secret" });
    await del("/v1/cloud-b/roles/app");
    await written("role-deleted", { engine, role: "app" });
  });

  it("identity tokens: their key and their issuer", async () => {
    await put("/v1/identity/oidc/config", { issuer: "https://issuer.example" });
    await written("identity-issuer-configured", { issuer: "https://issuer.example" });
    await put("/v1/identity/oidc/key/default/rotate", {});
    await written("identity-key-rotated", { kid: expect.any(String) });
  });

  it("event subscriptions: dead letters, and pauses by the receiver", async () => {
    const hook = await newHook({ status: 400 }, { status: 410 });
    await subscribe("s", hook.url, { MaxAttempts: 1 });
    await appendKeys("a");
    await written("event-batch-dead", { subscription: "s" });
    await appendKeys("b");
    await written("event-subscription-paused", { subscription: "s" });
  });

  it("agents: join tokens, joins and removals", async () => {
    const agent = await ScriptedAgent.joined();
    await written("join-token-created", { accessor: expect.any(String), pool: "default", by: expect.any(String) });
    await written("agent-joined", { node: agent.node });
    await del(`/v1/agent/${agent.node}`);
    await written("agent-removed", { node: agent.node, by: expect.any(String) });
  });

  it("a scheduled snapshot", async () => {
    const schedule = { SNAPSHOT_CRON: "0 2 * * *", SNAPSHOT_BUCKET: env.FILES };
    expect(await storeDueSnapshot({ ...env, ...schedule } as Env)).toBe("ok");
    const stored = { object: expect.stringContaining(".snapshot"), bytes: expect.any(Number) };
    await written("snapshot-stored", stored);
  });

  it("the restore of a snapshot", async () => {
    const file = await snapshot();
    await loseEverything();
    await restore(file);
    await eventually(() => expect(lines).toContainEqual(expect.objectContaining({ event: "restored" })));
  });
});
