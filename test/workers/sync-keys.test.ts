import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { cloudASm } from "../../src/sync/destinations/cloud-a-sm/adapter.ts";
import { SyncDestination } from "../../src/worker.ts";
import { get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { type ProviderAccount, providers } from "./sync-doubles.ts";
import {
  endFreshRights,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  type View,
  viewsAt,
  write,
} from "./sync-helpers.ts";
import { byItself, time } from "./sync-time.ts";

clock.moves = true;

/** A secret's objects at a destination as the API shows them, by key. */
async function keysAt(destination: string, secret = "app"): Promise<Record<string, View>> {
  const views = (await viewsAt(destination)).filter((view) => view.secret_name === secret);
  return Object.fromEntries(views.map((view) => [view.sub_key ?? "", view]));
}

const statusesAt = async (destination: string, secret = "app"): Promise<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(await keysAt(destination, secret)).map(([key, { sync_status }]) => [key, sync_status]),
  );

const settled = (destination: string, statuses: Record<string, string>) =>
  eventually(async () => expect(await statusesAt(destination)).toEqual(statuses));

const perKey = { granularity: "secret-key", secret_name_template: "x-{{ .SecretKey }}" };

/** All that is at the double of cloud-a, name to value. */
const atCloudA = async (): Promise<Record<string, string>> =>
  Object.fromEntries((await cloudA.secrets()).map(({ name, value }) => [name, String(value)]));

/** The names that were written since, in order. */
async function writesSince(start: number): Promise<string[]> {
  const requests = (await cloudA.requests()).slice(start) as { operation: string; subject?: string | null }[];
  return requests
    .filter(({ operation }) => operation === "CreateSecret" || operation === "UpdateSecret")
    .map(({ subject }) => String(subject));
}
const requestCount = async () => (await cloudA.requests()).length;

beforeEach(async () => {
  await cloudA.begin();
  await mountKv();
  await makeDestination("cloud-a-sm", "d", {
    access_key_id: cloudA.key().accessKeyId,
    secret_access_key: cloudA.key().secretAccessKey,
    region: "eu-west-1",
    ...perKey,
  });
  await makeDestination("in-mem", "m", { granularity: "secret-key", secret_name_template: "{{ .SecretKey }}" });
});

describe.each(Object.keys(providers))("at %s", (type) => {
  let account: ProviderAccount;
  beforeEach(async () => {
    account = await (providers[type] as () => Promise<ProviderAccount>)();
    await makeDestination(type, "k", { ...account.body, ...perKey });
  });

  // Proves: B.cloud-a-sm.granularity, B.cloud-b-kv.granularity, B.cloud-c-sm.granularity,
  // B.deploy-project.granularity, B.repo-host.granularity
  it("there is one object per key, created, changed and removed with it", async () => {
    const outside = async () => Object.values(await account.values()).sort();
    await write("app", { a: "one", b: "two" });
    const set = await setAssociation(`${type}/k`, "app");
    expect(set.body.data.sync_operation_counters).toEqual({ SYNCED: 2 });
    expect(await outside()).toEqual(["one", "two"]);
    await write("app", { b: "two", c: "three" });
    await eventually(async () => expect(await outside()).toEqual(["three", "two"]));
    await settled(`${type}/k`, { b: "SYNCED", c: "SYNCED" });
    expect((await removeAssociation(`${type}/k`, "app")).status).toBe(200);
    await settled(`${type}/k`, {});
    expect(await account.values()).toEqual({});
  });
});

