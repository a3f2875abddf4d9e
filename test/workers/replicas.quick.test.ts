import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ReadReplica } from "../../src/worker.ts";
import { accessObject, holderOf, issue, path, policies } from "./access.ts";
import { del, mountKv, patch, put, send } from "./client.ts";
import { clock } from "./clock.ts";
import { beforeInvalidation, PLACES, type Place, questions, readAt, sendAt, valueAt } from "./replicas.ts";

clock.moves = true;

/* Readers at two places see each change at once, though a replica at each answers from memory. */

const SECRET = "/v1/kv/data/app";
/** Lets leases go on for as long as a test takes, however busy the machine is. */
const freezeTime = () => void vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
afterEach(() => void vi.useRealTimers());

const both = Object.keys(PLACES) as Place[];

/** Reads at both places until the replicas answer from memory. @returns the first answer */
async function warm(target = SECRET, token = "root") {
  const asked = questions();
  for (;;) {
    const [answer] = await Promise.all(both.map((place) => readAt(place, target, token)));
    if (asked.take().every((count) => count === 0)) return answer;
  }
}

/** The state of a secret as each place sees it now: its value, or the status of a refusal. */
const seen = (target = SECRET, token = "root") => Promise.all(both.map((place) => valueAt(place, target, token)));

beforeEach(async () => {
  await mountKv();
  await put(SECRET, { data: { v: 1 } });
});

it("a warm read is answered by the replica of its place alone", async () => {
  freezeTime();
  await readAt("weur", SECRET);
  const asked = questions();
  for (let time = 0; time < 5; time++) expect((await readAt("weur", SECRET)).status).toBe(200);
  expect(asked.take()).toEqual([0, 0, 0]);
  await readAt("sam", SECRET);
  expect(asked.take()).toEqual([1, 1, 0]);
});

it("logins and new tokens of others leave the answers of replicas as they are", async () => {
  await put("/v1/sys/auth/userpass", { type: "userpass" });
  for (const name of ["ann", "bob"]) {
    await put(`/v1/auth/userpass/users/${name}`, { password: "correct horse", token_policies: "reader" });
  }
  const logIn = (name: string) =>
    send("POST", `/v1/auth/userpass/login/${name}`, { password: "correct horse" }, { token: null });
  await logIn("ann");
  freezeTime();
  await warm();
  const asked = questions();
  for (const name of ["ann", "bob"]) expect((await logIn(name)).status).toBe(200);
  await issue({ policies: ["reader"] });
  asked.take();
  expect(await seen()).toEqual([1, 1]);
  expect(asked.take()).toEqual([0, 0, 0]);
});

it.each([
  ["a policy", () => put("/v1/sys/policies/acl/p", { policy: path("a", "read") })],
  ["a policy of the cluster API", () => put("/v1/acl/policy/p", { Rules: 'node { policy = "read" }' })],
  ["a namespace", () => put("/v1/sys/namespaces/n", {})],
])("a write of %s is judged by the owner, and leaves a replica nothing to forget", async (_, write) => {
  // The first one recalls what the replica has from before.
  await write();
  const calls = (["authorizeAsText", "invalidate"] as const).map((method) => vi.spyOn(ReadReplica.prototype, method));
  for (let time = 0; time < 3; time++) expect((await write()).status).toBeLessThan(300);
  expect(calls.map(({ mock }) => mock.calls.length)).toEqual([0, 0]);
  vi.restoreAllMocks();
});

it("reads of one secret that come together are one question", async () => {
  freezeTime();
  const asked = questions();
  const answers = await Promise.all(Array.from({ length: 40 }, () => readAt("weur", SECRET)));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(asked.take()).toEqual([1, 1, 0]);
});

describe("a change through a replica", () => {
  const OLD = "/v1/one/app";

  it.each<[string, string, string, object | undefined, unknown]>([
    ["a write", "PUT", SECRET, { data: { v: 7 } }, 7],
    ["a patch", "PATCH", SECRET, { data: { v: 7 } }, 7],
    ["a deletion", "DELETE", SECRET, undefined, 404],
    ["a write in a mount of version 1", "PUT", OLD, { v: 7 }, 7],
    ["a deletion in a mount of version 1", "DELETE", OLD, undefined, 404],
  ])("is announced to the other places alone: %s", async (_name, method, target, body, expected) => {
    await put("/v1/sys/mounts/one", { type: "kv" });
    await put(OLD, { v: 1 });
    const told: Place[] = [];
    freezeTime();
    await warm(target);
    beforeInvalidation({ weur: () => void told.push("weur"), sam: () => void told.push("sam") });
    expect((await sendAt("weur", method, target, "root", body)).status).toBeLessThan(300);
    expect(told).toEqual(["sam"]);
    expect(await seen(target)).toEqual([expected, expected]);
  });

  it("that is refused leaves the state as it was", async () => {
    freezeTime();
    await warm();
    const refused = await sendAt("weur", "PUT", SECRET, "root", { data: { v: 7 }, options: { cas: 9 } });
    expect(refused.status).toBe(400);
    expect(await seen()).toEqual([1, 1]);
  });

  it("by a caller who may only read it takes nothing from the replica", async () => {
    freezeTime();
    const reader = await holderOf(path("kv/data/app", "read"));
    await warm(SECRET, reader.client_token);
    const asked = questions();
    expect((await sendAt("weur", "PUT", SECRET, reader.client_token, { data: { v: 7 } })).status).toBe(403);
    expect(await seen(SECRET, reader.client_token)).toEqual([1, 1]);
    expect(asked.take()[1]).toBe(0);
  });
});

