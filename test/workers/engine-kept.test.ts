import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { engineDescriptions } from "../../src/credentials/engines/descriptions.ts";
import { engineTypes } from "../../src/credentials/engines/index.ts";
import { madeUp } from "../made-up/engine/index.ts";
import { del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deaths, dieAt } from "./engine-deaths.ts";
import { byItself, rows, succeeded } from "./engine-helpers.ts";

clock.moves = true;

const AT_ONCE = 16;

beforeAll(() => {
  engineTypes.push(madeUp);
  engineDescriptions.push(madeUp.description);
});
afterAll(() => {
  engineTypes.pop();
  engineDescriptions.pop();
});

describe("an engine whose roles keep their credentials", () => {
  let account: string;
  let uuid: string;
  const control = async (path: string, body: unknown = {}) =>
    (await fetch(`${env.TEST_DOUBLES.madeUp}/_double/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
  const keysAtProvider = async () =>
    ((await control(`everything?account=${account}`)) as { id: string; kind: string }[])
      .filter(({ kind }) => kind === "key")
      .map(({ id }) => id);
  const write = (name: string, body: Record<string, unknown>) => put(`/v1/engine/kept-role/${name}`, body);
  const kept = async (name = "app") => succeeded(await get(`/v1/engine/kept-creds/${name}`)).body.data;
  const noJobs = async () => expect(await rows(uuid, "jobs")).toEqual([]);

  beforeEach(async () => {
    const opened = (await control("accounts")) as { account: string; key: string };
    account = opened.account;
    succeeded(await put("/v1/sys/mounts/engine", { type: "made-up" }));
    succeeded(await put("/v1/engine/config", { url: env.TEST_DOUBLES.madeUp, key: opened.key }));
    uuid = (await get("/v1/sys/mounts/engine")).body.data.uuid;
  });

  it("answers the role of a write, and the same credentials to every read, without a lease", async () => {
    expect((await get("/v1/engine/kept-creds/app")).status).toBe(404);
    const written = await write("app", { owner: "one", period: 600 });
    expect([written.status, written.body.data]).toEqual([200, expect.objectContaining({ owner: "one", period: 600 })]);
    expect(JSON.stringify(written.body)).not.toContain((await kept()).key);
    const [first, second] = [await kept(), await kept()];
    expect([first.key, first.key_id]).toEqual([second.key, second.key_id]);
    expect(await keysAtProvider()).toEqual([first.key_id]);
    expect(await rows(uuid, "leases")).toEqual([]);
    const raw = JSON.stringify(await rows(uuid, "roles"));
    expect(raw).not.toContain(first.key);
  });

  it("replaces them by itself when they are due, and again after a failure", async () => {
    await write("app", { owner: "one", period: 600 });
    const { key_id: before } = await kept();
    await control(`faults?account=${account}`, { method: "POST", fault: "drop", count: 5 });
    await byItself(
      uuid,
      async () => {
        const { key_id } = await kept();
        expect(key_id).not.toBe(before);
        expect(await keysAtProvider()).toEqual([key_id]);
        await noJobs();
      },
      60_000,
    );
  });

  it("moves the replacement with the period, and keeps the credentials", async () => {
    await write("app", { owner: "one", period: 600 });
    const { key_id } = await kept();
    succeeded(await write("app", { owner: "one", period: 1_200 }));
    expect(await kept()).toMatchObject({ key_id, ttl: expect.closeTo(1_200, -1) });
  });

  it("gives a subject to one role only", async () => {
    await write("app", { owner: "one", period: 600 });
    expect((await write("other", { owner: "one", period: 600 })).body.errors).toEqual([
      "owner: one has the key of the role app",
    ]);
    expect(await keysAtProvider()).toHaveLength(1);
  });

  it.each(deaths(1, AT_ONCE))(
    "has one key whose role is written or replaced while the Worker dies at poll %i (%s)",
    async (nth, when, calls) => {
      const died = dieAt(nth, when, calls);
      await write("app", { owner: "one", period: 600 });
      expect(died()).toBe(true);
      vi.restoreAllMocks();
      await byItself(uuid, noJobs);
      const { key_id } = await kept();
      expect(await keysAtProvider()).toEqual([key_id]);
      const diedAgain = dieAt(nth, when, calls);
      await put("/v1/engine/rotate-kept-role/app", {});
      expect(diedAgain()).toBe(true);
      vi.restoreAllMocks();
      await byItself(uuid, noJobs);
      expect(await keysAtProvider()).toEqual([(await kept()).key_id]);
      expect((await kept()).key_id).not.toBe(key_id);
    },
  );

  it("leaves nothing of a deleted role, or of a mount that goes while a role is written", async () => {
    await write("app", { owner: "one", period: 600 });
    succeeded(await del("/v1/engine/kept-role/app"));
    await byItself(uuid, noJobs);
    expect(await keysAtProvider()).toEqual([]);
    expect((await get("/v1/engine/kept-creds/app")).status).toBe(404);
    await write("b", { owner: "two", period: 600 });
    const died = dieAt(1, "before", AT_ONCE);
    await write("app", { owner: "one", period: 600 });
    expect(died()).toBe(true);
    vi.restoreAllMocks();
    expect((await del("/v1/sys/mounts/engine")).status).toBe(204);
    await byItself(uuid, async () => expect(await keysAtProvider()).toEqual([]));
  });
});
