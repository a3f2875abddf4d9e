import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { Settings } from "../../src/platform/settings.ts";
import { accessControl } from "../../src/rpc/stubs.ts";
import { holderOf, path, policies } from "./access.ts";
import { del, mountKv, patch, put, send } from "./client.ts";
import {
  creds,
  dynamicRole,
  mountEngine,
  openTenant,
  revoke,
  skippingWaits,
  succeeded,
  writeRole,
} from "./engine-helpers.ts";
import { appendKeys, closeAll, enableServiceEvents, openStream, throughRelays } from "./streams.ts";
import { cloudA } from "./sync-cloud-a.ts";
import { makeDestination, removeAssociation, setAssociation, write } from "./sync-helpers.ts";

/* Events about secrets, destinations, leases and engines on the stream. */

const DEFAULT = Settings.parse({}).SERVICE_EVENTS;

beforeEach(() => enableServiceEvents("Secret,Sync,Lease,Engine"));
afterEach(async () => {
  throughRelays(0);
  await closeAll();
});
afterAll(() => enableServiceEvents(DEFAULT));

type Stream = Awaited<ReturnType<typeof openStream>>;

/** The next events of a stream as `type key`. */
async function types(stream: Stream, count: number): Promise<string[]> {
  const seen: string[] = [];
  while (seen.length < count) seen.push(...(await stream.nextLine()).Events.map(({ Type, Key }) => `${Type} ${Key}`));
  return seen;
}

