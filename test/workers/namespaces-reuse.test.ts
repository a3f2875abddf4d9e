import { env } from "cloudflare:workers";
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { secretsRoutes } from "../../src/routes/table.ts";
import { accessControl, syncControl } from "../../src/rpc/stubs.ts";
import { issue, path, policies } from "./access.ts";
import { del, get, list, mountKv, put } from "./client.ts";
import { create as createVolume, openCsi } from "./csi-world.ts";
import { nodeId } from "./host-volumes.ts";
import { allocation, deployment, evaluation, job, report, service, tokenWith, uuid } from "./reports.ts";
import { openStream } from "./streams.ts";
import { eventually } from "./sync-helpers.ts";

const TEAM = "team";
const at = (namespace: string) => ({ headers: { "X-Orch-Namespace": namespace } });
const there = at(TEAM);
const private_key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
  type: "pkcs1",
  format: "pem",
});
const APPS = "/sys/sync/repo-host-apps";

const create = async (name: string): Promise<string> => (await put(`/v1/sys/namespaces/${name}`, {})).body.data.id;
const idOf = async (name: string): Promise<string> => (await get(`/v1/sys/namespaces/${name}`)).body.data.id;
const done = async (answer: Promise<{ status: number; text: string }>) => {
  const { status, text } = await answer;
  expect(status, text).toBeLessThan(300);
};

/** All lists without a name in their path, and those of the test's content, by path. */
const LISTS = [
  ...secretsRoutes.routes.filter(({ verb, path }) => verb === "LIST" && !path.includes(":")).map((route) => route.path),
  "/sys/sync/destinations/in-mem",
  "/kv/metadata",
  "/cloud-b/roles",
];
const READS = [
  "/sys/mounts",
  "/sys/internal/ui/mounts",
  `${APPS}/bot`,
  "/sys/policies/acl/p",
  "/kv/data/app",
  "/cloud-b/config",
  "/sys/sync/destinations/in-mem/d",
  "/sys/sync/destinations/in-mem/d/objects",
  "/sys/sync/associations/kv/app",
  "/sys/sync/destinations/in-mem/d/associations",
];

/** All content of a namespace, without the fields of a single response. */
async function shown(namespace: string): Promise<Record<string, unknown>> {
  const answers: [string, unknown][] = [];
  for (const route of LISTS) answers.push([`LIST ${route}`, await list(`/v1${route}`, at(namespace))]);
  for (const route of READS) answers.push([`GET ${route}`, await get(`/v1${route}`, at(namespace))]);
  const body = (answer: unknown) => {
    const { status, text } = answer as { status: number; text: string };
    // Built-in mounts of a namespace have its own ids.
    const ids = /"request_id":"[^"]*"|"(accessor":"(cubbyhole|identity|system|auth_token)_|uuid":")[^"]*"/g;
    return `${status} ${text.replace(ids, "")}`;
  };
  return Object.fromEntries(answers.map(([route, answer]) => [route, body(answer)]));
}

