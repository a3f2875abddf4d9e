import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { itRows } from "../support/rows.ts";
import { holderOf, issue, path, policies } from "./access.ts";
import { del, get, list, put, send } from "./client.ts";
import { clock } from "./clock.ts";

clock.moves = true;

const ROLE = "/v1/auth/token/roles/app";
const create = (body: object = {}, token = "root", role = "app") =>
  send("POST", `/v1/auth/token/create/${role}`, body, { token });
const role = async (body: object) => {
  const written = await put(ROLE, body);
  expect([written.status, written.text]).toEqual([204, ""]);
};
const errorsOf = async (answer: Promise<{ status: number; body: { errors: string[] } }>) => {
  const { status, body } = await answer;
  return [status, body.errors.join()];
};
const lookup = async (token: string) => (await get("/v1/auth/token/lookup-self", { token })).body.data;
const CREATOR = path("auth/token/create/*", "update");

afterEach(() => {
  vi.useRealTimers();
});

const later = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });

describe("auth/token/roles", () => {
  it("returns upstream's defaults, and keeps fields that a later request does not name", async () => {
    await role({});
    const defaults = {
      name: "app",
      allowed_policies: [],
      allowed_policies_glob: [],
      disallowed_policies: [],
      disallowed_policies_glob: [],
      allowed_entity_aliases: [],
      orphan: false,
      renewable: true,
      path_suffix: "",
      token_type: "default-service",
      token_period: 0,
      token_explicit_max_ttl: 0,
      token_no_default_policy: false,
      period: 0,
      explicit_max_ttl: 0,
    };
    expect((await get(ROLE)).body).toMatchObject({ data: defaults, mount_type: "token" });
    await role({ allowed_policies: "B, a", orphan: "true", token_num_uses: "3", token_bound_cidrs: "10.0.0.0/8" });
    await role({ path_suffix: "v12" });
    expect((await get(ROLE)).body.data).toEqual({
      ...defaults,
      allowed_policies: ["a", "b"],
      orphan: true,
      path_suffix: "v12",
      token_num_uses: 3,
      token_bound_cidrs: ["10.0.0.0/8"],
    });
  });

  it("lists names, and deletes", async () => {
    expect((await list("/v1/auth/token/roles")).status).toBe(404);
    for (const name of ["b", "a"]) expect((await put(`/v1/auth/token/roles/${name}`, {})).status).toBe(204);
    expect((await list("/v1/auth/token/roles")).body.data).toEqual({ keys: ["a", "b"] });
    for (const status of [204, 204]) expect((await del("/v1/auth/token/roles/a")).status).toBe(status);
    expect((await get("/v1/auth/token/roles/a")).status).toBe(404);
  });

  it("shows older names as they were given, and warns when a request has both", async () => {
    await role({ period: "1h", explicit_max_ttl: 7200, bound_cidrs: ["10.0.0.0/8"] });
    const older = { period: 3600, explicit_max_ttl: 7200, bound_cidrs: ["10.0.0.0/8"] };
    const newer = { token_period: 3600, token_explicit_max_ttl: 7200, token_bound_cidrs: ["10.0.0.0/8"] };
    expect((await get(ROLE)).body.data).toMatchObject({ ...older, ...newer });
    const both = await put(ROLE, { period: 5, token_period: 60 });
    expect([both.status, both.body.warnings]).toEqual([
      200,
      ["Both 'token_period' and deprecated 'period' value supplied, ignoring the deprecated value"],
    ]);
    expect((await get(ROLE)).body.data).toMatchObject({ period: 0, token_period: 60 });
  });

  itRows([
    [{ path_suffix: "../x" }, "path_suffix"],
    [{ path_suffix: "a b c" }, "path_suffix"],
    [{ token_period: "soon" }, "token_period"],
    [{ token_num_uses: -1 }, "token_num_uses"],
    [{ token_bound_cidrs: ["10.0.0.0/99"] }, "token_bound_cidrs"],
    [{ token_type: "root" }, "token_type"],
    [{ allowed_policies: [5] }, "allowed_policies"],
    [{ disallowed_policies_glob: ["\u0007"] }, "disallowed_policies_glob"],
    [{ orphan: "perhaps" }, "orphan"],
  ])("returns 400 with the field and changes nothing for %j", async (body, field) => {
    await role({ path_suffix: "v12" });
    expect(await errorsOf(put(ROLE, body))).toEqual([400, expect.stringContaining(field)]);
    expect((await get(ROLE)).body.data).toMatchObject({ path_suffix: "v12", token_period: 0, allowed_policies: [] });
  });

  it("belong to a namespace, and end with it", async () => {
    const there = { headers: { "X-Orch-Namespace": "ns" } };
    await put("/v1/sys/namespaces/ns", {});
    expect((await put(ROLE, { orphan: true }, there)).status).toBe(204);
    expect((await get(ROLE)).status).toBe(404);
    expect(await errorsOf(create())).toEqual([400, "unknown role app"]);
    expect((await put("/v1/auth/token/create/app", {}, there)).body.auth.orphan).toBe(true);
    await del("/v1/sys/namespaces/ns");
    await put("/v1/sys/namespaces/ns", {});
    expect((await get(ROLE, there)).status).toBe(404);
  });
});

