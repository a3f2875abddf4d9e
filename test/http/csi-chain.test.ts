import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { CONTROLLER_RPC } from "@sallyport/csi-wire";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Answer, allocation, allocationId, definition, job, World } from "./csi-chain-world.ts";
import { creation, RawClient } from "./csi-process.ts";

/* CSI as users have it: the service as it is, asked over HTTP, and nodes with the agent and a driver as they are. */

vi.setConfig({ testTimeout: 180_000 });
const world = new World();

beforeAll(() => world.start());
afterAll(() => world.destroy());

const refusal = ({ status, text }: Answer) => [status, text];
const idsOf = ({ body }: Answer): string[] => body.map(({ ID }: { ID: string }) => ID);
const externalIds = (answer: Answer): string[] =>
  answer.body.Volumes.map(({ ExternalID }: { ExternalID: string }) => ExternalID);
const snapshotIds = (answer: Answer): string[] => answer.body.Snapshots.map(({ ID }: { ID: string }) => ID);

describe("a volume of a plugin", () => {
  // Proves: D.csi.create.endpoint, D.csi.delete.endpoint, D.rules.4.create
  it("is created at its provider, read, expanded, keeps its identity, and is deleted there", async () => {
    const { driver, record } = await world.csiNode("life");
    const made = await world.made({ ID: "life-1", Name: "one", PluginID: "life", RequestedCapacityMin: 1000 });
    expect(driver.directories("volumes")).toEqual([made.ExternalID]);
    expect(existsSync(driver.data(made.ExternalID))).toBe(true);
    expect(made).toMatchObject({
      ID: "life-1",
      Name: "one",
      PluginID: "life",
      Provider: "csi-dir.sallyport",
      Capacity: 1000,
      Schedulable: true,
      ControllersHealthy: 1,
      NodesHealthy: 1,
      Topologies: [],
      Secrets: null,
    });
    const read = await world.read("life-1");
    expect([read.status, read.body]).toEqual([200, made]);

    const grown = await world.made({ ID: "life-1", Name: "one", PluginID: "life", RequestedCapacityMin: 5000 });
    expect([grown.Capacity, record(made.ExternalID).bytes]).toEqual([5000, "5000"]);
    const shrunk = await world.make({ ID: "life-1", PluginID: "life", Name: "", RequestedCapacityMax: 2000 });
    expect(refusal(shrunk)).toEqual([
      400,
      "unable to update volume: max requested capacity (2.0 kB) less than or equal to current (5.0 kB)",
    ]);
    const other = await world.make({ ID: "life-1", PluginID: "life", Name: "two", Parameters: { a: "b" } });
    expect(other.status).toBe(400);
    for (const field of ["volume name", "volume parameters"])
      expect(other.text).toContain(`${field} cannot be updated`);
    expect((await world.read("life-1")).body).toEqual(grown);

    expect((await world.ask("DELETE", "/v1/volume/csi/life-1/delete")).status).toBe(200);
    expect(driver.directories("volumes")).toEqual([]);
    expect(refusal(await world.read("life-1"))).toEqual([404, "volume not found"]);
    expect((await world.ask("DELETE", "/v1/volume/csi/life-1/delete")).status).toBe(404);
  });

  it("has mutable parameters, which its plugin applies and checks", async () => {
    const { driver } = await world.csiNode("mutable");
    const volume = { ID: "mutable-1", Name: "mutable", PluginID: "mutable" };
    const permissions = (id: string) => (statSync(driver.data(id)).mode & 0o777).toString(8);
    const made = await world.made({ ...volume, MutableParameters: { mode: "0750" } });
    expect([made.MutableParameters, permissions(made.ExternalID)]).toEqual([{ mode: "0750" }, "750"]);
    const changed = await world.made({ ...volume, MutableParameters: { mode: "0700" } });
    expect([changed.MutableParameters, permissions(made.ExternalID)]).toEqual([{ mode: "0700" }, "700"]);
    const refused = await world.make({ ...volume, MutableParameters: { iops: "7" } });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("iops is not supported")]);
    expect((await world.read("mutable-1")).body.MutableParameters).toEqual({ mode: "0700" });
    expect(driver.allCalls().filter((call) => call === "ControllerModifyVolume")).toHaveLength(2);
    await world.ask("DELETE", "/v1/volume/csi/mutable-1/delete");
  });

  // Proves: D.csi.deregister.endpoint, D.csi.register.endpoint, D.rules.4.register, D.rules.5.register-exists
  it("is validated on the named node when it is registered, and stays at the provider when deregistered", async () => {
    const node = await world.csiNode("known");
    const { volume } = await new RawClient(node.driver.socket).call("CreateVolume", creation("there"));
    const externalId = volume?.volumeId ?? "";
    const register = (more: object) =>
      world.ask("PUT", "/v1/volume/csi/known-1", { ...definition, ID: "known-1", PluginID: "known", ...more });
    expect(refusal(await register({ ExternalID: externalId }))).toEqual([
      400,
      "NodeID: is required: the node that validates the volume",
    ]);
    const missing = await register({ ExternalID: "vol-00000000000-00000000", NodeID: node.id });
    expect([missing.status, missing.text]).toEqual([404, expect.stringContaining("controller validate volume: ")]);
    expect((await world.read("known-1")).status).toBe(404);
    const made = await register({ ExternalID: externalId, NodeID: node.id });
    expect(made.body?.Volumes[0], made.text).toMatchObject({ ID: "known-1", ExternalID: externalId, Capacity: 0 });
    const grown = await register({ ExternalID: externalId, NodeID: node.id, RequestedCapacityMin: 2 ** 31 });
    expect([grown.body?.Volumes[0].Capacity, node.record(externalId).bytes]).toEqual([2 ** 31, String(2 ** 31)]);
    expect((await world.ask("DELETE", "/v1/volume/csi/known-1")).status).toBe(200);
    expect((await world.read("known-1")).status).toBe(404);
    expect(node.driver.directories("volumes")).toEqual([externalId]);
  });

  // Proves: D.state.delete.in-use, D.state.detach.in-use, D.state.force.running
  it("is deleted neither here nor at its provider while an allocation uses it, with or without force", async () => {
    const node = await world.csiNode("used");
    const { ExternalID } = await world.made({ ID: "used-1", Name: "used-1", PluginID: "used" });
    const uses = (status: string) => allocation(allocationId(1), "used-job", node.id, status);
    await world.report(job("used-job", "used-1"), uses("running"));
    for (const path of ["", "?force=true", "/delete", `/detach?node=${node.id}`])
      expect(refusal(await world.ask("DELETE", `/v1/volume/csi/used-1${path}`)), path).toEqual([
        409,
        expect.stringContaining(allocationId(1)),
      ]);
    const used = (await world.ask("GET", `/v1/volumes?type=csi&node_id=${node.id.slice(0, 8)}`)).body;
    expect(used).toMatchObject([{ ID: "used-1", CurrentWriters: 1 }]);
    expect(node.driver.directories("volumes")).toEqual([ExternalID]);
    await world.report(uses("complete"));
    await vi.waitFor(
      async () => expect((await world.ask("DELETE", "/v1/volume/csi/used-1?force=true")).status).toBe(200),
      { interval: 100 },
    );
    expect(node.driver.directories("volumes")).toEqual([ExternalID]);
  });

  // Proves: D.csi.delete.secrets-header, D.snapshot.delete.secrets-header, D.snapshot.list.secrets-header
  it("passes its secrets to its plugin only: they appear in no answer, log or file", async () => {
    const [kept, given, flag] = ["CANARY-kept-5e1c", "CANARY-given-77b0", "FLAG-2a"];
    const node = await world.csiNode("secret");
    node.driver.misbehave({ leakSecrets: true, requireSecret: { name: "token", value: kept } });
    const answers: string[] = [];
    const ask = async (...request: Parameters<typeof world.ask>) => {
      const answer = await world.ask(...request);
      answers.push(answer.text);
      return answer;
    };
    const volume = { ...definition, ID: "secret-1", Name: "secret-1", PluginID: "secret" };
    const create = (token: string) =>
      ask("PUT", "/v1/volume/csi/secret-1/create", {
        ...volume,
        Secrets: { token, user: "CANARY-user-09" },
        MountOptions: { FSType: "ext4", MountFlags: [flag] },
      });
    const wrong = await create("CANARY-wrong-81");
    expect(wrong.status, wrong.text).toBe(502);
    expect((await create(kept)).status).toBe(200);
    node.driver.misbehave({ leakSecrets: true, requireSecret: { name: "token", value: given } });
    const withHeader = { "X-Orch-CSI-Secrets": `token=${given}` };
    expect((await ask("POST", "/v1/volumes/snapshot", { SourceVolumeID: "secret-1", Name: "s" })).status).toBe(502);
    const snapshot = await ask("POST", "/v1/volumes/snapshot", { SourceVolumeID: "secret-1", Name: "s" }, withHeader);
    expect(snapshot.status, snapshot.text).toBe(200);
    const query = "plugin_id=secret&per_page=5";
    expect((await ask("GET", `/v1/volumes/snapshot?${query}`, undefined, withHeader)).body.Snapshots).toHaveLength(1);
    const one = `plugin_id=secret&snapshot_id=${snapshotIds(snapshot)[0]}`;
    expect((await ask("DELETE", `/v1/volumes/snapshot?${one}`)).status).toBe(502);
    expect((await ask("DELETE", `/v1/volumes/snapshot?${one}`, undefined, withHeader)).status).toBe(200);
    await ask("GET", "/v1/volume/csi/secret-1");
    await ask("GET", "/v1/volume/csi/secret-1/operations");
    await ask("GET", "/v1/volumes?type=csi&namespace=*");
    expect((await ask("DELETE", "/v1/volume/csi/secret-1/delete")).status).toBe(502);
    const removed = await ask("DELETE", "/v1/volume/csi/secret-1/delete", undefined, withHeader);
    expect(removed.status, removed.text).toBe(200);
    expect(node.driver.directories("volumes")).toEqual([]);

    expect(world.service.log).toContain("agent-joined");
    const told = [...answers, world.service.log, node.log].join("\n");
    for (const canary of ["CANARY", flag]) expect(told).not.toContain(canary);
    expect(filesWith(flag, node.root)).toBe("");
    expect(filesWith("CANARY", node.root)).toBe("");
    expect(filesWith("CANARY", world.service.dataDir)).toBe("");
  });
});