describe("DELETE sys/namespaces/:name", () => {
  it("returns 400 while there is content, and a later namespace of the name is empty", async () => {
    const first = await create(TEAM);
    await create("fresh");
    const empty = await shown("fresh");
    await done(put("/v1/sys/namespaces/child", {}, there));
    await policies({ p: path("kv/*", "read") }, there);
    await done(put("/v1/cubbyhole/x", { a: 1 }, there));
    await issue({ policies: ["p"] }, there);
    await mountKv("kv", there);
    await done(put("/v1/kv/data/app", { data: { v: 1 } }, there));
    await done(put("/v1/sys/mounts/cloud-b", { type: "cloud-b" }, there));
    await done(put(`${APPS}/bot`, { app_id: 1, private_key }, there));
    await done(put("/sys/sync/destinations/in-mem/d", {}, there));
    await done(put("/sys/sync/destinations/in-mem/d/associations/set", { mount: "kv", secret_name: "app" }, there));
    const repo = { app_name: "bot", installation_id: 7, repository_owner: "acme", repository_name: "web" };
    await done(put("/sys/sync/destinations/repo-host/r", repo, there));
    await done(put("/v1/sys/auth/userpass", { type: "userpass" }, there));
    const { accessor } = (await get("/v1/sys/auth/userpass", there)).body.data;
    for (const [kind, type] of Object.entries({ entity: {}, group: { type: "external" } })) {
      const { id } = (await put(`/v1/identity/${kind}`, { name: "n", ...type }, there)).body.data;
      const alias = { name: "n", mount_accessor: accessor, canonical_id: id };
      await done(put(`/v1/identity/${kind}-alias`, alias, there));
    }
    const full = await shown(TEAM);
    expect(Object.keys(full).filter((route) => full[route] === empty[route])).toEqual([
      // The same in every namespace, or nothing that this test makes.
      "LIST /sys/version-history",
      "LIST /sys/quotas/rate-limit",
      "LIST /sys/quotas/lease-count",
      "LIST /sys/snapshot",
      "LIST /auth/token/roles",
      "LIST /sys/notifications/channels",
      "LIST /sys/notifications/rules",
    ]);

    // Entities and groups stay, and do not keep the namespace.
    await done(del("/v1/sys/auth/userpass", there));
    const refusal = async () => {
      const { status, body } = await del("/v1/sys/namespaces/team");
      return [status, body.errors[0]];
    };
    expect(await refusal()).toEqual([400, 'child namespaces exist under path "team/", cannot remove']);
    await done(del("/v1/sys/namespaces/child", there));
    expect(await refusal()).toEqual([400, 'mounts exist in namespace "team/", cannot remove: cloud-b/, kv/']);
    for (const mount of ["kv", "cloud-b"]) await done(del(`/v1/sys/mounts/${mount}`, there));
    expect(await refusal()).toEqual([
      400,
      'sync destinations exist in namespace "team/", cannot remove: in-mem/d, repo-host/r',
    ]);
    await done(del("/sys/sync/destinations/in-mem/d?force_delete=true", there));
    await done(del("/sys/sync/destinations/repo-host/r", there));
    await eventually(async () => {
      expect(await refusal()).toEqual([400, 'repo-host applications exist in namespace "team/", cannot remove: bot']);
    });
    expect(await idOf(TEAM)).toBe(first);
    await done(del(`${APPS}/bot`, there));
    await done(del("/v1/sys/namespaces/team"));

    expect(await create(TEAM)).not.toBe(first);
    expect(await shown(TEAM)).toEqual(empty);
    // The new namespace accepts content.
    await done(put(`${APPS}/bot`, { app_id: 2, private_key }, there));
    await done(put("/sys/sync/destinations/in-mem/d", {}, there));
    expect((await get("/sys/sync/destinations/in-mem/d/objects", there)).body.data.objects).toEqual({});
  });

  it("refuses an application from an earlier authorized request, and the next namespace of the name accepts it", async () => {
    const first = await create(TEAM);
    await done(del("/v1/sys/namespaces/team"));
    const second = await create(TEAM);
    const late = await syncControl(env).putApp(first, "team/", "bot", 1, String(private_key));
    expect(late).toMatchObject({ ok: false, reason: "missing" });
    expect((await list(APPS, there)).status).toBe(404);
    expect(await syncControl(env).putApp(second, "team/", "bot", 1, String(private_key))).toMatchObject({ ok: true });
  });

  it("refuses a destination in an unknown namespace", async () => {
    const refused = await accessControl(env).admitDestination("gone/in-mem/d");
    expect(refused).toMatchObject({ ok: false, reason: "missing" });
    expect(await accessControl(env).admitDestination("in-mem/d")).toMatchObject({ ok: true });
  });

  it("an application left by an earlier release is not part of the next namespace", async () => {
    // Rows of earlier releases have no id of their namespace.
    await syncControl(env).putApp("", "team/", "bot", 1, String(private_key));
    await create(TEAM);
    expect((await get(`${APPS}/bot`, there)).status).toBe(404);
    await done(put(`${APPS}/bot`, { app_id: 2, private_key }, there));
    await create(TEAM);
    expect((await get(`${APPS}/bot`, there)).body.data.app_id).toBe(2);
  });
});

