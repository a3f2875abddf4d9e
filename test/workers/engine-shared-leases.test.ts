import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { issue, path, policies } from "./access.ts";
import { get, put, send } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import { byItself, engineObject, lookup, revoke, rows, writeRole } from "./engine-helpers.ts";
import { openEngineWithRole, tenant, uuid } from "./engine-world.ts";

clock.moves = true;

let time: ShiftedClock | null = null;
const MINUTE = 60_000;

beforeEach(async () => {
  await openEngineWithRole({ ttl: "1h", max_ttl: "24h", share_until: "50" });
  await policies({
    reader: path("cloud-b/creds/*", "read") + path("sys/leases/*", "update") + path("auth/token/create", "update"),
  });
  await put("/v1/sys/auth/people", { type: "userpass" });
  for (const name of ["ann", "bob"])
    await put(`/v1/auth/people/users/${name}`, { password: "p", token_policies: "reader", token_ttl: "6h" });
});
afterEach(() => {
  time?.end();
  time = null;
});

const advance = (ms: number) => {
  time ??= new ShiftedClock();
  time.advance(ms);
};

/** A new token of a user: its entity stays. */
const logIn = async (name = "ann"): Promise<string> =>
  (await send("POST", `/v1/auth/people/login/${name}`, { password: "p" }, { token: "" })).body.auth.client_token;
const bare = async (more: object = {}): Promise<string> =>
  (await issue({ policies: ["reader"], ttl: "6h", ...more })).client_token;
const end = (token: string) => put("/v1/auth/token/revoke", { token });

async function read(token: string, query = "") {
  const { status, body, text } = await get(`/v1/cloud-b/creds/web${query}`, { token });
  expect(status, text).toBe(200);
  return { id: body.lease_id, secret: body.data.client_secret, ttl: body.lease_duration, renewable: body.renewable };
}

describe("a shared lease", () => {
  it("is the same for a caller until the share of its TTL has passed", async () => {
    const first = await read(await logIn());
    advance(29 * MINUTE);
    const second = await read(await logIn());
    expect([second.id, second.secret, second.renewable]).toEqual([first.id, first.secret, true]);
    expect(Math.abs(second.ttl - 31 * 60)).toBeLessThan(5);
    advance(2 * MINUTE);
    const third = await read(await logIn());
    expect(third.id).not.toBe(first.id);
    expect(third.ttl).toBe(3600);
    expect((await read(await logIn())).id).toBe(third.id);
    expect((await lookup(first.id)).status).toBe(200);
    expect((await rows(uuid, "leases")).length).toBe(2);
    expect((await get("/v1/cloud-b/roles/web")).body.data.share_until).toBe(50);
  });

  it("is off by default, and ends with 0", async () => {
    await writeRole("web", { share_until: 0 });
    const token = await logIn();
    expect((await read(token)).id).not.toBe((await read(token)).id);
    expect((await get("/v1/cloud-b/roles/web")).body.data).not.toHaveProperty("share_until");
    expect((await put("/v1/cloud-b/roles/web", { share_until: 91 })).body.errors[0]).toContain("share_until");
  });

  it("is that of an entity, or of a token without one, and of no other caller", async () => {
    const [ann, bob, one, other] = [await logIn(), await logIn("bob"), await bare(), await bare()];
    const leases = await Promise.all([ann, bob, one, other].map((token) => read(token)));
    expect(new Set(leases.map(({ id }) => id)).size).toBe(4);
    expect((await read(one)).id).toBe(leases[2]?.id);
    expect((await read(other)).id).toBe(leases[3]?.id);
  });

  it("is made once for concurrent readers", async () => {
    const tokens = await Promise.all([logIn(), logIn(), logIn()]);
    const leases = await Promise.all(tokens.map((token) => read(token)));
    expect(new Set(leases.map(({ id }) => id)).size).toBe(1);
    expect((await tenant.requests()).filter(({ operation }) => operation === "CreateApplication").length).toBe(1);
  });

  it("ends with the last of the tokens that were given it", async () => {
    const fresh = await tenant.everything();
    const [first, second] = [await logIn(), await logIn()];
    const { id } = await read(first);
    await read(second);
    await end(first);
    await byItself(uuid, () => undefined);
    expect((await read(second)).id).toBe(id);
    await end(second);
    await byItself(uuid, async () => expect((await lookup(id)).status).toBe(400));
    expect(await tenant.everything()).toEqual(fresh);
    expect(await users()).toEqual([]);
    expect((await read(await logIn())).id).not.toBe(id);
  });

  it("that one of its users revokes is replaced by the next read", async () => {
    const [first, second] = [await logIn(), await logIn()];
    const { id, secret } = await read(first);
    await read(second);
    expect((await revoke(id)).status).toBe(204);
    const next = await read(second);
    expect([next.id === id, next.secret === secret]).toEqual([false, false]);
  });

  it("is replaced after a change of its role", async () => {
    const token = await logIn();
    const { id } = await read(token);
    await writeRole("web", { ttl: "30m" });
    const next = await read(token);
    expect([next.id === id, next.ttl]).toEqual([false, 1800]);
  });

  it("is not that of a request with an idempotency key", async () => {
    const token = await logIn();
    const { id } = await read(token);
    const keyed = await get("/v1/cloud-b/creds/web", { token, headers: { "Idempotency-Key": "k" } });
    expect(keyed.body.lease_id).not.toBe(id);
    expect((await read(token)).id).toBe(id);
  });

  it("survives a kill of its object, and is stored sealed", async () => {
    const token = await logIn();
    const { id, secret } = await read(token);
    expect(JSON.stringify(await rows(uuid, "leases"))).not.toContain(secret);
    const killed = runInDurableObject(engineObject(uuid), (_object, state) => state.abort("killed by a test"));
    await expect(killed).rejects.toThrow("killed by a test");
    expect(await read(token)).toMatchObject({ id, secret });
  });

  it("is taken from a caller whose token ended while it waited", async () => {
    const [first, second] = [await logIn(), await logIn()];
    const { id } = await read(first);
    await end(second);
    expect((await get("/v1/cloud-b/creds/web", { token: second })).status).toBe(403);
    expect((await read(first)).id).toBe(id);
  });
});