describe("a claim on a volume", () => {
  // Proves: D.csi.detach.endpoint
  it("is taken for a reported allocation, publishes the volume at a path, and is released when the allocation ends", async () => {
    const one = await world.csiNode("claim");
    const other = await world.csiNode("claim", { beside: one });
    one.driver.misbehave({});
    const { ExternalID } = await world.made({ ID: "claim-1", Name: "claim-1", PluginID: "claim" });
    const [first, second] = [allocationId(3), allocationId(4)];
    await world.report(job("claim-job", "claim-1"), allocation(first, "claim-job", one.id, "running"));
    const [taken] = await world.claimed("claim-1", "published");
    expect(taken).toMatchObject({ AllocID: first, NodeID: one.id, LastError: "", Path: one.mounts()[0] });
    writeFileSync(`${taken?.Path}/file`, "of the first");
    expect(readFileSync(`${one.driver.data(ExternalID)}/file`, "utf8")).toBe("of the first");
    expect(Object.keys(one.record(ExternalID).published)).toEqual([one.name]);
    expect((await world.read("claim-1")).body).toMatchObject({
      AccessMode: "single-node-writer",
      AttachmentMode: "file-system",
      WriteAllocs: { [first]: null },
      Allocations: [{ ID: first, NodeID: one.id }],
    });
    const [external] = (await world.ask("GET", "/v1/volumes/external?plugin_id=claim&per_page=1")).body.Volumes;
    expect(external.PublishedExternalNodeIDs).toEqual([one.name]);

    await world.report(allocation(second, "claim-job", other.id, "running"));
    const [, waits] = await world.claimed("claim-1", "published", "pending");
    expect(waits).toMatchObject({ AllocID: second, LastError: expect.stringContaining("max claims reached") });
    for (const path of ["", "/delete", `/detach?node=${one.id}`])
      expect((await world.ask("DELETE", `/v1/volume/csi/claim-1${path}`)).status, path).toBe(409);
    const grown = await world.made({ ID: "claim-1", Name: "", PluginID: "claim", RequestedCapacityMin: 2 ** 31 });
    expect(grown.Capacity).toBe(2 ** 31);
    expect(one.driver.calls("NodeExpandVolume")).toBe(1);

    await world.report(allocation(first, "claim-job", one.id, "complete"));
    const [next] = await world.claimed("claim-1", "published");
    expect(next).toMatchObject({ AllocID: second, NodeID: other.id });
    expect([one.mounts(), other.mounts()]).toEqual([[], [next?.Path]]);
    expect(readFileSync(`${next?.Path}/file`, "utf8")).toBe("of the first");
    expect(Object.keys(one.record(ExternalID).published)).toEqual([other.name]);

    await world.report(allocation(second, "claim-job", other.id, "failed"));
    expect((await world.ask("DELETE", `/v1/volume/csi/claim-1/detach?node=${other.id}`)).status).toBe(200);
    expect([await world.claims("claim-1"), other.mounts(), one.record(ExternalID).published]).toEqual([[], [], {}]);
    expect((await world.read("claim-1")).body).toMatchObject({ AccessMode: "", WriteAllocs: {}, Allocations: [] });
    expect((await world.ask("DELETE", "/v1/volume/csi/claim-1/delete")).status).toBe(200);
    expect(one.driver.directories("volumes")).toEqual([]);
  });
});

