import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { CLOSE } from "@sallyport/agent-protocol";
import { describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf } from "./access.ts";
import { del, get, put, send } from "./client.ts";
import { objectIds } from "./created-objects.ts";
import {
  AgentSocket,
  eventually,
  hello,
  join,
  joinToken,
  newIdentity,
  nodeReport,
  ScriptedAgent,
  statusOf,
} from "./scripted-agent.ts";

const registryRows = (query: string): Promise<Record<string, unknown>[]> =>
  runInDurableObject(env.CLUSTER_REGISTRY.getByName("main"), (_registry, { storage }) =>
    storage.sql.exec(query).toArray(),
  );

describe("a join token", () => {
  it("is shown once, stored as a hash, and listed without its secret", async () => {
    const made = await joinToken({ NodePool: "gpu", Name: "node-1", TTL: "10m" });
    expect(made).toMatchObject({
      NodePool: "gpu",
      Name: "node-1",
      NodeID: "",
      Token: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(Date.parse(made.ExpirationTime) - Date.parse(made.CreateTime)).toBe(600_000);
    const { Token, ...shown } = made;
    const listed = await get("/v1/agent/tokens");
    expect(listed.body).toEqual([shown]);
    expect(JSON.stringify(await registryRows("SELECT * FROM join_tokens"))).not.toContain(Token);
  });

  it("defaults to the default pool, any node name and one hour", async () => {
    const made = await joinToken();
    expect(made).toMatchObject({ NodePool: "default", Name: "" });
    expect(Date.parse(made.ExpirationTime) - Date.parse(made.CreateTime)).toBe(3_600_000);
  });

  itRows([
    [{ TTL: "2h" }, "TTL: must be from 1s to 1h"],
    [{ TTL: 0 }, "TTL: must be from 1s to 1h"],
    [{ TTL: "soon" }, "TTL: must be seconds or a duration"],
    [{ NodePool: "all" }, "NodePool: "],
    [{ NodePool: "a b" }, "NodePool: must be 1 to 128 letters, digits, - or _"],
    [{ NodePool: "" }, "NodePool: "],
    [{ Name: "n".repeat(129) }, "Name: "],
    [{ Name: 7 }, "Name: "],
  ])("of %j is refused and not stored", async (body, text) => {
    const refused = await send("POST", "/v1/agent/tokens", body);
    expect([refused.status, refused.headers.get("content-type")]).toEqual([400, "text/plain; charset=utf-8"]);
    expect(refused.text).toContain(text);
    expect((await get("/v1/agent/tokens")).body).toEqual([]);
  });

  it("can be deleted, and returns 403 afterwards", async () => {
    const { AccessorID, Token } = await joinToken();
    expect((await del(`/v1/agent/token/${AccessorID}`)).status).toBe(200);
    expect(await del(`/v1/agent/token/${AccessorID}`)).toMatchObject({ status: 404, text: "join token not found" });
    expect((await join(Token, await newIdentity())).status).toBe(403);
  });

  it("is listed in pages, in both directions", async () => {
    const ids = (await Promise.all([1, 2, 3].map(() => joinToken()))).map(({ AccessorID }) => AccessorID).sort();
    const first = await get("/v1/agent/tokens?per_page=2");
    expect(first.body.map((each: { AccessorID: string }) => each.AccessorID)).toEqual(ids.slice(0, 2));
    const next = first.headers.get("X-Orch-NextToken");
    const second = await get(`/v1/agent/tokens?per_page=2&next_token=${next}`);
    expect(second.body.map((each: { AccessorID: string }) => each.AccessorID)).toEqual(ids.slice(2));
    const back = await get("/v1/agent/tokens?reverse=true");
    expect(back.body.map((each: { AccessorID: string }) => each.AccessorID)).toEqual([...ids].reverse());
  });

  it("is deleted by the alarm after its expiry", async () => {
    const { Token } = await joinToken({ TTL: "1s" });
    await scheduler.wait(1_100);
    expect((await join(Token, await newIdentity())).status).toBe(403);
    await eventually(async () => {
      await runDurableObjectAlarm(env.CLUSTER_REGISTRY.getByName("main"));
      expect(await registryRows("SELECT * FROM join_tokens")).toEqual([]);
    });
  });
});

describe("joining", () => {
  it("assigns a node to a key, and returns the same node for a repeated request after a lost answer", async () => {
    const { Token } = await joinToken();
    const identity = await newIdentity();
    const first = await join(Token, identity);
    expect(first).toMatchObject({ status: 200, body: { NodeID: expect.any(String), Service: expect.any(String) } });
    expect((await join(Token, identity)).body).toEqual(first.body);
    expect((await get("/v1/agents")).body).toMatchObject([
      { NodeID: first.body.NodeID, Name: "node-1", NodePool: "default", Connected: false, LastSeen: null, Version: "" },
    ]);
  });

  it("accepts each token for one key", async () => {
    const { Token, AccessorID } = await joinToken();
    const joined = await join(Token, await newIdentity());
    expect(await join(Token, await newIdentity())).toMatchObject({
      status: 403,
      text: expect.stringContaining("Token: has been used"),
    });
    expect((await get("/v1/agent/tokens")).body).toMatchObject([{ AccessorID, NodeID: joined.body.NodeID }]);
  });

  it("accepts each token for one key in concurrent requests", async () => {
    const { Token } = await joinToken();
    const answers = await Promise.all([await newIdentity(), await newIdentity()].map((each) => join(Token, each)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 403]);
  });

  it("requires the node name that the token specifies", async () => {
    const { Token } = await joinToken({ Name: "db-1" });
    const identity = await newIdentity();
    expect(await join(Token, identity, "db-2")).toMatchObject({ status: 403, text: expect.stringContaining("Name: ") });
    expect((await join(Token, identity, "db-1")).status).toBe(200);
  });

  it("accepts another token for a known key, but not one for another pool", async () => {
    const identity = await newIdentity();
    const first = await join((await joinToken()).Token, identity);
    const elsewhere = await join((await joinToken({ NodePool: "gpu" })).Token, identity);
    expect(elsewhere).toMatchObject({ status: 409, text: expect.stringContaining(first.body.NodeID) });
    expect((await join((await joinToken()).Token, identity)).body.NodeID).toBe(first.body.NodeID);
  });

  itRows([
    [{ Token: "" }, 400, "Token: "],
    [{ Token: "x".repeat(513) }, 400, "Token: "],
    [{ Token: 5 }, 400, "Token: "],
    [{ PublicKey: "short" }, 400, "PublicKey: "],
    [{ PublicKey: `${"A".repeat(44)}` }, 400, "PublicKey: "],
    [{ Name: "" }, 400, "Name: "],
    [{ Name: "n".repeat(129) }, 400, "Name: "],
    [{ Token: "0".repeat(64) }, 403, "Token: is unknown or has expired"],
  ])("with %j returns %i", async (change, status, text) => {
    const { Token } = await joinToken();
    const { publicKey } = await newIdentity();
    const body = { Token, PublicKey: publicKey, Name: "node-1", ...change };
    const refused = await send("POST", "/v1/agent/join", body, { token: null });
    expect([refused.status, refused.headers.get("content-type")]).toEqual([status, "text/plain; charset=utf-8"]);
    expect(refused.text).toContain(text);
    expect((await get("/v1/agents")).body).toEqual([]);
  });
});

describe("connecting", () => {
  it("makes the node ready, and a lost connection makes it disconnected", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    const [shown] = (await get("/v1/agents")).body;
    expect(shown).toMatchObject({ NodeID: agent.node, Connected: true, Version: "0.1.0", LastSeen: null });
    expect(Date.parse(shown.ConnectedSince)).toBeGreaterThan(Date.parse(shown.CreateTime) - 1);
    expect((await get(`/v1/agent/${agent.node}`)).body).toEqual({
      ...shown,
      LastSeen: expect.any(String),
      Operations: { InFlight: 0, Queued: 0 },
    });
    socket.close();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("disconnected"));
    const [lost] = (await get("/v1/agents")).body;
    expect(lost).toMatchObject({ Connected: false, ConnectedSince: null, LastSeen: expect.any(String) });
  });

  const now = () => Math.floor(Date.now() / 1_000);
  itRows([
    ["a token for another service", () => ({ aud: "another" }), "for another service"],
    ["a token of a slow clock", () => ({ iat: now() - 62 }), "clocks may differ by 60 s"],
    ["a token of a fast clock", () => ({ iat: now() + 62 }), "clocks may differ by 60 s"],
    ["a token that lives too long", () => ({ exp: now() + 90 }), "lives for more than 60 s"],
    ["a token that ends before it begins", () => ({ exp: now() - 5 }), "lives for more than 60 s"],
    ["a token with two nodes", () => ({ sub: crypto.randomUUID() }), "issuer that is not its subject"],
    ["a token without an id", () => ({ jti: "1" }), "jti"],
  ])("with %s is refused, and the answer has the service's time", async (_, claims, text) => {
    const agent = await ScriptedAgent.joined();
    const refused = await agent.request(await agent.token(claims()));
    expect(refused.status).toBe(401);
    expect(await refused.text()).toContain(text);
    expect(Math.abs(Date.parse(refused.headers.get("Date") ?? "") - Date.now())).toBeLessThan(5_000);
  });

  it("is accepted with a clock that is 50 s off", async () => {
    const agent = await ScriptedAgent.joined();
    for (const iat of [now() - 50, now() + 50]) await (await agent.connect({ iat })).welcome();
  });

  it("is refused with a used token", async () => {
    const agent = await ScriptedAgent.joined();
    const token = await agent.token();
    const first = await agent.request(token);
    expect(first.status).toBe(101);
    const again = await agent.request(token);
    expect([again.status, await again.text()]).toEqual([401, "Authorization: the token has been used"]);
    // Also when the object has forgotten everything that is not on disk.
    await agent.kill();
    expect((await agent.request(token)).status).toBe(401);
  });

  it("is refused with another node's key", async () => {
    const [agent, other] = [await ScriptedAgent.joined(), await ScriptedAgent.joined()];
    const forged = new ScriptedAgent(agent.node, agent.service, other.identity);
    expect((await forged.request(await forged.token())).status).toBe(401);
  });

  it("is refused with an unsigned token, and with the public key as an HMAC secret", async () => {
    const agent = await ScriptedAgent.joined();
    const [, payload = ""] = (await agent.token()).split(".");
    const encode = (header: object) => Buffer.from(JSON.stringify(header)).toString("base64url");
    expect((await agent.request(`${encode({ alg: "none" })}.${payload}.`)).status).toBe(401);
    const key = await crypto.subtle.importKey(
      "raw",
      Buffer.from(agent.identity.publicKey, "base64"),
      { name: "HMAC", hash: "SHA-256" },
      false,
      ["sign"],
    );
    const signed = `${encode({ alg: "HS256" })}.${payload}`;
    const mac = Buffer.from(await crypto.subtle.sign("HMAC", key, Buffer.from(signed))).toString("base64url");
    expect((await agent.request(`${signed}.${mac}`)).status).toBe(401);
  });

  itRows([
    ["without Upgrade", { Upgrade: "" }, 426, "Upgrade: must be websocket"],
    ["without the subprotocol", { "Sec-WebSocket-Protocol": "chat" }, 400, "Sec-WebSocket-Protocol: must offer"],
    ["without a token", { Authorization: "" }, 401, "Authorization: must be a bearer token"],
    ["with rubbish for a token", { Authorization: "Bearer x.y.z" }, 401, "Authorization: the token is not a JWT"],
    [
      "with a token without end",
      { Authorization: `Bearer ${"x".repeat(3_000)}` },
      401,
      "Authorization: the token is too long",
    ],
  ])("%s is refused", async (_, headers, status, text) => {
    const agent = await ScriptedAgent.joined();
    const refused = await agent.request(await agent.token(), headers);
    expect(refused.status).toBe(status);
    expect(await refused.text()).toContain(text);
  });

  it("is delayed when it is repeated too often within a minute", async () => {
    const agent = await ScriptedAgent.joined();
    for (let count = 0; count < 60; count++) expect((await agent.request(await agent.token())).status).toBe(101);
    const refused = await agent.request(await agent.token());
    expect([refused.status, refused.headers.get("Retry-After")]).toEqual([429, "60"]);
  });
});

