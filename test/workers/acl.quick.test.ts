import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { eventsOf, issue, path, policies } from "./access.ts";
import { del, get, put, send } from "./client.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const create = (body: object) => send("POST", "/v1/acl/token", body);
const clientOf = async (rules: string): Promise<string> => {
  const name = `p-${crypto.randomUUID().slice(0, 8)}`;
  await put(`/v1/acl/policy/${name}`, { Rules: rules });
  return (await create({ Name: "c", Type: "client", Policies: [name] })).body.SecretID;
};

/** Headers and format of every response of the cluster API. */
const expectCluster = (answer: Awaited<ReturnType<typeof get>>) => {
  expect(answer.status).toBe(200);
  for (const family of ["x-orch", "x-nomad"]) {
    expect(Number(answer.headers.get(`${family}-index`))).toBeGreaterThan(0);
    expect(answer.headers.get(`${family}-knownleader`)).toBe("true");
    expect(answer.headers.get(`${family}-lastcontact`)).toBe("0");
  }
};

describe("tokens of the cluster API", () => {
  // Proves: E.conv.request-json
  it("return every field, and the secret only on creation", async () => {
    const made = await create({ Name: "n", Type: "client", Policies: ["p"], Global: true });
    expectCluster(made);
    expect(made.headers.get("content-type")).toBe("application/json");
    expect(made.body).toEqual({
      AccessorID: expect.stringMatching(UUID),
      SecretID: expect.stringMatching(UUID),
      Name: "n",
      Type: "client",
      Policies: ["p"],
      Roles: [],
      Global: true,
      Hash: expect.stringMatching(/^[A-Za-z0-9+/]{43}=$/),
      CreateTime: expect.stringMatching(RFC3339),
      ExpirationTime: null,
      ExpirationTTL: "",
      CreateIndex: expect.any(Number),
      ModifyIndex: made.body.CreateIndex,
    });
    expect(made.body.AccessorID).not.toBe(made.body.SecretID);
    expect(Number(made.headers.get("x-orch-index"))).toBe(made.body.ModifyIndex);
    const read = await get(`/v1/acl/token/${made.body.AccessorID}`);
    expect(read.body).toEqual({ ...made.body, SecretID: "" });
    const { SecretID: _secret, ExpirationTTL: _ttl, ...stub } = made.body;
    const listed = await get("/v1/acl/tokens");
    expectCluster(listed);
    expect(listed.body).toContainEqual(stub);
    for (const token of listed.body) expect(Object.keys(token)).not.toContain("SecretID");
  });

  it("accept keys in any case", async () => {
    const made = await create({ name: "n", type: "client", policies: ["p"] });
    expect(made.body).toMatchObject({ Name: "n", Policies: ["p"] });
  });

  it("have all rights and no list of policies as management tokens", async () => {
    const made = await create({ Name: "m", Type: "management" });
    expect(made.body).toMatchObject({ Type: "management", Policies: null });
    expect((await get("/v1/acl/tokens", { token: made.body.SecretID })).status).toBe(200);
    expect((await get("/v1/sys/mounts", { token: made.body.SecretID })).status).toBe(200);
  });

  it("accept an expiry in nanoseconds, as a duration or as a time", async () => {
    const wishes = [
      { ExpirationTTL: 3_600_000_000_000 },
      { ExpirationTTL: "1h" },
      { ExpirationTime: new Date(Date.now() + 3_600_000).toISOString() },
    ];
    for (const wish of wishes) {
      const { body } = await create({ Type: "management", ...wish });
      expect(body.ExpirationTTL).toBe("1h0m0s");
      expect(Math.abs(Date.parse(body.ExpirationTime) - Date.now() - 3_600_000)).toBeLessThan(5_000);
    }
  });

  itRows([
    [{ Type: "client" }, "token 0 invalid: client token missing policies or roles"],
    [{ Type: "management", Policies: ["p"] }, "management token cannot be associated with policies or roles"],
    [{ Type: "boss" }, "token type must be client or management"],
    [{ Type: "client", Policies: ["root"] }, "root"],
    [{ Type: "management", ExpirationTTL: "10s" }, "between 1m0s and 24h0m0s"],
    [{ Type: "management", ExpirationTTL: "25h" }, "between 1m0s and 24h0m0s"],
    [{ Type: "management", ExpirationTTL: "soon" }, "ExpirationTTL"],
    [{ Type: "management", ExpirationTTL: -1 }, "ExpirationTTL"],
    [{ Type: "management", ExpirationTime: "2001-01-01T00:00:00Z" }, "ExpirationTime"],
    [{ Type: "client", Policies: ["p"], Roles: [{ ID: "r" }] }, "cannot find role r"],
    [{ Type: "management", AccessorID: crypto.randomUUID() }, "cannot find token "],
    [{ Type: "client", Policies: "p" }, "Policies"],
  ])("return 400 in plain text for %j", async (body, because) => {
    const refused = await create(body);
    expect(refused.status).toBe(400);
    expect(refused.headers.get("content-type")).toMatch(/^text\/plain/);
    expect(refused.text).toContain(because);
  });

  // Proves: C.event.Key, C.event.Namespace.none, C.event.Topic, C.event.Type, C.payload.ACLToken
  it("change name and policies, keep secret and creation, and send an event", async () => {
    const { body: made } = await create({ Name: "n", Type: "client", Policies: ["p"] });
    const at = `/v1/acl/token/${made.AccessorID}`;
    const changed = await put(at, { AccessorID: made.AccessorID, Name: "m", Type: "client", Policies: ["q"] });
    expectCluster(changed);
    expect(changed.body).toMatchObject({ Name: "m", Policies: ["q"], SecretID: "", CreateIndex: made.CreateIndex });
    expect(changed.body.ModifyIndex).toBeGreaterThan(made.ModifyIndex);
    expect((await get("/v1/acl/token/self", { token: made.SecretID })).body.Policies).toEqual(["q"]);
    const gone = await del(at);
    expect([gone.status, gone.text]).toEqual([200, ""]);
    const events = await eventsOf(`ACLToken:${made.AccessorID}`);
    expect(events.map(({ Type, Index }) => [Type, Index])).toEqual([
      ["ACLTokenUpserted", made.CreateIndex],
      ["ACLTokenUpserted", changed.body.ModifyIndex],
      ["ACLTokenDeleted", expect.any(Number)],
    ]);
    expect(events[0]).toMatchObject({ Topic: "ACLToken", Key: made.AccessorID, Namespace: "", FilterKeys: null });
    expect(events[0].Payload).toEqual({ ACLToken: { ...made, SecretID: "" } });
    expect(events[1].Payload).toEqual({ ACLToken: changed.body });
    expect(events[2].Payload).toEqual({ ACLToken: changed.body });
  });

  it("of auth/token appear in events and in the list, with the indexes of reads", async () => {
    const { accessor } = await issue({ policies: ["p"], ttl: "1h" });
    const { body } = await get(`/v1/acl/token/${accessor}`);
    expect(body).toMatchObject({ Type: "client", Policies: ["default", "p"], ExpirationTTL: "1h0m0s" });
    const [made] = await eventsOf(`ACLToken:${accessor}`);
    expect(made.Payload.ACLToken).toEqual(body);
    expect([body.CreateIndex, body.ModifyIndex]).toEqual([made.Index, made.Index]);
  });

  it("return 400 for an update of fields fixed at creation, and accept the same value", async () => {
    const { body: made } = await create({ Name: "n", Type: "management", ExpirationTTL: "1h" });
    const update = (change: object) =>
      put(`/v1/acl/token/${made.AccessorID}`, { Name: "m", Type: "management", ...change });
    const refused = [
      [{ ExpirationTTL: "2h" }, "token 0 invalid: cannot update expiration TTL"],
      [{ ExpirationTTL: 7_200_000_000_000 }, "token 0 invalid: cannot update expiration TTL"],
      [{ ExpirationTTL: "500ms" }, "token 0 invalid: cannot update expiration TTL"],
      [{ ExpirationTime: "2099-01-01T00:00:00Z" }, "token 0 invalid: cannot update expiration time"],
      [{ Global: true }, "token 0 invalid: cannot toggle global mode"],
    ] as const;
    for (const [change, because] of refused) {
      const answer = await update(change);
      expect([answer.status, answer.text], JSON.stringify(change)).toEqual([400, because]);
    }
    for (const same of [
      {},
      made,
      { ExpirationTTL: "60m" },
      { ExpirationTTL: 0, ExpirationTime: "0001-01-01T00:00:00Z" },
    ]) {
      const answer = await update({ ...same, Name: "m", Policies: null });
      expect(answer.body, answer.text).toMatchObject({
        Name: "m",
        ExpirationTTL: "1h0m0s",
        ExpirationTime: made.ExpirationTime,
      });
    }
    const { body: global } = await create({ Type: "management", Global: true });
    const globally = (change: object) => put(`/v1/acl/token/${global.AccessorID}`, { Type: "management", ...change });
    expect((await globally({})).body.Global).toBe(true);
    expect((await globally({ Global: false })).text).toBe("token 0 invalid: cannot toggle global mode");
  });

  itRows([
    ["GET", "/v1/acl/token/nobody", undefined, 404, "ACL token not found"],
    ["DELETE", "/v1/acl/token/nobody", undefined, 400, "Cannot delete nonexistent tokens: nobody"],
    ["PUT", "/v1/acl/token/nobody", { Type: "management" }, 400, "cannot find token nobody"],
    [
      "PUT",
      "/v1/acl/token/a",
      { AccessorID: "b", Type: "management" },
      400,
      "ACL token accessor does not match request path",
    ],
    ["PATCH", "/v1/acl/token/a", {}, 405, "Invalid method"],
    ["GET", "/acl/tokens", undefined, 404, ""],
  ])("return the error of %s %s", async (method, at, body, status, text) => {
    const answer = await send(method, at, body);
    expect(answer.status).toBe(status);
    expect(answer.text).toContain(text);
  });

  it("are listed once each, in pages, by prefix, and optionally only global ones", async () => {
    for (let n = 0; n < 5; n++) await create({ Name: `t${n}`, Type: "management", Global: n === 0 });
    const seen: string[] = [];
    let next: string | null = "";
    while (next !== null) {
      const page = await get(`/v1/acl/tokens?per_page=2&next_token=${next}`);
      expect(page.body.length).toBeLessThanOrEqual(2);
      seen.push(...page.body.map(({ AccessorID }: { AccessorID: string }) => AccessorID));
      next = page.headers.get("x-orch-nexttoken");
      if (next !== null) expect(seen).not.toContain(next);
    }
    expect(new Set(seen).size).toBe(6);
    expect(seen).toHaveLength(6);
    const names = (await get("/v1/acl/tokens")).body.map(({ Name }: { Name: string }) => Name);
    expect(names.sort()).toEqual(["root", "t0", "t1", "t2", "t3", "t4"]);
    const [first = ""] = seen;
    const byPrefix = await get(`/v1/acl/tokens?prefix=${first.slice(0, 8)}`);
    expect(byPrefix.body.map(({ AccessorID }: { AccessorID: string }) => AccessorID)).toEqual([first]);
    const global = (await get("/v1/acl/tokens?global=true")).body.map(({ Name }: { Name: string }) => Name);
    expect(global.sort()).toEqual(["root", "t0"]);
    expect((await get("/v1/acl/tokens?per_page=many")).status).toBe(400);
  });

  it("continue a page at the next token in order when the one that it named has ended", async () => {
    for (let n = 0; n < 4; n++) await create({ Name: `t${n}`, Type: "management" });
    const all = (await get("/v1/acl/tokens")).body;
    const page = await get("/v1/acl/tokens?per_page=2");
    await del(`/v1/acl/token/${all[2].AccessorID}`);
    const rest = await get(`/v1/acl/tokens?next_token=${page.headers.get("x-orch-nexttoken")}`);
    expect([page.body, rest.body]).toEqual([all.slice(0, 2), all.slice(3)]);
    expect((await get("/v1/acl/tokens?reverse=true")).body).toEqual([...page.body, ...rest.body].reverse());
  });

  it("and policies are filtered by their fields", async () => {
    await policies({ reader: path("kv/*", "read"), writer: path("kv/*", "update") });
    await create({ Name: "a", Type: "client", Policies: ["reader"] });
    await create({ Name: "b", Type: "client", Policies: ["writer"] });
    const named = async (list: string, filter: string) =>
      (await get(`/v1/acl/${list}?filter=${encodeURIComponent(filter)}`)).body.map(
        ({ Name }: { Name: string }) => Name,
      );
    expect(await named("tokens", '"reader" in Policies')).toEqual(["a"]);
    expect(await named("policies", 'Name == writer and Rules contains "update"')).toEqual(["writer"]);
    for (const list of ["tokens", "policies", "roles", "binding-rules", "auth-methods"])
      expect((await get(`/v1/acl/${list}?filter=SecretID == x`)).status, list).toBe(400);
  });

  it("are readable by the caller as self and by its accessor, others require management", async () => {
    const { body: made } = await create({ Type: "client", Policies: ["p"] });
    const own = { token: made.SecretID };
    expect((await get("/v1/acl/token/self", own)).body).toMatchObject({
      AccessorID: made.AccessorID,
      SecretID: made.SecretID,
    });
    expect((await get(`/v1/acl/token/${made.AccessorID}`, own)).status).toBe(200);
    const other = (await create({ Type: "client", Policies: ["p"] })).body.AccessorID;
    const refused = [
      await get("/v1/acl/tokens", own),
      await get(`/v1/acl/token/${other}`, own),
      await put(`/v1/acl/token/${made.AccessorID}`, { Type: "management" }, own),
      await del(`/v1/acl/token/${other}`, own),
      await put("/v1/acl/token", { Type: "management" }, own),
    ];
    for (const answer of refused) expect([answer.status, answer.text]).toEqual([403, "Permission denied"]);
  });

  it("have no rights after their policies are deleted", async () => {
    const token = await clientOf("");
    expect((await get("/v1/namespaces", { token })).body).toEqual([]);
    expect((await get("/v1/event/stream?topic=Node", { token })).status).toBe(403);
  });
});

