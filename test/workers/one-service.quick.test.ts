import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { get, mountKv, put } from "./client.ts";
import { mountEngine } from "./engine-helpers.ts";

const PATHS = [
  "/cloud-b/config",
  "/sys/sync/config",
  "/kv/data/a",
  "/v1/event/stream?index=-1",
  "/v1/volumes?type=host",
  "/v1/volumes?type=csi",
];

describe("the service", () => {
  // Proves: E.conv.base-url, E.conv.one-service
  it("answers both APIs, at paths relative to any base URL", async () => {
    await mountKv();
    await put("/v1/kv/data/a", { data: { a: "b" } });
    await mountEngine(null);
    for (const base of ["https://sallyport.example", "http://127.0.0.1:8787", "https://other.example:8443"]) {
      for (const path of PATHS) {
        const answer = await exports.default.fetch(`${base}${path}`, { headers: { "X-Orch-Token": "root" } });
        expect(answer.status, `${base}${path}`).toBe(200);
        expect(answer.headers.get("location")).toBeNull();
        await answer.body?.cancel();
      }
    }
  });

  // Proves: E.versioning.3
  it("reports the enterprise edition, and supports that edition's fields", async () => {
    expect((await get("/v1/sys/health")).body.enterprise).toBe(true);
    await mountEngine(null);
    const written = await put("/v1/cloud-b/config", {
      subscription_id: crypto.randomUUID(),
      tenant_id: crypto.randomUUID(),
      client_id: "c",
      identity_token_audience: "api://x",
      identity_token_ttl: "10m",
    });
    expect(written.status, written.text).toBeLessThan(300);
    const { data } = (await get("/v1/cloud-b/config")).body;
    expect(data).toMatchObject({ identity_token_audience: "api://x", identity_token_ttl: 600 });
  });
});
