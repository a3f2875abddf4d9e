import { beforeEach, describe, expect, it } from "vitest";
import { holderOf, path } from "./access.ts";
import { get, list, mountKv, put } from "./client.ts";

/** The runtime has no SCAN: the gateway of `npm start` sends it as this. */
const scan = (at: string, options?: Parameters<typeof get>[1]) => get(`${at}?scan=true`, options);

const PATHS = ["a", "b/c", "b/d/e", "b/d/f", "z"];

beforeEach(async () => {
  await mountKv("kv");
  for (const name of PATHS) expect((await put(`/v1/kv/data/${name}`, { data: { x: 1 } })).status).toBe(200);
  await put("/v1/kv/metadata/b/d/f", { custom_metadata: { owner: "ann" } });
  await put("/v1/sys/mounts/old", { type: "kv", options: { version: "1" } });
  for (const name of PATHS) await put(`/v1/old/${name}`, { x: 1 });
});

describe("SCAN", () => {
  it.each([
    ["/v1/kv/metadata", PATHS],
    ["/v1/kv/metadata/b", ["c", "d/e", "d/f"]],
    ["/v1/kv/metadata/b/d/", ["e", "f"]],
    ["/v1/kv/detailed-metadata/b", ["c", "d/e", "d/f"]],
    ["/v1/old", PATHS],
    ["/v1/old/b", ["c", "d/e", "d/f"]],
  ])("%s lists every path below it", async (at, keys) => {
    const answer = await scan(at);
    expect([answer.status, answer.body.data.keys]).toEqual([200, keys]);
    const overridden = await get(at, { headers: { "X-HTTP-Method-Override": "SCAN" } });
    expect(overridden.body.data.keys).toEqual(keys);
  });

  it("lists namespaces below the children, too", async () => {
    for (const name of ["team", "team/sub"])
      await put(`/v1/sys/namespaces/${name.split("/").at(-1)}`, {}, name === "team" ? {} : team);
    expect((await scan("/v1/sys/namespaces")).body.data.keys).toEqual(["team/", "team/sub/"]);
    expect((await list("/v1/sys/namespaces")).body.data.keys).toEqual(["team/"]);
  });

  it("needs the capability scan, and list does not replace it", async () => {
    const scanner = await holderOf(path("kv/metadata/b/*", "scan"));
    const lister = await holderOf(path("kv/metadata/*", "list"));
    expect((await scan("/v1/kv/metadata/b", { token: scanner.client_token })).status).toBe(200);
    expect((await list("/v1/kv/metadata/b", { token: scanner.client_token })).status).toBe(403);
    expect((await scan("/v1/kv/metadata/b", { token: lister.client_token })).status).toBe(403);
    expect((await scan("/v1/kv/metadata", { token: scanner.client_token })).status).toBe(403);
  });

  it.each([
    ["/v1/kv/metadata/?list=true&scan=true", 400],
    ["/v1/sys/mounts?scan=true", 405],
    ["/v1/sys/policies/acl?scan=true", 405],
    ["/v1/kv/data/a?scan=true", 405],
    ["/v1/kv/metadata/none?scan=true", 404],
  ])("%s is answered with %i", async (at, status) => {
    const answer = await get(at);
    expect(answer.status, answer.text).toBe(status);
  });
});

const team = { headers: { "X-Orch-Namespace": "team" } };

describe("detailed-metadata", () => {
  it("has the metadata of secrets, with the right of the list alone", async () => {
    const { client_token: token } = await holderOf(path("kv/detailed-metadata/*", "list"));
    const { status, body } = await list("/v1/kv/detailed-metadata/b", { token });
    expect([status, body.data.keys]).toEqual([200, ["c", "d/"]]);
    expect(body.data.key_info).toEqual({
      c: (await get("/v1/kv/metadata/b/c")).body.data,
      "d/": {},
    });
    const deep = await scan("/v1/kv/detailed-metadata");
    expect(deep.body.data.key_info["b/d/f"].custom_metadata).toEqual({ owner: "ann" });
    expect((await get("/v1/kv/detailed-metadata/none?list=true")).status).toBe(404);
  });
});

describe("after and limit", () => {
  it.each([
    ["/v1/kv/metadata?list=true&limit=2", ["a", "b/"]],
    ["/v1/kv/metadata?list=true&after=b/&limit=-1", ["z"]],
    ["/v1/kv/metadata?list=true&after=aa", ["b/", "z"]],
    ["/v1/kv/metadata?scan=true&after=b/c&limit=2", ["b/d/e", "b/d/f"]],
    ["/v1/kv/detailed-metadata?list=true&after=a&limit=1", ["b/"]],
    ["/v1/kv/detailed-metadata?scan=true&after=b/d&limit=1", ["b/d/e"]],
    ["/v1/old?list=true&limit=1&after=a", ["b/"]],
    ["/v1/old?scan=true&limit=max&after=b/c", ["b/d/e", "b/d/f", "z"]],
    ["/v1/sys/policies/acl?list=true&limit=1", ["default"]],
    ["/v1/sys/policy?list=true&after=default", ["root"]],
    ["/v1/sys/namespaces?list=true&after=n1/&limit=1", ["n2/"]],
    ["/v1/cubbyhole?list=true&after=one", ["two"]],
    ["/v1/identity/entity/name?list=true&after=ann&limit=1", ["bob"]],
  ])("%s", async (at, keys) => {
    for (const name of ["n1", "n2", "n3"]) await put(`/v1/sys/namespaces/${name}`, {});
    for (const name of ["one", "two"]) await put(`/v1/cubbyhole/${name}`, { x: 1 });
    for (const name of ["ann", "bob", "eve"]) await put("/v1/identity/entity", { name });
    const { status, body } = await get(at);
    expect([status, body.data?.keys]).toEqual([200, keys]);
    if (body.data.key_info) expect(Object.keys(body.data.key_info)).toEqual(keys);
  });

  it("returns 404 after the last name, and 400 for a limit that is no number", async () => {
    expect((await get("/v1/kv/metadata?list=true&after=z")).status).toBe(404);
    expect((await get("/v1/sys/policies/acl?list=true&after=z")).status).toBe(404);
    const refused = await get("/v1/kv/metadata?list=true&limit=some");
    expect([refused.status, refused.body.errors]).toEqual([400, ["limit: must be a number, 0 or more"]]);
  });

  it("are bounded by the pagination_limit of a policy, for SCAN, too", async () => {
    const rule = `path "kv/metadata*" { capabilities = ["list", "scan"] pagination_limit = 2 }
      path "kv/detailed-metadata*" { capabilities = ["scan"] pagination_limit = 1 }
      path "sys/policies/acl" { capabilities = ["list"] pagination_limit = 1 }`;
    const { client_token: token } = await holderOf(rule);
    const keys = async (at: string) => {
      const { status, body } = await get(at, { token });
      return status === 200 ? body.data.keys : status;
    };
    expect(await keys("/v1/kv/metadata?list=true")).toEqual(["a", "b/"]);
    expect(await keys("/v1/kv/metadata?scan=true&limit=max")).toEqual(["a", "b/c"]);
    expect(await keys("/v1/kv/metadata?scan=true&limit=3")).toBe(403);
    expect(await keys("/v1/kv/detailed-metadata?scan=true")).toEqual(["a"]);
    expect(await keys("/v1/sys/policies/acl?list=true")).toEqual(["default"]);
  });
});
