import { exports } from "cloudflare:workers";
import { expect, it } from "vitest";
import { issue, path, policies } from "./access.ts";
import { del, get, lines, list, put, send } from "./client.ts";
import { ready } from "./nodes-helpers.ts";

/* Requests of the cluster API without a token have the rights of the policy `anonymous`. */

const NOBODY = { token: null };
const stream = (topic: string) => exports.default.fetch(`https://x/v1/event/stream?topic=${topic}`);

it("are refused without such a policy, and with one that has rules for paths only", async () => {
  await policies({ anonymous: path("*", "read", "list", "sudo") });
  for (const at of ["/v1/nodes", "/v1/namespaces", "/v1/acl/policies", "/v1/sys/mounts", "/v1/agents"])
    expect((await get(at, NOBODY)).status, at).toBe(403);
  expect((await stream("Node")).status).toBe(403);
});

it("read as the policy allows, and lose the right with the policy at once", async () => {
  const written = await put("/v1/acl/policy/anonymous", {
    Rules: `node { policy = "read" } namespace "default" { policy = "read" } ${path("*", "read", "list", "sudo")}`,
  });
  expect(written.status, written.text).toBe(200);
  expect((await get("/v1/nodes", NOBODY)).status).toBe(200);
  expect((await get("/v1/namespaces", NOBODY)).body).toMatchObject([{ Name: "default" }]);
  expect((await get("/v1/acl/policies", NOBODY)).body).toMatchObject([{ Name: "anonymous" }]);
  const refused = [
    await get("/v1/acl/tokens", NOBODY),
    await put("/v1/node/pools", { Name: "p" }, NOBODY),
    await put("/v1/acl/token", { Type: "management" }, NOBODY),
    await send("POST", "/v1/acl/token/onetime", {}, NOBODY),
    await get("/v1/sys/mounts", NOBODY),
    await list("/v1/sys/policies/acl", NOBODY),
    await get("/v1/nodes", { token: "unknown" }),
  ];
  expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 403));
  expect((await get("/v1/nodes", NOBODY)).status).toBe(200);
  await del("/v1/acl/policy/anonymous");
  expect((await get("/v1/nodes", NOBODY)).status).toBe(403);
});

it("are streams of the topics that the policy allows, which end with it", async () => {
  await put("/v1/acl/policy/anonymous", { Rules: 'node { policy = "read" }' });
  expect((await stream("ACLToken")).status).toBe(403);
  const response = await stream("Node");
  expect(response.status).toBe(200);
  const seen = lines(response.body);
  await ready();
  for await (const { Events } of seen) if (Events?.some(({ Topic }: { Topic: string }) => Topic === "Node")) break;
  const again = await stream("Node");
  await del("/v1/acl/policy/anonymous");
  await expect(Array.fromAsync(lines(again.body))).resolves.toBeDefined();
});

it("show the built-in token as their own", async () => {
  for (const dialect of [{}, { "X-Nomad-Namespace": "default" }]) {
    const own = await get("/v1/acl/token/self", { token: null, headers: dialect });
    expect([own.status, own.body]).toMatchObject([
      200,
      { AccessorID: "anonymous", Name: "Anonymous Token", Type: "client", Policies: ["anonymous"], SecretID: "" },
    ]);
  }
  const { client_token } = await issue({ policies: ["p"] });
  expect((await get("/v1/acl/token/self", { token: client_token })).body.Policies).toEqual(["default", "p"]);
  expect((await get("/v1/acl/token/self", { token: "unknown" })).status).toBe(403);
});