const users = () =>
  runInDurableObject(engineObject(uuid), (_object, { storage: { sql } }) =>
    sql.exec("SELECT * FROM lease_users").toArray(),
  );

describe("the renewal of a shared lease", () => {
  const renew = async (id: string, increment: number) =>
    (await put("/v1/sys/leases/renew", { lease_id: id, increment })).body;

  it("is whole for the duration that a client read, whenever it renews", async () => {
    const token = await logIn();
    await read(token);
    advance(20 * MINUTE);
    const { id, ttl, renewable } = await read(token);
    expect(renewable).toBe(true);
    // consul-template renews at once without an increment, the operators for Kubernetes at 67 % to 90 % of the duration.
    let duration = ttl;
    for (const [share, asks] of [
      [0, false],
      [0.67, true],
      [0.9, true],
    ] as const) {
      advance(duration * share * 1000);
      const renewed = (await renew(id, asks ? duration : 0)).lease_duration;
      expect([share, renewed >= duration]).toEqual([share, true]);
      duration = renewed;
    }
  });

  it("is not offered where the maximum TTL would cut it", async () => {
    await writeRole("web", { max_ttl: "1h", share_until: 90 });
    const token = await logIn();
    const { id, renewable } = await read(token);
    advance(20 * MINUTE);
    const again = await read(token);
    expect([renewable, again.id, again.renewable]).toEqual([true, id, false]);
  });

  it("ends with the longest user, also of batch tokens", async () => {
    await writeRole("web", { share_until: 90 });
    const [parent, other] = [await logIn(), await logIn()];
    const made = await send("POST", "/v1/auth/token/create", { type: "batch", ttl: "10m" }, { token: parent });
    const batch = made.body.auth.client_token;
    const ttlOf = async (id: string) => (await lookup(id)).body.data.ttl;
    const { id, ttl } = await read(batch);
    expect([ttl <= 600, (await ttlOf(id)) <= 600]).toEqual([true, true]);
    expect(await renew(id, 3600)).toMatchObject({ lease_duration: expect.closeTo(600, -1) });
    const longer = await read(other);
    expect([longer.id, longer.ttl > 3590]).toEqual([id, true]);
    await end(other);
    await byItself(uuid, async () => expect(await ttlOf(id)).toBeLessThanOrEqual(600));
    expect((await read(batch)).id).toBe(id);
  });
});
