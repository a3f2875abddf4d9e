import { abortAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { clearAuthorizeCache } from "../../src/access/authorize/authorize-cached.ts";
import { clearHealthCache } from "../../src/monitoring/health.ts";
import type { StoredObject } from "../../src/platform/durable/stored-object.ts";
import { type Settings, settings } from "../../src/platform/settings.ts";
import { get, mountKv, put } from "./client.ts";
import { emptyDeployment } from "./empty-deployment.ts";
import { inEveryObject } from "./sealing-helpers.ts";

/**
 * The same name in another jurisdiction is another object, which is empty; D1 stays. The local runtime has no
 * jurisdictions, so the objects of a test lose their rows instead.
 */
const environments = new Set<object>([env]);
type Jurisdiction = Settings["JURISDICTION"];

function set(jurisdiction: Jurisdiction): void {
  for (const each of environments) Object.assign(settings(each), { JURISDICTION: jurisdiction });
}

afterEach(() => set("none"));
// Objects that refuse to open cannot be asked for rows that wait.
afterEach(emptyDeployment);

/** Deploys with another `JURISDICTION`. */
async function deployTo(jurisdiction: Jurisdiction, { asNewObjects = true } = {}): Promise<void> {
  await inEveryObject((object) => void environments.add((object as unknown as { env: Env }).env));
  if (asNewObjects) await inEveryObject((_object, { storage }) => storage.deleteAll() as unknown as undefined);
  await restartIn(jurisdiction);
}

async function restartIn(jurisdiction: Jurisdiction): Promise<void> {
  await abortAllDurableObjects();
  const type = Object.getPrototypeOf(env.ACCESS_CONTROL) as DurableObjectNamespace;
  vi.spyOn(type, "jurisdiction").mockImplementation(function (this: DurableObjectNamespace) {
    return this;
  });
  set(jurisdiction);
  clearAuthorizeCache();
  clearHealthCache();
}

const health = async () => {
  clearHealthCache();
  return get("/v1/sys/health", { token: null });
};

const rowsOfTokens = (): Promise<number> =>
  runInDurableObject(
    env.ACCESS_CONTROL.getByName("main") as DurableObjectStub<StoredObject>,
    (_object, { storage }) => storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM tokens").one().n,
  ).catch(() => 0);

const CHANGED = "jurisdiction changed: JURISDICTION is eu, and the data of this deployment is in none";

describe("JURISDICTION, changed after the first start", () => {
  it("is refused by name with 503 and a red health, and writes nothing", async () => {
    await mountKv();
    expect((await health()).status).toBe(200);
    await deployTo("eu");
    for (const answer of [
      await get("/v1/kv/data/a"),
      await put("/v1/kv/data/a", { data: {} }),
      await get("/v1/sys/seal-status", { token: null }),
    ]) {
      expect(answer.status).toBe(503);
      expect(answer.text).toContain(CHANGED);
    }
    const red = await health();
    expect([red.status, red.body.failing]).toEqual([503, ["access_control"]]);
    expect(red.body.parts).toMatchObject({ access_control: "misplaced", event_log: "misplaced" });
    const agent = await get("/v1/agent/health", { token: null });
    expect([agent.status, agent.body.server.message]).toEqual([503, "jurisdiction changed"]);
    expect(await rowsOfTokens()).toBe(0);
  });

  it("is refused in both directions", async () => {
    await deployTo("eu");
    expect((await health()).status).toBe(200);
    await deployTo("none");
    const { status, text } = await get("/v1/sys/mounts");
    expect(status).toBe(503);
    expect(text).toContain("JURISDICTION is none, and the data of this deployment is in eu");
    // The rows of the first start are gone with the test's change, and so its record may go.
    await env.LISTINGS.exec("DELETE FROM births");
    await restartIn("none");
    expect((await health()).status).toBe(200);
  });

  it("is accepted again once it is the first one", async () => {
    await mountKv();
    await put("/v1/kv/data/a", { data: { v: "1" } });
    await deployTo("eu", { asNewObjects: false });
    await deployTo("none", { asNewObjects: false });
    expect((await health()).body.failing).toEqual([]);
    expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ v: "1" });
  });

  it("reports empty objects of the same jurisdiction as lost storage", async () => {
    await mountKv();
    await deployTo("none");
    expect((await get("/v1/sys/mounts")).text).toContain("storage lost");
    expect((await health()).body.parts.access_control).toBe("lost");
  });
});

describe("a deployment whose record of births is older than jurisdictions", () => {
  it("counts as one without a jurisdiction", async () => {
    await mountKv();
    await env.LISTINGS.exec("DELETE FROM births WHERE object = 'jurisdiction'");
    await deployTo("eu");
    expect((await get("/v1/sys/mounts")).text).toContain(CHANGED);
  });
});