describe("the list of volumes", () => {
  it("is separate by type, filtered by plugin and node prefix and by expression, paged, and supports blocking", async () => {
    const node = await world.csiNode("ab12");
    for (const number of [1, 2, 3, 4, 5]) {
      const size = { RequestedCapacityMin: number * 1000 };
      await world.made({ ID: `list-${number}`, Name: `list-${number}`, PluginID: "ab12", ...size });
    }
    const list = (query: string) => world.ask("GET", `/v1/volumes?type=csi${query}`);
    const all = ["list-1", "list-2", "list-3", "list-4", "list-5"];
    const whole = await list("&plugin_id=ab12");
    expect(idsOf(whole)).toEqual(all);
    expect(whole.nextToken).toBe("");
    expect(whole.body[0]).toMatchObject({ ID: "list-1", PluginID: "ab12", CurrentWriters: 0, Schedulable: true });
    expect(idsOf(await list("&plugin_id=ab"))).toEqual(all);
    expect(idsOf(await list("&plugin_id=ac"))).toEqual([]);
    for (const name of ["plugin_id=ab1", "plugin_id=xy", "node_id=abc", "node_id=zz"]) {
      const refused = await list(`&${name}`);
      expect([name, refused.status, refused.text]).toEqual([
        name,
        400,
        expect.stringContaining(name.split("=")[0] ?? ""),
      ]);
    }
    expect(idsOf(await list(`&filter=${encodeURIComponent('ID == "list-2" or Name matches "-5$"')}`))).toEqual([
      "list-2",
      "list-5",
    ]);
    await world.report(job("list-job", "list-4"), allocation(allocationId(2), "list-job", node.id, "running"));
    expect(idsOf(await list(`&node_id=${node.id.slice(0, 4)}`))).toEqual(["list-4"]);
    await world.report(allocation(allocationId(2), "list-job", node.id, "complete"));
    await world.claimed("list-4");

    const pages: string[][] = [];
    for (let token = ""; pages.length < 9; ) {
      const page = await list(`&plugin_id=ab12&per_page=2&next_token=${encodeURIComponent(token)}`);
      pages.push(idsOf(page));
      token = page.nextToken;
      if (token === "") break;
    }
    expect(pages).toEqual([["list-1", "list-2"], ["list-3", "list-4"], ["list-5"]]);

    expect((await world.ask("GET", "/v1/volumes")).status).toBe(400);
    expect((await world.ask("GET", "/v1/volumes?type=tape")).status).toBe(404);
    const hosts = (await world.ask("GET", "/v1/volumes?type=host")).text;
    expect(hosts).not.toContain("list-1");

    const { index } = await list("&plugin_id=ab12");
    const waiting = list(`&plugin_id=ab12&index=${index}&wait=20s`);
    const one = world.ask("GET", `/v1/volume/csi/list-5?index=${index}&wait=20s`);
    await world.made({ ID: "list-5", Name: "", PluginID: "ab12", RequestedCapacityMin: 9000 });
    expect((await one).body.Capacity).toBe(9000);
    expect((await waiting).index).toBeGreaterThan(index);
  });
});