describe("topic Secret", () => {
  it("reports each change of a secret, with names and versions only", async () => {
    await mountKv("kv");
    const stream = await openStream("?topic=Secret:kv/&index=-1");
    await put("/v1/kv/data/app/db", { data: { password: "hunter2" } });
    const [first] = (await stream.nextLine()).Events;
    expect(first).toEqual({
      Topic: "Secret",
      Type: "SecretWritten",
      Key: "kv/app/db",
      Namespace: "",
      Index: expect.any(Number),
      FilterKeys: ["kv/data/app/db", "kv/"],
      Payload: {
        Secret: {
          Namespace: "",
          Mount: "kv/",
          MountType: "kv",
          MountAccessor: expect.stringMatching(/^kv_[0-9a-f]{8}$/),
          Time: expect.stringMatching(/^\d{4}-.*Z$/),
          Path: "app/db",
          Api: 2,
          Operation: "data-write",
          Version: 1,
          CurrentVersion: 1,
          OldestVersion: 0,
        },
      },
    });
    await patch("/v1/kv/data/app/db", { data: { password: "hunter3" } });
    await del("/v1/kv/data/app/db");
    await send("POST", "/v1/kv/undelete/app/db", { versions: [2] });
    await send("POST", "/v1/kv/delete/app/db", { versions: [1] });
    await send("POST", "/v1/kv/destroy/app/db", { versions: [1, 2] });
    await put("/v1/kv/metadata/app/db", { custom_metadata: { owner: "hunter4" } });
    await patch("/v1/kv/metadata/app/db", { custom_metadata: { owner: "hunter5" } });
    await put("/v1/kv/config", { max_versions: 5 });
    await del("/v1/kv/metadata/app/db");
    const seen: unknown[] = [];
    let text = "";
    while (seen.length < 9) {
      const line = await stream.nextLine();
      text += JSON.stringify(line);
      for (const { Type, FilterKeys, Payload } of line.Events) {
        const { Operation, Version, Versions } = (Payload as unknown as { Secret: Record<string, unknown> }).Secret;
        seen.push([Type, Operation, FilterKeys?.[0], Version ?? Versions]);
      }
    }
    expect(seen).toEqual([
      ["SecretPatched", "data-patch", "kv/data/app/db", 2],
      ["SecretDeleted", "data-delete", "kv/data/app/db", [2]],
      ["SecretUndeleted", "undelete", "kv/data/app/db", [2]],
      ["SecretDeleted", "delete", "kv/data/app/db", [1]],
      ["SecretDestroyed", "destroy", "kv/data/app/db", [1, 2]],
      ["SecretMetadataWritten", "metadata-write", "kv/metadata/app/db", undefined],
      ["SecretMetadataWritten", "metadata-patch", "kv/metadata/app/db", undefined],
      ["SecretConfigWritten", "config-write", "kv/config", undefined],
      ["SecretMetadataDeleted", "metadata-delete", "kv/metadata/app/db", undefined],
    ]);
    expect(text).not.toContain("hunter");
  });

  it("has no event of a request that changes nothing", async () => {
    await mountKv("kv");
    const stream = await openStream("?topic=Secret&index=-1");
    await put("/v1/kv/data/a", { data: {}, options: { cas: 5 } });
    await send("POST", "/v1/kv/undelete/a", { versions: [1] });
    await del("/v1/kv/metadata/a");
    await put("/v1/kv/data/last", { data: {} });
    expect(await types(stream, 1)).toEqual(["SecretWritten kv/last"]);
  });

  it("reports secrets of a version 1 mount by their path", async () => {
    await put("/v1/sys/mounts/old", { type: "kv" });
    const stream = await openStream("?topic=Secret:old/a&index=-1");
    await put("/v1/old/a", { password: "hunter2" });
    await del("/v1/old/a");
    const lines = [await stream.nextLine(), await stream.nextLine()];
    expect(lines.flatMap(({ Events }) => Events.map(({ Type, FilterKeys }) => [Type, FilterKeys]))).toEqual([
      ["SecretWritten", ["old/a", "old/"]],
      ["SecretDeleted", ["old/a", "old/"]],
    ]);
  });

  it("names the mount by its path at the time of delivery", async () => {
    await mountKv("kv");
    const stream = await openStream("?topic=Secret&index=-1");
    await put("/v1/kv/data/a", { data: {} });
    expect(await types(stream, 1)).toEqual(["SecretWritten kv/a"]);
    await send("POST", "/v1/sys/remount", { from: "kv", to: "moved" });
    await put("/v1/moved/data/a", { data: {} });
    expect(await types(stream, 1)).toEqual(["SecretWritten moved/a"]);
  });

  it("is off by default", async () => {
    await enableServiceEvents(DEFAULT);
    await mountKv("kv");
    const stream = await openStream("?topic=Secret&topic=Job&index=-1");
    await put("/v1/kv/data/a", { data: {} });
    await appendKeys("end");
    expect(await types(stream, 1)).toEqual(["JobRegistered end"]);
  });
});

