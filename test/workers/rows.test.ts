import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { AUDITED as AUDITED_USAGE, OPERATIONS } from "../../scripts/cost-model.ts";
import type { KvStore } from "../../src/objects/kv-store.ts";
import type { NodeSession } from "../../src/objects/node-session.ts";
import { Settings } from "../../src/platform/settings.ts";
import { AuditCollector } from "../../src/worker.ts";
import { isLong } from "../support/long.ts";
import { holderOf, issue, path, policies } from "./access.ts";
import { AUDITED, bindBucket, bucket } from "./audited.ts";
import { get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deployment } from "./deployment.ts";
import {
  creds,
  dynamicRole,
  engineObject,
  mountEngine,
  openTenant,
  revoke,
  succeeded,
  writeRole,
} from "./engine-helpers.ts";
import { connect } from "./healthy-agent.ts";
import { ask } from "./host-volumes.ts";
import { readAt, throughReplicas } from "./replicas.ts";
import { countSpending, type Spent } from "./row-counts.ts";
import { enableServiceEvents } from "./streams.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { association, eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";

/* Usage that the platform bills for operations, against the table of `npm run cost`. */

clock.moves = true;
afterEach(() => void throughReplicas(1));

type Name = keyof typeof OPERATIONS;
type Work = (time: number) => Promise<unknown>;

const TIMES = 3;

/** Alarms and timers come in between, so some times cost more, and a slow machine counts a part of one with the next. */
async function expectCost(
  spend: Awaited<ReturnType<typeof countSpending>>,
  name: Name,
  work: Work,
  replicas = false,
  before: () => Promise<unknown> = async () => undefined,
): Promise<void> {
  await spend(() => work(0));
  const spent: Spent[] = [];
  for (let time = 1; time <= TIMES; time++) {
    await before();
    spent.push(await spend(() => work(time)));
  }
  const { rows: ownRows, leased, alarms, calls, lines } = OPERATIONS[name];
  const rows = ownRows + (replicas ? leased : 0);
  const told = `${name}\n${spent.map(({ by, ...sums }) => JSON.stringify({ ...sums, ...Object.fromEntries(by) })).join("\n")}`;
  const least = (of: (one: Spent) => number) => Math.min(...spent.map(of));
  expect(
    least((one) => one.rows),
    told,
  ).toBeLessThanOrEqual(rows);
  expect(Math.max(...spent.map((one) => one.rows)), told).toBeGreaterThanOrEqual(rows);
  expect(
    least((one) => one.alarms),
    told,
  ).toBeLessThanOrEqual(alarms);
  expect(
    least((one) => one.calls),
    told,
  ).toBeLessThanOrEqual(calls);
  expect(
    least((one) => one.lines),
    told,
  ).toBeLessThanOrEqual(lines);
}

it.each(isLong ? [0, 1] : [1])(
  "secrets, tokens and policies cost what the table says, with %i replicas a place",
  async (replicas) => {
    throughReplicas(replicas);
    await mountKv();
    await put("/v1/kv/data/x", { data: { a: "1" } });
    const { client_token: token } = await holderOf(path("kv/data/*", "read"));
    succeeded(await put("/v1/sys/auth/up", { type: "userpass" }));
    succeeded(await put("/v1/auth/up/users/joe", { password: "secret12", token_policies: "default" }));
    const spend = await countSpending();
    const check = (name: Name, work: Work) => expectCost(spend, name, work, replicas > 0);
    // Read again and again: the leases of the replica run, and the first reads have asked for them.
    const readOften = async () => {
      for (let read = 0; read < 20; read++) succeeded(await get("/v1/kv/data/x", { token }));
    };
    await spend(readOften);
    const { rows, lines } = await spend(readOften);
    expect({ rows, lines }).toEqual({ rows: 20 * OPERATIONS["KV read"].rows, lines: 20 * OPERATIONS["KV read"].lines });
    // The replica of another place holds the lease of the mount when the write comes.
    const writeAgain = () => put("/v1/kv/data/x", { data: { a: "2" } });
    await expectCost(spend, "KV write", writeAgain, replicas > 0, () => readAt("weur", "/v1/kv/data/x", token));
    await check("token created", () => issue({ policies: ["default"] }));
    await check("orphan created", () => issue({ policies: ["default"], no_parent: true }));
    const tokens: string[] = [];
    for (let time = 0; time <= TIMES; time++) tokens.push((await issue({ policies: ["default"] })).client_token);
    await check("token revoked", async () => succeeded(await put("/v1/auth/token/revoke", { token: tokens.pop() })));
    await check("login", async () => succeeded(await put("/v1/auth/up/login/joe", { password: "secret12" })));
    await check("policy written", () => policies({ p: path("a", "read") }));
  },
);

it("a synced secret costs what the table says", async () => {
  await cloudA.begin();
  await mountKv();
  await makeDestination("cloud-a-sm", "d");
  for (const secret of ["s", "other", "third"]) {
    await write(secret, { a: 0 });
    await setAssociation("cloud-a-sm/d", secret);
  }
  let version = 1;
  await expectCost(await countSpending(), "secret synced", async () => {
    await write("s", { a: version });
    version += 1;
    const synced = { synced_version: version, sync_status: "SYNCED" };
    await eventually(async () => expect(await association("cloud-a-sm/d", "s")).toMatchObject(synced));
  });
});