describe("the external list", () => {
  // Proves: D.external.endpoint, D.external.next_token
  it("has the plugin's pages and tokens, unregistered volumes included", async () => {
    const { driver } = await world.csiNode("outside");
    const client = new RawClient(driver.socket);
    const made: string[] = [];
    for (const number of [1, 2, 3, 4, 5])
      made.push((await client.call("CreateVolume", creation(`outside-${number}`))).volume?.volumeId ?? "");
    const external = (query: string) => world.ask("GET", `/v1/volumes/external?${query}`);
    expect(refusal(await external("plugin_id=outside"))).toEqual([400, "per_page: is required"]);
    expect(refusal(await external("per_page=2"))).toEqual([400, "plugin_id is required"]);
    expect(refusal(await external("plugin_id=nobody&per_page=2"))).toEqual([404, 'no such plugin "nobody"']);
    const walk = async (perPage: number) => {
      const pages: string[][] = [];
      for (let token = ""; pages.length < 9; ) {
        const page = await external(`plugin_id=outside&per_page=${perPage}&next_token=${encodeURIComponent(token)}`);
        pages.push(externalIds(page));
        token = page.body.NextToken;
        if (token === "") break;
      }
      return pages;
    };
    expect(await walk(2)).toEqual([made.slice(0, 2), made.slice(2, 4), made.slice(4)]);
    expect(await walk(0)).toEqual([made]);
    driver.misbehave({ surplusEntries: 2 });
    expect((await walk(1)).flat()).toEqual(made);
    const [first] = (await external("plugin_id=outside&per_page=1")).body.Volumes;
    expect(first).toMatchObject({ ExternalID: made[0], CapacityBytes: 2 ** 30, PublishedExternalNodeIDs: [] });
    const lost = await external("plugin_id=outside&per_page=2&next_token=nonsense");
    expect([lost.status, lost.text]).toEqual([400, expect.stringContaining("controller list volumes: ")]);
  });
});