describe("policies of the cluster API", () => {
  it("return an empty 200 on write, and are read whole or as list entries", async () => {
    const written = await put("/v1/acl/policy/p", { Name: "p", Description: "d", Rules: 'node { policy = "read" }' });
    expectCluster(written);
    expect(written.text).toBe("");
    const { body } = await get("/v1/acl/policy/p");
    expect(body).toEqual({
      Name: "p",
      Description: "d",
      Rules: 'node { policy = "read" }',
      RulesJSON: {
        Namespaces: null,
        NodePools: null,
        HostVolumes: null,
        Agent: null,
        Node: { Policy: "read" },
        Operator: null,
        Quota: null,
        Plugin: null,
        Raw: 'node { policy = "read" }',
      },
      JobACL: null,
      Hash: expect.any(String),
      CreateIndex: expect.any(Number),
      ModifyIndex: body.CreateIndex,
    });
    expect(Number(written.headers.get("x-orch-index"))).toBe(body.ModifyIndex);
    const { Rules: _rules, RulesJSON: _parsed, ...stub } = body;
    const listed = await get("/v1/acl/policies?prefix=p");
    expectCluster(listed);
    expect(listed.body).toEqual([stub]);
    const gone = await del("/v1/acl/policy/p");
    expect([gone.status, gone.text]).toEqual([200, ""]);
    const missing = await get("/v1/acl/policy/p");
    expect([missing.status, missing.text]).toEqual([404, "ACL policy not found"]);
    expect((await del("/v1/acl/policy/p")).status).toBe(404);
  });

  it("are refused in upper case, where they are written and where they are named", async () => {
    const Rules = 'node { policy = "read" }';
    await put("/v1/acl/policy/dev", { Rules });
    const refused = [
      await put("/v1/acl/policy/Dev", { Rules }),
      await put("/v1/acl/policy/dev", { Name: "Dev", Rules }),
      await create({ Name: "t", Type: "client", Policies: ["Dev"] }),
      await put("/v1/acl/role", { Name: "r", Policies: [{ Name: "Dev" }] }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 400]);
    expect(refused.map(({ text }) => text).join()).toContain("in lower case");
    expect((await get("/v1/acl/policy/Dev")).status).toBe(404);
    expect((await del("/v1/acl/policy/Dev")).status).toBe(404);
  });

  itRows([
    [{ Name: "q", Rules: "" }, "ACL policy name does not match request path"],
    [{ Rules: "nod {" }, "policy 0 invalid: Failed to parse ACL Policy"],
    [{ Rules: 'nod { policy = "read" }' }, "policy 0 invalid: Invalid or duplicate policy keys"],
    [{ Rules: 'namespace "default" { policy = "fly" }' }, "policy 0 invalid: Invalid policy"],
    [{ Description: "x".repeat(257) }, "Description"],
    [{ Rules: 'path "a" {}', JobACL: { JobID: "j" } }, "namespace must be set to set job ID"],
    [{ Rules: 'path "a" {}', JobACL: { Namespace: "default", Group: "g" } }, "job ID must be set"],
    [
      { Rules: 'path "a" {}', JobACL: { Namespace: "default", JobID: "j", Task: "t" } },
      "group must be set to set task",
    ],
    [{ Rules: 'path "a" {}', JobACL: "j" }, "JobACL"],
  ])("return 400 for %j", async (body, because) => {
    const refused = await put("/v1/acl/policy/p", body);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain(because);
    expect((await get("/v1/acl/policy/p")).status).toBe(404);
  });

  it("may hold no rule until they have one, and then are deleted instead", async () => {
    for (const body of [{}, { Rules: "" }, { Rules: "# later\n", Description: "d" }]) {
      expect((await put("/v1/acl/policy/p", body)).status).toBe(200);
    }
    const read = (await get("/v1/acl/policy/p")).body;
    expect(read).toMatchObject({ Rules: "# later\n", Description: "d" });
    expect((await put("/v1/acl/policy/p", { Rules: 'agent { policy = "read" }' })).status).toBe(200);
    const refused = await put("/v1/acl/policy/p", { Rules: "" });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("the document holds no rule")]);
  });

  itRows([{ Namespace: "default" }, {}, { Namespace: "default", JobID: "j", Group: "g", Task: "t" }])(
    "accept the JobACL %j, as upstream",
    async (JobACL) => {
      const wanted = { Namespace: "", JobID: "", Group: "", Task: "", ...JobACL };
      expect((await put("/v1/acl/policy/jobs", { Rules: 'path "a" {}', JobACL })).status).toBe(200);
      expect((await get("/v1/acl/policy/jobs")).body.JobACL).toEqual(wanted);
    },
  );

  it("keep and return the JobACL until a write without it", async () => {
    const job = { Namespace: "default", JobID: "web", Group: "api", Task: "" };
    await put("/v1/acl/policy/j", {
      Description: "d",
      Rules: 'path "a" {}',
      JobACL: { namespace: "default", JobID: "web", Group: "api" },
    });
    const { body } = await get("/v1/acl/policy/j");
    expect(body.JobACL).toEqual(job);
    expect((await get("/v1/acl/policies?prefix=j")).body[0].JobACL).toEqual(job);
    const [written] = await eventsOf("ACLPolicy:j");
    expect(written.Payload.ACLPolicy.JobACL).toEqual(job);
    await policies({ j: path("kv/*", "read") });
    expect((await get("/v1/acl/policy/j")).body).toMatchObject({ JobACL: job, Description: "d" });
    await put("/v1/acl/policy/j", { Rules: 'path "a" {}' });
    expect((await get("/v1/acl/policy/j")).body).toMatchObject({ JobACL: null, Description: "" });
  });

  it("accept lower-case keys", async () => {
    expect((await send("POST", "/v1/acl/policy/p", { name: "p", rules: 'node { policy = "read" }' })).status).toBe(200);
    expect((await get("/v1/acl/policy/p")).body.Rules).toBe('node { policy = "read" }');
  });

  it("are limited to the own ones for clients, and complete for management", async () => {
    await put("/v1/acl/policy/other", { Rules: 'path "a" {}' });
    const token = await clientOf('node { policy = "read" }');
    const names = (body: { Name: string }[]) => body.map(({ Name }) => Name);
    const own = names((await get("/v1/acl/policy/self", { token })).body);
    expect(own).toHaveLength(1);
    expect(names((await get("/v1/acl/policies", { token })).body)).toEqual(own);
    expect((await get(`/v1/acl/policy/${own[0]}`, { token })).status).toBe(200);
    expect((await get("/v1/acl/policy/other", { token })).status).toBe(403);
    expect(names((await get("/v1/acl/policies")).body)).toEqual(["default", "other", ...own].sort());
    expect((await put("/v1/acl/policy/other", { Rules: 'path "a" {}' }, { token })).status).toBe(403);
    expect((await del("/v1/acl/policy/other", { token })).status).toBe(403);
  });

  it("give capabilities that the holder may list, by namespace", async () => {
    const rules = 'node { policy = "read" } namespace "web" { capabilities = ["host-volume-create"] }';
    const token = await clientOf(`${rules} plugin { policy = "list" }`);
    const of = async (query = "", as = token) =>
      (await get(`/v1/acl/capabilities/self${query}`, { token: as })).body.Capabilities;
    const everywhere = ["node:read", "plugin:list"];
    expect(await of()).toEqual(everywhere);
    const inWeb = ["namespace:host-volume-create", "namespace:host-volume-read"];
    expect(await of("?namespace=web")).toEqual([...everywhere, ...inWeb]);
    expect(await of("?namespace=web", "root")).toEqual(
      expect.arrayContaining(["management", "agent:write", "node:write", "operator:write", "namespace:submit-job"]),
    );
  });

  it("may contain path rules as well: one token for both APIs", async () => {
    const token = await clientOf(`${path("sys/mounts", "read")} namespace "default" { policy = "read" }`);
    expect((await get("/v1/sys/mounts", { token })).status).toBe(200);
    expect((await get("/v1/namespace/default", { token })).status).toBe(200);
  });

  it("written through sys/policies apply to the cluster API", async () => {
    await policies({ both: 'namespace "default" { capabilities = ["read-job"] }' });
    const { client_token: token } = await issue({ policies: ["both"] });
    expect((await get("/v1/namespace/default", { token })).status).toBe(200);
  });
});

