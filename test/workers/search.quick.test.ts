import { beforeEach, describe, expect, it } from "vitest";
import { ORCHESTRATOR_VERSION } from "../../src/compat/orchestrator.ts";
import { itRows } from "../support/rows.ts";
import { del, get, put, send } from "./client.ts";
import { addNode, make, nodeId, ScriptedNodes } from "./host-volumes.ts";
import { allocation, deployment, evaluation, job, nodePool, report, tokenWith, uuid } from "./reports.ts";

const search = (body: object, query = "", token = "root") => put(`/v1/search${query}`, body, { token });
const fuzzy = (body: object, query = "", token = "root") => put(`/v1/search/fuzzy${query}`, body, { token });

const TASKS = {
  TaskGroups: [
    {
      Name: "cache",
      Services: [{ Name: "cache-front" }],
      Tasks: [
        {
          Name: "redis",
          Driver: "docker",
          Config: { image: "docker.io/redis:7" },
          Services: [{ Name: "redis-probe" }],
        },
        { Name: "load", Driver: "raw_exec", Config: { command: "/usr/bin/loader" } },
        { Name: "jvm", Driver: "java", Config: { class: "org.Main" } },
        { Name: "other", Driver: "podman", Config: { image: "quay.io/other", command: "sh" } },
      ],
    },
  ],
};

beforeEach(async () => {
  new ScriptedNodes();
  await addNode(1);
  await addNode(2);
  await put("/v1/namespace/dev", {});
  await report(
    job({ Name: "Web", ...TASKS }),
    job({ ID: "worker", Name: "worker" }, { Namespace: "dev" }),
    allocation({ Name: "web.cache[0]" }),
    evaluation(),
    deployment(),
    nodePool(),
  );
  await make({ Name: "database" });
});

describe("POST /v1/search", () => {
  itRows([
    ["two nodes", "the empty prefix", { Context: "nodes" }, [nodeId(1), nodeId(2)]],
    ["a node", "bytes of its id", { Context: "nodes", Prefix: nodeId(2).slice(0, 8) }, [nodeId(2)]],
    ["a node", "an odd number of digits", { Context: "nodes", Prefix: "0000000".concat("2-0") }, [nodeId(2)]],
    ["no node", "no digits", { Context: "nodes", Prefix: "web" }, []],
    ["a job", "the beginning of its id", { Context: "jobs", Prefix: "we" }, ["web"]],
    ["an allocation", "its id in capitals", { Context: "allocs", Prefix: uuid(1).toUpperCase() }, [uuid(1)]],
    ["an evaluation", "its id", { Context: "evals", Prefix: uuid(2) }, [uuid(2)]],
    ["a deployment", "its id", { Context: "deployment", Prefix: uuid(3) }, [uuid(3)]],
    ["a namespace", "its name", { Context: "namespaces", Prefix: "de" }, ["default", "dev"]],
    ["a node pool", "its name", { prefix: "gp", context: "node_pools" }, ["gpu"]],
  ])("finds %s by %s", async (_what, _by, body, ids) => {
    const context = Object.entries(body).find(([name]) => name.toLowerCase() === "context")?.[1] ?? "";
    const { status, body: found, headers } = await search(body);
    expect([status, found.Matches, found.Truncations]).toEqual([200, { [context]: ids }, { [context]: false }]);
    expect([found.KnownLeader, Number(headers.get("X-Nomad-Index"))]).toEqual([true, found.Index]);
  });

  it("searches every context by default, in the namespace of the request or in all", async () => {
    const { Matches } = (await search({ Prefix: "w" })).body;
    expect(Object.keys(Matches).sort()).toEqual([
      "allocs",
      "deployment",
      "evals",
      "host_volumes",
      "jobs",
      "namespaces",
      "node_pools",
      "nodes",
      "plugins",
      "volumes",
    ]);
    expect(Matches.jobs).toEqual(["web"]);
    expect((await search({ Prefix: "w", Context: "all" }, "?namespace=dev")).body.Matches.jobs).toEqual(["worker"]);
    expect((await search({ Prefix: "w", Context: "" }, "?namespace=*")).body.Matches.jobs).toEqual(["web", "worker"]);
    expect((await search({ Prefix: "data", Context: "host_volumes" })).body.Matches.host_volumes).toHaveLength(1);
  });

  it("returns at most 20 matches, and reports truncation", async () => {
    await report(...Array.from({ length: 21 }, (_, at) => job({ ID: `many-${String(at).padStart(2, "0")}` })));
    const { Matches, Truncations } = (await search({ Prefix: "many", Context: "jobs" })).body;
    expect([Matches.jobs.length, Matches.jobs[0], Truncations.jobs]).toEqual([20, "many-00", true]);
  });

  it("omits contexts and objects without a capability, and returns 403 when none is left", async () => {
    const reader = await tokenWith('namespace "dev" { policy = "read" }');
    const { Matches } = (await search({ Prefix: "w" }, "?namespace=*", reader)).body;
    expect(Matches.jobs).toEqual(["worker"]);
    expect(Object.keys(Matches)).not.toContain("nodes");
    expect((await search({ Context: "namespaces" }, "", reader)).body.Matches.namespaces).toEqual(["dev"]);
    expect((await search({ Context: "nodes" }, "?namespace=dev", reader)).status).toBe(403);
    expect((await search({ Context: "jobs" }, "?namespace=default", reader)).status).toBe(403);
  });

  it("returns 400 for an unknown context, and accepts the query that clients send in the body", async () => {
    for (const context of ["vars", "Jobs"]) {
      const { status, text } = await search({ Context: context });
      expect([status, text]).toEqual([400, expect.stringMatching(/^Context: must be one of jobs, /)]);
    }
    expect((await search({ Prefix: "w", AllowStale: false, PerPage: 0, Region: "", Params: null })).status).toBe(200);
  });
});