describe("rights", () => {
  const write = (name: string) => put(`/v1/kv/data/${name}`, { data: {} });

  it.each([["read"], ["list"]])("(%s) on the path of an event let a token see it", async (capability) => {
    await mountKv("kv");
    const rules = path("kv/data/app/*", capability) + path("kv/data/app/no", "deny") + path("kv/metadata/*", "update");
    const { client_token: token } = await holderOf(rules);
    const stream = await openStream("?topic=Secret&index=-1", { token });
    for (const name of ["other", "app/no", "app/a"]) await write(name);
    await put("/v1/kv/metadata/app/a", { max_versions: 3 });
    await write("app/b");
    expect(await types(stream, 2)).toEqual(["SecretWritten kv/app/a", "SecretWritten kv/app/b"]);
  });

  it("change with the policy, at the event of the change", async () => {
    await mountKv("kv");
    const { client_token: token, policies: held } = await holderOf(path("kv/data/a", "read"));
    const stream = await openStream("?topic=Secret&index=-1", { token });
    await write("a");
    expect(await types(stream, 1)).toEqual(["SecretWritten kv/a"]);
    await policies({ [held[0]]: path("kv/data/b", "read") });
    await write("a");
    await write("b");
    expect(await types(stream, 1)).toEqual(["SecretWritten kv/b"]);
    await policies({ [held[0]]: path("kv/data/a", "read") });
    await write("b");
    await write("a");
    expect(await types(stream, 1)).toEqual(["SecretWritten kv/a"]);
  });

  it("end with the token", async () => {
    await mountKv("kv");
    const { client_token: token } = await holderOf(path("kv/data/a", "read"));
    const stream = await openStream("?topic=Secret&index=-1&errors=true", { token });
    await send("POST", "/v1/auth/token/revoke", { token });
    await write("a");
    expect(await stream.next()).toMatchObject({ Events: [] });
    let last = await stream.next();
    while ("Events" in last && last.Events?.length === 0) last = await stream.next();
    expect(last).toMatchObject({ Error: { Code: "permission_denied" } });
  });

  it("on a namespace's paths are those of a token of the root namespace", async () => {
    const there = { headers: { "X-Orch-Namespace": "team" } };
    await put("/v1/sys/namespaces/team", {});
    await mountKv("kv");
    await mountKv("kv", there);
    const { client_token: token } = await holderOf(path("team/kv/data/*", "read"));
    const stream = await openStream("?topic=Secret&index=-1", { token });
    await write("a");
    await put("/v1/kv/data/b", { data: {} }, there);
    expect(await types(stream, 1)).toEqual(["SecretWritten team/kv/b"]);
    const inside = await send("POST", "/v1/auth/token/create", { policies: ["default"] }, there);
    const refused = await openStream("?topic=Secret", { token: inside.body.auth.client_token, ...there });
    expect(refused.response.status).toBe(403);
  });

  it("through an entity are checked again after 30 s, and end with the entity", async () => {
    await policies({ reader: path("kv/data/*", "read") });
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    await put("/v1/auth/userpass/users/ann", { password: "hunter2-hunter2" });
    const login = await put("/v1/auth/userpass/login/ann", { password: "hunter2-hunter2" }, { token: null });
    const { accessor, entity_id: entity } = login.body.auth;
    await put(`/v1/identity/entity/id/${entity}`, { policies: ["reader"] });
    const question = { accessor, topics: ["Secret"], namespace: "default", service: true };
    const answer = async () => (await accessControl(env).mayStream([question]))[0];
    const allowed = await answer();
    expect(allowed).toMatchObject({ allowed: true, expires: expect.any(Number) });
    expect(JSON.stringify(allowed)).toContain('"kv/data/*"');
    expect((allowed as { expires: number }).expires - Date.now()).toBeLessThanOrEqual(30_000);
    await put(`/v1/identity/entity/id/${entity}`, { disabled: true });
    expect(await answer()).toEqual({ allowed: false });
  });

  it("are the same at a relay", async () => {
    throughRelays(1);
    await mountKv("kv");
    const { client_token: token } = await holderOf(path("kv/data/b", "read"));
    const [all, some] = [await openStream("?topic=Secret"), await openStream("?topic=Secret", { token })];
    for (const name of ["a", "b"]) await write(name);
    expect(await types(all, 2)).toEqual(["SecretWritten kv/a", "SecretWritten kv/b"]);
    expect(await types(some, 1)).toEqual(["SecretWritten kv/b"]);
  });

  it("let a token without rights open a stream, which has no event", async () => {
    await mountKv("kv");
    const { client_token: token } = await holderOf(path("kv/config", "read"));
    expect((await openStream("?topic=Secret&topic=Job", { token })).response.status).toBe(403);
    const stream = await openStream("?topic=Secret&index=-1", { token });
    expect(stream.response.status).toBe(200);
    await write("a");
    expect(await stream.next()).toMatchObject({ Events: [] });
  });

  it("do not extend `*` of upstream clients to these topics, unless they name one", async () => {
    await mountKv("kv");
    const headers = { "X-Nomad-Token": "root" };
    const plain = await openStream("?index=-1", { token: null, headers });
    const named = await openStream("?topic=*&topic=Secret&index=-1", { token: null, headers });
    const neutral = await openStream("?index=-1");
    await write("a");
    // The order of lines is promised within a mount; the line of another source is appended later.
    for (const stream of [named, neutral]) expect(await types(stream, 1)).toEqual(["SecretWritten kv/a"]);
    await appendKeys("end");
    for (const stream of [plain, named, neutral]) expect(await types(stream, 1)).toEqual(["JobRegistered end"]);
  });
});