describe("namespaces of the cluster API", () => {
  it("are created, listed, changed and deleted", async () => {
    const made = await put("/v1/namespace", { Name: "dev", Description: "d", Meta: { a: "b" } });
    expectCluster(made);
    const { body } = await get("/v1/namespace/dev");
    expect(body).toEqual({
      Name: "dev",
      Description: "d",
      Quota: "",
      Capabilities: null,
      NodePoolConfiguration: null,
      Meta: { a: "b" },
      CreateIndex: Number(made.headers.get("x-orch-index")),
      ModifyIndex: Number(made.headers.get("x-orch-index")),
    });
    await send("POST", "/v1/namespace/dev", { name: "dev", description: "e" });
    const changed = (await get("/v1/namespace/dev")).body;
    expect(changed).toMatchObject({ Description: "e", CreateIndex: body.CreateIndex });
    expect(changed.ModifyIndex).toBeGreaterThan(body.ModifyIndex);
    const listed = await get("/v1/namespaces");
    expectCluster(listed);
    expect(listed.body.map(({ Name }: { Name: string }) => Name)).toEqual(["default", "dev"]);
    expect((await get("/v1/namespaces?prefix=de")).body).toHaveLength(2);
    expect((await get("/v1/namespaces?prefix=dev")).body).toHaveLength(1);
    const page = await get("/v1/namespaces?per_page=1");
    expect([page.body.length, page.headers.get("x-orch-nexttoken")]).toEqual([1, "dev"]);
    const filter = encodeURIComponent('Description == "e"');
    expect((await get(`/v1/namespaces?filter=${filter}`)).body).toMatchObject([{ Name: "dev" }]);
    expect((await del("/v1/namespace/dev")).status).toBe(200);
    const missing = await get("/v1/namespace/dev");
    expect([missing.status, missing.text]).toEqual([404, "Namespace not found"]);
    expect((await del("/v1/namespace/dev")).status).toBe(404);
  });

  itRows([
    ["/v1/namespace", { Name: "a/b" }, "Must match regex"],
    ["/v1/namespace", {}, "Must match regex"],
    ["/v1/namespace/a", { Name: "b" }, "does not match request path"],
    ["/v1/namespace/a", { Description: "x".repeat(257) }, "description longer than 256"],
  ])("return 400 for %s %j", async (at, body, because) => {
    const refused = await put(at, body);
    expect(refused.status).toBe(400);
    expect(refused.text).toContain(because);
  });

  it("return 400 for a deletion of `default`", async () => {
    expect((await del("/v1/namespace/default")).status).toBe(400);
  });

  it("are visible with a capability in them, by the closest rule", async () => {
    for (const Name of ["prod-a", "prod-b", "dev"]) await put("/v1/namespace", { Name });
    const token = await clientOf('namespace "prod-*" { policy = "read" } namespace "prod-b" { policy = "deny" }');
    const seen = await get("/v1/namespaces", { token });
    expect(seen.body.map(({ Name }: { Name: string }) => Name)).toEqual(["prod-a"]);
    expect((await get("/v1/namespace/prod-a", { token })).status).toBe(200);
    for (const hidden of ["prod-b", "dev", "nowhere"]) {
      expect((await get(`/v1/namespace/${hidden}`, { token })).status).toBe(403);
    }
    expect((await put("/v1/namespace", { Name: "x" }, { token })).status).toBe(403);
  });
});
