import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { StoredSecret } from "../../src/platform/crypto/master-key.ts";
import { get, mountKv, put } from "./client.ts";
import { deployment } from "./deployment.ts";
import { evictObject } from "./evict-all.ts";
import { deployWithMasterKey, FIRST_KEY, key } from "./sealing-helpers.ts";
import { eventually } from "./sync-helpers.ts";

/* `MASTER_KEY` as a binding of the Secrets Store. test/http/secrets-store.test.ts has the binding of the platform. */

/** A stored secret, whose value a test changes. */
class Stored implements StoredSecret {
  value: unknown = FIRST_KEY;
  reads = 0;
  async get(): Promise<string> {
    this.reads++;
    await scheduler.wait(1);
    if (this.value === undefined) throw new Error("Secret not found");
    return this.value as string;
  }
}

const bind = async (bound: Stored) => {
  await deployWithMasterKey(bound);
  (env as { MASTER_KEY?: unknown }).MASTER_KEY = bound;
};

afterEach(async () => {
  vi.useRealTimers();
  (env as { MASTER_KEY?: unknown }).MASTER_KEY = FIRST_KEY;
  await deployWithMasterKey(FIRST_KEY);
});

describe("MASTER_KEY as a stored secret", () => {
  it("seals and opens, also after an eviction, and is read once", async () => {
    const { uuid } = await mountKv();
    await put("/v1/kv/data/a", { data: { k: "before" } });
    const stored = new Stored();
    await bind(stored);
    expect((await get("/v1/kv/data/a")).body.data.data).toEqual({ k: "before" });
    expect((await put("/v1/kv/data/b", { data: { k: "v" } })).status).toBe(200);
    await evictObject(env.KV_STORE.getByName(uuid));
    expect((await get("/v1/kv/data/b")).body.data.data).toEqual({ k: "v" });
    expect(
      (await deployment({ MASTER_KEY: stored })("/v1/sys/audit-hash/log", { method: "POST", body: { input: "x" } }))
        .status,
    ).toBe(200);
    expect(stored.reads).toBeLessThan(20);
  });

  it.each([
    ["missing", undefined, "sealed: MASTER_KEY cannot be read from its Secrets Store binding"],
    ["no text", 7, "sealed: MASTER_KEY cannot be read from its Secrets Store binding"],
    ["malformed", "secret-but-no-key", "sealed: key 1 of MASTER_KEY is not base64 of 32 bytes"],
    ["another", key("another"), expect.stringContaining("which MASTER_KEY does not hold")],
  ])("that is %s seals the service, and opens it once it is there", async (_name, value, reason) => {
    await mountKv();
    await put("/v1/kv/data/a", { data: { k: "v" } });
    const stored = new Stored();
    stored.value = value;
    await bind(stored);
    const { status, body, text } = await get("/v1/kv/data/a");
    expect([status, body.errors]).toEqual([503, [reason]]);
    expect(text).not.toContain("secret-but-no-key");
    if (value !== undefined && typeof value === "string") return;
    stored.value = FIRST_KEY;
    await eventually(async () => expect((await get("/v1/kv/data/a")).status).toBe(200));
  });

  it("is read again after a minute, and the value before is used while it cannot be read", async () => {
    await mountKv();
    const stored = new Stored();
    await bind(stored);
    const hash = async () => {
      const { body } = await put("/v1/sys/audit-hash/log", { input: "x" });
      return Object.keys(body.data.hashes);
    };
    const before = await hash();
    const read = async () => {
      const { reads } = stored;
      vi.setSystemTime(Date.now() + 61_000);
      await eventually(async () => {
        await get("/v1/sys/health");
        await hash();
        expect(stored.reads).toBeGreaterThan(reads);
      });
      await scheduler.wait(5);
    };
    stored.value = undefined;
    await read();
    expect(await hash()).toEqual(before);
    stored.value = `${key("second")},${FIRST_KEY}`;
    await read();
    await eventually(async () => expect((await hash()).slice(1)).toEqual(before));
  });
});
