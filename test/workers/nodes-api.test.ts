import { afterEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { type Answer, get, put, send } from "./client.ts";
import { allLines, follow, ID, id, read, ready, register, registry, report } from "./nodes-helpers.ts";
import { closeAll } from "./streams.ts";

afterEach(closeAll);

const ids = (answer: Answer): string[] => answer.body.map(({ ID: each }: { ID: string }) => each);
const query = (text: string): string => `/v1/nodes?${text}`;

describe("the list of nodes", () => {
  it("has a stub per node, by id", async () => {
    await register(id(2), { Name: "second" });
    await ready(id(1));
    const answer = await get("/v1/nodes");
    expect(ids(answer)).toEqual([id(1), id(2)]);
    const node = await read(id(1));
    expect(answer.body[0]).toEqual({
      Address: "",
      CreateIndex: node.CreateIndex,
      Datacenter: "dc1",
      Drain: false,
      Drivers: node.Drivers,
      HostVolumes: node.HostVolumes,
      ID: id(1),
      LastDrain: null,
      ModifyIndex: node.ModifyIndex,
      Name: "node-1",
      NodeClass: "large",
      NodePool: "default",
      SchedulingEligibility: "eligible",
      Status: "ready",
      StatusDescription: "",
      Version: "1.2.3",
    });
    expect(answer.headers.get("X-Orch-Index")).toBe(String(node.ModifyIndex));
    expect(answer.headers.get("X-Orch-KnownLeader")).toBe("true");
    expect(answer.headers.get("X-Orch-LastContact")).toBe("0");
  });

  it("is empty without nodes, with an index to wait for", async () => {
    const answer = await get("/v1/nodes");
    expect([answer.status, answer.body, answer.headers.get("X-Orch-Index")]).toEqual([200, [], "1"]);
  });

  itRows([
    ["10.1.2.3:4646", "10.1.2.3"],
    ["[2001:db8::1]:4646", "2001:db8::1"],
  ])("has the host of %s as Address", async (HTTPAddr, address) => {
    await report("NodeRegistration", { ID, HTTPAddr });
    expect((await get("/v1/nodes")).body[0].Address).toBe(address);
  });

  it("has operating system and resources on request", async () => {
    await register();
    const { NodeResources, ReservedResources } = await read();
    const [plain] = (await get("/v1/nodes")).body;
    expect(Object.keys(plain)).not.toEqual(expect.arrayContaining(["Attributes"]));
    expect(Object.keys(plain)).not.toEqual(expect.arrayContaining(["NodeResources"]));
    expect((await get(query("os=true"))).body).toEqual([{ ...plain, Attributes: { "os.name": "debian" } }]);
    expect((await get(query("resources=1&os=false"))).body).toEqual([{ ...plain, NodeResources, ReservedResources }]);
  });

  itRows([
    ["", 3],
    ["00", 3],
    ["0000000", null],
    ["00000002", 1],
    ["00000002-d7", 1],
    ["00000002d701875a", 1],
    ["00000002-d701-875a-b2a6-f2631d7c2f60", 1],
    ["00000002-d701-875a-b2a6-f2631d7c2f6000", null],
    ["FF", 1],
    ["ab", 0],
    ["zz", null],
    ["0", null],
    ["00%", null],
  ])("with prefix %j has %j nodes", async (prefix, count) => {
    for (const each of [id(1), id(2), `ff${ID.slice(2)}`]) await register(each);
    const answer = await get(query(`prefix=${encodeURIComponent(prefix)}`));
    if (count === null) {
      expect(answer.status).toBe(400);
      expect(answer.text).toMatch(/^prefix: must be an even number of hexadecimal digits/);
    } else expect(answer.body).toHaveLength(prefix === "00" ? 2 : count);
  });

  it("is paged by id while nodes are added and deleted", async () => {
    for (let n = 1; n <= 5; n++) await register(id(n));
    const first = await get(query("per_page=2"));
    expect(ids(first)).toEqual([id(1), id(2)]);
    expect(first.headers.get("X-Orch-NextToken")).toBe(id(3));
    await registry().purgeNode(id(3), true);
    const second = await get(query(`per_page=2&next_token=${id(3)}`));
    expect(ids(second)).toEqual([id(4), id(5)]);
    expect(second.headers.get("X-Orch-NextToken")).toBeNull();
    expect(ids(await get(query("reverse=true&per_page=3")))).toEqual([id(5), id(4), id(2)]);
    expect(ids(await get(query(`reverse=true&next_token=${id(2)}`)))).toEqual([id(2), id(1)]);
    expect(ids(await get(query("prefix=00000004&per_page=1")))).toEqual([id(4)]);
  });

  itRows([
    ['Name == "two"', [2]],
    ["Status == ready", [1]],
    ['Attributes["kernel.name"] == linux', [1]],
    ["Meta.rack == r1", [1]],
    ["NodeResources.Memory.MemoryMB > 1", null],
    ["NodeResources.Memory.MemoryMB == 16000", [1, 2]],
    ["Drivers contains exec", [1, 2]],
    ["Drivers is empty", []],
    ['NodePool matches "^gp"', [2]],
    ["DrainStrategy.IgnoreSystemJobs == true", []],
    ["Resources.CPU == 8000 and not Drain == true", [1, 2]],
    ['any Events as e { e.Message == "Node is ready" }', [1]],
    ["SecretID == x", null],
    ["Nope == 1", null],
  ])("filtered by %s has %j", async (filter, expected) => {
    await ready(id(1));
    await register(id(2), { Name: "two", NodePool: "gpu", Attributes: { a: "b" }, Meta: {} });
    const answer = await get(query(`filter=${encodeURIComponent(filter)}`));
    if (expected === null) expect([answer.status, answer.text === ""]).toEqual([400, false]);
    else expect(ids(answer)).toEqual(expected.map(id));
  });

  itRows([
    ["os=maybe", "Failed to parse node list fields: os: must be true or false"],
    ["resources=2", "Failed to parse node list fields: resources: must be true or false"],
    ["per_page=-1", "Expect a number for `per_page` query string parameter"],
    ["per_page=x", "Expect a number for `per_page` query string parameter"],
    ["index=-1", "Invalid index"],
    ["index=1&wait=7", "Invalid wait time"],
    ["stale=perhaps", "Expect `true` or `false` for `stale` query string parameter"],
  ])("refuses ?%s by name", async (text, message) => {
    const answer = await get(query(text));
    expect([answer.status, answer.text]).toEqual([400, message]);
    expect(answer.headers.get("Content-Type")).toBe("text/plain; charset=utf-8");
  });

  it("waits for a change of any node", async () => {
    await register();
    const index = (await get("/v1/nodes")).headers.get("X-Orch-Index");
    const waiting = get(query(`index=${index}&wait=10s`));
    await register(id(2));
    expect(ids(await waiting)).toEqual([ID, id(2)]);
  });

  it("waits for a deletion of a node, too", async () => {
    await register();
    const index = (await get("/v1/nodes")).headers.get("X-Orch-Index");
    const waiting = get(query(`index=${index}&wait=10s`));
    await put(`/v1/node/${ID}/purge?force=true`, "");
    const answer = await waiting;
    expect(answer.body).toEqual([]);
    expect(Number(answer.headers.get("X-Orch-Index"))).toBeGreaterThan(Number(index));
  });
});

describe("a node", () => {
  it("is found by its whole id only, in any case", async () => {
    await register();
    expect((await get(`/v1/node/${ID.toUpperCase()}`)).body.ID).toBe(ID);
    for (const other of [id(2), ID.slice(0, 8), "x", "%27"]) {
      const answer = await get(`/v1/node/${other}`);
      expect([answer.status, answer.text]).toEqual([404, "node not found"]);
    }
  });

  it("has a blocking query with its own index, independent of other nodes", async () => {
    await register();
    const { ModifyIndex } = await read();
    const waiting = get(`/v1/node/${ID}?index=${ModifyIndex}&wait=15s`);
    await register(id(2));
    await put(`/v1/node/${ID}/eligibility`, { Eligibility: "ineligible" });
    const answer = await waiting;
    expect(answer.body.SchedulingEligibility).toBe("ineligible");
    expect(answer.headers.get("X-Orch-Index")).toBe(String(answer.body.ModifyIndex));
    expect(answer.body.ModifyIndex).toBe(ModifyIndex + 2);
  });

  it("returns the current data after the wait", async () => {
    await register();
    const { ModifyIndex } = await read();
    expect((await get(`/v1/node/${ID}?index=${ModifyIndex}&wait=50ms`)).body.ModifyIndex).toBe(ModifyIndex);
    const missing = await get(`/v1/node/${id(2)}?index=1&wait=50ms`);
    expect([missing.status, missing.text]).toEqual([404, "node not found"]);
  });
});

describe("eligibility", () => {
  // Proves: C.type.NodeEligibility
  it("changes with one event line, and its index is returned", async () => {
    await register();
    const { next } = await follow();
    for (const eligibility of ["ineligible", "eligible"]) {
      const answer = await send("POST", `/v1/node/${ID}/eligibility`, { NodeID: ID, Eligibility: eligibility });
      const told = await next();
      const { Index } = told;
      expect(answer.body).toEqual({ EvalCreateIndex: 0, EvalIDs: [], Index, NodeModifyIndex: Index });
      expect(told).toMatchObject({ Topic: "Node", Type: "NodeEligibility", Key: ID });
      const node = await read();
      expect(node).toEqual(told.Payload.Node);
      expect(node.SchedulingEligibility).toBe(eligibility);
      expect(node.Events.at(-1)).toMatchObject({
        Message: `Node marked as ${eligibility} for scheduling`,
        Subsystem: "Cluster",
        CreateIndex: Index,
      });
    }
  });

  it("requested twice concurrently is one event, and both requests return its index", async () => {
    await register();
    const ask = () => put(`/v1/node/${ID}/eligibility`, { Eligibility: "ineligible" });
    const answers = await Promise.all([ask(), ask()]);
    expect(answers.map(({ body }) => body.NodeModifyIndex)).toEqual([2, 2]);
    expect(await allLines()).toHaveLength(2);
  });

  it("without a change sends no event", async () => {
    const index = await register();
    const answer = await put(`/v1/node/${ID}/eligibility`, { Eligibility: "eligible" });
    expect([answer.status, answer.body.NodeModifyIndex]).toEqual([200, index]);
    expect(await allLines()).toHaveLength(1);
  });
});

describe("purging a node", () => {
  // Proves: C.type.NodeDeregistration
  it("deletes it, and the event has its last state", async () => {
    await register();
    const before = await read();
    const { next } = await follow();
    const answer = await put(`/v1/node/${ID}/purge?force=true`, "");
    const told = await next();
    expect(answer.body).toEqual({ EvalCreateIndex: 0, EvalIDs: [], Index: told.Index, NodeModifyIndex: told.Index });
    expect(told).toMatchObject({ Topic: "Node", Type: "NodeDeregistration", Key: ID });
    expect(told.Payload.Node).toEqual({ ...before, ModifyIndex: told.Index });
    expect((await get(`/v1/node/${ID}`)).status).toBe(404);
    expect((await get("/v1/nodes")).body).toEqual([]);
  });

  it("with a connected agent requires force", async () => {
    await ready();
    const refused = await put(`/v1/node/${ID}/purge`, "");
    expect([refused.status, refused.text]).toEqual([
      409,
      `node ${ID} is ready: stop its agent first, or purge it with force=true`,
    ]);
    expect((await get(`/v1/node/${ID}`)).status).toBe(200);
    await registry().nodeLost(ID);
    expect((await put(`/v1/node/${ID}/purge`, "")).status).toBe(200);
  });

  it("that a scheduler reports requires no force", async () => {
    await report("NodeRegistration", { ID, Status: "ready" });
    expect((await send("POST", `/v1/node/${ID}/purge`, "{}")).status).toBe(200);
  });

  it("allows a new node with the same id", async () => {
    const first = await register();
    await put(`/v1/node/${ID}/purge?force=true`, "");
    const again = await register();
    expect(await read()).toMatchObject({ CreateIndex: again, ModifyIndex: again, Status: "initializing" });
    expect(again).toBe(first + 2);
    expect((await read()).Events.map(({ Message }) => Message)).toEqual(["Node registered"]);
  });
});

it("evaluating a node returns its index and creates no evaluation", async () => {
  const index = await register();
  const answer = await put(`/v1/node/${ID}/evaluate`, "");
  expect(answer.body).toEqual({ EvalCreateIndex: 0, EvalIDs: [], Index: index, NodeModifyIndex: index });
  expect(await allLines()).toHaveLength(1);
});

describe("an invalid request", () => {
  const drain = (body: unknown) => [`/v1/node/${ID}/drain`, body] as const;
  const eligibility = (body: unknown) => [`/v1/node/${ID}/eligibility`, body] as const;
  itRows([
    [400, "Request body is empty", ...drain("")],
    [400, "request body: is not valid JSON", ...drain("{")],
    [400, "request body: must be a JSON object", ...drain("[]")],
    [400, "DrainSpec", ...drain({ DrainSpec: 7 })],
    [400, "DrainSpec", ...drain({ DrainSpec: [] })],
    [400, "DrainSpec.Deadline: must be an integer", ...drain({ DrainSpec: { Deadline: "1h" } })],
    [400, "DrainSpec.Deadline", ...drain({ DrainSpec: { Deadline: 1.5 } })],
    [400, "DrainSpec.Deadline", ...drain({ DrainSpec: { Deadline: true } })],
    [400, "DrainSpec.Deadline", ...drain('{"DrainSpec":{"Deadline":9223372036854775808}}')],
    [400, "DrainSpec.Deadline", ...drain('{"DrainSpec":{"Deadline":1e30}}')],
    [400, "DrainSpec.IgnoreSystemJobs", ...drain({ DrainSpec: { IgnoreSystemJobs: "no" } })],
    [400, "MarkEligible", ...drain({ DrainSpec: null, MarkEligible: "yes" })],
    [400, "Meta", ...drain({ DrainSpec: { Deadline: 0 }, Meta: [] })],
    [400, "Meta.a", ...drain({ DrainSpec: { Deadline: 0 }, Meta: { a: 1 } })],
    [400, "Meta.a", ...drain({ DrainSpec: { Deadline: 0 }, Meta: { a: "x".repeat(4097) } })],
    [400, "NodeID: does not match the request path", ...drain({ NodeID: id(2), DrainSpec: { Deadline: 0 } })],
    [400, "NodeID", ...drain({ NodeID: 7 })],
    [404, "node not found", `/v1/node/${id(9)}/drain`, { DrainSpec: { Deadline: 0 } }],
    [404, "node not found", `/v1/node/${id(9)}/drain`, { DrainSpec: null }],
    [400, "Request body is empty", ...eligibility("")],
    [400, 'invalid scheduling eligibility ""', ...eligibility({})],
    [400, 'invalid scheduling eligibility "maybe"', ...eligibility({ Eligibility: "maybe" })],
    [400, 'invalid scheduling eligibility "Eligible"', ...eligibility({ Eligibility: "Eligible" })],
    [400, "Eligibility", ...eligibility({ Eligibility: true })],
    [400, "NodeID: does not match the request path", ...eligibility({ NodeID: "x", Eligibility: "eligible" })],
    [404, "node not found", `/v1/node/${id(9)}/eligibility`, { Eligibility: "eligible" }],
    [404, "node not found", `/v1/node/${id(9)}/purge`, ""],
    [404, "node not found", "/v1/node/x/purge", ""],
    [400, "invalid force value", `/v1/node/${ID}/purge?force=perhaps`, ""],
    [409, "stop its agent first", `/v1/node/${ID}/purge?force=false`, ""],
    [404, "node not found", `/v1/node/${id(9)}/evaluate`, ""],
  ])("returns %i for %s: %s %j", async (status, text, path, body) => {
    await ready();
    const before = await read();
    const answer = await put(path, body);
    expect(answer.status).toBe(status);
    expect(answer.text).toContain(text);
    expect(answer.headers.get("Content-Type")).toBe("text/plain; charset=utf-8");
    expect(await read()).toEqual(before);
    expect(await allLines()).toHaveLength(2);
  });

  it("makes a draining node eligible", async () => {
    await report("NodeDrain", { ID, DrainStrategy: { Deadline: 0 }, SchedulingEligibility: "ineligible" });
    const before = await read();
    const answer = await put(`/v1/node/${ID}/eligibility`, { Eligibility: "eligible" });
    expect([answer.status, answer.text]).toEqual([
      409,
      "can not set node's scheduling eligibility to eligible while it is draining",
    ]);
    expect(await read()).toEqual(before);
  });

  it("accepts fields in any case, and returns 400 for unknown ones", async () => {
    await ready();
    const answer = await put(`/v1/node/${ID}/drain`, {
      nodeid: ID.toUpperCase(),
      drainspec: { deadline: -1, ignoresystemjobs: null },
      Region: "global",
    });
    const refused = await put(`/v1/node/${ID}/drain`, { DrainSpec: { Deadlin: 1 }, Other: true });
    expect([refused.status, refused.text]).toEqual([
      400,
      'unknown field "DrainSpec.Deadlin"; did you mean Deadline?; unknown field "Other"',
    ]);
    expect(answer.status, answer.text).toBe(200);
    expect((await read()).LastDrain?.Status).toBe("complete");
  });
});

describe("access", () => {
  const READS = ["/v1/nodes", `/v1/node/${ID}`];
  const WRITES = ["drain", "eligibility", "evaluate", "purge"].map((what) => `/v1/node/${ID}/${what}`);
  const bodies: Readonly<Record<string, object>> = {
    drain: { DrainSpec: null },
    eligibility: { Eligibility: "eligible" },
  };

  itRows([
    ["node read", 'node { policy = "read" }', [200, 403]],
    ["node write", 'node { policy = "write" }', [200, 200]],
    ["a denial", 'node { policy = "deny" }', [403, 403]],
    ["another right", 'namespace "*" { policy = "write" }', [403, 403]],
    ["no rule about nodes", 'node_pool "*" { policy = "write" }', [403, 403]],
  ] as const)("of a token with %s", async (_what, rules, [reading, writing]) => {
    await register();
    const { client_token: token } = await holderOf(rules);
    for (const path of READS) expect([path, (await get(path, { token })).status]).toEqual([path, reading]);
    for (const path of WRITES) {
      const body = bodies[path.split("/").at(-1) ?? ""] ?? {};
      const query = path.endsWith("purge") ? "?force=true" : "";
      expect([path, (await put(path + query, body, { token })).status]).toEqual([path, writing]);
    }
  });

  it("is refused without a token, for existing and unknown nodes alike", async () => {
    await register();
    for (const token of [null, "unknown"]) {
      for (const path of [...READS, `/v1/node/${id(9)}`]) {
        const answer = await get(path, { token });
        expect([answer.status, answer.text]).toEqual([403, "Permission denied"]);
      }
      for (const path of WRITES) expect((await put(path, {}, { token })).status).toBe(403);
    }
  });
});
