import { runDurableObjectAlarm } from "cloudflare:test";
import { expect, it, vi } from "vitest";
import { azure } from "../../src/credentials/engines/azure/index.ts";
import { del, put } from "./client.ts";
import { clock } from "./clock.ts";
import { byItself, engineObject, rows, succeeded } from "./engine-helpers.ts";
import { openEngineWithRole, tenant, uuid } from "./engine-world.ts";

clock.moves = true;

const isFull = async () => {
  expect(await rows(uuid, "pooled")).toHaveLength(1);
  expect(await rows(uuid, "jobs")).toEqual([]);
};

/** The time until the pool is filled, in ms. */
const wait = async () => Number((await rows(uuid, "pools"))[0]?.["due"]) - Date.now();

it.each<readonly [what: string, end: () => Promise<unknown>, begin: () => Promise<unknown>]>([
  ["disabling the mount has failed", () => engineObject(uuid).close(false), () => engineObject(uuid).reopen()],
  [
    "the configuration is deleted and written again",
    async () => succeeded(await del("/v1/cloud-b/config")),
    async () => succeeded(await put("/v1/cloud-b/config", tenant.config)),
  ],
])("a pool is filled at once when %s", async (_what, end, begin) => {
  // The double has the real time, at which a secret of a moved clock has not begun.
  vi.spyOn(azure.issue, "verify").mockReturnValue(null);
  await openEngineWithRole({ pool_size: 1, ttl: 3_600, max_ttl: 7_200 });
  await byItself(uuid, isFull);
  await end();
  await runDurableObjectAlarm(engineObject(uuid));
  await expect.poll(wait, { message: "the mount issues nothing now" }).toBeGreaterThan(30_000);
  await begin();
  expect(await wait()).toBeLessThanOrEqual(0);
  await byItself(uuid, isFull);
});
