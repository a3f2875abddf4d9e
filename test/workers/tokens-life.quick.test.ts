import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { OneTimeTokens } from "../../src/access/tokens/one-time-tokens.ts";
import { TokenStore } from "../../src/access/tokens/token-store.ts";
import { EventPublisher } from "../../src/publishing/event-publisher.ts";
import { itRows } from "../support/rows.ts";
import { accessObject, dump, eventsOf, holderOf, issue, path } from "./access.ts";
import { get, list, send } from "./client.ts";
import { clock } from "./clock.ts";

clock.moves = true;

const self = "/v1/auth/token/lookup-self";
const post = (route: string, body: object, token?: string) =>
  send("POST", `/v1/auth/token/${route}`, body, token === undefined ? {} : { token });
const alive = async (token: string) => (await get(self, { token })).status === 200;
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Sets the clock of the objects and stops it; alarms use the real clock. */
const later = (seconds: number) => vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + seconds * 1000 });

describe("looking up a token", () => {
  it("returns every field with its type", async () => {
    later(0);
    const { client_token, accessor } = await issue({ policies: ["p"], ttl: "1h", meta: { a: "b" }, display_name: "x" });
    const { body } = await get(self, { token: client_token });
    expect(body.mount_type).toBe("token");
    expect(body.data).toEqual({
      accessor,
      creation_time: expect.any(Number),
      creation_ttl: 3600,
      display_name: "token-x",
      entity_id: "",
      expire_time: expect.stringMatching(RFC3339),
      explicit_max_ttl: 0,
      id: client_token,
      issue_time: expect.stringMatching(RFC3339),
      meta: { a: "b" },
      namespace_path: "",
      num_uses: 0,
      orphan: false,
      path: "auth/token/create",
      policies: ["default", "p"],
      renewable: true,
      ttl: 3600,
      type: "service",
    });
    expect(Date.parse(body.data.expire_time) - Date.parse(body.data.issue_time)).toBe(3_600_000);
  });

  it("returns no expiry for a root token", async () => {
    const { data } = (await get(self)).body;
    expect(data).toMatchObject({ expire_time: null, ttl: 0, meta: null, policies: ["root"], orphan: true, id: "root" });
  });

  it("returns the period and the last renewal, if any", async () => {
    const { client_token } = await issue({ policies: ["default"], period: "1h" });
    await post("renew-self", {}, client_token);
    const { data } = (await get(self, { token: client_token })).body;
    expect(data).toMatchObject({ period: 3600, last_renewal: expect.stringMatching(RFC3339) });
    expect(data.last_renewal_time).toBe(Math.floor(Date.parse(data.last_renewal) / 1000));
  });

  it("finds another token by its text, and by its accessor without the text", async () => {
    const { client_token, accessor } = await issue({});
    expect((await post("lookup", { token: client_token })).body.data).toMatchObject({ accessor, id: client_token });
    expect((await post("lookup-accessor", { accessor })).body.data).toMatchObject({ accessor, id: "" });
  });

  itRows([
    ["lookup", { token: "nobody" }, 403, "bad token"],
    ["lookup-accessor", { accessor: "nobody" }, 400, "invalid accessor"],
    ["renew", { token: "nobody" }, 400, "token not found"],
    ["renew-accessor", { accessor: "nobody" }, 400, "invalid accessor"],
    ["revoke-accessor", { accessor: "nobody" }, 400, "invalid accessor"],
    ["renew", {}, 400, "token: required"],
    ["lookup-accessor", { accessor: "" }, 400, "accessor: required"],
  ])("returns for %s %j: %i %s", async (route, body, status, text) => {
    const answer = await post(route, body);
    expect([answer.status, answer.body]).toEqual([status, { errors: [text] }]);
  });

  it("requires sudo to list accessors", async () => {
    const { accessor } = await issue({});
    expect((await list("/v1/auth/token/accessors")).body.data.keys).toContain(accessor);
    const plain = await holderOf(path("auth/token/accessors", "list"));
    expect((await list("/v1/auth/token/accessors", { token: plain.client_token })).status).toBe(403);
    const strong = await holderOf(path("auth/token/accessors", "list", "sudo"));
    expect((await list("/v1/auth/token/accessors", { token: strong.client_token })).status).toBe(200);
  });
});

