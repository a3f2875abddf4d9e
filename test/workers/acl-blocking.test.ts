import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { accessObject } from "./access.ts";
import { type Answer, del, get, put } from "./client.ts";
import { clock } from "./clock.ts";

clock.moves = true;

const RULES = { Rules: 'node { policy = "read" }' };
const indexOf = (answer: Answer): number => Number(answer.headers.get("x-nomad-index"));
const AUTH_METHOD = {
  Name: "ci",
  Type: "JWT",
  TokenLocality: "local",
  MaxTokenTTL: "1h",
  Config: { JWKSURL: "https://issuer.example/keys", BoundAudiences: ["us"] },
};

const names =
  (wanted: string) =>
  (list: readonly { readonly Name: string }[]): boolean =>
    list.some(({ Name }) => Name === wanted);

/** A read that waits beyond its own index, and whether it has been answered. */
async function waiting(path: string, options?: Parameters<typeof get>[1], since?: number) {
  const before = await get(path, options);
  const index = since ?? indexOf(before);
  expect(index).toBeGreaterThan(0);
  const state = { before, index, isDone: false, answer: get(`${path}?index=${index}&wait=60s`, options) };
  void state.answer.then(() => {
    state.isDone = true;
  });
  return state;
}

let client: Answer["body"];

beforeEach(async () => {
  await put("/v1/acl/policy/ops", RULES);
  client = (await put("/v1/acl/token", { Name: "a", Type: "client", Policies: ["ops"] })).body;
});

afterEach(() => {
  vi.useRealTimers();
});

describe("a blocking query of", () => {
  it.each<[string, () => string, () => Promise<Answer>, (body: Answer["body"]) => unknown, unknown]>([
    ["policies", () => "policies", () => put("/v1/acl/policy/new", RULES), names("new"), true],
    ["policies, for a deletion", () => "policies", () => del("/v1/acl/policy/ops"), names("ops"), false],
    [
      "a policy",
      () => "policy/ops",
      () => put("/v1/acl/policy/ops", { ...RULES, Description: "new" }),
      ({ Description }) => Description,
      "new",
    ],
    ["tokens", () => "tokens", () => put("/v1/acl/token", { Name: "b", Type: "management" }), names("b"), true],
    [
      "a token",
      () => `token/${client.AccessorID}`,
      () => put(`/v1/acl/token/${client.AccessorID}`, { ...client, Name: "renamed" }),
      ({ Name }) => Name,
      "renamed",
    ],
    [
      "roles",
      () => "roles",
      () => put("/v1/acl/role", { Name: "r", Policies: [{ Name: "ops" }] }),
      (list) => list.length,
      1,
    ],
    [
      "binding rules",
      () => "binding-rules",
      async () => {
        await put("/v1/acl/auth-method", AUTH_METHOD);
        return put("/v1/acl/binding-rule", { AuthMethod: "ci", BindType: "policy", BindName: "ops" });
      },
      (list) => list.length,
      1,
    ],
  ])("%s is answered by the change, with a higher index", async (_what, path, change, seen, wanted) => {
    let held = await waiting(`/v1/acl/${path()}`);
    expect((await change()).status).toBe(200);
    // A list may be answered by another change of these objects first.
    await vi.waitFor(async () => {
      const answer = await held.answer;
      expect(indexOf(answer)).toBeGreaterThan(held.index);
      if (seen(answer.body) !== wanted) held = await waiting(`/v1/acl/${path()}`, undefined, indexOf(answer));
      expect(seen(answer.body)).toEqual(wanted);
    });
  });

  it("what does not exist yet waits for it", async () => {
    const { index } = await waiting("/v1/acl/policies");
    const answer = get(`/v1/acl/policy/later?index=${index}&wait=60s`);
    await put("/v1/acl/policy/later", RULES);
    expect([(await answer).status, (await answer).body.Name]).toEqual([200, "later"]);
  });

  it("an object that does not change is answered when its wait is over", async () => {
    const before = await get("/v1/acl/policy/ops");
    const answer = await get(`/v1/acl/policy/ops?index=${indexOf(before)}&wait=100ms`);
    expect([answer.status, indexOf(answer)]).toEqual([200, indexOf(before)]);
  });

  it("tokens ends with 403 when the caller's token is revoked meanwhile", async () => {
    const boss = (await put("/v1/acl/token", { Name: "boss", Type: "management" })).body;
    const held = await waiting("/v1/acl/tokens", { token: boss.SecretID });
    expect((await del(`/v1/acl/token/${boss.AccessorID}`)).status).toBe(200);
    const answer = await held.answer;
    expect([answer.status, answer.text]).toEqual([403, "Permission denied"]);
  });

  it("needs the right before it waits", async () => {
    const refused = await get("/v1/acl/tokens?index=99999&wait=60s", { token: client.SecretID });
    expect(refused.status).toBe(403);
  });
});

it("the index of a list grows with a deletion", async () => {
  const before = indexOf(await get("/v1/acl/policies"));
  await del("/v1/acl/policy/ops");
  const after = indexOf(await get("/v1/acl/policies"));
  expect(after).toBeGreaterThan(before);
  expect(await accessObject().clusterAclIndex()).toBe(after);
});