describe("POST /v1/search/fuzzy", () => {
  it("finds any part of a name in any case, with its position", async () => {
    const { Matches } = (await fuzzy({ Text: "CA" })).body;
    expect(Matches.groups).toEqual([{ ID: "cache", Scope: ["default", "web"] }]);
    expect(Matches.allocs).toEqual([{ ID: "web.cache[0]", Scope: ["default", uuid(1)] }]);
    expect((await fuzzy({ Text: "edi", Context: "tasks" })).body.Matches.tasks).toEqual([
      { ID: "redis", Scope: ["default", "web", "cache"] },
    ]);
    expect((await fuzzy({ Text: "EB", Context: "jobs" })).body.Matches.jobs).toEqual([
      { ID: "Web", Scope: ["default", "web"] },
    ]);
    expect((await fuzzy({ Text: "base", Context: "host_volumes" })).body.Matches.host_volumes).toMatchObject([
      { ID: "database" },
    ]);
    expect((await fuzzy({ Text: uuid(2).slice(0, 9), Context: "evals" })).body.Matches.evals).toMatchObject([
      { ID: uuid(2) },
    ]);
    expect((await fuzzy({ Text: "ef", Context: "namespaces" })).body.Matches.namespaces).toEqual([{ ID: "default" }]);
  });

  itRows([
    ["services", "front", [{ ID: "cache-front", Scope: ["default", "web", "cache"] }]],
    ["services", "probe", [{ ID: "redis-probe", Scope: ["default", "web", "cache", "redis"] }]],
    ["images", "io/r", [{ ID: "docker.io/redis:7", Scope: ["default", "web", "cache", "redis"] }]],
    ["images", "quay", []],
    ["commands", "LOADER", [{ ID: "/usr/bin/loader", Scope: ["default", "web", "cache", "load"] }]],
    ["classes", "main", [{ ID: "org.Main", Scope: ["default", "web", "cache", "jvm"] }]],
  ])("finds %s of jobs by %s", async (context, text, found) => {
    expect((await fuzzy({ Text: text, Context: context })).body.Matches).toEqual({ [context]: found });
    expect((await fuzzy({ Text: text })).body.Matches[context]).toEqual(found);
  });

  it("returns 400 for fewer than 2 characters", async () => {
    const { status, text } = await fuzzy({ Text: "w" });
    expect([status, text]).toEqual([400, expect.stringContaining("must be at least 2 characters, got 1")]);
  });
});

describe("the operator API", () => {
  it("returns one server, and no scheduler", async () => {
    const raft = (await get("/v1/operator/raft/configuration")).body;
    expect(raft.Servers).toMatchObject([{ Leader: true, Voter: true, Address: "x:443", RaftProtocol: "3" }]);
    const health = (await get("/v1/operator/autopilot/health")).body;
    expect([health.Healthy, health.Voters, health.Servers[0].Version]).toEqual([
      true,
      [raft.Servers[0].ID],
      ORCHESTRATOR_VERSION,
    ]);
    expect((await get("/v1/operator/autopilot/configuration")).body.CleanupDeadServers).toBe(false);
    expect((await get("/v1/operator/scheduler/configuration")).body.SchedulerConfig).toMatchObject({
      SchedulerAlgorithm: "binpack",
      RejectJobRegistration: true,
      PauseEvalBroker: true,
    });
    for (const path of ["gc", "reconcile/summaries"]) {
      const { status, text } = await put(`/v1/system/${path}`, "");
      expect([path, status, text]).toEqual([path, 200, ""]);
    }
  });

  it("returns 501 for unsupported operations, with the alternative", async () => {
    const rows: readonly [method: string, path: string, says: string][] = [
      ["PUT", "jobs", "PUT /v1/cluster/objects"],
      ["POST", "jobs/parse", "PUT /v1/cluster/objects"],
      ["PUT", "validate/job", "PUT /v1/cluster/objects"],
      ["POST", "job/web", "PUT /v1/cluster/objects"],
      ["DELETE", "job/web", "PUT /v1/cluster/objects"],
      ...["plan", "evaluate", "dispatch", "periodic/force", "revert", "stable", "scale"].map(
        (verb): [string, string, string] => ["PUT", `job/web/${verb}`, "PUT /v1/cluster/objects"],
      ),
      ["PUT", `allocation/${uuid(1)}/stop`, "the scheduler"],
      ["GET", "client/stats", "not offered"],
      ["GET", "operator/license", "Nomad Enterprise only endpoint"],
      ["PUT", "operator/scheduler/configuration", "nothing is scheduled here"],
      ["PUT", "operator/autopilot/configuration", "no Raft servers"],
      ["DELETE", "operator/raft/peer", "no Raft servers"],
    ];
    for (const [method, path, says] of rows) {
      const { status, text } = await send(method, `/v1/${path}`, method === "GET" ? undefined : { Job: { ID: "web" } });
      expect([path, status, text]).toEqual([path, 501, expect.stringContaining(says)]);
    }
    expect((await get("/v1/job/web")).status).toBe(200);
    expect((await del("/v1/job/web", { token: await tokenWith('namespace "*" { policy = "read" }') })).status).toBe(
      403,
    );
  });
});

describe("/.well-known/jwks.json", () => {
  it("publishes the keys of identity tokens, with and without /v1", async () => {
    const { keys } = (await get("/v1/identity/oidc/plugins/.well-known/keys", { token: null })).body;
    expect(keys.length).toBeGreaterThan(0);
    for (const path of ["/.well-known/jwks.json", "/v1/.well-known/jwks.json"])
      expect((await get(path, { token: null })).body).toEqual({ keys });
  });
});
