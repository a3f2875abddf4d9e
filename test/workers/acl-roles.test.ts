import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { eventsOf } from "./access.ts";
import { del, get, put, send } from "./client.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const policy = async (name: string, rules: string): Promise<string> => {
  expect((await put(`/v1/acl/policy/${name}`, { Rules: rules })).status).toBe(200);
  return name;
};
const NODES = 'node { policy = "read" }';
const PLUGINS = 'plugin { policy = "list" }';
const role = async (name: string, ...policies: string[]) => {
  const made = await put("/v1/acl/role", { Name: name, Policies: policies.map((Name) => ({ Name })) });
  expect(made.status, made.text).toBe(200);
  return made.body;
};
const client = async (body: object) => {
  const made = await put("/v1/acl/token", { Name: "c", Type: "client", ...body });
  expect(made.status, made.text).toBe(200);
  return made.body;
};

describe("roles of the cluster API", () => {
  it("return every field, by id and by name, and send events", async () => {
    await policy("nodes", NODES);
    const made = await put("/v1/acl/role", {
      Name: "Ops-1",
      Description: "reads nodes",
      Policies: [{ Name: "nodes" }, { Name: "nodes" }],
    });
    expect(made.body).toEqual({
      ID: expect.stringMatching(UUID),
      Name: "Ops-1",
      Description: "reads nodes",
      Policies: [{ Name: "nodes" }],
      Hash: expect.stringMatching(/^[A-Za-z0-9+/]{43}=$/),
      CreateIndex: expect.any(Number),
      ModifyIndex: made.body.CreateIndex,
    });
    expect(Number(made.headers.get("x-nomad-index"))).toBe(made.body.ModifyIndex);
    const at = `/v1/acl/role/${made.body.ID}`;
    expect((await get(at)).body).toEqual(made.body);
    expect((await get("/v1/acl/role/name/Ops-1")).body).toEqual(made.body);
    expect((await get("/v1/acl/roles")).body).toEqual([made.body]);
    expect((await get(`/v1/acl/roles?prefix=${made.body.ID.slice(0, 6)}`)).body).toHaveLength(1);
    expect((await get("/v1/acl/roles?prefix=zz")).body).toEqual([]);
    const changed = await put(at, { ...made.body, Name: "Ops-2", Description: "" });
    expect(changed.body).toMatchObject({ ID: made.body.ID, Name: "Ops-2", Description: "" });
    expect(changed.body.CreateIndex).toBe(made.body.CreateIndex);
    expect(changed.body.ModifyIndex).toBeGreaterThan(made.body.ModifyIndex);
    expect(changed.body.Hash).not.toBe(made.body.Hash);
    const gone = await del(at);
    expect([gone.status, gone.text]).toEqual([200, ""]);
    const events = await eventsOf(`ACLRole:${made.body.ID}`);
    expect(events.map(({ Type, Index, FilterKeys }) => [Type, Index, FilterKeys])).toEqual([
      ["ACLRoleUpserted", made.body.CreateIndex, ["Ops-1"]],
      ["ACLRoleUpserted", changed.body.ModifyIndex, ["Ops-2"]],
      ["ACLRoleDeleted", Number(gone.headers.get("x-nomad-index")), ["Ops-2"]],
    ]);
    expect(events[0].Payload).toEqual({ ACLRole: made.body });
    expect(events[2].Payload).toEqual({ ACLRole: changed.body });
  });

  it.each([
    [{ Name: "a b", Policies: [{ Name: "nodes" }] }, "role 0 invalid: invalid name 'a b'"],
    [{ Policies: [{ Name: "nodes" }] }, "role 0 invalid: invalid name ''"],
    [{ Name: "r", Description: "x".repeat(257), Policies: [{ Name: "nodes" }] }, "description longer than 256"],
    [{ Name: "r" }, "role 0 invalid: at least one policy should be specified"],
    [{ Name: "r", Policies: [{ Name: "absent" }] }, "cannot find policy absent"],
    [{ Name: "r", Policies: [{ Name: "root" }] }, "cannot find policy root"],
    [{ Name: "r", Policies: ["nodes"] }, "Policies"],
    [{ Name: "taken", Policies: [{ Name: "nodes" }] }, "role with name taken already exists"],
    [{ ID: crypto.randomUUID(), Name: "r", Policies: [{ Name: "nodes" }] }, "cannot find role"],
    [{ Name: "r", Policies: [{ Name: "nodes" }], Rules: "x" }, "Rules"],
  ])("return 400 for %j", async (body, because) => {
    await policy("nodes", NODES);
    await role("taken", "nodes");
    const refused = await send("POST", "/v1/acl/role", body);
    expect([refused.status, refused.text.includes(because)], refused.text).toEqual([400, true]);
    expect((await get("/v1/acl/roles")).body).toHaveLength(1);
  });

  itRows([
    ["GET", "/v1/acl/role/absent", undefined, 404, "ACL role not found"],
    ["GET", "/v1/acl/role/name/absent", undefined, 404, "ACL role not found"],
    ["DELETE", "/v1/acl/role/absent", undefined, 404, "ACL role not found"],
    ["PUT", "/v1/acl/role/absent", { Name: "r", Policies: [{ Name: "default" }] }, 400, "cannot find role absent"],
    ["PUT", "/v1/acl/role/a", { ID: "b", Name: "r" }, 400, "ACL role ID does not match request path"],
    ["GET", "/v1/acl/role", undefined, 405, "Invalid method"],
  ])("return the error of %s %s", async (method, at, body, status, text) => {
    const answer = await send(method, at, body);
    expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(text)]);
  });

  it("cannot be renamed to another role's name", async () => {
    await policy("nodes", NODES);
    const one = await role("one", "nodes");
    await role("two", "nodes");
    const refused = await put(`/v1/acl/role/${one.ID}`, { ...one, Name: "two" });
    expect([refused.status, refused.text]).toEqual([400, "role with name two already exists"]);
  });
});