describe("topics Lease and Engine", () => {
  it("report the life of a lease, a role and the configuration, without credentials", async () => {
    const tenant = await openTenant();
    const stream = await openStream("?topic=Lease&topic=Engine&index=-1");
    await mountEngine(tenant);
    await writeRole("Ops", dynamicRole(tenant));
    const issued = succeeded(await creds("ops"));
    const id = issued.body.lease_id;
    await put("/v1/sys/leases/renew", { lease_id: id });
    succeeded(await revoke(id));
    await del("/v1/cloud-b/roles/ops");
    await del("/v1/cloud-b/config");
    const seen: unknown[] = [];
    let text = "";
    while (seen.length < 8) {
      const line = await stream.nextLine();
      text += JSON.stringify(line);
      for (const { Topic, Type, Key, FilterKeys } of line.Events) seen.push([Topic, Type, Key, ...(FilterKeys ?? [])]);
    }
    expect(seen).toEqual([
      ["Engine", "ConfigWritten", "cloud-b/", "cloud-b/config", "cloud-b/"],
      ["Engine", "RoleWritten", "cloud-b/roles/ops", "cloud-b/roles/ops", "cloud-b/"],
      ["Engine", "CredentialsIssued", "cloud-b/creds/ops", "cloud-b/creds/ops", "cloud-b/"],
      ["Lease", "LeaseIssued", id, "cloud-b/creds/ops", "cloud-b/"],
      ["Lease", "LeaseRenewed", id, "cloud-b/creds/ops", "cloud-b/"],
      ["Lease", "LeaseRevoked", id, "cloud-b/creds/ops", "cloud-b/"],
      ["Engine", "RoleDeleted", "cloud-b/roles/ops", "cloud-b/roles/ops", "cloud-b/"],
      ["Engine", "ConfigDeleted", "cloud-b/", "cloud-b/config", "cloud-b/"],
    ]);
    expect(text).not.toContain(issued.body.data.client_secret);
    expect(text).not.toContain(tenant.client_secret);
  });

  it("are for tokens with rights on the role, in any case of its name", async () => {
    const tenant = await openTenant();
    await mountEngine(tenant);
    const { client_token: token } = await holderOf(path("cloud-b/creds/OPS", "list") + path("cloud-b/roles/b", "read"));
    const stream = await openStream("?topic=Lease&topic=Engine&index=-1", { token });
    for (const role of ["a", "ops", "b"]) await writeRole(role, dynamicRole(tenant));
    for (const role of ["a", "ops"]) succeeded(await creds(role));
    const [role = "", credentials, lease = ""] = await types(stream, 3);
    expect([role, credentials]).toEqual(["RoleWritten cloud-b/roles/b", "CredentialsIssued cloud-b/creds/ops"]);
    expect(lease).toContain("LeaseIssued cloud-b/creds/ops/");
  });

  it("report rotations of the root secret, and failed ones", async () => {
    const tenant = await openTenant();
    await mountEngine(tenant);
    const stream = await openStream("?topic=Engine&index=0");
    await skippingWaits(async () => succeeded(await put("/v1/cloud-b/rotate-root", {})));
    await tenant.fault({
      operation: "AddApplicationPassword",
      fault: "error",
      status: 403,
      code: "Authorization_RequestDenied",
    });
    const refused = await put("/v1/cloud-b/rotate-root", {});
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(await types(stream, 3)).toEqual([
      "ConfigWritten cloud-b/",
      "RootRotated cloud-b/",
      "RootRotationFailed cloud-b/",
    ]);
  });
});

