import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { SyncDestination } from "../../src/worker.ts";
import { itRows } from "../support/rows.ts";
import { del, get, mountKv, put } from "./client.ts";
import { evictObject } from "./evict-all.ts";
import { cloudA } from "./sync-cloud-a.ts";
import {
  association,
  cloudABody,
  endFreshRights,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  setWithoutWaiting,
  write,
} from "./sync-helpers.ts";

let accessor = "";
beforeEach(async () => {
  await cloudA.begin();
  ({ accessor } = await mountKv());
  await makeDestination("cloud-a-sm", "d");
  await makeDestination("in-mem", "m");
});

const nameOf = (secret: string) => `vault/${accessor}/${secret}`;
const stub = (name: string) => env.SYNC_DESTINATION.getByName(name);

/** Nothing is left to be done but the scan, which comes once an hour. */
const expectQuiet = (object: SyncDestination): void =>
  expect((object.nextDue() ?? Number.POSITIVE_INFINITY) - Date.now()).toBeGreaterThan(60_000);

describe("setting an association", () => {
  // Proves: B.assoc.accessor, B.assoc.of-destination, B.assoc.set, B.assoc.status, B.dest.naming.cloud-a-sm,
  // B.state.set.first, B.sync.pushes, B.sync.set-triggers
  it("pushes the secret under its default name and returns only the changed association", async () => {
    await write("app/db", { b: 1.0, a: "x" });
    await write("other", { a: 1 });
    await setAssociation("cloud-a-sm/d", "other");
    const set = await setAssociation("cloud-a-sm/d", "app/db");
    expect(set.status).toBe(200);
    expect(set.body.data).toEqual({
      store_name: "d",
      store_type: "cloud-a-sm",
      associated_secrets: {
        [`${accessor}/app/db`]: {
          accessor,
          secret_name: "app/db",
          external_name: nameOf("app/db"),
          sync_status: "SYNCED",
          synced_version: 1,
          updated_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        },
      },
      sync_operation_counters: { SYNCED: 1 },
    });
    const all = await get("/sys/sync/destinations/cloud-a-sm/d/associations");
    expect(Object.keys(all.body.data.associated_secrets).sort()).toEqual([`${accessor}/app/db`, `${accessor}/other`]);
    expect(all.body.data.sync_operation_counters).toEqual({ SYNCED: 2 });
    const [secret] = (await cloudA.secrets()).filter(({ name }) => name === nameOf("app/db"));
    expect(secret).toMatchObject({ value: '{"a":"x","b":1}', tags: { "hashicorp:vault": "" } });
  });

  // Proves: B.assoc.of-destination
  it("returns an empty list for a destination without associations", async () => {
    const none = await get("/sys/sync/destinations/in-mem/m/associations");
    expect(none.body.data).toMatchObject({ associated_secrets: {}, sync_operation_counters: {} });
  });

  itRows([
    ["nothing", "Secret not found. Please provide full path to existing secret", "app/", "kv", 400],
    ["an unknown secret", "secret not found: kv/nope", "nope", "kv", 400],
    ["a deleted secret", "secret not found: kv/gone", "gone", "kv", 400],
    ["an unknown mount", "mount: no secret engine mount at zz/", "app", "zz", 400],
    ["a strange name", "secret_name: ", "a/../b", "kv", 400],
  ])("of %s is refused: %s", async (_what, text, secret, mount, status) => {
    await write("gone", { a: 1 });
    await del("/v1/kv/data/gone");
    const refused = await setAssociation("in-mem/m", secret, mount);
    expect([refused.status, refused.body.errors[0]]).toEqual([status, expect.stringContaining(text)]);
    expect((await get("/sys/sync/destinations/in-mem/m/associations")).body.data.associated_secrets).toEqual({});
  });

  // Proves: B.state.set.no-destination
  it("returns 404 for an absent destination", async () => {
    await write("app", { a: 1 });
    expect((await setAssociation("in-mem/none", "app")).status).toBe(404);
    expect((await removeAssociation("in-mem/none", "app")).status).toBe(404);
  });

  it("accepts any name, including __proto__", async () => {
    const named = { granularity: "secret-key", secret_name_template: "{{ .SecretKey }}" };
    await makeDestination("in-mem", "keys", named);
    await put("/v1/kv/data/odd", '{"data":{"__proto__":"a","constructor":"b"}}');
    await setAssociation("in-mem/keys", "odd");
    const { text } = await get("/sys/sync/destinations/in-mem/keys/objects");
    expect([...text.matchAll(/"(\w+)":\{"value":"(.)"/g)].map(([, name, value]) => [name, value])).toEqual([
      ["__proto__", "a"],
      ["constructor", "b"],
    ]);
  });

  it("requires read on the secret at the time of the set only", async () => {
    await write("app", { a: 1 });
    const sync = 'path "sys/sync/*" { capabilities = ["create","update","read"] }';
    await put("/v1/sys/policies/acl/sync", { policy: sync });
    const { body } = await put("/v1/auth/token/create", { policies: ["sync"] });
    const options = { token: body.auth.client_token };
    const at = "/sys/sync/destinations/in-mem/m/associations/set";
    const refused = await put(at, { mount: "kv/", secret_name: "app" }, options);
    expect([refused.status, refused.body.errors[0]]).toEqual([
      403,
      "permission denied to read the content of the secret app in mount kv",
    ]);
    await put("/v1/sys/policies/acl/sync", { policy: `${sync} path "kv/data/app" { capabilities = ["read"] }` });
    expect((await put(at, { mount: "kv/", secret_name: "app" }, options)).status).toBe(200);
    await put("/v1/sys/policies/acl/sync", { policy: sync });
    await write("app", { a: 2 });
    await eventually(async () => expect(await objects("m")).toEqual({ [nameOf("app")]: '{"a":2}' }));
  });

  // Proves: B.assoc.set.refresh, B.cloud-a-sm.secret_name_template, B.dest.secret_name_template.applied,
  // B.state.set.again.pushes
  it("again pushes again, under the new name after a change of the template, and removes the old one", async () => {
    await write("app", { a: 1 });
    await setAssociation("cloud-a-sm/d", "app");
    await cloudA.call("UpdateSecret", {
      SecretId: nameOf("app"),
      SecretString: "drift",
      ClientRequestToken: "x".repeat(32),
    });
    await setAssociation("cloud-a-sm/d", "app");
    expect(await cloudA.value(nameOf("app"))).toBe('{"a":1}');
    await makeDestination("cloud-a-sm", "d", { secret_name_template: "new/{{ .SecretPath }}" });
    await write("app", { a: 2 });
    await eventually(async () => expect(await cloudA.value(nameOf("app"))).toBe('{"a":2}'));
    const set = await setAssociation("cloud-a-sm/d", "app");
    expect(set.body.data.associated_secrets[`${accessor}/app`].external_name).toBe("new/app");
    await eventually(async () => expect((await cloudA.secrets()).map(({ name }) => name)).toEqual(["new/app"]));
  });

  it("returns 400 when another secret's object has the external name", async () => {
    await makeDestination("cloud-a-sm", "d", { secret_name_template: "same" });
    await write("one", { a: 1 });
    await write("two", { a: 2 });
    await setAssociation("cloud-a-sm/d", "one");
    const refused = await setAssociation("cloud-a-sm/d", "two");
    expect([refused.status, refused.body.errors[0]]).toEqual([
      400,
      `external name "same" is taken by the association of ${accessor}/one`,
    ]);
    await makeDestination("cloud-a-sm", "d", { secret_name_template: "other" });
    await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "DeleteSecret", count: 1_000 });
    expect((await setAssociation("cloud-a-sm/d", "one")).status).toBe(200);
    await eventually(async () =>
      expect((await association("cloud-a-sm/d", "one"))?.sync_status).toBe("CLIENT_SIDE_ERROR"),
    );
    await cloudA.clearFaults();
    await makeDestination("cloud-a-sm", "d", { secret_name_template: "same" });
    await eventually(async () => expect((await association("cloud-a-sm/d", "one"))?.sync_status).toBe("SYNCED"));
    expect((await setAssociation("cloud-a-sm/d", "two")).status).toBe(200);
    expect(await cloudA.value("same")).toBe('{"a":2}');
  });
});

