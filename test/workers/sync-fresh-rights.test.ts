import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { destinationTypes } from "../../src/sync/destinations/index.ts";
import { part } from "../support/long.ts";
import { mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself } from "./clock-and-alarms.ts";
import { evictObject } from "./evict-all.ts";
import { association, endFreshRights, eventually, makeDestination, setAssociation, write } from "./sync-helpers.ts";
import { RemotePlace } from "./sync-places.ts";

/** Refusals of rights that a provider has not put into effect yet. */
clock.moves = true;

const QUARTER_MS = 15 * 60_000;
const types = [...destinationTypes.values()].filter(({ kind }) => kind === "remote").map(({ type }) => type);

let mount = { uuid: "", accessor: "" };
let place: RemotePlace;
let at = "";

const destination = () => env.SYNC_DESTINATION.getByName(at) as DurableObjectStub;
const seen = async (): Promise<Record<string, unknown>> => (await association(at, "app")) ?? {};
const verified = async () => (await put(`/sys/sync/destinations/${at}/verify`, {})).body.data;
const arrives = () =>
  byItself(
    { mounts: [mount.uuid], destinations: [at] },
    async () => expect(await seen()).toMatchObject({ sync_status: "SYNCED" }),
    // GitHub accepts no clock that is a minute ahead.
    { step: 2_000, rounds: 30, most: 50_000 },
  );
const one = async () => expect([...(await place.objects()).values()].map(({ value }) => value)).toHaveLength(1);

/** Sets the association, and waits for the outcome of its first push. */
async function set(): Promise<void> {
  expect((await setAssociation(at, "app")).status).toBe(200);
  await eventually(async () => expect((await seen())["sync_status"]).not.toBe("PENDING"));
}

async function begin(type: string): Promise<void> {
  at = `${type}/d`;
  place = await RemotePlace.open(type);
  await makeDestination(type, "d", place.body);
}

beforeEach(async () => {
  mount = await mountKv();
  await write("app", { v: "first-value" });
});

describe.each(part(types, 0, 5))("a refusal of fresh rights at %s", (type) => {
  it("is shown as such, and is retried until the rights are in effect, also after a kill", async () => {
    const began = Date.now();
    await begin(type);
    await place.fail("forbidden", 3);
    await set();
    const refused = await seen();
    expect(refused).toMatchObject({
      sync_status: "CLIENT_SIDE_ERROR",
      error_code: "permission_denied",
      error_message: expect.stringMatching(/^.+ New rights may not yet be effective .+ retried until \S+Z\.$/),
      attempts: 1,
      next_attempt_at: expect.any(String),
      retried_until: expect.any(String),
    });
    expect(Date.parse(String(refused["next_attempt_at"])) - Date.now()).toBeLessThanOrEqual(30_000);
    const until = Date.parse(String(refused["retried_until"])) - began;
    expect(until).toBeGreaterThanOrEqual(QUARTER_MS);
    expect(until).toBeLessThan(QUARTER_MS + 30_000);
    await evictObject(destination());
    expect(await seen()).toEqual(refused);
    await arrives();
    expect(Object.keys(await seen())).not.toContain("retried_until");
    await one();
  });

  it("after the quarter of an hour waits for a change, which begins it again", async () => {
    await begin(type);
    await endFreshRights(at);
    await place.fail("forbidden", 1);
    await set();
    const refused = await seen();
    expect(refused).toMatchObject({ sync_status: "CLIENT_SIDE_ERROR", error_code: "permission_denied" });
    expect(refused["error_message"]).not.toContain("New rights");
    for (const field of ["next_attempt_at", "retried_until", "attempts"]) expect(refused).not.toHaveProperty(field);
    await put(`/sys/sync/destinations/${at}`, place.wrongCredentials);
    await eventually(async () => expect(await seen()).toMatchObject({ retried_until: expect.any(String) }));
    await put(`/sys/sync/destinations/${at}`, place.body);
    await arrives();
    await one();
  });

  it("is named by verify, with its end", async () => {
    at = `${type}/d`;
    place = await RemotePlace.open(type);
    await makeDestination(type, "d", place.wrongCredentials);
    expect(await verified()).toMatchObject({
      ok: false,
      error_code: "auth_failed",
      message: expect.stringContaining(" New rights may not yet be effective "),
      retried_until: expect.any(String),
    });
    await endFreshRights(at);
    const later = await verified();
    expect(later).toMatchObject({ ok: false, error_code: "auth_failed" });
    expect(later.message).not.toContain("New rights");
    expect(later).not.toHaveProperty("retried_until");
  });
});

it("a write that changes no connection detail begins no new quarter of an hour", async () => {
  await begin("cloud-a-ps");
  await endFreshRights(at);
  await put(`/sys/sync/destinations/${at}`, { ...place.body, deletion_policy: "retain" });
  await place.fail("forbidden", 1);
  await set();
  expect(await seen()).not.toHaveProperty("retried_until");
});

it("refused secrets of a destination are tried one at a time, and arrive with the first that is accepted", async () => {
  await begin("cloud-a-ps");
  const names = Array.from({ length: 8 }, (_, index) => `many/${index}`);
  await Promise.all(names.map((name) => write(name, { v: name })));
  await place.fail("forbidden", 8);
  for (const name of names) await setAssociation(at, name);
  await byItself(
    { mounts: [mount.uuid], destinations: [at] },
    async () => expect((await place.objects()).size).toBe(names.length),
    { step: 10_000, rounds: 40 },
  );
  expect(await place.writes()).toBeLessThan(8 + 2 * names.length);
});