describe("auth/token/create/:role", () => {
  let holder: string;

  beforeEach(async () => {
    await policies({ a: path("kv/a", "read"), b: path("kv/b", "read") });
    holder = (await holderOf(CREATOR)).client_token;
  });

  it("grants the role's policies to holders who lack them", async () => {
    await role({ allowed_policies: ["a", "b"], allowed_policies_glob: ["x-*"] });
    const of = async (body: object) => (await create(body, holder)).body.auth.policies;
    expect(await of({})).toEqual(["a", "b", "default"]);
    expect(await of({ policies: ["a"] })).toEqual(["a", "default"]);
    expect(await of({ policies: ["x-1"], no_default_policy: true })).toEqual(["x-1"]);
    expect(await errorsOf(create({ policies: ["a", "c"] }, holder))).toEqual([
      400,
      'token policies (["a" "c" "default"]) must be subset of the role\'s allowed policies (["a" "b" "default"]) or glob policies (["x-*"])',
    ]);
  });

  it("refuses disallowed policies, and adds no default policy that is one", async () => {
    await role({ disallowed_policies: ["b", "default"], disallowed_policies_glob: ["sec*"] });
    expect((await create({ policies: ["a"] }, holder)).body.auth.policies).toEqual(["a"]);
    for (const name of ["b", "default", "secret"]) {
      const refused = [400, `token policy "${name}" is disallowed by this role`];
      expect(await errorsOf(create({ policies: [name] }, holder)), name).toEqual(refused);
    }
  });

  it("never grants root to holders without it, nor policies without a rule of the role", async () => {
    await role({ allowed_policies_glob: ["*"] });
    const root = [400, "root tokens may not be created without parent token being root"];
    expect(await errorsOf(create({ policies: ["root"] }, holder))).toEqual(root);
    await role({ allowed_policies_glob: [] });
    const subset = [400, "child policies must be subset of parent"];
    expect(await errorsOf(create({ policies: ["a"] }, holder))).toEqual(subset);
  });

  it("applies parent, path, uses, times and networks of the role", async () => {
    await role({
      orphan: true,
      renewable: false,
      path_suffix: "v12",
      token_num_uses: 5,
      token_explicit_max_ttl: "2h",
      token_bound_cidrs: "10.0.0.0/8",
      token_no_default_policy: true,
      allowed_policies: "a",
    });
    const { auth, warnings } = (await create({ num_uses: 9, explicit_max_ttl: "3h" })).body;
    expect(auth).toMatchObject({
      orphan: true,
      renewable: false,
      num_uses: 5,
      lease_duration: 7200,
      policies: ["a"],
    });
    expect(warnings).toContain(
      "Explicit max TTL specified both during creation call and in role; using the lesser value of 7200 seconds",
    );
    const shown = await send("POST", "/v1/auth/token/lookup", { token: auth.client_token });
    expect(shown.body.data).toMatchObject({
      role: "app",
      path: "auth/token/create/app/v12",
      explicit_max_ttl: 7200,
      bound_cidrs: ["10.0.0.0/8"],
    });
    const from = (address: string) => ({ token: auth.client_token, headers: { "CF-Connecting-IP": address } });
    const self = "/v1/sys/internal/ui/mounts";
    expect((await get(self, from("10.1.2.3"))).status).toBe(200);
    expect((await get("/v1/kv/a", from("11.1.2.3"))).status).toBe(403);
  });

  it("makes periodic tokens without sudo, and a renewal uses the role of that time", async () => {
    later(0);
    await role({ token_period: "1h", allowed_policies: "a,default" });
    const { client_token } = (await create({}, holder)).body.auth;
    expect(await lookup(client_token)).toMatchObject({ ttl: 3600, period: 3600, role: "app" });
    await role({ token_period: "2h" });
    const renewed = await send("POST", "/v1/auth/token/renew-self", {}, { token: client_token });
    expect(renewed.body.auth.lease_duration).toBe(7200);
    later(3600);
    await role({ token_explicit_max_ttl: "30m", token_period: "10m" });
    expect(await errorsOf(send("POST", "/v1/auth/token/renew-self", {}, { token: client_token }))).toEqual([
      400,
      "past the max TTL, cannot renew",
    ]);
    expect(await lookup(client_token)).toMatchObject({ ttl: 3600 });
    await del(ROLE);
    expect(await errorsOf(send("POST", "/v1/auth/token/renew-self", {}, { token: client_token }))).toEqual([
      400,
      'original token role "app" could not be found, not renewing',
    ]);
    expect(await lookup(client_token)).toMatchObject({ role: "app" });
  });

  it("creates the entity of an alias that the role allows", async () => {
    await role({ allowed_entity_aliases: ["Ann", "team-*"], allowed_policies: "default" });
    const of = async (entity_alias: string) => (await create({ entity_alias }, holder)).body.auth.entity_id;
    const ann = await of("ANN");
    expect(ann).toMatch(/^[0-9a-f-]{36}$/);
    expect(await of("ANN")).toBe(ann);
    expect(await of("team-1")).not.toBe(ann);
    expect(await errorsOf(create({ entity_alias: "bob" }, holder))).toEqual([400, "invalid 'entity_alias' value"]);
    expect(await errorsOf(send("POST", "/v1/auth/token/create", { entity_alias: "ann" }))).toEqual([
      400,
      "'entity_alias' is only allowed in combination with token role",
    ]);
  });
});

it("children of a token that is bound to networks are bound to them, too", async () => {
  await role({ token_bound_cidrs: "10.0.0.0/8" });
  await policies({ maker: path("auth/token/create", "update") });
  const inside = { headers: { "CF-Connecting-IP": "10.0.0.1" } };
  const { client_token } = (await create({ policies: ["maker"] })).body.auth;
  const child = await issue({ policies: ["maker"] }, { token: client_token, ...inside });
  const self = "/v1/auth/token/lookup-self";
  const at = (address: string) => ({ token: child.client_token, headers: { "CF-Connecting-IP": address } });
  expect((await get(self, at("10.9.9.9"))).body.data.bound_cidrs).toEqual(["10.0.0.0/8"]);
  expect((await get(self, at("192.0.2.1"))).status).toBe(403);
});

it("auth/token/tidy accepts the request and reports nothing to tidy", async () => {
  const tidied = await put("/v1/auth/token/tidy", {});
  expect([tidied.status, tidied.body.warnings]).toEqual([202, [expect.stringContaining("nothing to clean up")]]);
});