it("a refused handshake creates no object and no row", async () => {
  const agent = await ScriptedAgent.joined();
  const stranger = new ScriptedAgent(crypto.randomUUID(), agent.service, agent.identity);
  const thief = new ScriptedAgent(agent.node, agent.service, await newIdentity());
  const ids = () => objectIds(env.NODE_SESSION).length;
  const before = ids();
  expect(await (await stranger.connect()).closed).toMatchObject({ code: CLOSE.revoked });
  const old = Math.floor(Date.now() / 1_000) - 600;
  for (const token of [await thief.token(), await agent.token({ iat: old }), "x".repeat(5_000), "x.y.z"])
    expect((await agent.request(token)).status).toBe(401);
  expect((await join("nobody's", agent.identity)).status).toBe(403);
  expect(ids()).toBe(before);
  expect(await registryRows("SELECT node_id FROM agents")).toEqual([{ node_id: agent.node }]);
});

describe("removing an agent", () => {
  it("fails its node's open operations with 503", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    const asked = put("/v1/volume/host/create", { Volume: { Name: "db", PluginID: "mkdir", NodeID: agent.node } });
    await socket.seen("req");
    expect((await del(`/v1/agent/${agent.node}`)).status).toBe(200);
    const answer = await Promise.race([asked, scheduler.wait(10_000)]);
    expect([answer?.status, answer?.text]).toEqual([503, `the agent of node ${agent.node} was removed`]);
    expect(await registryRows("SELECT id FROM host_volumes")).toEqual([]);
  });

  it("closes its connection permanently, and its node is lost", async () => {
    const [agent, socket] = await ScriptedAgent.connected();
    await eventually(async () => expect(await statusOf(agent.node)).toBe("ready"));
    const removed = await del(`/v1/agent/${agent.node}`);
    const { ModifyIndex } = (await get(`/v1/node/${agent.node}`)).body;
    expect([removed.status, removed.headers.get("X-Orch-Index")]).toEqual([200, String(ModifyIndex)]);
    expect(await socket.closed).toMatchObject({ code: CLOSE.revoked });
    expect(await statusOf(agent.node)).toBe("disconnected");
    expect((await get("/v1/agents")).body).toEqual([]);
    expect((await get(`/v1/agent/${agent.node}`)).status).toBe(404);
    expect(await del(`/v1/agent/${agent.node}`)).toMatchObject({ status: 404, text: "agent not found" });
    // Whatever its clock or its key: nothing but this code makes it end.
    const back = await agent.connect();
    expect(await back.closed).toMatchObject({ code: CLOSE.revoked });
    await agent.hibernate();
    expect(await statusOf(agent.node)).toBe("disconnected");
  });

  it("also closes a connection that was down, and one authorized before the key was deleted", async () => {
    const agent = await ScriptedAgent.joined();
    const identity = {
      jti: crypto.randomUUID(),
      issued: Math.floor(Date.now() / 1_000),
      pool: "default",
      boundName: null,
    };
    await agent.session.revoke();
    const late = await env.NODE_SESSION.getByName(agent.node).fetch(
      `https://x/?${new URLSearchParams({ asked: JSON.stringify(identity) })}`,
      { headers: { Upgrade: "websocket" } },
    );
    if (!late.webSocket) throw new Error("no socket");
    expect(await new AgentSocket(late.webSocket).closed).toMatchObject({ code: CLOSE.revoked });
  });

  it("lets its key join again as another node", async () => {
    const agent = await ScriptedAgent.joined();
    await del(`/v1/agent/${agent.node}`);
    const again = await join((await joinToken()).Token, agent.identity);
    expect([again.status, again.body.NodeID === agent.node]).toEqual([200, false]);
  });

  it("invalidates its join token", async () => {
    const { Token } = await joinToken();
    const identity = await newIdentity();
    const { body } = await join(Token, identity);
    await del(`/v1/agent/${body.NodeID}`);
    expect((await join(Token, identity)).status).toBe(403);
  });
});