describe("a snapshot", () => {
  // Proves: D.snapshot.create.endpoint, D.snapshot.delete.endpoint, D.snapshot.list.endpoint
  it("is created from a volume, listed in pages, restored and cloned to volumes, and deleted", async () => {
    const { driver } = await world.csiNode("snap");
    const source = await world.made({ ID: "snap-1", Name: "snap-1", PluginID: "snap", RequestedCapacityMin: 4096 });
    writeFileSync(`${driver.data(source.ExternalID)}/file`, "as it was");
    const take = (Name: string, more: object = {}) =>
      world.ask("POST", "/v1/volumes/snapshot", { Snapshots: [{ SourceVolumeID: "snap-1", Name, ...more }] });
    const taken = await take("first");
    const [{ ID: id, CreateTime }] = taken.body.Snapshots;
    expect(taken.body.Snapshots).toEqual([
      {
        ID: id,
        Name: "first",
        PluginID: "snap",
        SourceVolumeID: "snap-1",
        SizeBytes: 4096,
        IsReady: true,
        ExternalSourceVolumeID: source.ExternalID,
        CreateTime,
        Parameters: null,
        Secrets: null,
      },
    ]);
    expect(driver.directories("snapshots")).toEqual([id]);
    expect(snapshotIds(await take("first"))).toEqual([id]);
    writeFileSync(`${driver.data(source.ExternalID)}/file`, "as it is");

    const restored = await world.made({ ID: "snap-2", Name: "snap-2", PluginID: "snap", SnapshotID: id });
    const clone = await world.made({ ID: "snap-3", Name: "snap-3", PluginID: "snap", CloneID: source.ExternalID });
    const content = (volume: { ExternalID: string }) => readFileSync(`${driver.data(volume.ExternalID)}/file`, "utf8");
    expect([content(restored), content(clone)]).toEqual(["as it was", "as it is"]);
    expect([restored.SnapshotID, clone.CloneID]).toEqual([id, source.ExternalID]);
    const both = await world.make({ ID: "snap-4", Name: "x", PluginID: "snap", SnapshotID: id, CloneID: "y" });
    expect(both.status).toBe(400);
    const nothing = { SnapshotID: "snap-00000000000-00000000" };
    expect((await world.make({ ID: "snap-4", Name: "x", PluginID: "snap", ...nothing })).status).toBe(404);
    expect((await take("none", { SourceVolumeID: "nothing" })).status).toBe(404);

    const ids = [id, ...(await take("second")).body.Snapshots, ...(await take("third")).body.Snapshots].map(
      (each) => each.ID ?? each,
    );
    const list = (query: string) => world.ask("GET", `/v1/volumes/snapshot?${query}`);
    expect((await list("plugin_id=snap")).status).toBe(400);
    expect((await list("per_page=2")).status).toBe(400);
    const page = await list("plugin_id=snap&per_page=2");
    expect(snapshotIds(page)).toEqual(ids.slice(0, 2));
    const rest = await list(`plugin_id=snap&per_page=2&next_token=${encodeURIComponent(page.body.NextToken)}`);
    expect([snapshotIds(rest), rest.body.NextToken]).toEqual([ids.slice(2), ""]);

    const remove = (query: string) => world.ask("DELETE", `/v1/volumes/snapshot?${query}`);
    expect(refusal(await remove("plugin_id=snap"))).toEqual([400, "snapshot_id is required"]);
    expect(refusal(await remove(`snapshot_id=${id}`))).toEqual([400, "plugin_id is required"]);
    for (const each of [...ids, id]) expect((await remove(`plugin_id=snap&snapshot_id=${each}`)).status).toBe(200);
    expect(driver.directories("snapshots")).toEqual([]);
    expect(driver.directories("volumes")).toHaveLength(3);
  });
});

