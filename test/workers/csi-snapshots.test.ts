import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { type Answer, del, get, put, send } from "./client.ts";
import { addCsiNode, controllers, create, csi, instance, openCsi, PLUGIN, shown } from "./csi-world.ts";
import { addNode } from "./host-volumes.ts";

beforeEach(openCsi);

const refusal = ({ status, text }: Answer) => [status, text];
const snapshot = (more: Record<string, unknown> = {}, headers = {}) =>
  send("POST", "/v1/volumes/snapshot", { Snapshots: [{ SourceVolumeID: "v1", Name: "s1", ...more }] }, { headers });
const list = (query = "") => get(`/v1/volumes/snapshot?plugin_id=${PLUGIN}&per_page=10${query}`);

describe("snapshots", () => {
  // Proves: D.rules.3.merged, D.snapshot.create.endpoint, D.snapshot.delete.endpoint,
  // D.snapshot.delete.secrets-header, D.snapshot.list.endpoint
  it("are created from a volume by its plugin, with its secrets and those of body and header", async () => {
    await create({ Secrets: { a: "1", b: "1", c: "1" } });
    const made = await snapshot({ Secrets: { b: "2", c: "2" } }, { "X-Orch-CSI-Secrets": "c=3" });
    expect(made.status, made.text).toBe(200);
    expect(made.body).toEqual({
      Index: 0,
      KnownLeader: true,
      LastContact: 0,
      NextToken: "",
      Snapshots: [
        {
          CreateTime: 1_700_000_000,
          ExternalSourceVolumeID: "ext-vol-one",
          ID: "snap-s1",
          IsReady: true,
          Name: "s1",
          Parameters: null,
          PluginID: PLUGIN,
          Secrets: null,
          SizeBytes: 7,
          SourceVolumeID: "v1",
        },
      ],
    });
    expect(csi.sent.at(-1)?.operation.secrets).toEqual({ a: "1", b: "2", c: "3" });
    expect((await list()).body.Snapshots).toMatchObject([{ ID: "snap-s1", PluginID: PLUGIN }]);
    const gone = await del(`/v1/volumes/snapshot?plugin_id=${PLUGIN}&snapshot_id=snap-s1`, {
      headers: { "X-Nomad-CSI-Secrets": "k=v" },
    });
    expect([gone.status, gone.text]).toEqual([200, ""]);
    expect(csi.sent.at(-1)?.operation.secrets).toEqual({ k: "v" });
    expect((await list()).body.Snapshots).toEqual([]);
  });

  itRows<[string, string]>([
    ["129 names", Array.from({ length: 129 }, (_, at) => `k${at}=v`).join()],
    ["a name of 129 characters", `${"k".repeat(129)}=v`],
    ["a value of 16,385 characters", `k=${"v".repeat(16_385)}`],
  ])("and secrets in a header with %s are refused, and no plugin is called", async (_what, secrets) => {
    const headers = { "X-Orch-CSI-Secrets": secrets };
    const gone = `/v1/volumes/snapshot?plugin_id=${PLUGIN}&snapshot_id=s`;
    for (const answer of [
      await get(`/v1/volumes/snapshot?plugin_id=${PLUGIN}&per_page=10`, { headers }),
      await del(gone, { headers }),
      await snapshot({}, headers),
    ])
      expect(refusal(answer)).toEqual([400, expect.stringMatching(/^X-Orch-CSI-Secrets: at most /)]);
    expect(csi.sent).toEqual([]);
  });

  it("are polled until ready under the same name, and returned as they are when polling fails", async () => {
    await create();
    const snapshots = () => csi.sent.filter(({ operation }) => operation.method.endsWith("snapshotCreate"));
    const unready = (id: string) =>
      ({ state: "done", result: { ...shown(id, "ext-vol-one"), isReady: false } }) as const;
    csi.behave = () => (snapshots().length < 2 ? unready("snap-s1") : "work");
    expect((await snapshot()).body.Snapshots).toMatchObject([{ ID: "snap-s1", IsReady: true }]);
    expect(snapshots().map(({ operation }) => operation.params["name"])).toEqual(["s1", "s1", "s1"]);
    csi.behave = () =>
      snapshots().length === 3 ? unready("snap-s2") : { state: "failed", error: { kind: "plugin", message: "no" } };
    expect((await snapshot({ Name: "s2" })).body.Snapshots).toMatchObject([{ ID: "snap-s2", IsReady: false }]);
  });

  it("get a generated name when they have none", async () => {
    await create();
    const made = await snapshot({ Name: undefined });
    expect(made.body.Snapshots[0].Name).toMatch(/^snapshot-[0-9a-f-]{36}$/);
  });

  itRows<[string, Record<string, unknown>, number, string]>([
    ["no volume", { SourceVolumeID: "no" }, 404, '1 error occurred:\n\t* no such volume "no"\n\n'],
    ["no plugin", { PluginID: "no" }, 404, '1 error occurred:\n\t* no such plugin "no"\n\n'],
  ])("are refused: %s", async (_what, more, status, said) => {
    await create();
    expect(refusal(await snapshot(more))).toEqual([status, said]);
  });

  it("are refused for another plugin than the volume's, which does not receive its secrets", async () => {
    const { CSIControllerPlugins } = controllers();
    const another = { other: instance({ ...CSIControllerPlugins[PLUGIN], PluginID: "other" }) };
    await addNode(2, { CSIControllerPlugins: another });
    await create({ Secrets: { a: "1" } });
    expect(refusal(await snapshot({ PluginID: "other" }))).toEqual([
      400,
      '1 error occurred:\n\t* PluginID: must be the plugin of volume "v1"\n\n',
    ]);
    expect(csi.asked).toEqual(["create"]);
    expect((await snapshot({ PluginID: PLUGIN })).status).toBe(200);
  });

  it("are created in the namespace of the query, else of the body, with the right in that namespace", async () => {
    await put("/v1/namespace/prod", {});
    await create();
    await create({ ID: "v2", Name: "two", Namespace: "prod" });
    const rules = 'namespace "prod" { capabilities = ["csi-write-volume"] }';
    const { client_token: token } = await holderOf(rules);
    const ask = async (SourceVolumeID: string, body: object, query = "") => {
      const given = { Snapshots: [{ SourceVolumeID, Name: "s" }], ...body };
      return (await send("POST", `/v1/volumes/snapshot${query}`, given, { token })).status;
    };
    expect(await ask("v2", { Namespace: "prod" })).toBe(200);
    expect(await ask("v2", { Namespace: "default" }, "?namespace=prod")).toBe(200);
    expect(await ask("v1", { Namespace: "prod" })).toBe(404);
    expect(await ask("v1", { Namespace: "prod" }, "?namespace=default")).toBe(403);
    expect(await ask("v1", {})).toBe(403);
    const single = { SourceVolumeID: "v2", Name: "s", Namespace: "prod" };
    expect((await send("POST", "/v1/volumes/snapshot", single, { token })).status).toBe(200);
  });

  // Proves: D.rules.5.snapshot, D.rules.5.snapshot-list
  it("require a plugin with the capability, and the error says so", async () => {
    await create();
    await addCsiNode(1, { SupportsCreateDeleteSnapshot: false, SupportsListSnapshots: false });
    expect((await snapshot()).text).toContain("plugin does not support snapshot");
    expect(refusal(await list())).toEqual([501, "plugin does not support listing snapshots"]);
  });

  // Proves: D.external.per_page-required, D.external.plugin_id, D.snapshot.delete.plugin_id-required,
  // D.snapshot.delete.snapshot_id-required, D.snapshot.list.per_page-required, D.snapshot.list.plugin_id-required,
  // E.limits.per_page.required
  itRows([
    ["GET", "/v1/volumes/snapshot?per_page=1", "plugin_id is required"],
    ["GET", `/v1/volumes/snapshot?plugin_id=${PLUGIN}`, "per_page: is required"],
    ["DELETE", "/v1/volumes/snapshot?snapshot_id=x", "plugin_id is required"],
    ["DELETE", `/v1/volumes/snapshot?plugin_id=${PLUGIN}`, "snapshot_id is required"],
    ["GET", "/v1/volumes/external?per_page=1", "plugin_id is required"],
    ["GET", `/v1/volumes/external?plugin_id=${PLUGIN}`, "per_page: is required"],
  ])("and external lists return an error for missing fields: %s %s", async (method, path, said) => {
    expect(refusal(await send(method, path))).toEqual([400, said]);
  });
});

