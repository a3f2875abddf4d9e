import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { amount } from "../support/long.ts";
import { issue } from "./access.ts";
import { del, get, mountKv, put } from "./client.ts";
import { connect } from "./healthy-agent.ts";
import { ask } from "./host-volumes.ts";
import { eventually, makeDestination, write } from "./sync-helpers.ts";

/* The cost of an operation does not grow with the number of operations before it. Counts depend on no machine. */

const KEYS = 5;
const COUNTED = 10;
/** Rounds before the later count: a scan that grows by a row for each exceeds `SLACK`. */
const AGE = amount(60, 1_000);
/** Deadlines and deliveries are not the same in all rounds. */
const SLACK = 1.25;

interface Spent {
  readonly statements: number;
  readonly rows: number;
}

/** Counts the statements of all objects, and the rows that they read. */
async function counter(): Promise<() => Spent> {
  const cursors: { readonly rowsRead: number }[] = [];
  await runInDurableObject(env.METRICS.getByName("main"), (_object, { storage }) => {
    const prototype = Object.getPrototypeOf(storage.sql) as SqlStorage;
    const { exec } = prototype;
    vi.spyOn(prototype, "exec").mockImplementation(function (this: SqlStorage, ...given) {
      const cursor = exec.apply(this, given);
      cursors.push(cursor);
      return cursor as never;
    });
  });
  return () => {
    const taken = cursors.splice(0);
    return { statements: taken.length, rows: taken.reduce((sum, { rowsRead }) => sum + rowsRead, 0) };
  };
}

it("secrets, policies, tokens and volumes cost the same after many others", async () => {
  await mountKv();
  const { agent, stop } = await connect();
  let made = 0;
  const round = async () => {
    const number = made++;
    await put(`/v1/kv/data/k${number % KEYS}`, { data: { number } });
    await put(`/v1/sys/policies/acl/p${number % KEYS}`, { policy: 'path "kv/*" { capabilities = ["read"] }' });
    const { client_token: token } = await issue({ policies: ["default"], ttl: "1m" });
    expect((await put("/v1/auth/token/revoke-self", {}, { token })).status).toBe(204);
    const created = await ask({ Name: `v${number}`, NodeID: agent.node });
    expect((await del(`/v1/volume/host/${created.body.Volume.ID}`)).status).toBe(200);
  };
  const rounds = async (count: number) => {
    for (let done = 0; done < count; done++) await round();
  };
  const take = await counter();
  const spent = async (): Promise<Spent> => {
    take();
    await rounds(COUNTED);
    return take();
  };
  await rounds(COUNTED);
  const young = await spent();
  await rounds(AGE);
  const old = await spent();
  expect(young.statements).toBeGreaterThan(COUNTED);
  expect(old.statements).toBeLessThanOrEqual(young.statements * SLACK);
  expect(old.rows).toBeLessThanOrEqual(young.rows * SLACK);
  await stop();
}, 300_000);

it("a new secret costs the same for a sync rule that matches many others", async () => {
  await mountKv();
  await makeDestination("in-mem", "d");
  const rule = { mount: "kv", match_all: true, max_secrets: 10_000 };
  expect((await put("/v1/sys/sync/destinations/in-mem/d/rules/all", rule)).text).toContain("active");
  let made = 0;
  const add = async (count: number) => {
    const names = Array.from({ length: count }, () => `s${made++}`);
    for (const name of names) await write(name, { name });
    const at = `/sys/sync/associations/destinations?mount=kv&secret_name=${names.at(-1)}`;
    await eventually(async () => expect((await get(at)).text).toContain('"SYNCED"'));
  };
  const take = await counter();
  const spent = async (): Promise<number> => {
    take();
    await add(COUNTED);
    return take().rows;
  };
  await add(COUNTED);
  const few = await spent();
  await add(AGE);
  expect(await spent()).toBeLessThanOrEqual(few * SLACK);
}, 300_000);