it.each([
  ["", 0],
  ["Secret", 6],
])("with SERVICE_EVENTS=%s, a KV write costs %i further rows, four of them in the log", async (topics, further) => {
  await enableServiceEvents(topics);
  const { uuid } = await mountKv();
  await put("/v1/kv/data/x", { data: { a: "0" } });
  // The name of a new secret is delivered once, in a transaction of its own.
  const store = env.KV_STORE.getByName(uuid) as DurableObjectStub<KvStore>;
  await eventually(() => runInDurableObject(store, (object) => expect(object["outbox"].holds("names")).toBe(false)));
  const spend = await countSpending();
  const writeAgain = () => spend(() => put("/v1/kv/data/x", { data: { a: "1" } }));
  await writeAgain();
  // A write stores the success of deliveries before it, and a delivery may end before its own write is counted.
  const spent: number[] = [];
  for (let time = 0; time < 5; time++) spent.push((await writeAgain()).rows);
  const [, , written] = spent.sort((a, b) => a - b);
  vi.restoreAllMocks();
  await enableServiceEvents(Settings.parse({}).SERVICE_EVENTS);
  expect(written).toBe(OPERATIONS["KV write"].rows + further);
});

describe("with a bucket for the audit log, in a closed area", () => {
  const spacing = 50;
  /** Writes that may follow each other at once. */
  const burst = 10;
  bindBucket({ AUDIT_BATCH_MS: String(spacing) });

  it.each([
    ["one after the other", 1],
    ["four at a time", 4],
  ])("reads %s cost the calls that the bill assumes, and writes a spacing apart", async (_name, atOnce) => {
    const ask = deployment(AUDITED);
    const calls = vi.spyOn(AuditCollector.prototype, "write");
    const writes = vi.spyOn(Object.getPrototypeOf(bucket) as R2Bucket, "put");
    const READS = 24;
    const begun = performance.now();
    for (let read = 0; read < READS; read += atOnce)
      await Promise.all(Array.from({ length: atOnce }, () => ask("/v1/sys/mounts", { leaves: true })));
    const mostWrites = burst + 1 + (performance.now() - begun) / spacing;
    const awaited = calls.mock.calls.filter(([, isAwaited]) => isAwaited).length;
    expect(awaited).toBeLessThanOrEqual(READS * AUDITED_USAGE.callsPerRequest);
    expect(awaited).toBeGreaterThanOrEqual(READS / atOnce);
    expect(writes.mock.calls.length).toBeLessThanOrEqual(mostWrites);
    // The last answers' lines come after a second.
    // A batch that was late may come again, and other lines with it.
    const lines = () =>
      new Set(calls.mock.calls.flatMap(([batch]) => batch.filter((line) => line.includes('"/v1/sys/mounts"'))));
    await eventually(() => expect(lines().size).toBe(READS * AUDITED_USAGE.linesPerRequest));
  });
});

it("leases of credentials cost what the table says", async () => {
  const tenant = await openTenant();
  await mountEngine(tenant);
  await writeRole("web", dynamicRole(tenant, { ttl: "1h" }));
  const spend = await countSpending();
  const leases: string[] = [];
  await expectCost(spend, "lease issued", async () => leases.push(succeeded(await creds("web")).body.lease_id));
  await expectCost(spend, "lease revoked", async () => succeeded(await revoke(leases.pop() ?? "")));
});

it("a lease of a pool, with the refill, and a rotation of a static role cost what the table says", async () => {
  const tenant = await openTenant();
  const uuid = await mountEngine(tenant);
  const engine = engineObject(uuid);
  const { object_id: application_object_id } = tenant.existing_application;
  succeeded(await put("/v1/cloud-b/static-roles/app", { application_object_id, rotation_period: "720h" }));
  const spend = await countSpending();
  await expectCost(spend, "static role rotated", async () => succeeded(await put("/v1/cloud-b/rotate-role/app", {})));
  await writeRole("web", dynamicRole(tenant, { ttl: "1h", pool_size: 1 }));
  const pooled = () =>
    runInDurableObject(engine, (_object, { storage: { sql } }) => sql.exec("SELECT 1 FROM pooled").toArray());
  const ready = () => eventually(async () => expect(await pooled()).toHaveLength(1));
  await ready();
  await expectCost(spend, "lease of a pool", async () => {
    succeeded(await creds("web"));
    await ready();
  });
});

it("volumes and health checks of nodes cost what the table says", async () => {
  const { agent, stop } = await connect();
  const session = env.NODE_SESSION.get(env.NODE_SESSION.idFromName(agent.node)) as DurableObjectStub<NodeSession>;
  const spend = await countSpending();
  await expectCost(spend, "host volume created", async (time) =>
    succeeded(await ask({ Name: `v${time}`, NodeID: agent.node })),
  );
  await expectCost(spend, "node checked", () => runInDurableObject(session, (object: NodeSession) => object.alarm()));
  await stop();
});
