import { beforeEach, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { type Answer, del, get, put, send } from "./client.ts";
import { addCsiNode, create, definition, PLUGIN, ScriptedCsi } from "./csi-world.ts";
import { nodeId } from "./host-volumes.ts";

/* Rules of volumes, snapshots and claims of every kind. */

const NODE = nodeId(1);

beforeEach(async () => {
  const csi = new ScriptedCsi();
  csi.behave = ({ method }) =>
    method === "dhv.create" ? { state: "done", result: { path: "/volumes/data", bytes: 0 } } : "work";
  await addCsiNode(1);
});

const must = async (asked: Promise<Answer>): Promise<Answer> => {
  const answer = await asked;
  expect(answer.status, answer.text).toBe(200);
  return answer;
};
const withSticky = () =>
  put("/v1/cluster/objects", [
    {
      Topic: "Job",
      Type: "JobRegistered",
      Payload: {
        Job: {
          ID: "db",
          TaskGroups: [{ Name: "main", Volumes: { v: { Type: "host", Source: "data", Sticky: true } } }],
        },
      },
    },
    {
      Topic: "Allocation",
      Type: "AllocationUpdated",
      Payload: {
        Allocation: {
          ID: "a110c000-0000-4000-8000-000000000001",
          Name: "db.main[0]",
          JobID: "db",
          TaskGroup: "main",
          NodeID: NODE,
          ClientStatus: "running",
        },
      },
    },
  ]);

// Proves: D.all.fields, D.all.json
it("responses about volumes, snapshots and claims are JSON with the documented field names", async () => {
  const definitionOfOne = definition({ RequestedCapacityMin: 1_000 });
  const made = await must(put("/v1/volume/csi/v1/create", { Volumes: [definitionOfOne] }));
  const registered = await must(
    put("/v1/volume/csi/v2", { Volumes: [definition({ ID: "v2", Name: "", NodeID: NODE })] }),
  );
  const csiRead = await must(get("/v1/volume/csi/v1"));
  const snapshot = await must(
    send("POST", "/v1/volumes/snapshot", { Snapshots: [{ SourceVolumeID: "v1", Name: "s" }] }),
  );
  const host = await must(put("/v1/volume/host/create", { Volume: { Name: "data", PluginID: "mkdir" } }));
  const { ID } = host.body.Volume;
  const shared = await must(
    put("/v1/volume/host/register", { Volume: { Name: "shared", NodeID: NODE, HostPath: "/srv/shared" } }),
  );
  await must(withSticky());
  const hostRead = await must(get(`/v1/volume/host/${ID}`));
  const claims = await must(get("/v1/volumes/claims?namespace=default&per_page=10"));
  const lists = await Promise.all(
    [
      "/v1/volumes?type=csi",
      "/v1/volumes?type=host",
      `/v1/volumes/external?plugin_id=${PLUGIN}&per_page=10`,
      `/v1/volumes/snapshot?plugin_id=${PLUGIN}&per_page=10`,
      "/v1/volume/csi/v1/claims",
      "/v1/volume/csi/v1/operations",
      "/v1/plugins?type=csi",
      `/v1/plugin/csi/${PLUGIN}`,
    ].map((path) => must(get(path))),
  );
  for (const { headers } of [made, registered, csiRead, snapshot, host, shared, hostRead, claims, ...lists])
    expect(headers.get("Content-Type")).toMatch(/^application\/json\b/);

  expect(csiRead.body).toMatchObject({ ID: "v1", Namespace: "default", RequestedCapacityMin: 1_000 });
  expect(hostRead.body).toMatchObject({ ID, NodeID: NODE, Name: "data", Namespace: "default" });
  expect(snapshot.body).toMatchObject({ NextToken: "", Snapshots: [{ ID: "snap-s", SourceVolumeID: "v1" }] });
  expect(claims.body.Claims).toMatchObject([
    {
      ID: expect.stringMatching(/^[0-9a-f-]{36}$/),
      Namespace: "default",
      JobID: "db",
      TaskGroupName: "main",
      VolumeName: "data",
      VolumeID: ID,
    },
  ]);
});

// Proves: D.all.json
it("deletions answer without a body", async () => {
  await must(create());
  await must(create({ ID: "v2", Name: "two" }));
  await must(send("POST", "/v1/volumes/snapshot", { Snapshots: [{ SourceVolumeID: "v1", Name: "s" }] }));
  for (const path of [
    `/v1/volumes/snapshot?plugin_id=${PLUGIN}&snapshot_id=snap-s`,
    `/v1/volume/csi/v1/detach?node=${NODE}`,
    "/v1/volume/csi/v1",
    "/v1/volume/csi/v2/delete",
  ])
    expect((await must(del(path))).text, path).toBe("");
});

itRows<[what: string, path: string, body: object, said: string]>([
  [
    "a volume whose most is less than its least",
    "/v1/volume/csi/v1/create",
    definition({ RequestedCapacityMin: 3, RequestedCapacityMax: 2 }),
    "validation: max requested capacity (2 B) less than or equal to min (3 B)",
  ],
  [
    "a registered volume",
    "/v1/volume/csi/v1",
    definition({ RequestedCapacityMin: 3, RequestedCapacityMax: 2, NodeID: NODE }),
    "validation: max requested capacity (2 B) less than or equal to min (3 B)",
  ],
  [
    "a snapshot without a volume",
    "/v1/volumes/snapshot",
    { Snapshots: [{}] },
    "Snapshots.0.SourceVolumeID: is required",
  ],
  [
    "a snapshot with a field that there is not",
    "/v1/volumes/snapshot",
    { SourceVolumeID: "v1", Nmae: "s" },
    "Snapshots.0: unknown field Nmae",
  ],
  ["no snapshot", "/v1/volumes/snapshot", { Snapshots: [null] }, "snapshot cannot be nil"],
])("%s is refused without a call to the plugin", async (_what, path, body, said) => {
  const answer = await send("PUT", path, body);
  expect([answer.status, answer.text]).toEqual([400, said]);
  expect((await get("/v1/volume/csi/v1/operations")).status).toBe(404);
});

it("a returned snapshot is accepted in a request", async () => {
  await must(create());
  const made = await must(send("POST", "/v1/volumes/snapshot", { SourceVolumeID: "v1", Name: "s" }));
  const again = await must(
    send("POST", "/v1/volumes/snapshot", { Snapshots: made.body.Snapshots, Namespace: "default" }),
  );
  expect(again.body.Snapshots).toEqual(made.body.Snapshots);
});