describe("rights", () => {
  const routes = [
    ["POST", "/v1/agent/tokens", "write"],
    ["GET", "/v1/agent/tokens", "write"],
    ["DELETE", "/v1/agent/token/none", "write"],
    ["GET", "/v1/agents", "read"],
    ["GET", "/v1/agent/none", "read"],
    ["DELETE", "/v1/agent/none", "write"],
  ] as const;

  itRows(routes)("%s %s requires node %s", async (method, path, needed) => {
    for (const [level, allowed] of [
      ["deny", false],
      ["read", needed === "read"],
      ["write", true],
    ] as const) {
      const { client_token } = await holderOf(`node { policy = "${level}" }`);
      const { status } = await send(method, path, method === "POST" ? {} : undefined, { token: client_token });
      expect([level, status !== 403]).toEqual([level, allowed]);
    }
    expect((await send(method, path, method === "POST" ? {} : undefined, { token: null })).status).toBe(403);
  });
});

it("an agent's report has the pool and name of its join", async () => {
  for (const [node, text] of [
    [nodeReport({ NodePool: "gpu" }), "node.NodePool"],
    [nodeReport({ Name: "other" }), "node.Name"],
  ] as const) {
    const agent = await ScriptedAgent.joined({ Name: "node-1" });
    const socket = await agent.connect();
    socket.send(hello({ node }));
    expect(await socket.closed).toMatchObject({ code: CLOSE.protocol, reason: expect.stringContaining(text) });
    expect(await statusOf(agent.node)).toBeUndefined();
  }
});