describe("a token with roles", () => {
  it("names them by id or by name, and returns both", async () => {
    await policy("nodes", NODES);
    const [one, two] = [await role("one", "nodes"), await role("two", "nodes")];
    const made = await client({ Roles: [{ ID: one.ID }, { Name: "two" }, { Name: "one" }] });
    const Roles = [
      { ID: one.ID, Name: "one" },
      { ID: two.ID, Name: "two" },
    ];
    expect(made).toMatchObject({ Type: "client", Policies: [], Roles });
    const at = `/v1/acl/token/${made.AccessorID}`;
    expect((await get(at)).body).toMatchObject({ Roles });
    expect((await get("/v1/acl/tokens")).body).toContainEqual(
      expect.objectContaining({ AccessorID: made.AccessorID, Roles }),
    );
    expect((await get("/v1/acl/token/self", { token: made.SecretID })).body).toMatchObject({ Roles });
    const [event] = await eventsOf(`ACLToken:${made.AccessorID}`);
    expect(event.Payload.ACLToken).toMatchObject({ Roles, SecretID: "" });
    await put(`/v1/acl/role/${two.ID}`, { ...two, Name: "second" });
    expect((await get(at)).body.Roles[1]).toEqual({ ID: two.ID, Name: "second" });
    const changed = await put(at, { ...made, SecretID: "", Policies: ["nodes"], Roles: [{ Name: "second" }] });
    expect(changed.body).toMatchObject({ Policies: ["nodes"], Roles: [{ ID: two.ID, Name: "second" }] });
    expect(changed.body.Hash).not.toBe(made.Hash);
  });

  it("has the current rights of its policies and roles at each request", async () => {
    await policy("nodes", NODES);
    await policy("plugins", PLUGINS);
    const ops = await role("ops", "nodes");
    const { SecretID: token } = await client({ Policies: ["plugins"], Roles: [{ Name: "ops" }] });
    const can = async (path: string) => (await get(path, { token })).status;
    expect(await can("/v1/nodes")).toBe(200);
    expect(await can("/v1/plugins?type=csi")).toBe(200);
    await put(`/v1/acl/role/${ops.ID}`, { ...ops, Policies: [{ Name: "plugins" }] });
    expect(await can("/v1/nodes")).toBe(403);
    await put(`/v1/acl/role/${ops.ID}`, { ...ops, Policies: [{ Name: "nodes" }] });
    expect(await can("/v1/nodes")).toBe(200);
    await put("/v1/acl/policy/nodes", { Rules: 'agent { policy = "read" }' });
    expect(await can("/v1/nodes")).toBe(403);
    expect(await can("/v1/agent/self")).toBe(200);
    await del(`/v1/acl/role/${ops.ID}`);
    expect(await can("/v1/agent/self")).toBe(403);
    expect(await can("/v1/plugins?type=csi")).toBe(200);
    expect((await get("/v1/acl/token/self", { token })).body.Roles).toEqual([]);
  });

  it("does not get the policies of a later role of the same name", async () => {
    await policy("nodes", NODES);
    const first = await role("ops", "nodes");
    const { SecretID: token } = await client({ Roles: [{ Name: "ops" }] });
    await del(`/v1/acl/role/${first.ID}`);
    await role("ops", "nodes");
    expect((await get("/v1/nodes", { token })).status).toBe(403);
  });

  it("reads its own roles and their policies only", async () => {
    await policy("nodes", NODES);
    await policy("plugins", PLUGINS);
    const mine = await role("mine", "nodes");
    const theirs = await role("theirs", "plugins");
    const { SecretID: token } = await client({ Roles: [{ Name: "mine" }] });
    const names = async (path: string) =>
      (await get(path, { token })).body.map(({ Name }: { Name: string }) => Name) as string[];
    expect(await names("/v1/acl/roles")).toEqual(["mine"]);
    expect(await names("/v1/acl/policies")).toEqual(["nodes"]);
    expect(await names("/v1/acl/policy/self")).toEqual(["nodes"]);
    const reads = ["policy/nodes", "policy/plugins", `role/${mine.ID}`, `role/${theirs.ID}`];
    const statuses = async (paths: string[]) =>
      Promise.all(paths.map(async (path) => (await get(`/v1/acl/${path}`, { token })).status));
    expect(await statuses([...reads, "role/name/mine", "role/name/theirs"])).toEqual([200, 403, 200, 403, 200, 403]);
  });

  it.each([
    [{ Type: "client", Roles: [{ Name: "absent" }] }, "cannot find role absent"],
    [{ Type: "client", Roles: [{}] }, "cannot find role"],
    [{ Type: "client", Roles: [], Policies: [] }, "client token missing policies or roles"],
    [
      { Type: "management", Roles: [{ Name: "taken" }] },
      "token 0 invalid: management token cannot be associated with policies or roles",
    ],
    [{ Type: "client", Roles: ["taken"] }, "Roles"],
    [{ Type: "client", Roles: [{ Name: "taken", Policies: [] }] }, "Roles"],
  ])("returns 400 for %j", async (body, because) => {
    await policy("nodes", NODES);
    await role("taken", "nodes");
    const refused = await put("/v1/acl/token", body);
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(because)]);
  });
});