describe("a plugin", () => {
  const rpc = CONTROLLER_RPC;
  const able = { ...definition, ID: "able-1", PluginID: "able" };
  // Proves: D.rules.5.create-delete, D.rules.5.external, D.rules.5.snapshot, D.rules.5.snapshot-list
  it.each<[lacks: string, number, method: string, path: string, body: object | undefined, says: string]>([
    [
      "CREATE_DELETE_VOLUME",
      rpc.createDeleteVolume,
      "PUT",
      "/v1/volume/csi/able-2/create",
      { ...able, ID: "able-2" },
      "plugin does not support creating volumes",
    ],
    [
      "CREATE_DELETE_VOLUME",
      rpc.createDeleteVolume,
      "DELETE",
      "/v1/volume/csi/able-1/delete",
      undefined,
      "plugin does not support deleting volumes",
    ],
    [
      "LIST_VOLUMES",
      rpc.listVolumes,
      "GET",
      "/v1/volumes/external?plugin_id=able&per_page=1",
      undefined,
      "does not list volumes (LIST_VOLUMES)",
    ],
    [
      "CREATE_DELETE_SNAPSHOT",
      rpc.createDeleteSnapshot,
      "POST",
      "/v1/volumes/snapshot",
      { SourceVolumeID: "able-1", Name: "s" },
      "plugin does not support snapshot",
    ],
    [
      "CREATE_DELETE_SNAPSHOT",
      rpc.createDeleteSnapshot,
      "DELETE",
      "/v1/volumes/snapshot?plugin_id=able&snapshot_id=s",
      undefined,
      "plugin does not support snapshot",
    ],
    [
      "LIST_SNAPSHOTS",
      rpc.listSnapshots,
      "GET",
      "/v1/volumes/snapshot?plugin_id=able&per_page=1",
      undefined,
      "plugin does not support listing snapshots",
    ],
    [
      "EXPAND_VOLUME",
      rpc.expandVolume,
      "PUT",
      "/v1/volume/csi/able-1/create",
      { ...able, Name: "", RequestedCapacityMin: 2 ** 32 },
      "expand is not implemented by this controller plugin",
    ],
    [
      "MODIFY_VOLUME",
      rpc.modifyVolume,
      "PUT",
      "/v1/volume/csi/able-1/create",
      { ...able, Name: "", MutableParameters: { mode: "0700" } },
      "plugin does not support mutable parameters (MODIFY_VOLUME)",
    ],
  ])("without the capability (%s, %i) is not called: %s %s", async (_lacks, number, method, path, body, says) => {
    const { driver, id } = await world.csiNode("able", { faults: { withoutControllerRpcs: [number] } });
    const { volume } = await new RawClient(driver.socket).call("CreateVolume", creation("able"));
    const external = { ExternalID: volume?.volumeId, NodeID: id };
    expect((await world.ask("PUT", "/v1/volume/csi/able-1", { ...able, Name: "", ...external })).status).toBe(200);
    driver.misbehave({ withoutControllerRpcs: [number] });
    expect(refusal(await world.ask(method, path, body))).toEqual([501, expect.stringContaining(says)]);
    expect(driver.allCalls()).toEqual([]);
    expect(driver.directories("volumes")).toEqual([external.ExternalID]);
    expect((await world.ask("DELETE", "/v1/volume/csi/able-1")).status).toBe(200);
  });

  it("is listed while a node reports it, counts its healthy instances, and is not called without a healthy controller", async () => {
    const first = await world.csiNode("seen");
    const second = await world.csiNode("seen", { beside: first, roles: ["node"] });
    const mine = async () => {
      const { body } = await world.ask("GET", "/v1/plugins?type=csi");
      return body.find(({ ID }: { ID: string }) => ID === "seen");
    };
    expect(await mine()).toMatchObject({
      ControllersHealthy: 1,
      ControllersExpected: 1,
      NodesHealthy: 2,
      NodesExpected: 2,
      ControllerRequired: true,
      Provider: "csi-dir.sallyport",
    });
    const { body } = await world.ask("GET", "/v1/plugin/csi/seen");
    expect(Object.keys(body.Controllers)).toEqual([first.id]);
    expect(Object.keys(body.Nodes).sort()).toEqual([first.id, second.id].sort());
    expect(body.Nodes[first.id].NodeInfo).toMatchObject({ ID: first.name, RequiresNodeStageVolume: true });
    await world.made({ ID: "seen-1", Name: "seen-1", PluginID: "seen" });
    await first.driver.kill();
    // The agent detects it at its next check or request.
    await vi.waitFor(
      async () => {
        const refused = await world.make({ ID: "seen-2", Name: "seen-2", PluginID: "seen" });
        expect([refused.status, refused.text]).toEqual([503, "no healthy controllers for CSI plugin: seen"]);
      },
      { interval: 100 },
    );
    expect(await mine()).toMatchObject({ ControllersHealthy: 0, NodesHealthy: 1 });
    expect((await world.read("seen-1")).body).toMatchObject({ Schedulable: false, ControllersHealthy: 0 });
    await first.driver.start();
    await vi.waitFor(async () => expect(await world.plugin("seen")).toEqual({ controllers: 1, nodes: 2 }), {
      interval: 100,
    });
    expect((await world.make({ ID: "seen-2", Name: "seen-2", PluginID: "seen" })).status).toBe(200);
  });

  it("creates volumes only in its topology, and returns where they can be used", async () => {
    const node = await world.csiNode("zones", { env: { CSI_DIR_TOPOLOGY: "zone=a,rack=r1" } });
    const inZone = (zone: string) => ({ RequestedTopologies: { Required: [{ Segments: { zone } }] } });
    const elsewhere = await world.make({ ID: "zones-1", Name: "zones-1", PluginID: "zones", ...inZone("b") });
    expect([elsewhere.status, elsewhere.text]).toEqual([507, expect.stringContaining("none of the requisite")]);
    const made = await world.made({ ID: "zones-1", Name: "zones-1", PluginID: "zones", ...inZone("a") });
    expect(made.Topologies).toEqual([{ Segments: { zone: "a", rack: "r1" } }]);
    const moved = await world.make({ ID: "zones-1", Name: "", PluginID: "zones", ...inZone("b") });
    expect([moved.status, moved.text]).toEqual([400, expect.stringContaining("topology")]);
    const { body } = await world.ask("GET", `/v1/node/${node.id}`);
    expect(body.CSINodePlugins.zones.NodeInfo.AccessibleTopology).toEqual({ Segments: { zone: "a", rack: "r1" } });
    expect(node.driver.directories("volumes")).toEqual([made.ExternalID]);
  });
});

/** Names of the files below a directory that contain a text. */
function filesWith(text: string, directory: string): string {
  const { status, stdout } = spawnSync("grep", ["-rlaF", text, directory], { encoding: "utf8" });
  // grep exits with 1 without a match, and with 2 after an error.
  expect(status, stdout).toBeLessThan(2);
  return stdout;
}
