import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { PollAnswer } from "../../src/contracts/sync-tasks.ts";
import { del, get, mountKv } from "./client.ts";
import { clock, ShiftedClock } from "./clock.ts";
import {
  association,
  eventually,
  makeDestination,
  removeWithoutWaiting,
  setWithoutWaiting,
  write,
} from "./sync-helpers.ts";
import { destination } from "./sync-limits.ts";
import { RemotePlace } from "./sync-places.ts";

clock.moves = true;

/** A destination where each call is a deployment: changes within the window are one call. */

const AT = "edge-worker/d";
const SECRETS = Array.from({ length: 12 }, (_, n) => `app${n}`);
let place: RemotePlace;

beforeEach(async () => {
  place = await RemotePlace.open("edge-worker");
  await mountKv();
  await makeDestination("edge-worker", "d", {
    ...place.body,
    secret_name_template: "{{ .SecretPath | uppercase }}_{{ .SecretKey | uppercase }}",
  });
});

const statuses = async () => Promise.all(SECRETS.map(async (secret) => (await association(AT, secret))?.sync_status));
const synced = () =>
  eventually(async () => expect(await statuses()).toEqual(SECRETS.map(() => expect.stringMatching(/^(UN)?SYNCED$/))));
const valuesOf = (version: number) =>
  Object.fromEntries(
    SECRETS.flatMap((secret) =>
      ["A", "B"].map((key) => [`${secret.toUpperCase()}_${key}`, `${secret} ${key} ${version}`]),
    ),
  );
const writeAll = (version: number) =>
  Promise.all(SECRETS.map((secret) => write(secret, { a: `${secret} A ${version}`, b: `${secret} B ${version}` })));

describe("a burst of changes", () => {
  it("is few deployments: of associations, of values and of removals", async () => {
    await writeAll(1);
    for (const secret of SECRETS) await setWithoutWaiting(AT, secret);
    await synced();
    const first = await place.writes();
    expect(await place.values()).toEqual(valuesOf(1));
    expect(first, "deployments by 12 associations").toBeLessThanOrEqual(4);

    await writeAll(2);
    await eventually(async () => expect(await place.values()).toEqual(valuesOf(2)));
    await synced();
    const second = await place.writes();
    expect(second - first, "deployments by 12 changes").toBeLessThanOrEqual(4);

    for (const secret of SECRETS.slice(0, 6)) await removeWithoutWaiting(AT, secret);
    for (const secret of SECRETS.slice(6)) await del(`/v1/kv/metadata/${secret}`);
    await eventually(async () => expect(await place.values()).toEqual({}));
    expect((await place.writes()) - second, "deployments by 12 removals").toBeLessThanOrEqual(6);
  });

  it("answers a set before the window ends, with the status PENDING", async () => {
    await write("app0", { a: "1" });
    const set = await setWithoutWaiting(AT, "app0");
    expect(set.body.data.sync_operation_counters).toEqual({ PENDING: 1 });
    await eventually(async () => expect((await association(AT, "app0"))?.sync_status).toBe("SYNCED"));
  });

  it("is not waited for by a set of one association beside an open breaker", async () => {
    await place.fail("unavailable", 100_000);
    await writeAll(1);
    for (const secret of SECRETS) await setWithoutWaiting(AT, secret);
    const state = async () => (await get(`/sys/sync/destinations/${AT}`)).body.data;
    await eventually(async () => expect((await state()).circuit_breaker).toBeDefined());
    // No other Worker performs work.
    for (const method of ["send", "sendBatch"] as const)
      vi.spyOn(env.SYNC_WORK, method).mockRejectedValue(new Error("later"));
    const time = new ShiftedClock();
    await eventually(async () => {
      time.advance(20_000);
      const answer = (await destination(AT).poll([], 1, undefined, "slow")) as unknown as PollAnswer;
      expect(answer.tasks, "the breaker's own trial").not.toEqual([]);
    });
    const status = async () => (await association(AT, "mine"))?.sync_status;
    await write("mine", { a: "1" });
    await setWithoutWaiting(AT, "mine");
    await eventually(async () => expect(await status()).toBe("EXTERNAL_SERVICE_ERROR"));
    time.end();
  }, 120_000);

  it("with one bad name pushes the others", async () => {
    await writeAll(1);
    await write("db", { "": "x" });
    await makeDestination("edge-worker", "d", {
      secret_name_template: "{{ .SecretPath | uppercase }}",
      granularity: "secret-path",
    });
    for (const secret of [...SECRETS, "db"]) await setWithoutWaiting(AT, secret);
    await synced();
    await eventually(async () =>
      expect(await association(AT, "db")).toMatchObject({
        sync_status: "CLIENT_SIDE_ERROR",
        error_code: "name_invalid",
      }),
    );
    expect(Object.keys(await place.values())).toHaveLength(SECRETS.length);
  });
});
