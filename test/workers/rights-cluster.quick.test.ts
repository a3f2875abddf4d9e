import { beforeEach, describe, expect, it } from "vitest";
import { clusterRoutes } from "../../src/routes/table.ts";
import { placed, stickyJob } from "./claims-helpers.ts";
import { get, put } from "./client.ts";
import { controllers, create, nodePlugins, PLUGIN, ScriptedCsi } from "./csi-world.ts";
import { addNode, make, run, ScriptedNodes } from "./host-volumes.ts";
import {
  nodePool,
  report,
  deployment as reportedDeployment,
  evaluation as reportedEvaluation,
  service,
} from "./reports.ts";
import {
  type Asks,
  asked,
  callersOf,
  everythingBut,
  Findings,
  forgetTokens,
  madeOnce,
  presented,
  type Row,
  rootFor,
  rowsOf,
  strangers,
  tokenOf,
  waysTo,
} from "./rights.ts";
import { anywhere, clusterRights, topicRights, upstreamRights } from "./rights-table.ts";

/*
 * Every route of the cluster API against every kind of caller. The requested objects are absent: an authorized caller
 * gets 404 or a reason.
 */

const NOBODY = "00000000-0000-4000-8000-0000000000aa";
const volumes = { Volumes: [{ ID: NOBODY, Namespace: "default", PluginID: "none" }] };
const hostVolume = { Volume: { Name: "absent", Namespace: "default", PluginID: "none" } };

const asks: Asks = {
  "GET /v1/node/pool/:name": { path: "/node/pool/absent" },
  "GET /v1/node/pool/:name/nodes": { path: "/node/pool/absent/nodes" },
  "GET /v1/node/pool/:name/jobs": { path: "/node/pool/absent/jobs" },
  "POST /v1/node/pools": { body: { Name: "absent" } },
  "POST /v1/node/pool/:name": { path: "/node/pool/absent", body: {} },
  "DELETE /v1/node/pool/:name": { path: "/node/pool/absent" },
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
    name: `topic ${topic}`,
    right,
    method: "GET",
    path: "/event/stream",
    query: `topic=${topic}`,
    body: undefined,
  }),
);

beforeEach(async () => {
  forgetTokens();
  await put("/v1/namespace/theirs", {});
});

/** Rules of every kind, without management. */
const everything = () => everythingBut("management")[0] ?? "";

/** Holds the right in another namespace only, if the right is bound to namespaces. */
const elsewhere = (right: string): string[] =>
  right.includes("namespace:") ? waysTo(right.split("&")[0] ?? "", "theirs") : [];

async function judge(
  row: Row,
  found: Findings,
  refused: Record<string, Record<string, string>>,
  turn: number,
): Promise<void> {
  const powerless = presented.neutral(await tokenOf('path "none" { capabilities = ["read"] }'));
  if (row.right === "anybody") return found.alike(row, { ...refused, "a powerless token": powerless });
  const { "no token": none = {}, ...others } = refused;
  if (row.right === "any token or none") await found.allowed(row, "no token", none);
  const outsiders = row.right === "any token or none" ? others : refused;
  for (const [who, headers] of callersOf(outsiders, ["no token"], turn)) await found.denied(row, who, headers);
  const managers = {
    "a root token": presented.bearer(await rootFor(row)),
    "a management token": presented.nomad(
      await madeOnce(
        "management",
        async () => (await put("/v1/acl/token", { Name: "m", Type: "management" })).body.SecretID,
      ),
    ),
  };
  for (const [who, headers] of Object.entries(managers)) await found.allowed(row, who, headers);
  if (row.right.startsWith("any token")) return found.allowed(row, "a powerless token", powerless);
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
  for (const [turn, row] of some.entries()) await judge(row, found, refused, turn);
  found.expectNone();
}

const isVolumes = ({ path }: Row): boolean => /^\/(volume|plugin)/.test(path);

describe("returns 403 unless the token has the right of the route", () => {
  it("access, nodes, agents and events", { timeout: 120_000 }, async () =>
    judgeAll(rows.filter((row) => !isVolumes(row))),
  );
  it("volumes and plugins", { timeout: 120_000 }, async () => judgeAll(rows.filter(isVolumes)));
  it("topics of the event stream", { timeout: 120_000 }, async () => judgeAll(topics));
});