describe("renewing a token", () => {
  it("returns the new remaining TTL, by default the token's own TTL", async () => {
    later(0);
    const { client_token } = await issue({ policies: ["default"], ttl: "1h" });
    later(1800);
    expect((await get(self, { token: client_token })).body.data.ttl).toBe(1800);
    const renewed = await post("renew-self", {}, client_token);
    expect(renewed.body.auth).toMatchObject({ client_token, lease_duration: 3600, renewable: true });
    expect((await get(self, { token: client_token })).body.data).toMatchObject({ ttl: 3600, creation_ttl: 3600 });
  });

  it("accepts an increment as a number or a text", async () => {
    const { client_token, accessor } = await issue({ policies: ["default"], ttl: "1h" });
    expect((await post("renew", { token: client_token, increment: 7200 })).body.auth.lease_duration).toBe(7200);
    const renewed = await post("renew-accessor", { accessor, increment: "3h" });
    expect(renewed.body.auth).toMatchObject({ client_token: "", lease_duration: 10_800 });
  });

  it("stops at the explicit maximum TTL from creation, with a warning", async () => {
    const { client_token } = await issue({ policies: ["default"], ttl: "1h", explicit_max_ttl: "90m" });
    later(3000);
    const renewed = await post("renew-self", { increment: "1h" }, client_token);
    expect(renewed.body.auth.lease_duration).toBe(5400 - 3000);
    expect(renewed.body.warnings).toEqual([
      'TTL of "1h0m0s" exceeded the effective max_ttl of "40m0s"; TTL value is capped accordingly',
    ]);
  });

  it("stops at the system's maximum TTL", async () => {
    const { client_token } = await issue({ policies: ["default"], ttl: "700h" });
    later(600 * 3600);
    expect((await post("renew-self", {}, client_token)).body.auth.lease_duration).toBe(168 * 3600);
  });

  it("resets a periodic token to its period, beyond the system's maximum and for any increment", async () => {
    const { client_token } = await issue({ policies: ["default"], period: "700h" });
    later(600 * 3600);
    const renewed = await post("renew-self", { increment: 60 }, client_token);
    expect([renewed.body.auth.lease_duration, renewed.body.warnings]).toEqual([700 * 3600, null]);
  });

  itRows([{ policies: ["root"] }, { renewable: false, ttl: "1h" }])("returns 400 for a token with %j", async (wish) => {
    const { client_token } = await issue(wish);
    const refused = await post("renew-self", {}, client_token);
    expect([refused.status, refused.body.errors]).toEqual([400, ["lease is not renewable"]]);
  });
});

