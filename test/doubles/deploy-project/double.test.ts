import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type DeployProjectDouble, type OpenedAccount, startDeployProject } from "./api.ts";

// The double's promises, driven by plain requests. Each test fails if the double were kinder.

let now = 1_000_000;
let double: DeployProjectDouble;
let account: OpenedAccount;

beforeAll(async () => {
  double = await startDeployProject({ now: () => now });
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

interface Sending {
  token?: string | null;
  headers?: Record<string, string>;
  raw?: string;
}

async function send(method: string, path: string, body?: unknown, { token, headers = {}, raw }: Sending = {}) {
  const bearer = token === undefined ? account.accessToken : token;
  const sent = raw ?? (body === undefined ? null : JSON.stringify(body));
  const response = await fetch(double.url + path, {
    method,
    headers: {
      ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
      ...(sent === null ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    body: sent,
  });
  const text = await response.text();
  return { status: response.status, body: JSON.parse(text), headers: response.headers };
}

const variable = (changed: Record<string, unknown> = {}) => ({
  key: "DB",
  value: "secret-value",
  type: "encrypted",
  target: ["production"],
  ...changed,
});
const path = (version: string, rest = "") => `/${version}/projects/${account.projectId}/env${rest}`;
const create = (changed: Record<string, unknown> = {}, query = "", options: Sending = {}) =>
  send("POST", path("v10", query), variable(changed), options);
const created = async (changed: Record<string, unknown> = {}): Promise<string> =>
  (await create(changed)).body.created.id;
const edit = (id: string, body: unknown) => send("PATCH", path("v9", `/${id}`), body);
const refused = (status: number, code: string) => ({ status, body: { error: { code, message: expect.any(String) } } });

describe("tokens", () => {
  it("refuses a missing token, an unknown one, and another scheme", async () => {
    expect(await create({}, "", { token: null })).toMatchObject({
      status: 403,
      body: { error: { missingToken: true } },
    });
    expect(await create({}, "", { token: "x" })).toMatchObject({
      status: 403,
      body: { error: { invalidToken: true } },
    });
    const basic = { token: null, headers: { authorization: `Basic ${account.accessToken}` } };
    expect(await create({}, "", basic)).toMatchObject(refused(403, "forbidden"));
  });

  it("refuses another team, another project, and writes with read-only access", async () => {
    const team = `?teamId=${account.teamId}`;
    double.addToken({ token: "of-team", teamId: account.teamId }, account.id);
    double.addToken({ token: "of-project", projectIds: ["prj_x"] }, account.id);
    double.addToken({ token: "reader", readOnly: true }, account.id);
    expect(await create({}, "", { token: "of-team" })).toMatchObject(refused(403, "forbidden"));
    expect(await create({}, "", { token: "of-project" })).toMatchObject(refused(403, "forbidden"));
    expect(await create({}, "", { token: "reader" })).toMatchObject(refused(403, "forbidden"));
    expect(await send("GET", path("v10"), undefined, { token: "reader" })).toMatchObject({ status: 200 });
    const ofTeam = `/v9/projects/${account.teamProjectId}`;
    expect(await send("GET", ofTeam + team, undefined, { token: "of-team" })).toMatchObject({ status: 200 });
    expect(await send("GET", ofTeam)).toMatchObject(refused(404, "not_found"));
    expect(await send("GET", `/v9/projects/${account.projectId}${team}`)).toMatchObject(refused(404, "not_found"));
    expect(await send("GET", `${ofTeam}?teamId=team_x`)).toMatchObject(refused(403, "forbidden"));
  });

  it("separates accounts", async () => {
    await create();
    const other = double.open();
    expect(await send("GET", path("v10"), undefined, { token: other.accessToken })).toMatchObject(
      refused(404, "not_found"),
    );
    expect(double.secrets(other.id)).toEqual([]);
    expect(double.requests(other.id)).toHaveLength(1);
  });
});

describe("a request", () => {
  it.each([
    ["POST", "v9", "", 404],
    ["PUT", "v10", "", 404],
    ["PATCH", "v10", "/x", 404],
    ["POST", "v10", "?upsert=yes", 400],
    ["POST", "v10", "?upsert=", 400],
    ["POST", "v10", "?upsert=true&upsert=true", 400],
    ["POST", "v10", "?force=true", 400],
  ])("refuses %s %s%s with %i", async (method, version, query, status) => {
    expect(await send(method, path(version, query), variable())).toMatchObject({ status });
    expect(double.secrets(account.id)).toEqual([]);
  });

  it("refuses another content type, a body that is not JSON, and an unexpected body", async () => {
    const headers = { "content-type": "text/plain" };
    expect(await create({}, "", { headers })).toMatchObject(refused(415, "unsupported_media_type"));
    expect(await create({}, "", { raw: "{" })).toMatchObject(refused(400, "bad_request"));
    expect(await send("DELETE", path("v9", "/x"), {})).toMatchObject(refused(400, "bad_request"));
  });
});

describe("the rules of a variable", () => {
  it.each<[string, Record<string, unknown>, string]>([
    ["an unknown field", { tags: {} }, "bad_request"],
    ["no type", { type: undefined }, "bad_request"],
    ["type system", { type: "system" }, "bad_request"],
    ["type secret", { type: "secret" }, "bad_request"],
    ["a target that is text", { target: "production" }, "bad_request"],
    ["an unknown target", { target: ["staging"] }, "bad_request"],
    ["no target", { target: [] }, "MISSING_TARGET"],
    ["a target twice", { target: ["preview", "preview"] }, "BAD_REQUEST"],
    ["a value that is not text", { value: 1 }, "bad_request"],
    ["an empty value", { value: "" }, "MISSING_VALUE"],
    ["an empty name", { key: "" }, "MISSING_KEY"],
    ["a name with a dash", { key: "A-B" }, "KEY_INVALID_CHARACTERS"],
    ["a name that begins with a digit", { key: "1A" }, "KEY_INVALID_CHARACTERS"],
    ["a name of 257 characters", { key: "A".repeat(257) }, "KEY_INVALID_LENGTH"],
    ["a reserved name", { key: "TZ" }, "RESERVED_ENV_VARIABLE"],
    ["a name of the platform", { key: "VERCEL_URL" }, "RESERVED_ENV_VARIABLE"],
    ["a comment of 501 characters", { comment: "c".repeat(501) }, "bad_request"],
    ["sensitive for development", { type: "sensitive", target: ["development"] }, "BAD_REQUEST"],
    ["a branch for production", { gitBranch: "main" }, "BAD_REQUEST"],
    ["more than 64 KB", { value: "v".repeat(65_537) }, "VALUE_INVALID_LENGTH"],
    ["64 KB and a name", { value: "v".repeat(65_535) }, "VALUE_INVALID_LENGTH"],
  ])("refuses %s", async (_what, changed, code) => {
    expect(await create(changed)).toMatchObject(refused(400, code));
    expect(double.secrets(account.id)).toEqual([]);
  });

  it("limits the bytes and the number of all variables of an environment", async () => {
    account = double.open({ maxVariables: 2 });
    await create({ key: "A", value: "v".repeat(40_000) });
    expect(await create({ key: "B", value: "v".repeat(30_000) })).toMatchObject(refused(400, "VALUE_INVALID_LENGTH"));
    expect(await create({ key: "B", value: "v".repeat(30_000), target: ["preview"] })).toMatchObject({ status: 201 });
    await create({ key: "C" });
    expect(await create({ key: "D" })).toMatchObject(refused(400, "MAX_ENVS_EXCEEDED"));
    const other = await created({ key: "D", target: ["preview"] });
    expect(await edit(other, { target: ["production"] })).toMatchObject(refused(400, "MAX_ENVS_EXCEEDED"));
  });

  it("apply to updates; the name and type of a sensitive variable are immutable", async () => {
    const id = await created({ type: "sensitive" });
    for (const change of [{ key: "DB" }, { type: "sensitive" }, { type: "encrypted" }, { target: ["development"] }]) {
      expect(await edit(id, change)).toMatchObject(refused(400, "BAD_REQUEST"));
    }
    expect(await edit(id, {})).toMatchObject(refused(400, "BAD_REQUEST"));
    expect(await edit(id, { updatedAt: 1 })).toMatchObject(refused(400, "bad_request"));
    expect(await edit(id, { value: "two", comment: "c" })).toMatchObject({ status: 200, body: { id } });
    expect(await edit("nobody", { value: "two" })).toMatchObject(refused(404, "not_found"));
  });
});

describe("collisions", () => {
  it("refuses the same name in an environment twice, but not in a branch or another environment", async () => {
    const id = await created({ target: ["production", "preview"] });
    expect(await create()).toMatchObject({
      status: 403,
      body: { error: { code: "ENV_ALREADY_EXISTS", envVarId: id } },
    });
    expect(await create({ target: ["preview"], gitBranch: "main" })).toMatchObject({ status: 201 });
    const other = await created({ target: ["development"] });
    expect(await edit(other, { target: ["preview"] })).toMatchObject(refused(403, "ENV_ALREADY_EXISTS"));
  });

  it("with upsert updates a variable with equal environments in place, and no other", async () => {
    const id = await created();
    const changed = await create({ value: "two" }, "?upsert=true");
    expect(changed).toMatchObject({ status: 201, body: { created: { id }, failed: [] } });
    expect(double.secrets(account.id)).toMatchObject([{ id, value: "two" }]);
    const wider = await create({ target: ["production", "preview"] }, "?upsert=true");
    expect(wider).toMatchObject(refused(400, "ENV_CONFLICT"));
  });

  it("with upsert in overlap mode rewrites overlapping variables", async () => {
    account = double.open({ upsertOverlap: "take" });
    const id = await created({ target: ["production", "preview"] });
    expect(await create({ value: "two" }, "?upsert=true")).toMatchObject({ status: 201 });
    expect(double.secrets(account.id)).toMatchObject([{ id, value: "two", target: ["production"] }]);
  });

  it("of several variables are reported as created and failed, with status 201", async () => {
    await create();
    const several = await send("POST", path("v10"), [variable(), variable({ key: "OTHER" })]);
    expect(several).toMatchObject({
      status: 201,
      body: { created: [{ key: "OTHER" }], failed: [{ error: { code: "ENV_CONFLICT", key: "DB" } }] },
    });
    account = double.open({ conflictsAs: "failed" });
    await create();
    const alone = await create();
    expect(alone).toMatchObject({ status: 201, body: { failed: [{ error: { value: "secret-value" } }] } });
    expect(alone.body).not.toHaveProperty("created");
  });
});

describe("reading", () => {
  it("shows a value only where it is readable", async () => {
    const ids = { sensitive: "", plain: "", encrypted: "" };
    for (const type of ["sensitive", "plain", "encrypted"] as const) ids[type] = await created({ key: type, type });
    const values = async (query: string) =>
      (await send("GET", path("v10", query))).body.envs.map((one: { value: string }) => one.value);
    expect(await values("")).toEqual([`ciphertext:${ids.encrypted}`, "secret-value", ""]);
    expect(await values("?decrypt=true")).toEqual(["secret-value", "secret-value", ""]);
    expect(await send("GET", path("v1", `/${ids.sensitive}`))).toMatchObject({ body: { value: "" } });
  });

  it("is paged, or complete with the number of hidden variables", async () => {
    double.addToken({ token: "half", hidesProduction: true }, account.id);
    await create();
    const hidden = await send("GET", path("v10"), undefined, { token: "half" });
    expect(hidden.body).toEqual({ envs: [], hiddenProductionEnvCount: 1 });
    account = double.open({ pageSize: 1 });
    for (const key of ["A", "B"]) await create({ key });
    const first = await send("GET", path("v10"));
    expect(first.body).toMatchObject({ envs: [{ key: "B" }], pagination: { count: 1 } });
    const second = await send("GET", path("v10", `?until=${first.body.pagination.next}`));
    expect(second.body).toMatchObject({ envs: [{ key: "A" }], pagination: { next: null } });
  });

  it("returns 404 after a deletion", async () => {
    const id = await created();
    expect(await send("DELETE", path("v9", `/${id}`))).toMatchObject({ status: 200, body: { id } });
    expect(await send("DELETE", path("v9", `/${id}`))).toMatchObject(refused(404, "not_found"));
  });
});

it("limits each operation per minute, and returns the time of the reset", async () => {
  account = double.open({ perMinute: 1 });
  expect((await create()).headers.get("x-ratelimit-remaining")).toBe("0");
  const limited = await create({ key: "OTHER" });
  const reset = (now + 60_000) / 1000;
  expect(limited).toMatchObject({ status: 429, body: { error: { code: "rate_limited", limit: { reset, total: 1 } } } });
  expect(limited.headers.get("x-ratelimit-reset")).toBe(String(reset));
  expect(double.secrets(account.id)).toHaveLength(1);
  expect(await send("GET", path("v10"))).toMatchObject({ status: 200 });
  now += 60_000;
  expect(await create({ key: "OTHER" })).toMatchObject({ status: 201 });
});

it("is controlled over HTTP: accounts, faults, calls, secrets, requests", async () => {
  const control = async (method: string, name: string, body?: unknown) => {
    const response = await fetch(`${double.url}/_double/${name}`, { method, body: body ? JSON.stringify(body) : null });
    return response.json();
  };
  account = (await control("POST", "accounts", { perMinute: 5 })) as OpenedAccount;
  const of = `?account=${account.id}`;
  await control("POST", `faults${of}`, {
    fault: "error",
    code: "FORBIDDEN",
    status: 403,
    operation: "CreateVariables",
  });
  expect(await create()).toMatchObject(refused(403, "FORBIDDEN"));
  await control("POST", `faults${of}`, { fault: "apply-then-drop", operation: "CreateVariables" });
  await expect(create()).rejects.toThrow();
  await control("POST", `faults${of}`, { fault: "drop" });
  await expect(create({ key: "OTHER" })).rejects.toThrow();
  const [{ id } = { id: "" }] = double.secrets(account.id);
  await control("POST", `call${of}`, { operation: "EditVariable", parameters: { id, body: { value: "theirs" } } });
  expect(await control("GET", `secrets${of}`)).toMatchObject([{ key: "DB", value: "theirs" }]);
  await control("POST", `tokens${of}`, { token: `second-${account.id}` });
  expect(await create({ key: "B" }, "", { token: `second-${account.id}` })).toMatchObject({ status: 201 });
  const requests = await control("GET", `requests${of}`);
  expect(requests).toMatchObject([{ status: 403 }, { status: 201 }, { status: null }, { status: 201 }]);
  expect(JSON.stringify(requests)).not.toContain("secret-value");
  expect(await control("GET", "secrets?account=nobody")).toMatchObject({ error: { code: "no_account" } });
});