describe("values", () => {
  it("are pushed by type: texts and numbers verbatim, others as JSON, null as an empty text", async () => {
    const data =
      '{"t":"x \\"y\\" é","n":12345678901234567890123,"f":1.50,"e":1e400,"yes":true,"no":false,"nil":null,"o":{"b":[1,{"z":0,"a":1.0}],"a":"<&>"},"empty":""}';
    expect((await put("/v1/kv/data/app", `{"data":${data}}`)).status).toBe(200);
    expect((await setAssociation("in-mem/m", "app")).body.data.sync_operation_counters).toEqual({ SYNCED: 9 });
    expect(await objects("m")).toEqual({
      t: 'x "y" é',
      n: "12345678901234567890123",
      f: "1.50",
      e: "1e400",
      yes: "true",
      no: "false",
      nil: "",
      o: '{"a":"<&>","b":[1,{"a":1.0,"z":0}]}',
      empty: "",
    });
  });

  it("of a secret without keys are empty: it is synced, and existing objects are removed", async () => {
    await write("app", {});
    const set = await setAssociation("cloud-a-sm/d", "app");
    expect(set.body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    expect(await atCloudA()).toEqual({});
    await write("app", { a: "1" });
    await eventually(async () => expect(await atCloudA()).toEqual({ "x-a": "1" }));
    await write("app", {});
    await eventually(async () => expect(await atCloudA()).toEqual({}));
    await settled("cloud-a-sm/d", { "": "SYNCED" });
  });
});

describe("more than 1000 keys", () => {
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, String(i)]));

  it("return 400 when the association is set", async () => {
    await write("app", many(1_001));
    const refused = await setAssociation("in-mem/m", "app");
    expect([refused.status, refused.body.errors]).toEqual([
      400,
      ["the secret has 1001 keys; with granularity secret-key at most 1000 are pushed"],
    ]);
    expect(await keysAt("in-mem/m")).toEqual({});
  });

  it("of a later version leave existing objects unchanged, and 1000 are pushed", async () => {
    await write("app", many(1_000));
    await setAssociation("in-mem/m", "app");
    await eventually(async () => expect(Object.keys(await objects("m"))).toHaveLength(1_000));
    await write("app", many(1_001));
    await eventually(async () =>
      expect((await keysAt("in-mem/m"))["k0"]).toMatchObject({
        sync_status: "CLIENT_SIDE_ERROR",
        error_code: "too_many_keys",
      }),
    );
    expect(Object.keys(await objects("m"))).toHaveLength(1_000);
    await write("app", many(2));
    await eventually(async () => expect(await objects("m")).toEqual({ k0: "0", k1: "1" }));
  });
});

describe("a new version", () => {
  beforeEach(async () => {
    await write("app", { a: "1", b: "1", c: "1" });
    await setAssociation("cloud-a-sm/d", "app");
    await settled("cloud-a-sm/d", { a: "SYNCED", b: "SYNCED", c: "SYNCED" });
  });

  it("pushes changed keys only, and all objects show the new version", async () => {
    const start = await requestCount();
    await write("app", { a: "1", b: "2", c: "1", n: "new" });
    await eventually(async () => expect(await writesSince(start)).toEqual(["x-b", "x-n"]));
    await eventually(async () => {
      const versions = Object.values(await keysAt("cloud-a-sm/d")).map((view) => view.synced_version);
      expect(versions).toEqual([2, 2, 2, 2]);
    });
  });

  it("with one refused key syncs the others, with a status per key and the worst for the secret", async () => {
    await write("app", { a: "2", b: "x".repeat(70_000), c: "2" });
    await settled("cloud-a-sm/d", { a: "SYNCED", b: "CLIENT_SIDE_ERROR", c: "SYNCED" });
    expect(await atCloudA()).toEqual({ "x-a": "2", "x-b": "1", "x-c": "2" });
    expect((await keysAt("cloud-a-sm/d"))["b"]).toMatchObject({ error_code: "value_too_large", synced_version: 1 });
    const { body } = await get("/sys/sync/associations/destinations?mount=kv&secret_name=app");
    expect(body.data.associated_destinations["cloud-a-sm/d"]).toMatchObject({
      sync_status: "CLIENT_SIDE_ERROR",
      error_code: "value_too_large",
      sub_keys: {
        a: { sync_status: "SYNCED", synced_version: 2 },
        b: { sync_status: "CLIENT_SIDE_ERROR", external_name: "x-b", error_code: "value_too_large", synced_version: 1 },
      },
    });
    const start = await requestCount();
    await write("app", { a: "2", b: "small", c: "2" });
    await settled("cloud-a-sm/d", { a: "SYNCED", b: "SYNCED", c: "SYNCED" });
    expect(await writesSince(start)).toEqual(["x-b"]);
  });

  it("refused in one key continues with the next", async () => {
    await cloudA.fault({ fault: "error", type: "InvalidParameterException", operation: "UpdateSecret" });
    await write("app", { a: "2", b: "2", c: "2" });
    await settled("cloud-a-sm/d", { a: "CLIENT_SIDE_ERROR", b: "SYNCED", c: "SYNCED" });
    expect(await atCloudA()).toEqual({ "x-a": "1", "x-b": "2", "x-c": "2" });
  });

  it("interrupted by a failure continues there, without repeated pushes", async () => {
    await write("app", { a: "2", b: "1", c: "1" });
    await eventually(async () => expect((await atCloudA())["x-a"]).toBe("2"));
    await settled("cloud-a-sm/d", { a: "SYNCED", b: "SYNCED", c: "SYNCED" });
    const start = await requestCount();
    await cloudA.fault({ fault: "error", type: "InternalServiceError", status: 500, operation: "UpdateSecret" });
    await write("app", { a: "2", b: "2", c: "2" });
    await eventually(async () => expect(await atCloudA()).toEqual({ "x-a": "2", "x-b": "2", "x-c": "2" }));
    await settled("cloud-a-sm/d", { a: "SYNCED", b: "SYNCED", c: "SYNCED" });
    // The second is the one that failed.
    expect(await writesSince(start)).toEqual(["x-b", "x-b", "x-c"]);
  });
});