describe("revoking a token", () => {
  const family = async () => {
    const parent = (await issue({ policies: ["root"] })).client_token;
    const child = (await issue({ policies: ["root"] }, { token: parent })).client_token;
    const orphan = (await issue({ no_parent: true }, { token: parent })).client_token;
    const grandchild = (await issue({}, { token: child })).client_token;
    return { parent, child, orphan, grandchild };
  };

  it("revokes its descendants, and keeps orphans", async () => {
    const { parent, child, orphan, grandchild } = await family();
    const revoked = await post("revoke", { token: parent });
    expect([revoked.status, revoked.text]).toEqual([204, ""]);
    expect(await Promise.all([parent, child, grandchild, orphan].map(alive))).toEqual([false, false, false, true]);
    expect(await alive("root")).toBe(true);
  });

  it("revokes descendants whose events exceed a row together", async () => {
    const parent = (await issue({ policies: ["root"] })).client_token;
    // Most bytes that the policies of a token can have.
    const policies = Array.from({ length: 255 }, (_, at) => `${at}`.padEnd(128, "\u7b56"));
    const issued = Array.from({ length: 24 }, () => issue({ policies }, { token: parent }));
    const accessors = (await Promise.all(issued)).map(({ accessor }) => accessor).sort();
    expect((await post("revoke", { token: parent })).status).toBe(204);
    const deleted = (await eventsOf("ACLToken")).filter(({ Type }) => Type === "ACLTokenDeleted");
    expect(
      deleted
        .slice(1)
        .map(({ Key }) => Key)
        .sort(),
    ).toEqual(accessors);
    expect(deleted.filter(({ Payload }) => !("ACLToken" in Payload))).toEqual([]);
  });

  it("keeps the children as orphans with revoke-orphan", async () => {
    const { parent, child, grandchild } = await family();
    expect((await post("revoke-orphan", { token: parent })).status).toBe(204);
    expect(await Promise.all([parent, child, grandchild].map(alive))).toEqual([false, true, true]);
    expect((await get(self, { token: child })).body.data.orphan).toBe(true);
  });

  it("requires sudo for revoke-orphan", async () => {
    const plain = await holderOf(path("auth/token/revoke-orphan", "update"));
    expect((await post("revoke-orphan", { token: "x" }, plain.client_token)).status).toBe(403);
  });

  it("works for the own token and by accessor", async () => {
    const one = await issue({});
    expect((await post("revoke-self", {}, one.client_token)).status).toBe(204);
    const two = await issue({});
    expect((await post("revoke-accessor", { accessor: two.accessor })).status).toBe(204);
    expect(await Promise.all([one.client_token, two.client_token].map(alive))).toEqual([false, false]);
  });

  it("returns 204 for an unknown token", async () => {
    expect((await post("revoke", { token: "nobody" })).status).toBe(204);
  });

  it("can revoke the root token, which is not recreated", async () => {
    expect((await post("revoke-self", {}, "root")).status).toBe(204);
    expect(await alive("root")).toBe(false);
  });

  it("sends one event per token, without its text", async () => {
    const { parent, child, grandchild } = await family();
    await post("revoke", { token: parent });
    const deleted = (await eventsOf("ACLToken")).filter(({ Type }) => Type === "ACLTokenDeleted");
    expect(deleted).toHaveLength(3);
    expect(JSON.stringify(deleted)).not.toMatch(
      new RegExp([parent, child, grandchild].join("|").replaceAll(".", "\\.")),
    );
  });
});

describe("a token with a limited number of uses", () => {
  it("works for that number of requests", async () => {
    const { client_token } = await issue({ num_uses: 3 });
    const seen = [];
    for (let use = 0; use < 5; use++) seen.push((await get(self, { token: client_token })).status);
    expect(seen).toEqual([200, 200, 200, 403, 403]);
  });

  it("shows the remaining uses, zero on the last one", async () => {
    const { client_token } = await issue({ num_uses: 2 });
    expect((await get(self, { token: client_token })).body.data.num_uses).toBe(1);
    expect((await get(self, { token: client_token })).body.data.num_uses).toBe(0);
  });

  it("grants the last use once under concurrent requests", async () => {
    const { client_token } = await issue({ num_uses: 1 });
    const seen = await Promise.all(Array.from({ length: 10 }, () => get(self, { token: client_token })));
    expect(seen.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(403)]);
  });

  it("counts refused requests", async () => {
    const { client_token } = await issue({ num_uses: 1, policies: ["default"] });
    expect((await get("/v1/sys/mounts", { token: client_token })).status).toBe(403);
    expect(await alive(client_token)).toBe(false);
  });

  it("returns 400 for children, also with its last use", async () => {
    for (const num_uses of [1, 5]) {
      const { client_token } = await issue({ num_uses, policies: ["root"] });
      const refused = await post("create", {}, client_token);
      expect([refused.status, refused.body.errors]).toEqual([
        400,
        ["restricted use token cannot generate child tokens"],
      ]);
    }
  });

  it("is not extended by its last use", async () => {
    const { client_token } = await issue({ num_uses: 1, ttl: "1h" });
    const refused = await post("renew-self", {}, client_token);
    expect([refused.status, refused.body.errors]).toEqual([400, ["lease is not renewable"]]);
  });

  it("is unknown to other requests after its last use, and its row is deleted soon", async () => {
    const { client_token, accessor } = await issue({ num_uses: 1, ttl: "1h" });
    await get(self, { token: client_token });
    expect((await post("lookup", { token: client_token })).status).toBe(403);
    expect((await post("lookup-accessor", { accessor })).status).toBe(400);
    expect((await list("/v1/auth/token/accessors")).body.data.keys).not.toContain(accessor);
    later(60);
    await runDurableObjectAlarm(accessObject());
    expect(await dump()).not.toContain(accessor);
    // A stream sends no heartbeat while the clock is stopped.
    vi.useRealTimers();
    expect((await eventsOf(`ACLToken:${accessor}`)).map(({ Type }) => Type)).toEqual([
      "ACLTokenUpserted",
      "ACLTokenDeleted",
    ]);
  });
});

