import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { type Answer, del, get, send } from "./client.ts";
import { create, csi, definition, openCsi, PLUGIN, runs, shown, statesOf } from "./csi-world.ts";
import { nodeId } from "./host-volumes.ts";

/* CSI volumes and snapshots, endpoint by endpoint. */

beforeEach(async () => {
  await openCsi();
  const made = await create();
  if (made.status !== 200) throw new Error(made.text);
});

interface Endpoint {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly right: string;
  readonly blocks: boolean;
}

const reads = { method: "GET", blocks: true };
const writes = { method: "PUT", blocks: false, right: "csi-write-volume" };
const deletes = { ...writes, method: "DELETE" };
const another = definition({ ID: "v2", Name: "two", NodeID: nodeId(1) });
const EXTERNAL = `/v1/volumes/external?plugin_id=${PLUGIN}&per_page=10`;
const SNAPSHOTS = `/v1/volumes/snapshot?plugin_id=${PLUGIN}&per_page=10`;

const endpoints: Record<string, Endpoint> = {
  "list of volumes": { ...reads, path: "/v1/volumes?type=csi", right: "csi-list-volume" },
  "read of a volume": { ...reads, path: "/v1/volume/csi/v1", right: "csi-read-volume" },
  "registration of a volume": { ...writes, path: "/v1/volume/csi/v2", body: { Volumes: [another] } },
  "creation of a volume": { ...writes, path: "/v1/volume/csi/v2/create", body: { Volumes: [another] } },
  "deregistration of a volume": { ...deletes, path: "/v1/volume/csi/v1" },
  "deletion of a volume": { ...deletes, path: "/v1/volume/csi/v1/delete" },
  "detaching of a volume": { ...deletes, path: `/v1/volume/csi/v1/detach?node=${nodeId(1)}` },
  "list of what the provider has": { ...reads, path: EXTERNAL, right: "csi-list-volume" },
  "making of a snapshot": {
    ...writes,
    method: "POST",
    path: "/v1/volumes/snapshot",
    body: { Snapshots: [{ SourceVolumeID: "v1", Name: "s" }] },
  },
  "deletion of a snapshot": { ...deletes, path: `/v1/volumes/snapshot?plugin_id=${PLUGIN}&snapshot_id=s` },
  "list of snapshots": { ...reads, path: SNAPSHOTS, right: "csi-list-volume" },
};

const withQuery = (path: string, query: string) => `${path}${path.includes("?") ? "&" : "?"}${query}`;
const WORDS = ["csi-list-volume", "csi-read-volume", "csi-write-volume", "host-volume-write", "submit-job"];
/** The right to read volumes includes the right to list them. */
const enough = (right: string): string[] => (right === "csi-list-volume" ? ["csi-read-volume"] : []);

describe.each(Object.entries(endpoints))("the %s", (_what, { method, path, body, right, blocks }) => {
  // Proves: D.csi.create.acl, D.csi.delete.acl, D.csi.deregister.acl, D.csi.detach.acl, D.csi.read.acl,
  // D.csi.register.acl, D.external.acl, D.list.acl.csi, D.snapshot.create.acl, D.snapshot.delete.acl,
  // D.snapshot.list.acl, E.auth.4.policies-volumes, E.auth.5
  it("returns 403 unless the token has the listed right", async () => {
    const may: string[] = [];
    for (const word of WORDS.filter((each) => each !== right)) {
      const { client_token: token } = await holderOf(`namespace "default" { capabilities = ["${word}"] }`);
      const { status } = await send(method, path, body, { token });
      if (status !== 403) may.push(word);
    }
    expect(may).toEqual(enough(right));
    expect((await send(method, path, body, { token: null })).status).toBe(403);
    const { client_token: token } = await holderOf(`namespace "default" { capabilities = ["${right}"] }`);
    const answer = await send(method, path, body, { token });
    expect(answer.status, answer.text).toBe(200);
  });

  // Proves: D.all.prefix, E.versioning.1.volumes
  it("exists at its path below /v1 only", async () => {
    expect((await send(method, path.replace("/v1/", "/"), body)).status).toBe(404);
    const answer = await send(method, path, body);
    expect(answer.status, answer.text).toBe(200);
  });

  if (blocks) {
    // Proves: D.csi.read.blocking, D.external.blocking, D.snapshot.list.blocking
    it("blocks until a change when an index is given", async () => {
      let answered = false;
      const asked = send(method, withQuery(path, `index=${2 ** 40}&wait=1s`), body).finally(() => {
        answered = true;
      });
      await scheduler.wait(500);
      expect(answered).toBe(false);
      expect((await asked).status).toBe(200);
    });
  } else {
    // Proves: D.csi.create.blocking, D.csi.delete.blocking, D.csi.deregister.blocking, D.csi.detach.blocking,
    // D.csi.register.blocking, D.snapshot.create.blocking, D.snapshot.delete.blocking
    it("answers at once for any index", async () => {
      expect((await send(method, withQuery(path, `index=${2 ** 40}&wait=300s`), body)).status).toBe(200);
    });
  }
});