describe("a token", () => {
  it("reads itself and its own policies, and no others", async () => {
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

/** Content carries the namespace's name; reads without a name return one of these instead. */
const ON_VOLUME = NOBODY.replace(/aa$/, "b4");
const MARKS = [ON_VOLUME, '"Method":"csi.'];

/** Creates content in a namespace for every list and read. @returns ids to read */
async function fill(Namespace: string): Promise<string[]> {
  await put(`/v1/namespace/${Namespace}`, {});
  await put(`/v1/node/pool/none`, {});
  await put(`/v1/acl/policy/${Namespace}`, { Rules: 'node { policy = "read" }' });
  const { AccessorID } = (await put("/v1/acl/token", { Name: Namespace, Type: "management" })).body;
  const ids = { ID: Namespace, Name: Namespace, Namespace };
  const uuids = ["b1", "b2", "b3"].map((tail) => NOBODY.replace(/aa$/, tail));
  const [allocation, evaluation, deployment] = uuids;
  new ScriptedNodes();
  const node = await addNode(1, { ...controllers({}, { AllocID: allocation }), ...nodePlugins() });
  const host = await make({ Name: Namespace, Namespace, NodeID: node });
  const more = { Namespace };
  await report(
    { ...stickyJob([Namespace], { ...ids, NodePool: Namespace }), ...more },
    {
      ...placed(allocation ?? "", {
        ...ids,
        ID: allocation,
        JobID: Namespace,
        NodeID: node,
        EvalID: evaluation,
        DeploymentID: deployment,
      }),
      ...more,
    },
    reportedEvaluation({ ID: evaluation, JobID: Namespace }, more),
    reportedDeployment({ ID: deployment, JobID: Namespace }, more),
    nodePool({ Name: Namespace }),
    service({ ID: Namespace, ServiceName: Namespace, JobID: Namespace, AllocID: allocation }, more),
  );
  new ScriptedCsi();
  expect((await create({ ...ids })).status).toBe(200);
  await run(node, [{ Type: "csi", Source: Namespace } as never], {
    alloc: ON_VOLUME,
    job: `${Namespace}-csi`,
    namespace: Namespace,
  });
  const claims = () => get(`/v1/volume/csi/${Namespace}/claims?namespace=${Namespace}`);
  await expect.poll(async () => (await claims()).body?.length).toBe(1);
  return [Namespace, ...uuids, node, host.ID, AccessorID, PLUGIN];
}

/** Every read with its route, and lists of both kinds of volumes. */
const reads = [
  ...rows.filter(({ method, path }) => method === "GET" && path !== "/event/stream"),
  ...rows
    .filter(({ name }) => name === "GET /v1/volumes")
    .map((row) => ({ ...row, name: "GET /v1/volumes, csi", query: "type=csi" })),
];

/** Which of some reads return content of a namespace for any parameters. */
async function tell(
  of: string,
  ids: readonly string[],
  headers: Record<string, string>,
  some: readonly Row[] = reads,
): Promise<string[]> {
  const told = new Set<string>();
  for (const row of some) {
    const named = row.path.match(new RegExp(`${NOBODY}|(?<=/)absent|(?<=^/namespace/)default`))?.[0];
    const requests = ["default", of, "*"].flatMap((namespace) => {
      const query = [row.query.replace(/namespace=\w+/, ""), `namespace=${namespace}`].filter(Boolean).join("&");
      return (named === undefined ? [""] : ids).map((id) => ({
        ...row,
        query,
        path: row.path.replace(named ?? "", id),
      }));
    });
    for (const { status, text } of await Promise.all(requests.map((each) => asked(each, headers))))
      if (status === 200 && [of, ...MARKS].some((mark) => text.includes(mark))) told.add(row.name);
  }
  return [...told].sort();
}

/** The right that makes one object of a namespace visible, if it differs from the right of the route. */
const shows: Readonly<Record<string, string>> = {
  ...Object.fromEntries(reads.map(({ name, right }) => [name, right])),
  "GET /v1/volumes": clusterRights["GET /v1/volume/host/:id"] ?? "",
  "GET /v1/volumes, csi": clusterRights["GET /v1/volumes/external"] ?? "",
  "GET /v1/plugin/csi/:id": "namespace:read-job",
  "GET /v1/node/:id/allocations": "namespace:read-job",
};

/** Reads of content in namespaces. */
const NAMESPACED = [
  "job/:id",
  "job/:id/allocations",
  "job/:id/evaluations",
  "job/:id/deployments",
  "jobs",
  "job/:id/summary",
  "job/:id/versions",
  "job/:id/scale",
  "job/:id/deployment",
  "evaluation/:id/allocations",
  "deployment/allocations/:id",
  "services",
  "service/:name",
  "allocation/:id/services",
  "node/pool/:name/jobs",
  "allocation/:id",
  "allocations",
  "evaluation/:id",
  "evaluations",
  "deployment/:id",
  "deployments",
  "node/:id/allocations",
  "plugin/csi/:id",
  "volumes",
  "volumes, csi",
  "volumes/claims",
  "volume/host/:id",
  "volume/csi/:id",
  "volume/csi/:id/claims",
  "volume/csi/:id/operations",
].map((path) => `GET /v1/${path}`);
/** Reads of namespaces, pools, policies and tokens. */
const OTHERS = [
  "namespaces",
  "namespace/:name",
  "node/pools",
  "node/pool/:name",
  "acl/policies",
  "acl/policy/:name",
  "acl/tokens",
  "acl/token/:accessor",
].map((path) => `GET /v1/${path}`);

describe("other namespaces", () => {
  it("are revealed by no list or read", { timeout: 180_000 }, async () => {
    const ids = await fill("secretly");
    expect(await tell("secretly", ids, presented.neutral("root"))).toEqual([...NAMESPACED, ...OTHERS].sort());
    const mine = 'namespace "default" { policy = "write" }\nnode { policy = "write" }\nplugin { policy = "read" }\n';
    expect(await tell("secretly", ids, presented.neutral(await tokenOf(mine)))).toEqual([]);
  });

  it("are revealed only to tokens with the capability there", { timeout: 180_000 }, async () => {
    const ids = await fill("secretly");
    const told: string[] = [];
    for (const right of new Set(NAMESPACED.map((name) => shows[name] ?? ""))) {
      const [all = ""] = everythingBut(right);
      const [here = ""] = waysTo(right);
      const rules = all.replaceAll('namespace "*"', 'namespace "secretly"').replaceAll(/^node_pool.*$/gm, "") + here;
      const some = reads.filter(({ name }) => shows[name] === right);
      const names = await tell("secretly", ids, presented.neutral(await tokenOf(rules)), some);
      told.push(...names.map((name) => `${name} without ${right}`));
    }
    expect(told).toEqual([]);
  });
});
