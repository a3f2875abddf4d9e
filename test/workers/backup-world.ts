import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { generateKeyPairSync } from "node:crypto";
import { expect, vi } from "vitest";
import { clearAuthorizeCache } from "../../src/access/authorize/authorize-cached.ts";
import { everyObject } from "../../src/backup/directory.ts";
import type { ObjectName } from "../../src/platform/durable/object-kinds.ts";
import { SINGLETONS, storedObject } from "../../src/rpc/stored-objects.ts";
import { nodeSession } from "../../src/rpc/stubs.ts";
import { forgetGateLeases } from "../../src/sync/worker/gate-lease.ts";
import { AccessControl } from "../../src/worker.ts";
import { issue, path, policies } from "./access.ts";
import { type Answer, del, get, mountKv, put, send } from "./client.ts";
import { addCsiNode, create, ScriptedCsi } from "./csi-world.ts";
import { emptyDeployment } from "./empty-deployment.ts";
import { creds, dynamicRole, mountEngine, openTenant, type Tenant, writeRole } from "./engine-helpers.ts";
import { operation, ScriptedAgent } from "./scripted-agent.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { makeDestination, setAssociation, write } from "./sync-helpers.ts";
import { SECRET } from "./webhooks.ts";

/** A deployment that uses all four areas, with secrets of every kind that a snapshot must not show. */

export const CANARY = "canary-6f1d";

export interface World {
  readonly tenant: Tenant;
  readonly lease: string;
  readonly token: string;
  readonly agent: ScriptedAgent;
  readonly destroyedMount: string;
}

const succeeded = (answer: Answer): Answer => {
  expect(answer.status, answer.text).toBeLessThan(300);
  return answer;
};

/** Everything that a deployment can have. */
export async function buildWorld(): Promise<World> {
  await cloudA.begin();
  const csi = new ScriptedCsi();
  succeeded(await put("/v1/sys/namespaces/team", {}));
  await policies({ readers: path("kv/*", "read"), writers: path("kv/*", "create", "update") });
  const token: string = (await issue({ policies: ["readers"], ttl: "1h" })).client_token;
  await issue({ policies: ["writers"], ttl: "30m", num_uses: 5 });
  succeeded(await put("/v1/namespace/prod", { Name: "prod", Description: "where it runs" }));

  await mountKv();
  for (let n = 0; n < 3; n++) await write("app/db", { password: `${CANARY}-${n}` });
  await write("other", { v: 1 });
  succeeded(await put("/v1/kv/metadata/app/db", { custom_metadata: { owner: "us" } }));
  const { uuid: destroyedMount } = await mountKv("old");
  succeeded(await put("/v1/old/data/x", { data: { v: CANARY } }));
  succeeded(await del("/v1/sys/mounts/old"));

  await makeDestination("in-mem", "memory");
  await makeDestination("cloud-a-sm", "cloud");
  for (const at of ["in-mem/memory", "cloud-a-sm/cloud"]) succeeded(await setAssociation(at, "app/db"));
  const pem = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" });
  succeeded(await put("/sys/sync/repo-host-apps/app", { app_id: 1, private_key: pem.toString() }));
  succeeded(await send("PATCH", "/sys/sync/config", { queue_capacity: 500 }));

  const tenant = await openTenant();
  await mountEngine(tenant);
  await writeRole("reader", dynamicRole(tenant));
  const { lease_id: lease } = succeeded(await creds("reader")).body;
  succeeded(await get("/v1/identity/oidc/plugins/.well-known/keys", { token: null }));

  const reports = [
    { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "web", Namespace: "default", Version: 1 } } },
    {
      Topic: "Allocation",
      Type: "AllocationUpdated",
      Payload: { Allocation: { ID: "a1", NodeID: "n1", JobID: "web", Namespace: "default", ClientStatus: "running" } },
    },
  ];
  succeeded(await put("/v1/cluster/objects", reports));
  await addCsiNode(1);
  succeeded(await create({ Secrets: { key: CANARY } }));
  await del("/v1/volume/csi/v1").catch(() => null);
  const receiver = { Type: "webhook", URL: "https://receiver.invalid/", Secret: SECRET };
  succeeded(await put("/v1/event/subscription/s", { Target: receiver }));
  succeeded(await put("/v1/event/subscription/s/pause", {}));
  csi.behave = () => "hold";
  const volume = create({ ID: "v2", Name: "vol-two", Secrets: { key: CANARY } });
  await vi.waitFor(() => expect(csi.holding).toBe(1));
  await Promise.all([csi.release(), volume]);
  vi.restoreAllMocks();
  const [agent] = await ScriptedAgent.connected();
  const asked = operation({ secrets: { key: CANARY } });
  expect(await nodeSession(env, agent.node).start(asked)).toEqual({ ok: true, value: null });
  return { tenant, lease, token, agent, destroyedMount };
}