describe("the external list", () => {
  // Proves: D.all.next_token.external, D.external.endpoint, D.external.next_token
  it("has the plugin's pages, complete or up to the requested size", async () => {
    for (const name of ["a", "b", "c"]) await create({ ID: "v1", Name: name }).then(() => del("/v1/volume/csi/v1"));
    const page = await get(`/v1/volumes/external?plugin_id=${PLUGIN}&per_page=2`);
    expect(page.status, page.text).toBe(200);
    expect(page.body).toMatchObject({ NextToken: "2", Volumes: [{ ExternalID: "ext-a" }, { ExternalID: "ext-b" }] });
    const rest = await get(`/v1/volumes/external?plugin_id=${PLUGIN}&per_page=2&next_token=2`);
    expect(rest.body).toMatchObject({ NextToken: "", Volumes: [{ ExternalID: "ext-c", CapacityBytes: 0 }] });
    expect((await get(`/v1/volumes/external?plugin_id=${PLUGIN}&per_page=0`)).body.Volumes).toHaveLength(3);
  });

  // Proves: D.rules.5.external
  it("is refused for a missing plugin or one without the capability", async () => {
    expect(refusal(await get("/v1/volumes/external?plugin_id=no&per_page=1"))).toEqual([404, 'no such plugin "no"']);
    await addCsiNode(1, { SupportsListVolumes: false });
    expect((await get(`/v1/volumes/external?plugin_id=${PLUGIN}&per_page=1`)).status).toBe(501);
  });
});