describe("removing an association", () => {
  // Proves: B.assoc.remove, B.state.remove.absent, B.state.remove.present, B.sync.remove-triggers,
  // E.errors.7.association-gone
  it("removes the remote object, shows it once as unsynced, and may be repeated", async () => {
    for (const at of ["cloud-a-sm/d", "in-mem/m"]) {
      await write("app", { a: 1 });
      await setAssociation(at, "app");
      const removed = await removeAssociation(at, "app", "kv/");
      expect(removed.body.data).toMatchObject({
        associated_secrets: { [`${accessor}/app`]: { sync_status: "UNSYNCED", external_name: nameOf("app") } },
        sync_operation_counters: { UNSYNCED: 1 },
      });
      expect(await association(at, "app")).toBeUndefined();
      const again = await removeAssociation(at, "app");
      expect([again.status, again.body.data.associated_secrets]).toEqual([200, {}]);
    }
    expect(await cloudA.secrets()).toEqual([]);
    expect(await objects("m")).toEqual({});
  });

  it("stops pushes of later writes, and allows the deletion of the destination", async () => {
    await write("app", { a: 1 });
    await setAssociation("in-mem/m", "app");
    await removeAssociation("in-mem/m", "app");
    await write("app", { a: 2 });
    expect((await del("/sys/sync/destinations/in-mem/m")).status).toBe(204);
    await runInDurableObject(env.KV_STORE.getByName((await get("/v1/sys/mounts/kv")).body.data.uuid), (_kv, state) => {
      expect(state.storage.sql.exec("SELECT * FROM watchers").toArray()).toEqual([]);
    });
  });

  // Proves: E.errors.7.secret-gone
  it("succeeds when the remote object is absent already", async () => {
    await write("app", { a: 1 });
    await setAssociation("cloud-a-sm/d", "app");
    await cloudA.call("DeleteSecret", { SecretId: nameOf("app"), ForceDeleteWithoutRecovery: true });
    expect((await removeAssociation("cloud-a-sm/d", "app")).body.data.sync_operation_counters).toEqual({ UNSYNCED: 1 });
  });

  it("works after the mount was disabled, which removed its secrets", async () => {
    await write("app", { a: 1 });
    await setAssociation("cloud-a-sm/d", "app");
    await del("/v1/sys/mounts/kv");
    await eventually(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("UNSYNCED"));
    expect(await cloudA.secrets()).toEqual([]);
    const removed = await removeAssociation("cloud-a-sm/d", "app");
    expect(removed.body.data.sync_operation_counters).toEqual({ UNSYNCED: 1 });
    expect(await association("cloud-a-sm/d", "app")).toBeUndefined();
  });

  it("that is refused keeps the association with its error, and is retried after a repair of the keys", async () => {
    await write("app", { a: 1 });
    await setAssociation("cloud-a-sm/d", "app");
    await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "DeleteSecret" });
    const refused = await removeAssociation("cloud-a-sm/d", "app");
    expect(refused.body.data.associated_secrets[`${accessor}/app`]).toMatchObject({
      sync_status: "CLIENT_SIDE_ERROR",
      error_code: "permission_denied",
    });
    await makeDestination("cloud-a-sm", "d");
    await eventually(async () => expect(await association("cloud-a-sm/d", "app")).toBeUndefined());
    expect(await cloudA.secrets()).toEqual([]);
  });
});