describe("lists of plugins", () => {
  const waits = async (path: string, change: () => Promise<Answer>): Promise<Answer> => {
    const { headers } = await get(path);
    const waiting = get(withQuery(path, `index=${headers.get("X-Orch-Index")}&wait=10s`));
    await scheduler.wait(50);
    await change();
    return waiting;
  };

  // Proves: D.external.blocking
  it("are repeated when volumes change", async () => {
    const answer = await waits(EXTERNAL, () => create({ ID: "v2", Name: "two" }));
    expect(answer.body.Volumes.map(({ ExternalID }: { ExternalID: string }) => ExternalID)).toContain("ext-two");
  });

  // Proves: D.snapshot.list.blocking
  it("are repeated when snapshots are created or deleted", async () => {
    await send("POST", "/v1/volumes/snapshot", { Snapshots: [{ SourceVolumeID: "v1", Name: "s" }] });
    const answer = await waits(SNAPSHOTS, () => del(`/v1/volumes/snapshot?plugin_id=${PLUGIN}&snapshot_id=snap-s`));
    expect(answer.body.Snapshots).toEqual([]);
  });

  // Proves: D.all.next_token.snapshots, D.snapshot.list.next_token
  it("pass page tokens to and from the plugin", async () => {
    csi.behave = ({ method }) =>
      method.endsWith("snapshotList")
        ? { state: "done", result: { snapshots: [shown("s1", "ext"), shown("s2", "ext")], nextToken: "more" } }
        : "work";
    const page = await get(`/v1/volumes/snapshot?plugin_id=${PLUGIN}&per_page=2&next_token=from-here`);
    expect([page.body.NextToken, page.body.Snapshots.length]).toEqual(["more", 2]);
    expect(csi.sent.at(-1)?.operation.params).toEqual({ pluginId: PLUGIN, maxEntries: 2, startingToken: "from-here" });
  });

  // Proves: D.snapshot.list.secrets-header
  it("pass only the header's secrets to the plugin", async () => {
    await get(SNAPSHOTS, { headers: { "X-Orch-CSI-Secrets": "a=1,b=2" } });
    expect(csi.sent.at(-1)?.operation.secrets).toEqual({ a: "1", b: "2" });
  });
});

// Proves: D.all.kinds, D.list.type.values
it("lists one type of volume: csi or host", async () => {
  const namesOf = async (type: string) =>
    (await get(`/v1/volumes?type=${type}`)).body.map(({ Name }: { Name: string }) => Name);
  expect([await namesOf("csi"), await namesOf("host")]).toEqual([["vol-one"], []]);
  expect((await get("/v1/volumes?type=other")).status).toBe(404);
});

describe("a volume in use", () => {
  const held = async () => {
    await runs(nodeId(1));
    await expect.poll(() => statesOf()).toEqual(["published"]);
    return (await get("/v1/volume/csi/v1")).body;
  };

  // Proves: D.state.delete.in-use, D.state.detach.in-use, D.state.force.running, E.errors.4.delete,
  // E.errors.4.deregister, E.errors.4.detach, E.errors.4.force
  itRows([
    ["deregistered", "/v1/volume/csi/v1"],
    ["deregistered by force", "/v1/volume/csi/v1?force=true"],
    ["deleted", "/v1/volume/csi/v1/delete"],
    ["detached", `/v1/volume/csi/v1/detach?node=${nodeId(1)}`],
  ])("cannot be %s, and is unchanged", async (_what, path) => {
    const before = await held();
    const asked = csi.asked.length;
    const answer = await del(path);
    expect([answer.status, answer.text]).toEqual([409, expect.stringMatching(/^volume in use: v1: /)]);
    expect([(await get("/v1/volume/csi/v1")).body, csi.asked.length]).toEqual([before, asked]);
  });

  // Proves: D.csi.deregister.force, D.state.force.claims-dropped, D.state.force.not-detached, D.state.force.terminal
  it("by ended allocations can be deregistered by force: its claims are dropped without calls to nodes", async () => {
    await held();
    csi.behave = () => ({ state: "failed", error: { kind: "plugin", message: "stuck" } });
    await runs(nodeId(1), { status: "complete" });
    await expect.poll(() => statesOf()).toEqual(["unpublishing"]);
    await expect.poll(() => csi.asked).toContain("node.detach");
    expect((await del("/v1/volume/csi/v1?force=true")).status).toBe(200);
    const asked = csi.asked.length;
    expect((await get("/v1/volume/csi/v1")).status).toBe(404);
    await scheduler.wait(1_200);
    expect(csi.asked.length).toBe(asked);
    csi.behave = () => "work";
    expect((await create({ ID: "v1", Name: "again" })).status).toBe(200);
    expect(await statesOf()).toEqual([]);
  });
});