describe("an expired token", () => {
  it("is refused at once, deleted by the alarm with its children, and announced", async () => {
    const parent = await issue({ policies: ["root"], ttl: "5s" });
    const child = await issue({ policies: ["root"], ttl: "1h" }, { token: parent.client_token });
    await vi.waitFor(async () => expect(await dump()).not.toContain(parent.accessor), { interval: 100 });
    expect(await Promise.all([parent, child].map(({ client_token }) => alive(client_token)))).toEqual([false, false]);
    const deleted = (await eventsOf("ACLToken")).filter(({ Type }) => Type === "ACLTokenDeleted");
    expect(deleted.map(({ Key }) => Key).sort()).toEqual([parent.accessor, child.accessor].sort());
  });

  it("that cannot be deleted keeps no other from its deletion, nor the rest of the alarm, and is tried again", async () => {
    const [bad, good] = [await issue({ ttl: "1h" }), await issue({ ttl: "1h" })];
    const deleteRows = TokenStore.prototype.delete;
    const failing = vi.spyOn(TokenStore.prototype, "delete").mockImplementation(function (this: TokenStore, rows) {
      deleteRows.call(this, rows);
      if (rows.some(({ accessor }) => accessor === bad.accessor)) throw new Error("too large");
    });
    const next = vi.spyOn(OneTimeTokens.prototype, "expire").mockImplementation(() => {
      throw new Error("no space");
    });
    const following = vi.spyOn(EventPublisher.prototype, "delivered");
    later(3601);
    await runDurableObjectAlarm(accessObject());
    expect([next.mock.calls.length, following.mock.calls.length]).toEqual([1, 1]);
    const left = async () => {
      const rows = await dump();
      return [bad, good].map(({ accessor }) => rows.includes(accessor));
    };
    expect(await left()).toEqual([true, false]);
    failing.mockRestore();
    await runDurableObjectAlarm(accessObject());
    expect(await left()).toEqual([true, false]);
    later(61);
    await runDurableObjectAlarm(accessObject());
    expect(await left()).toEqual([false, false]);
  });

  it("is refused from the millisecond of its expiry", async () => {
    const { client_token } = await issue({ ttl: "1h" });
    const ends = Date.parse((await get(self, { token: client_token })).body.data.expire_time);
    vi.useFakeTimers({ toFake: ["Date"], now: ends - 1 });
    expect(await alive(client_token)).toBe(true);
    vi.setSystemTime(ends);
    expect(await alive(client_token)).toBe(false);
  });

  it("is unknown to every route while its row still exists", async () => {
    const { client_token, accessor } = await issue({ ttl: "1h" });
    later(3601);
    expect((await get(self, { token: client_token })).status).toBe(403);
    expect((await post("lookup-accessor", { accessor })).status).toBe(400);
    expect((await list("/v1/auth/token/accessors")).body.data.keys).not.toContain(accessor);
  });
});

describe("storage", () => {
  it("contains no token text after any operation", async () => {
    const made = await issue({ ttl: "1h", policies: ["default"] });
    const wished = await issue({ id: "canary-token-id" });
    const cluster = await send("POST", "/v1/acl/token", { Name: "x", Type: "management" });
    await post("renew-self", {}, made.client_token);
    const rows = await dump();
    expect(rows).toContain(made.accessor);
    for (const secret of [made.client_token, made.client_token.slice(4), wished.client_token, cluster.body.SecretID]) {
      expect(rows).not.toContain(secret);
    }
  });
});