describe("a change of the secret", () => {
  const both = async (secret: string) => {
    await setAssociation("cloud-a-sm/d", secret);
    await setAssociation("in-mem/m", secret);
  };
  const seen = async (secret: string) => [await cloudA.value(nameOf(secret)), (await objects("m"))[nameOf(secret)]];

  it("is pushed by itself, only the newest version of concurrent writes", async () => {
    await write("app", { v: 0 });
    await both("app");
    const before = (await cloudA.requests()).length;
    await Promise.all(Array.from({ length: 20 }, (_, v) => write("app", { v: v + 1 })));
    const newest = JSON.stringify((await get("/v1/kv/data/app")).body.data.data);
    await eventually(async () => expect(await seen("app")).toEqual([newest, newest]));
    await eventually(async () => expect((await association("cloud-a-sm/d", "app"))?.["synced_version"]).toBe(21));
    const pushes = (await cloudA.requests()).slice(before).filter(({ operation }) => operation === "UpdateSecret");
    expect(pushes.length).toBeLessThan(20);
  });

  it("that deletes the newest version pushes the newest living one, or removes the object", async () => {
    await write("app", { v: 1 });
    await write("app", { v: 2 });
    await both("app");
    await del("/v1/kv/data/app");
    await eventually(async () => expect(await seen("app")).toEqual(['{"v":1}', '{"v":1}']));
    await put("/v1/kv/destroy/app", { versions: [1] });
    await eventually(async () => expect(await seen("app")).toEqual([undefined, undefined]));
    for (const at of ["cloud-a-sm/d", "in-mem/m"]) {
      await eventually(async () => expect((await association(at, "app"))?.sync_status).toBe("UNSYNCED"));
    }
    await put("/v1/kv/undelete/app", { versions: [2] });
    await eventually(async () => expect(await seen("app")).toEqual(['{"v":2}', '{"v":2}']));
  });

  it("that deletes the path removes the object and keeps the association", async () => {
    await write("app", { v: 1 });
    await both("app");
    await del("/v1/kv/metadata/app");
    await eventually(async () => expect(await seen("app")).toEqual([undefined, undefined]));
    await write("app", { v: "new" });
    await eventually(async () => expect(await seen("app")).toEqual(['{"v":"new"}', '{"v":"new"}']));
  });

  it("without effect on living versions causes no push", async () => {
    await write("app", { v: 1 });
    await write("app", { v: 2 });
    await setAssociation("cloud-a-sm/d", "app");
    const before = (await cloudA.requests()).length;
    await put("/v1/kv/delete/app", { versions: [1] });
    await put("/v1/kv/destroy/app", { versions: [1] });
    await eventually(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED"));
    await eventually(() => runInDurableObject(stub("cloud-a-sm/d"), (object) => expectQuiet(object)));
    expect((await cloudA.requests()).slice(before)).toEqual([]);
  });

  it("larger than the destination's limit is refused until a smaller version", async () => {
    await write("app", { v: "x".repeat(70_000) });
    const set = await setAssociation("cloud-a-sm/d", "app");
    expect(set.body.data.associated_secrets[`${accessor}/app`]).toMatchObject({
      sync_status: "CLIENT_SIDE_ERROR",
      error_code: "value_too_large",
      error_message: expect.stringContaining("65536"),
    });
    await write("app", { v: "small" });
    await eventually(async () => {
      expect(await cloudA.value(nameOf("app"))).toBe('{"v":"small"}');
      expect(await association("cloud-a-sm/d", "app")).toMatchObject({ sync_status: "SYNCED" });
    });
    expect((await association("cloud-a-sm/d", "app"))?.["error_code"]).toBeUndefined();
  });
});

describe("a provider that", () => {
  const setOne = async () => {
    await write("app", { a: 1 });
    const set = await setAssociation("cloud-a-sm/d", "app");
    return set.body.data.associated_secrets[`${accessor}/app`];
  };
  const syncs = () =>
    eventually(async () => {
      expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED");
      expect(await cloudA.value(nameOf("app"))).toBe('{"a":1}');
    });

  // Proves: B.assoc.of-destination, B.assoc.status.cause
  it("refuses the credentials receives no call until a change", async () => {
    await endFreshRights("cloud-a-sm/d");
    await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "CreateSecret" });
    expect(await setOne()).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR", error_code: "permission_denied" });
    const calls = (await cloudA.requests()).length;
    await eventually(() => runInDurableObject(stub("cloud-a-sm/d"), (object) => expectQuiet(object)));
    await runInDurableObject(stub("cloud-a-sm/d"), (object) => object.alarm());
    expect((await cloudA.requests()).length).toBe(calls);
    await makeDestination("cloud-a-sm", "d", {});
    await syncs();
  });

  it("returns a refusal for an unknown key", async () => {
    await makeDestination("cloud-a-sm", "d", { access_key_id: "AKIAUNKNOWN" });
    expect(await setOne()).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR", error_code: "auth_failed" });
    await makeDestination("cloud-a-sm", "d", cloudABody());
    await syncs();
  });

  // Proves: B.assoc.status
  it("fails is retried by itself, and the response shows the next attempt", async () => {
    await cloudA.fault({ fault: "error", type: "InternalServiceError", status: 500, count: 1 });
    const entry = await setOne();
    expect(entry).toMatchObject({
      sync_status: "EXTERNAL_SERVICE_ERROR",
      error_code: "provider_unavailable",
      attempts: 1,
      next_attempt_at: expect.any(String),
    });
    await syncs();
    expect((await association("cloud-a-sm/d", "app"))?.["attempts"]).toBeUndefined();
  });

  it("requests a wait receives no call for any association of the destination", async () => {
    await write("second", { a: 2 });
    await cloudA.fault({
      fault: "error",
      type: "ThrottlingException",
      status: 429,
      headers: { "retry-after": "40" },
    });
    const entry = await setOne();
    expect(entry).toMatchObject({ sync_status: "EXTERNAL_SERVICE_ERROR", error_code: "throttled" });
    const wait = Date.parse(entry.next_attempt_at) - Date.now();
    expect(wait).toBeGreaterThan(30_000);
    const calls = (await cloudA.requests()).length;
    expect((await setAssociation("cloud-a-sm/d", "second")).body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    expect((await cloudA.requests()).length).toBe(calls);
  });

  it("performs a call without an answer leaves the status unknown until a repeat without a second effect", async () => {
    await cloudA.fault({ fault: "apply-then-drop", operation: "CreateSecret" });
    expect(await setOne()).toMatchObject({ sync_status: "UNKNOWN", error_code: "network_error" });
    expect(await cloudA.value(nameOf("app"))).toBe('{"a":1}');
    await syncs();
    await write("app", { a: 2 });
    await eventually(async () => expect(await cloudA.value(nameOf("app"))).toBe('{"a":2}'));
  });

  it("answers late does not delay the response, which shows PENDING", async () => {
    await cloudA.fault({ fault: "delay", ms: 3_500, operation: "CreateSecret" });
    await write("app", { a: 1 });
    const set = await setWithoutWaiting("cloud-a-sm/d", "app");
    expect(set.body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    await syncs();
  });
});

it("converges to the newest name, tags and value after changes during a push", async () => {
  await makeDestination("cloud-a-sm", "d", { custom_tags: { old: "1" } });
  await write("app", { v: 1 });
  await cloudA.fault({ fault: "delay", ms: 700, operation: "CreateSecret" });
  const first = setAssociation("cloud-a-sm/d", "app");
  await eventually(async () => expect(await cloudA.requests()).toHaveLength(1));
  await makeDestination("cloud-a-sm", "d", {
    secret_name_template: "new/{{ .SecretPath }}",
    custom_tags: { new: "1" },
  });
  await write("app", { v: 2 });
  await setAssociation("cloud-a-sm/d", "app");
  await first;
  const newest = { name: "new/app", value: '{"v":2}', tags: { new: "1", "hashicorp:vault": "" } };
  await eventually(async () => expect(await cloudA.secrets()).toMatchObject([newest]));
  await eventually(async () => expect((await association("cloud-a-sm/d", "app"))?.sync_status).toBe("SYNCED"));
});

it("removes tags that only a running push has set", async () => {
  await write("app", { v: 1 });
  await setAssociation("cloud-a-sm/d", "app");
  await makeDestination("cloud-a-sm", "d", { custom_tags: { passing: "1" } });
  await cloudA.fault({ fault: "delay", ms: 700, operation: "UpdateSecret" });
  const first = setAssociation("cloud-a-sm/d", "app");
  await eventually(async () => expect(await cloudA.requests()).toHaveLength(2));
  await makeDestination("cloud-a-sm", "d", { custom_tags: {} });
  await setAssociation("cloud-a-sm/d", "app");
  await first;
  await eventually(async () => expect((await cloudA.secrets())[0]?.tags).toEqual({ "hashicorp:vault": "" }));
});

it("keeps its pending work after a restart at any time", async () => {
  await write("app", { a: 1 });
  await evictObject(stub("in-mem/m"));
  await setAssociation("in-mem/m", "app");
  await evictObject(stub("in-mem/m"));
  await write("app", { a: 2 });
  await evictObject(stub("in-mem/m")).catch(() => undefined);
  await eventually(async () => expect(await objects("m")).toEqual({ [nameOf("app")]: '{"a":2}' }));
  await evictObject(stub("in-mem/m"));
  expect((await removeAssociation("in-mem/m", "app")).body.data.sync_operation_counters).toEqual({ UNSYNCED: 1 });
  expect(await objects("m")).toEqual({});
});

// Proves: E.auth.2.obfuscated
it("leaves no secret in plain rows, in D1, in queue messages or in the log", async () => {
  const canary = "canary-7f3a9";
  const logged: string[] = [];
  for (const method of ["log", "info", "warn", "error", "debug"] as const) {
    vi.spyOn(console, method).mockImplementation((...words) => void logged.push(words.map(String).join(" ")));
  }
  const sent: unknown[] = [];
  const send = env.SYNC_WORK.send.bind(env.SYNC_WORK);
  vi.spyOn(env.SYNC_WORK, "send").mockImplementation(async (message, options) => {
    sent.push(message);
    return send(message, options);
  });
  await makeDestination("cloud-a-sm", "d", cloudABody({ secret_access_key: canary }));
  await write("app", { password: canary, [canary]: 1 });
  for (const fault of ["drop", "apply-then-drop"] as const) await cloudA.fault({ fault });
  await cloudA.fault({ fault: "error", type: "InvalidRequestException", message: `bad ${canary}`, count: 2 });
  const first = await setAssociation("cloud-a-sm/d", "app");
  await setAssociation("in-mem/m", "app");
  await write("app", { password: canary, again: true });
  await eventually(async () => expect((await objects("m"))[nameOf("app")]).toContain("again"));
  const answers = [first.text, (await get("/sys/sync/destinations/cloud-a-sm/d/associations")).text];
  answers.push((await get("/sys/sync/destinations/cloud-a-sm/d")).text);
  const { results } = await env.LISTINGS.prepare("SELECT * FROM destinations").all();
  expect(results.length).toBeGreaterThan(0);
  let tables = 0;
  for (const name of ["cloud-a-sm/d", "in-mem/m"]) {
    await runInDurableObject(stub(name), (_object, state) => {
      const { sql } = state.storage;
      for (const { name: table } of sql.exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\' AND name NOT LIKE 'sqlite%'",
      )) {
        tables++;
        for (const row of sql.exec(`SELECT * FROM ${table}`)) {
          for (const value of Object.values(row)) {
            const text = value instanceof ArrayBuffer ? Buffer.from(value).toString("latin1") : String(value);
            expect(text.includes(canary), `${name} ${table}`).toBe(false);
          }
        }
      }
    });
  }
  expect(tables).toBeGreaterThan(8);
  expect(sent.length).toBeGreaterThan(0);
  expect(JSON.stringify([results, sent, logged, answers])).not.toContain(canary);
});
