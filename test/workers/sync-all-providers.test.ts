import { env } from "cloudflare:workers";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type DestinationType, destinationTypes } from "../../src/sync/destinations/index.ts";
import { madeUpTypes } from "../made-up/destinations.ts";
import { get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself } from "./clock-and-alarms.ts";
import {
  association,
  makeDestination,
  removeAssociation,
  removeWithoutWaiting,
  setAssociation,
  setWithoutWaiting,
  write,
} from "./sync-helpers.ts";
import { RemotePlace } from "./sync-places.ts";

clock.moves = true;

/** Providers refuse signatures of a clock that is a minute ahead. */
const MOST_AHEAD_MS = 50_000;

const known = destinationTypes as Map<string, DestinationType<unknown>>;
beforeAll(() => {
  for (const type of madeUpTypes) known.set(type.type, type);
});
afterAll(() => {
  for (const { type } of madeUpTypes) known.delete(type);
});

describe.each(env.TEST_STAND_INS.types)("at %s", (type) => {
  const path = `/sys/sync/destinations/${type}/d`;
  let place: RemotePlace;
  let uuid: string;
  beforeEach(async () => {
    place = await RemotePlace.open(type);
    ({ uuid } = await mountKv());
    await makeDestination(type, "d", place.body);
  });

  /** Back-offs and windows of batches only move the clock. */
  const eventually = (check: () => Promise<void>) =>
    byItself({ mounts: [uuid], destinations: [`${type}/d`] }, check, { most: MOST_AHEAD_MS });

  /** A set or removal is answered before the window of a batch ends. */
  const isCollected = () => {
    const found = known.get(type);
    return found?.kind === "remote" && found.batch !== undefined;
  };
  const statuses = async (): Promise<string[]> => {
    const { body } = await get(`${path}/associations`);
    const entries = Object.values(body.data.associated_secrets as Record<string, { sync_status: string }>);
    return entries.map((entry) => entry.sync_status);
  };
  const isSynced = () => eventually(async () => expect(new Set(await statuses())).toEqual(new Set(["SYNCED"])));

  const joined = async () => [...(await place.objects()).values()].map(({ value }) => value).join(" ");

  // Proves: B.cloud-c-sm.credentials, B.repo-host.access_token, E.auth.2.repo-host-token
  it("a secret is pushed, follows its source, and is removed", async () => {
    await write("app", { user: "u1", pass: "p1" });
    const set = await (isCollected() ? setWithoutWaiting : setAssociation)(`${type}/d`, "app");
    expect(set.status, set.text).toBe(200);
    const { length } = Object.keys(set.body.data.associated_secrets);
    expect(set.body.data.sync_operation_counters).toEqual({ [isCollected() ? "PENDING" : "SYNCED"]: length });
    await isSynced();
    expect(await joined()).toContain("p1");
    await write("app", { user: "u1", pass: "p2" });
    await eventually(async () => expect(await joined()).toContain("p2"));
    expect(await joined()).not.toContain("p1");
    await eventually(async () => expect((await association(`${type}/d`, "app"))?.["synced_version"]).toBe(2));
    const removed = await (isCollected() ? removeWithoutWaiting : removeAssociation)(`${type}/d`, "app");
    expect(removed.body.data.sync_operation_counters).toEqual({ [isCollected() ? "PENDING" : "UNSYNCED"]: length });
    await eventually(async () => expect((await place.objects()).size).toBe(0));
  });

  it("a failed push is repeated, and the provider has the value once", async () => {
    await write("app", { pass: "p1" });
    await place.fail("lost", 1);
    await setAssociation(`${type}/d`, "app");
    await isSynced();
    expect(await joined()).toMatch(/^[^ ]*p1[^ ]*$/);
  });

  it("a change by another hand shows as drift", async () => {
    await write("app", { pass: "p1" });
    await setAssociation(`${type}/d`, "app");
    await isSynced();
    const [name = ""] = (await place.objects()).keys();
    await place.write(name, "theirs");
    const drift = await get(`${path}/drift`);
    const states = Object.values(drift.body.data.objects as Record<string, { state: string }>);
    expect(states).toMatchObject([{ state: expect.stringMatching(/^(changed|present)$/) }]);
  });

  it("a check of the connection tells right from wrong credentials", async () => {
    const right = await put(`${path}/verify`, {});
    expect(right.body.data, right.text).toMatchObject({ ok: true });
    await makeDestination(type, "wrong", place.wrongCredentials);
    const wrong = await put(`/sys/sync/destinations/${type}/wrong/verify`, {});
    expect(wrong.body.data).toMatchObject({ ok: false, error_code: "auth_failed" });
  });
});
