import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { clearHealthCache } from "../../src/monitoring/health.ts";
import { itRows } from "../support/rows.ts";
import { get, send } from "./client.ts";
import { deployWithMasterKey, FIRST_KEY } from "./sealing-helpers.ts";

/** docs/internals/wire/vault.md, "System routes": what load balancers and clients ask before they hold a token. */

const anyone = { token: null };
const VERSION = /^\d+\.\d+\.\d+\+ent$/;

afterEach(async () => {
  await deployWithMasterKey(FIRST_KEY);
});

/** As a deployed service is before its first token; the next restart gives this one its local root token again. */
const unbootstrapped = async () => {
  await get("/v1/sys/health");
  await runInDurableObject(env.ACCESS_CONTROL.getByName("main"), (_object, state) => {
    state.storage.sql.exec("DELETE FROM facts WHERE name = 'bootstrapped'");
    state.storage.sql.exec("DELETE FROM tokens");
  });
  clearHealthCache();
};

describe("sys/health", () => {
  it("answers without a token and without an envelope", async () => {
    const health = await get("/v1/sys/health", anyone);
    expect(health.status).toBe(200);
    expect(health.headers.get("Content-Type")).toBe("application/json");
    expect(health.body).toEqual({
      initialized: true,
      sealed: false,
      standby: false,
      performance_standby: false,
      replication_performance_mode: "disabled",
      replication_dr_mode: "disabled",
      server_time_utc: expect.any(Number),
      version: expect.stringMatching(VERSION),
      enterprise: true,
      cluster_name: expect.stringMatching(/./),
      cluster_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      echo_duration_ms: 0,
      clock_skew_ms: 0,
      parts: {
        access_control: "ok",
        event_log: "ok",
        cluster_registry: "ok",
        sync_control: "ok",
        listings: "ok",
        outbox: "ok",
      },
      failing: [],
      degraded: [],
    });
    expect(Math.abs(health.body.server_time_utc - Date.now() / 1000)).toBeLessThan(5);
    expect((await get("/sys/health", anyone)).status).toBe(200);
  });

  it("keeps its cluster id over a restart", async () => {
    const before = (await get("/v1/sys/health", anyone)).body.cluster_id;
    await deployWithMasterKey(FIRST_KEY);
    expect((await get("/v1/sys/health", anyone)).body.cluster_id).toBe(before);
  });

  it("answers HEAD with the same status and no body", async () => {
    expect(await send("HEAD", "/v1/sys/health", undefined, anyone)).toMatchObject({ status: 200, text: "" });
    await unbootstrapped();
    expect(await send("HEAD", "/v1/sys/health?uninitcode=210", undefined, anyone)).toMatchObject({
      status: 210,
      text: "",
    });
    await deployWithMasterKey("");
    expect(await send("HEAD", "/v1/sys/health", undefined, anyone)).toMatchObject({ status: 503, text: "" });
    expect(await send("HEAD", "/v1/sys/health?sealedcode=299", undefined, anyone)).toMatchObject({
      status: 299,
      text: "",
    });
  });

  it("uses the caller's status code for the current state only", async () => {
    const all =
      "activecode=211&sealedcode=212&uninitcode=213&standbycode=214&drsecondarycode=215&performancestandbycode=216";
    const code = async (query: string) => (await get(`/v1/sys/health?${query}`, anyone)).status;
    expect([await code(all), await code("sealedcode=212")]).toEqual([211, 200]);
    await unbootstrapped();
    expect([await code(all), await code("activecode=211")]).toEqual([213, 501]);
    await deployWithMasterKey("");
    expect([await code(all), await code("uninitcode=213&activecode=211")]).toEqual([212, 503]);
  });

  itRows(["0", "99", "600", "x", "200.5", ""])("ignores the invalid code %j", async (wrong) => {
    expect((await get(`/v1/sys/health?activecode=${wrong}`, anyone)).status).toBe(200);
  });

  itRows([204, 205, 304])("answers %i, which allows no body, without one", async (wanted) => {
    const health = await get(`/v1/sys/health?activecode=${wanted}`, anyone);
    expect([health.status, health.text]).toEqual([wanted, ""]);
  });

  it("reports an uninitialised service", async () => {
    await unbootstrapped();
    const health = await get("/v1/sys/health", anyone);
    expect([health.status, health.body]).toMatchObject([501, { initialized: false, sealed: false }]);
  });

  it("is not offered inside a namespace, while every spelling of the root is the root", async () => {
    const inside = (namespace: string) => ({ ...anyone, headers: { "X-Vault-Namespace": namespace } });
    for (const path of ["/v1/sys/health", "/v1/sys/init"]) {
      const answer = await get(path, inside("team/"));
      expect([answer.status, answer.body.errors]).toEqual([400, ["operation unavailable in namespaces"]]);
      for (const root of ["", "/", "root", "root/"]) expect((await get(path, inside(root))).status, root).toBe(200);
    }
  });
});

describe("sys/seal-status", () => {
  it("has every field that strict clients read, open and sealed", async () => {
    const whole = {
      type: expect.any(String),
      initialized: true,
      sealed: false,
      t: expect.any(Number),
      n: expect.any(Number),
      progress: 0,
      nonce: "",
      version: expect.stringMatching(VERSION),
      build_date: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      migration: false,
      cluster_name: expect.any(String),
      cluster_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      recovery_seal: false,
      storage_type: expect.any(String),
    };
    expect((await get("/v1/sys/seal-status", anyone)).body).toEqual(whole);
    await deployWithMasterKey("");
    const sealed = await get("/v1/sys/seal-status", anyone);
    expect([sealed.status, sealed.body]).toEqual([200, { ...whole, sealed: true }]);
  });
});

describe("sys/init and sys/leader", () => {
  it("are public, sealed or not", async () => {
    for (const key of [FIRST_KEY, ""]) {
      await get("/v1/sys/init", anyone);
      await deployWithMasterKey(key);
      expect(await get("/v1/sys/init", anyone)).toMatchObject({ status: 200, text: '{"initialized":true}' });
      expect((await get("/v1/sys/leader", anyone)).body).toMatchObject({ ha_enabled: false, leader_address: "" });
    }
  });

  it("report a service without its first token as not initialised", async () => {
    await unbootstrapped();
    expect((await get("/v1/sys/init", anyone)).text).toBe('{"initialized":false}');
    expect((await get("/v1/sys/seal-status", anyone)).body.initialized).toBe(false);
  });
});