describe("DELETE namespace/:name", () => {
  it("deletes requests of ended jobs for CSI volumes and past operations, and a later namespace has none", async () => {
    await openCsi();
    const IN = { Namespace: "x" };
    const group = (...sources: string[]) => ({
      Name: "g",
      Volumes: Object.fromEntries(sources.map((Source) => [Source, { Type: "csi", Source }])),
    });
    const version = (Status: string, ...sources: string[]) =>
      job({ Version: 0, Status, TaskGroups: [group(...sources)], ...IN }, IN);
    const operations = () => get("/v1/volume/csi/old/operations?namespace=x");
    await done(put("/v1/namespace/x", {}));
    await done(createVolume({ ID: "old", ...IN }));
    await report(version("dead", "old"));
    await done(del("/v1/volume/csi/old/delete?namespace=x"));
    expect((await operations()).body).toHaveLength(2);
    await done(del("/v1/namespace/x"));
    await done(put("/v1/namespace/x", {}));
    expect((await operations()).status).toBe(404);

    for (const ID of ["old", "new"]) await done(createVolume({ ID, Name: ID, ...IN }));
    const alloc = { ID: "a1", TaskGroup: "g", NodeID: nodeId(1) };
    await report(allocation({ ...alloc, JobVersion: 0, ...IN }, IN), version("running", "new"));
    const claims = async (id: string) => (await get(`/v1/volume/csi/${id}/claims?namespace=x`)).body.length;
    expect([await claims("old"), await claims("new")]).toEqual([0, 1]);
  });

  it("deletes reports of ended jobs, and a later namespace of the name has no reports and no events", async () => {
    await done(put("/v1/namespace/x", { Description: "first", Meta: { a: "b" } }));
    const IN = { Namespace: "x" };
    const ended = allocation({ ClientStatus: "complete", DesiredStatus: "stop", ...IN }, IN);
    await report(job({ Status: "dead", ...IN }, IN), ended, evaluation(IN, IN), deployment(IN, IN), service(IN, IN));
    const elsewhere = await report(job({ ID: "other", Status: "dead" }));
    const lists = ["jobs", "allocations", "evaluations", "deployments"];
    const count = async (namespace: string) => {
      const answers = await Promise.all(lists.map((name) => get(`/v1/${name}?namespace=${namespace}`)));
      return answers.map(({ body }) => body.length);
    };
    expect(await count("x")).toEqual([1, 1, 1, 1]);
    await done(del("/v1/namespace/x"));
    await done(put("/v1/namespace/x", {}));
    expect(await count("x")).toEqual([0, 0, 0, 0]);
    expect((await get(`/v1/allocation/${uuid(1)}?namespace=x`)).status).toBe(404);
    expect((await get("/v1/job/other")).status).toBe(200);
    const { CreateIndex } = (await get("/v1/namespace/x")).body;
    expect(CreateIndex).toBeGreaterThan(elsewhere);
    expect((await get("/v1/namespace/x")).body).toMatchObject({ Description: "", Meta: null });

    const token = await tokenWith('namespace "x" { capabilities = ["read-job"] }');
    await report(job({ ID: "new", ...IN }, IN));
    const keysOf = async (query: string, as: string) => {
      const stream = await openStream(query, { token: as });
      const keys: string[] = [];
      while (!keys.includes("new"))
        keys.push(...(await stream.nextLine()).Events.map(({ Key }: { Key: string }) => Key));
      return keys;
    };
    expect(await keysOf("?topic=Job&namespace=x&index=1", token)).toEqual(["new"]);
    expect(await keysOf("?topic=Job&namespace=x&index=1", "root")).toEqual(["new"]);
    expect(await keysOf("?topic=Job&namespace=*&index=1", "root")).toEqual(["web", "other", "new"]);
  });
});