describe("topic Sync", () => {
  beforeEach(() => mountKv("kv"));

  it("reports a destination and the status of its secrets", async () => {
    const stream = await openStream("?topic=Sync:in-mem/d&index=-1");
    await makeDestination("in-mem", "d");
    await write("app", { password: "hunter2" });
    await setAssociation("in-mem/d", "app");
    await removeAssociation("in-mem/d", "app");
    await send("PATCH", "/v1/sys/sync/destinations/in-mem/d", { custom_tags: { a: "b" } });
    await del("/v1/sys/sync/destinations/in-mem/d");
    const seen: unknown[] = [];
    while (seen.length < 5) {
      for (const { Type, FilterKeys, Payload } of (await stream.nextLine()).Events) {
        seen.push([Type, ...(FilterKeys ?? []), Payload]);
      }
    }
    const Sync = { Namespace: "", Time: expect.any(String), Type: "in-mem", Name: "d" };
    const at = "sys/sync/destinations/in-mem/d";
    const secret = [`${at}/associations`, "kv/app"];
    const names = { Mount: "kv/", Path: "app" };
    expect(seen).toEqual([
      ["DestinationCreated", at, { Sync }],
      ["SecretSynced", ...secret, { Sync: { ...Sync, ...names, Status: "SYNCED", Version: 1 } }],
      ["SecretUnsynced", ...secret, { Sync: { ...Sync, ...names } }],
      ["DestinationUpdated", at, { Sync }],
      ["DestinationDeleted", at, { Sync }],
    ]);
  });

  it("reports a rule, its changes, and the confirmation of its plan", async () => {
    const stream = await openStream("?topic=Sync:in-mem/d&index=-1");
    await makeDestination("in-mem", "d");
    for (const name of ["app/a", "app/b"]) await write(name, { v: 1 });
    const at = "/v1/sys/sync/destinations/in-mem/d/rules/web";
    const body = { mount: "kv", path_prefix: "app", max_removals: 1, on_unmatch: "retain" };
    await put(at, body);
    const narrowed = await put(at, { ...body, path_prefix: "none" });
    expect((await put(`${at}/confirm`, { plan_id: narrowed.body.data.plan_id })).status).toBe(200);
    await del(at);
    // The deletion of its destination ends a rule, too.
    await put(at, body);
    await del("/v1/sys/sync/destinations/in-mem/d?purge=true");
    const seen: unknown[] = [];
    while (JSON.stringify(seen).split("RuleDeleted").length < 3) {
      for (const { Type, FilterKeys, Payload } of (await stream.nextLine()).Events) {
        if (Type.startsWith("Rule"))
          seen.push([Type, ...(FilterKeys ?? []), (Payload as Record<string, object>)["Sync"]]);
      }
    }
    const common = { Namespace: "", Time: expect.any(String), Type: "in-mem", Name: "d", Rule: "web" };
    const Status = "confirmation_required";
    const Reason = "2 secrets no longer match; confirm their removal";
    expect(seen).toEqual(
      [
        ["RuleCreated", {}],
        ["RuleUpdated", {}],
        ["RuleStopped", { Status, Reason }],
        ["RuleConfirmed", { Removals: 2 }],
        ["RuleDeleted", {}],
        ["RuleCreated", {}],
        ["RuleDeleted", {}],
      ].map(([type, details]) => [
        type,
        "sys/sync/destinations/in-mem/d/rules/web",
        { ...common, ...(details as object) },
      ]),
    );
  });

  it("is for tokens with rights on the destination, by either name of its type", async () => {
    await cloudA.begin();
    const rules = path("sys/sync/destinations/aws-sm/seen", "read");
    const { client_token: token } = await holderOf(rules);
    const stream = await openStream("?topic=Sync&index=-1", { token });
    await makeDestination("cloud-a-sm", "hidden");
    await makeDestination("cloud-a-sm", "seen");
    expect(await types(stream, 1)).toEqual(["DestinationCreated cloud-a-sm/seen"]);
  });
});