type Row = Record<string, unknown>;
/** By object and table. */
export type Rows = Record<string, Row[]>;

/** Every object that a snapshot has to have, by name: one that wakes without its name does not find its keys. */
export async function allObjects(): Promise<ObjectName[]> {
  const found: ObjectName[] = [...SINGLETONS];
  for await (const object of everyObject(env)) found.push(object);
  return found;
}

/** Every row of these objects, also of tables that are only there for a snapshot or a restore; but no record of births. */
export async function rowsOf(objects: readonly ObjectName[]): Promise<Rows> {
  const found: Rows = {};
  for (const object of objects) {
    const stub = storedObject(env, object) as unknown as DurableObjectStub;
    await runInDurableObject(stub, (_object, { storage: { sql } }) => {
      const tables = sql.exec<{ name: string }>(
        `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf_*' AND name <> 'births:objects'
         ORDER BY name`,
      );
      for (const { name } of tables.toArray()) {
        const rows = sql.exec(`SELECT * FROM "${name}"`).toArray();
        if (rows.length > 0)
          found[`${object.kind} ${object.name} ${name}`] = name === "sqlite_sequence" ? sorted(rows) : rows;
      }
    });
  }
  return found;
}

const sorted = (rows: Row[]): Row[] => rows.sort((a, b) => (String(a["name"]) < String(b["name"]) ? -1 : 1));

/** Without the tables that a snapshot or a restore makes for itself. */
export const ownRows = (rows: Rows): Rows =>
  Object.fromEntries(Object.entries(rows).filter(([name]) => !name.includes(":")));

/** All listings, in order. */
export async function listed(): Promise<Row[][]> {
  const tables = ["destinations", "associations"].map((table) => env.LISTINGS.prepare(`SELECT * FROM ${table}`));
  return (await env.LISTINGS.batch<Row>(tables)).map(({ results }) => results);
}

/** Looks at all rows at the moment when `method` of `AccessControl` is called for the first time, if `when` says so. */
export function lookBefore(
  method: "thaw" | "stepRestore",
  objects: readonly ObjectName[],
  when: (storage: DurableObjectStorage) => boolean = () => true,
) {
  let rows: Rows | undefined;
  const prototype = AccessControl.prototype as unknown as Record<string, (...given: unknown[]) => unknown>;
  const original = prototype[method];
  const spy = vi.spyOn(prototype, method).mockImplementation(async function (this: unknown, ...given: unknown[]) {
    const { storage } = (this as { ctx: DurableObjectState }).ctx;
    if (!rows && when(storage)) {
      rows = {};
      rows = await rowsOf(objects);
    }
    return original?.apply(this, given);
  });
  return () => {
    spy.mockRestore();
    return ownRows(rows ?? {});
  };
}

/** Whether all rows of a restore are in place, and no object has begun to work. */
export const allInPlace = (storage: DurableObjectStorage): boolean =>
  storage.kv.get<{ phase: string }>("restore")?.phase === "releasing";

export async function snapshot(): Promise<Uint8Array> {
  const response = await exports.default.fetch("https://x/v1/sys/snapshot", { headers: { "X-Orch-Token": "root" } });
  expect(response.status, response.status === 200 ? "" : await response.clone().text()).toBe(200);
  return new Uint8Array(await response.arrayBuffer());
}

/** RestoreLedger a file; resolves with the answer. */
export async function restore(file: Uint8Array | ReadableStream<Uint8Array>, token = "root"): Promise<Answer> {
  const response = await exports.default.fetch("https://x/v1/sys/snapshot", {
    method: "POST",
    headers: { "X-Orch-Token": token },
    body: file,
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
}

/** Everything is lost: a new deployment, as empty as the first one was. */
export async function loseEverything(): Promise<void> {
  await emptyDeployment();
  clearAuthorizeCache();
  forgetGateLeases();
}