describe("the next read at every place sees", () => {
  it("each of many writes", async () => {
    for (let version = 2; version < 12; version++) {
      await warm();
      expect((await put(SECRET, { data: { v: version } })).status).toBe(200);
      expect(await seen()).toEqual([version, version]);
    }
  });

  it.each<[string, () => Promise<{ status: number }>, unknown]>([
    ["a patch", () => patch(SECRET, { data: { v: 7 } }), 7],
    ["a deletion", () => del(SECRET), 404],
    ["a deletion of the version", () => put("/v1/kv/delete/app", { versions: [1] }), 404],
    ["a destruction", () => put("/v1/kv/destroy/app", { versions: [1] }), 404],
    ["a deletion with its metadata", () => del("/v1/kv/metadata/app"), 404],
    ["the end of the mount", () => del("/v1/sys/mounts/kv"), 404],
    ["a move of the mount", () => put("/v1/sys/remount", { from: "kv", to: "other" }), 404],
  ])("%s", async (_name, change, expected) => {
    await warm();
    expect((await change()).status).toBeLessThan(300);
    expect(await seen()).toEqual([expected, expected]);
  });

  it("a deletion undone", async () => {
    await del(SECRET);
    await warm();
    await put("/v1/kv/undelete/app", { versions: [1] });
    expect(await seen()).toEqual([1, 1]);
  });

  it("changed metadata", async () => {
    await warm();
    await put("/v1/kv/metadata/app", { custom_metadata: { owner: "me" } });
    for (const place of both) {
      expect((await readAt(place, SECRET)).body.data.metadata.custom_metadata).toEqual({ owner: "me" });
    }
  });

  it("a secret where none was", async () => {
    await warm("/v1/kv/data/later");
    expect(await seen("/v1/kv/data/later")).toEqual([404, 404]);
    await put("/v1/kv/data/later", { data: { v: 5 } });
    expect(await seen("/v1/kv/data/later")).toEqual([5, 5]);
  });

  it("an old version as it was, and its destruction", async () => {
    await put(SECRET, { data: { v: 2 } });
    await warm(`${SECRET}?version=1`);
    await put(SECRET, { data: { v: 3 } });
    expect(await seen(`${SECRET}?version=1`)).toEqual([1, 1]);
    await put("/v1/kv/destroy/app", { versions: [1] });
    expect(await seen(`${SECRET}?version=1`)).toEqual([404, 404]);
  });

  it("a write and a deletion in a mount of version 1", async () => {
    await put("/v1/sys/mounts/one", { type: "kv" });
    await put("/v1/one/app", { v: 1 });
    await warm("/v1/one/app");
    await put("/v1/one/app", { v: 2 });
    expect(await seen("/v1/one/app")).toEqual([2, 2]);
    await del("/v1/one/app");
    expect(await seen("/v1/one/app")).toEqual([404, 404]);
  });

  it("a later mount at the path of an ended one", async () => {
    await warm();
    await del("/v1/sys/mounts/kv");
    await mountKv();
    expect(await seen()).toEqual([404, 404]);
    await put(SECRET, { data: { v: 9 } });
    expect(await seen()).toEqual([9, 9]);
  });

  it("the revocation of its token, by itself, by accessor, and with its parent", async () => {
    const parent = await holderOf(`${path("kv/data/*", "read")}${path("auth/token/*", "update")}`);
    const child = (await send("POST", "/v1/auth/token/create", {}, { token: parent.client_token })).body.auth;
    const batch = (await send("POST", "/v1/auth/token/create", { type: "batch" }, { token: parent.client_token })).body
      .auth;
    const other = await holderOf(`${path("kv/data/*", "read")}${path("auth/token/*", "update")}`);
    const alone = await holderOf(path("kv/data/*", "read"));
    const tokens = [parent, child, batch, other, alone].map(({ client_token: token }) => token);
    for (const token of tokens) expect((await warm(SECRET, token))?.status).toBe(200);
    await put("/v1/auth/token/revoke-self", {}, { token: other.client_token });
    await put("/v1/auth/token/revoke-accessor", { accessor: alone.accessor });
    await put("/v1/auth/token/revoke", { token: parent.client_token });
    for (const token of tokens) expect(await seen(SECRET, token), token).toEqual([403, 403]);
  });

  it("the revocation of more than 64 tokens at once", async () => {
    const parent = await holderOf(`${path("kv/data/*", "read")}${path("auth/token/*", "update")}`);
    const children: string[] = [];
    for (let n = 0; n < 65; n++) {
      children.push(
        (await send("POST", "/v1/auth/token/create", {}, { token: parent.client_token })).body.auth.client_token,
      );
    }
    const ends = [children.at(0) ?? "", children.at(-1) ?? ""];
    for (const token of ends) expect((await warm(SECRET, token))?.status).toBe(200);
    await put("/v1/auth/token/revoke", { token: parent.client_token });
    for (const token of ends) expect(await seen(SECRET, token)).toEqual([403, 403]);
  });

  it("the end of a parent that expires, in its child and batch token", async () => {
    const rules = `${path("kv/data/*", "read")}${path("auth/token/*", "update")}`;
    const parent = await holderOf(rules, { ttl: "1m" });
    const child = async (body: object) =>
      (await send("POST", "/v1/auth/token/create", body, { token: parent.client_token })).body.auth.client_token;
    const tokens = [await child({ ttl: "1h" }), await child({ type: "batch", ttl: "1h" })];
    freezeTime();
    for (const token of tokens) expect((await warm(SECRET, token))?.status).toBe(200);
    vi.setSystemTime(Date.now() + 61_000);
    // At once, before the alarm that deletes the expired.
    for (const token of tokens) expect(await seen(SECRET, token)).toEqual([403, 403]);
    await runDurableObjectAlarm(accessObject());
    for (const token of tokens) expect(await seen(SECRET, token)).toEqual([403, 403]);
  });

  it("a changed policy, and its end", async () => {
    await policies({ reader: path("kv/data/*", "read") });
    const { client_token: token } = await issue({ policies: ["reader"] });
    await warm(SECRET, token);
    await policies({ reader: path("kv/data/other", "read") });
    expect(await seen(SECRET, token)).toEqual([403, 403]);
    await policies({ reader: path("kv/data/*", "read") });
    expect(await seen(SECRET, token)).toEqual([1, 1]);
    await del("/v1/sys/policies/acl/reader");
    expect(await seen(SECRET, token)).toEqual([403, 403]);
  });

  it("a disabled entity", async () => {
    await policies({ reader: path("kv/data/*", "read") });
    await put("/v1/sys/auth/userpass", { type: "userpass" });
    await put("/v1/auth/userpass/users/ann", { password: "correct horse", token_policies: "reader" });
    const login = await send("POST", "/v1/auth/userpass/login/ann", { password: "correct horse" }, { token: null });
    const { client_token: token, entity_id: id } = login.body.auth;
    await warm(SECRET, token);
    await put(`/v1/identity/entity/id/${id}`, { disabled: true });
    expect(await seen(SECRET, token)).toEqual([403, 403]);
  });

  it("a token of a chosen text that was unknown before", async () => {
    await warm(SECRET, "my-own-token");
    expect(await seen(SECRET, "my-own-token")).toEqual([403, 403]);
    expect((await send("POST", "/v1/auth/token/create", { id: "my-own-token", policies: ["root"] })).status).toBe(200);
    expect(await seen(SECRET, "my-own-token")).toEqual([1, 1]);
  });

  it("an uploaded token of the cluster API that was unknown before, also after its deletion", async () => {
    await policies({ reader: path("kv/data/app", "read") });
    const [AccessorID, SecretID] = [crypto.randomUUID(), crypto.randomUUID()];
    const token = { AccessorID, SecretID, Type: "client", Policies: ["reader"] };
    for (let time = 0; time < 2; time++) {
      await warm(SECRET, SecretID);
      expect(await seen(SECRET, SecretID)).toEqual([403, 403]);
      expect((await put("/v1/acl/token", token)).status).toBe(200);
      expect(await seen(SECRET, SecretID)).toEqual([1, 1]);
      expect((await del(`/v1/acl/token/${AccessorID}`)).status).toBe(200);
    }
  });
});

describe("X-Sallyport-Place", () => {
  const asking = (place: string) => send("GET", SECRET, undefined, { headers: { "X-Sallyport-Place": place } });

  it("has the replica of each documented place answer, and name itself", async () => {
    const { components } = (await send("GET", "/v1/openapi.json")).body;
    const places: string[] = components.parameters["X-Sallyport-Place"].schema.enum;
    expect(places.length).toBeGreaterThan(2);
    for (const place of places) {
      const { status, headers } = await asking(place);
      expect([status, headers.get("X-Sallyport-Replica")]).toEqual([200, `${place}-0`]);
    }
    expect((await readAt("sam", SECRET)).headers.get("X-Sallyport-Replica")).toBeNull();
  });

  it("returns 400 for a place that the platform does not have", async () => {
    const { status, text } = await asking("moon");
    expect([status, text]).toEqual([400, expect.stringContaining("X-Sallyport-Place: unknown place")]);
  });
});