it("makes one call when the refusal concerns all keys, and all keys show it", async () => {
  await write("app", { a: "1", b: "2", c: "3" });
  await endFreshRights("cloud-a-sm/d");
  await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "CreateSecret", count: 1_000 });
  await setAssociation("cloud-a-sm/d", "app");
  const refused = "CLIENT_SIDE_ERROR";
  await settled("cloud-a-sm/d", { a: refused, b: refused, c: refused });
  await eventually(() =>
    runInDurableObject(env.SYNC_DESTINATION.getByName("cloud-a-sm/d"), (object: SyncDestination) =>
      expect((object.nextDue() ?? Number.POSITIVE_INFINITY) - Date.now()).toBeGreaterThan(60_000),
    ),
  );
  expect(await writesSince(0)).toEqual(["x-a"]);
});

it("continues in another task when one has not enough time for all keys", async () => {
  time.begin();
  const real = cloudASm.put.bind(cloudASm);
  const pushed: string[] = [];
  vi.spyOn(cloudASm, "put").mockImplementation(async (object, connection, context) => {
    const done = await real(object, connection, context);
    pushed.push(object.name);
    time.pass(8_000);
    return done;
  });
  const keys = ["a", "b", "c", "d", "e", "f", "g"];
  await write("app", Object.fromEntries(keys.map((key) => [key, "1"])));
  await setAssociation("cloud-a-sm/d", "app");
  await byItself(
    async () => expect(Object.values(await statusesAt("cloud-a-sm/d"))).toEqual(keys.map(() => "SYNCED")),
    ["cloud-a-sm/d"],
    { stepMs: 1_000 },
  );
  expect(pushed).toEqual(keys.map((key) => `x-${key}`));
});

describe("an object that dies after it has recorded the plan", () => {
  /** Kills it once, when the next plan is durable but unanswered. */
  function killAfterPlan(): () => boolean {
    let happened = false;
    const real = SyncDestination.prototype.plan;
    vi.spyOn(SyncDestination.prototype, "plan").mockImplementationOnce(function (this: SyncDestination, ...parameters) {
      real.apply(this, parameters);
      happened = true;
      const { ctx } = this as unknown as { ctx: DurableObjectState };
      ctx.abort("killed after plan");
      throw new Error("killed");
    });
    return () => happened;
  }

  it("converges to exactly the keys of the secret, and leaves no object after removal", async () => {
    time.begin();
    await write("app", { a: "1", b: "1" });
    await setAssociation("cloud-a-sm/d", "app");
    const happened = killAfterPlan();
    await write("app", { b: "1", c: "1" });
    await byItself(async () => {
      expect(happened()).toBe(true);
      expect(await atCloudA()).toEqual({ "x-b": "1", "x-c": "1" });
      expect(await statusesAt("cloud-a-sm/d")).toEqual({ b: "SYNCED", c: "SYNCED" });
    }, ["cloud-a-sm/d"]);
    await removeAssociation("cloud-a-sm/d", "app");
    await byItself(async () => expect(await atCloudA()).toEqual({}), ["cloud-a-sm/d"]);
  });

  it("does not remove a foreign object under a name that was only planned", async () => {
    time.begin();
    await write("app", { a: "1" });
    await setAssociation("cloud-a-sm/d", "app");
    const happened = killAfterPlan();
    await cloudA.call("CreateSecret", { Name: "x-b", SecretString: "theirs", ClientRequestToken: "t".repeat(32) });
    await write("app", { a: "1", b: "1" });
    await eventually(() => expect(happened()).toBe(true));
    await write("app", { a: "1" });
    await byItself(async () => expect(await statusesAt("cloud-a-sm/d")).toEqual({ a: "SYNCED" }), ["cloud-a-sm/d"]);
    expect(await atCloudA()).toEqual({ "x-a": "1", "x-b": "theirs" });
  });
});
