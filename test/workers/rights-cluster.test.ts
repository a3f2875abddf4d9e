import { beforeEach, describe, expect, it } from "vitest";
import { clusterRoutes } from "../../src/routes/table.ts";
import { issue } from "./access.ts";
import { get, put } from "./client.ts";
import {
  type Asks,
  asked,
  everythingBut,
  Findings,
  forgetTokens,
  presented,
  type Row,
  rowsOf,
  strangers,
  tokenOf,
  waysTo,
} from "./rights.ts";
import { anywhere, clusterRights, topicRights, upstreamRights } from "./rights-table.ts";

/* Every route of areas C and D against every kind of caller. What is asked for is absent: who is let in reads 404, or why not. */

const NOBODY = "00000000-0000-4000-8000-0000000000aa";
const volumes = { Volumes: [{ ID: NOBODY, Namespace: "default", PluginID: "none" }] };
const hostVolume = { Volume: { Name: "absent", Namespace: "default", PluginID: "none" } };

const asks: Asks = {
  "GET /v1/node/pool/:name": { path: "/node/pool/absent" },
  "GET /v1/node/pool/:name/nodes": { path: "/node/pool/absent/nodes" },
  "GET /v1/namespace/:name": { path: "/namespace/default" },
  "POST /v1/cluster/objects": { body: [] },
  "GET /v1/plugins": { query: "type=csi" },
  "GET /v1/volumes": { query: "type=host" },
  "GET /v1/volumes/external": { query: "plugin_id=none&per_page=1" },
  "GET /v1/volumes/snapshot": { query: "plugin_id=none&per_page=1" },
  "DELETE /v1/volumes/snapshot": { query: "plugin_id=none&snapshot_id=none" },
  "GET /v1/volumes/claims": { query: "namespace=default&per_page=1" },
  "DELETE /v1/volume/csi/:id/detach": { query: `node=${NOBODY}` },
  "POST /v1/volumes": { body: volumes },
  "POST /v1/volume/csi/:id": { body: volumes },
  "POST /v1/volume/csi/:id/create": { body: volumes },
  "POST /v1/volume/host/create": { body: hostVolume },
  "POST /v1/volume/host/register": { body: hostVolume },
};

const rows = rowsOf([["", clusterRoutes]], clusterRights, asks, NOBODY);
const topics = Object.entries(topicRights).map(
  ([topic, right]): Row => ({
    ...{
      name: `topic ${topic}`,
      right,
      method: "GET",
      path: "/event/stream",
      query: `topic=${topic}`,
      body: undefined,
    },
  }),
);

beforeEach(async () => {
  forgetTokens();
  await put("/v1/namespace/theirs", {});
});

/** Rules of every kind, which manage nothing. */
const everything = () => everythingBut("management")[0] ?? "";

/** Holds the right in the namespace of others only, if it is one that namespaces have. */
const elsewhere = (right: string): string[] =>
  right.includes("namespace:") ? waysTo(right.split("&")[0] ?? "", "theirs") : [];

async function judge(row: Row, found: Findings, refused: Record<string, Record<string, string>>): Promise<void> {
  const powerless = presented.neutral(await tokenOf('path "none" { capabilities = ["read"] }'));
  if (row.right === "anybody") return found.alike(row, { ...refused, "a powerless token": powerless });
  for (const [who, headers] of Object.entries(refused)) await found.denied(row, who, headers);
  const managers = {
    "a root token": presented.bearer((await issue({ policies: ["root"] })).client_token),
    "a management token": presented.nomad(
      (await put("/v1/acl/token", { Name: "m", Type: "management" })).body.SecretID,
    ),
  };
  for (const [who, headers] of Object.entries(managers)) await found.allowed(row, who, headers);
  if (row.right === "any token") return found.allowed(row, "a powerless token", powerless);
  await found.denied(row, "a powerless token", powerless);
  if (row.right === "management") {
    return found.denied(row, "everything but managing", presented.neutral(await tokenOf(everything())));
  }
  await judgeRules(row, row.right, found, presented.neutral);
  await judgeRules(row, upstreamRights[row.name] ?? row.right, found, presented.nomad);
}

async function judgeRules(
  row: Row,
  right: string,
  found: Findings,
  how: (token: string) => Record<string, string>,
): Promise<void> {
  for (const rules of waysTo(right)) await found.allowed(row, `only ${rules}`, how(await tokenOf(rules)));
  for (const rules of everythingBut(right)) await found.denied(row, `all but ${right}`, how(await tokenOf(rules)));
  for (const rules of elsewhere(right)) {
    const headers = how(await tokenOf(rules));
    if (anywhere.has(row.name)) await found.allowed(row, `only ${rules}`, headers);
    else await found.denied(row, `only ${rules}`, headers);
  }
}

