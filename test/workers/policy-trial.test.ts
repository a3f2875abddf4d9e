import { beforeEach, describe, expect, it } from "vitest";
import { path, policies } from "./access.ts";
import { get, put } from "./client.ts";

const URL = "/v1/sys/policies/test";
const READ = path("kv/data/app/*", "read");

const capabilitiesOf = async (body: object, token?: string) => {
  const answer = await put(URL, body, token === undefined ? {} : { token });
  expect([answer.status, answer.body.errors]).toEqual([200, undefined]);
  return answer.body.data.capabilities;
};
const tokenWith = async (...names: string[]) =>
  (await put("/v1/auth/token/create", { policies: names, no_default_policy: true })).body.auth as {
    client_token: string;
    accessor: string;
  };

beforeEach(() => policies({ app: READ, other: path("kv/data/other", "list") }));

describe("POST sys/policies/test", () => {
  it("returns the capabilities before and after", async () => {
    const { accessor } = await tokenWith("app", "other");
    const policy = path("kv/data/app/*", "create", "update");
    const paths = ["kv/data/app/db", "/kv/data/other"];
    const nothing = { before: ["deny"], after: ["deny"] };
    // Alone, as a new policy and in the place of a stored one.
    expect(await capabilitiesOf({ policy, paths })).toEqual({
      "kv/data/app/db": { before: ["deny"], after: ["create", "update"] },
      "kv/data/other": nothing,
    });
    expect(await capabilitiesOf({ policy, paths, name: "APP" })).toEqual({
      "kv/data/app/db": { before: ["read"], after: ["create", "update"] },
      "kv/data/other": nothing,
    });
    // For a token, beside its policies and in the place of one.
    const other = { before: ["list"], after: ["list"] };
    expect(await capabilitiesOf({ policy, paths, accessor })).toEqual({
      "kv/data/app/db": { before: ["read"], after: ["create", "read", "update"] },
      "kv/data/other": other,
    });
    expect(await capabilitiesOf({ policy, paths, accessor, name: "app" })).toEqual({
      "kv/data/app/db": { before: ["read"], after: ["create", "update"] },
      "kv/data/other": other,
    });
  });

  it("changes nothing, and the next write of the text has the effect that it shows", async () => {
    const { accessor, client_token: token } = await tokenWith("app");
    const policy = path("kv/data/app/db", "deny");
    const asked = { policy, paths: ["kv/data/app/db"], accessor, name: "app" };
    const { "kv/data/app/db": found } = await capabilitiesOf(asked);
    const { policy: stored } = (await get("/v1/sys/policies/acl/app")).body.data;
    const own = async () =>
      (await put("/v1/sys/capabilities", { token, paths: asked.paths })).body.data["kv/data/app/db"];
    expect([stored, await own()]).toEqual([READ, found.before]);
    await put("/v1/sys/policies/acl/app", { policy });
    expect(await own()).toEqual(found.after);
  });

  it("shows root for a token of the root policy", async () => {
    const { accessor } = await tokenWith("root");
    const tried = await capabilitiesOf({ policy: READ, paths: ["kv/data/x"], accessor });
    expect(tried).toEqual({ "kv/data/x": { before: ["root"], after: ["root"] } });
  });

  it("refuses what a write refuses, and unusual tokens", async () => {
    await put("/v1/sys/namespaces/below", {});
    const below = (
      await put("/v1/auth/token/create", { policies: ["default"] }, { headers: { "X-Orch-Namespace": "below" } })
    ).body.auth;
    for (const [body, status, message] of [
      [{ policy: 'path "x" { capabilities = ["fly"] }', paths: ["x"] }, 400, /fly/],
      [{ policy: "# none", paths: ["x"] }, 400, /holds no rule/],
      [{ policy: " ", paths: ["x"] }, 400, /policy: must be supplied/],
      [{ policy: READ, paths: [] }, 400, /paths: must be supplied/],
      [{ policy: READ, paths: Array.from({ length: 1_001 }, () => "x") }, 400, /at most 1000/],
      [{ policy: READ, paths: ["x"], name: "root" }, 400, /cannot update "root"/],
      [{ policy: READ, paths: ["x"], accessor: "none" }, 400, /invalid accessor/],
      [{ policy: READ, paths: ["x"], accessor: below.accessor }, 400, /another namespace/],
    ] as const) {
      const answer = await put(URL, body);
      expect([answer.status, String(answer.body.errors), body]).toEqual([status, expect.stringMatching(message), body]);
    }
  });

  it("needs further rights for a stored policy and for another token", async () => {
    const { accessor } = await tokenWith("app");
    const test = path("sys/policies/test", "update");
    await policies({
      test,
      reads: path("sys/policies/acl/app", "read"),
      asks: path("sys/capabilities-accessor", "update"),
    });
    const body = { policy: READ, paths: ["kv/data/app/db"] };
    for (const [names, more, status] of [
      [["app"], {}, 403],
      [["test"], {}, 200],
      [["test"], { name: "app" }, 403],
      [["test", "reads"], { name: "app" }, 200],
      [["test", "reads"], { name: "other" }, 403],
      [["test"], { accessor }, 403],
      [["test", "asks"], { accessor }, 200],
    ] as const) {
      const { client_token: token } = await tokenWith(...names);
      expect([names, more, (await put(URL, { ...body, ...more }, { token })).status]).toEqual([names, more, status]);
    }
    const own = await tokenWith("test");
    const tried = await capabilitiesOf({ ...body, accessor: own.accessor }, own.client_token);
    expect(tried["kv/data/app/db"]).toEqual({ before: ["deny"], after: ["read"] });
  });
});