async function judgeAll(some: readonly Row[]): Promise<void> {
  const refused = await strangers();
  const found = new Findings();
  for (const row of some) await judge(row, found, refused);
  found.expectNone();
}

const isVolumes = ({ path }: Row): boolean => /^\/(volume|plugin)/.test(path);

describe("lets in whoever holds the right of the route, and nobody else", () => {
  it("access, nodes, agents and events", { timeout: 120_000 }, async () =>
    judgeAll(rows.filter((row) => !isVolumes(row))),
  );
  it("volumes and plugins", { timeout: 120_000 }, async () => judgeAll(rows.filter(isVolumes)));
  it("topics of the event stream", { timeout: 120_000 }, async () => judgeAll(topics));
});

describe("a token", () => {
  it("reads itself and its own policies without being told of others", async () => {
    await put("/v1/acl/policy/mine", { Rules: 'node { policy = "read" }' });
    await put("/v1/acl/policy/theirs", { Rules: 'node { policy = "write" }' });
    const made = (await put("/v1/acl/token", { Name: "c", Type: "client", Policies: ["mine"] })).body;
    const token = made.SecretID;
    expect((await get(`/v1/acl/token/${made.AccessorID}`, { token })).status).toBe(200);
    expect((await get("/v1/acl/policy/mine", { token })).status).toBe(200);
    expect((await get("/v1/acl/policy/theirs", { token })).status).toBe(403);
    expect((await get("/v1/acl/policies", { token })).body.map(({ Name }: { Name: string }) => Name)).toEqual(["mine"]);
  });
});

describe("the namespaces of others", () => {
  it("are not told of by any list or read", { timeout: 60_000 }, async () => {
    await put("/v1/namespace/secretly", {});
    await put("/v1/node/pool/none", {});
    const ids = { ID: "secretly", Name: "secretly", Namespace: "secretly" };
    const uuids = ["b1", "b2", "b3", "b4"].map((tail) => NOBODY.replace(/aa$/, tail));
    const [allocation, evaluation, deployment, node] = uuids;
    const reports = [
      { Topic: "Node", Type: "NodeRegistration", Payload: { Node: { ID: node, Name: "n", Status: "ready" } } },
      { Topic: "Job", Type: "JobRegistered", Namespace: "secretly", Payload: { Job: { ...ids, Type: "service" } } },
      {
        ...{ Topic: "Allocation", Type: "AllocationCreated", Namespace: "secretly" },
        Payload: { Allocation: { ...ids, ID: allocation, JobID: "secretly", NodeID: node, TaskGroup: "secretly" } },
      },
      {
        ...{ Topic: "Evaluation", Type: "EvaluationUpdated", Namespace: "secretly" },
        Payload: { Evaluation: { ...ids, ID: evaluation, JobID: "secretly" } },
      },
      {
        ...{ Topic: "Deployment", Type: "DeploymentStatusUpdate", Namespace: "secretly" },
        Payload: { Deployment: { ...ids, ID: deployment, JobID: "secretly" } },
      },
    ];
    expect((await put("/v1/cluster/objects?namespace=secretly", reports)).status).toBe(200);
    const token = await tokenOf(
      'namespace "default" { policy = "write" }\nnode { policy = "write" }\nplugin { policy = "read" }\n',
    );
    const seen = await get("/v1/jobs?namespace=secretly");
    expect(seen.text).toContain("secretly");
    for (const row of rows.filter(({ method, path }) => method === "GET" && path !== "/event/stream")) {
      for (const namespace of ["default", "secretly", "*"]) {
        const query = [row.query.replace(/namespace=\w+/, ""), `namespace=${namespace}`].filter(Boolean).join("&");
        for (const id of ["secretly", ...uuids]) {
          const one = { ...row, query, path: row.path.replace(NOBODY, id) };
          const reply = await asked(one, { "X-Orch-Token": token });
          const isNode = row.path.startsWith(`/node/${NOBODY}`) && !row.path.endsWith("/allocations");
          const told = reply.status === 200 && !isNode && reply.text.includes(ids.ID);
          expect([one.path, query, told]).toEqual([one.path, query, false]);
          if (!row.path.includes(NOBODY)) break;
        }
      }
    }
  });
});
