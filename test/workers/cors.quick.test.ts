import { describe, expect, it } from "vitest";
import { clearCorsCache } from "../../src/access/system/cors-cached.ts";
import { del, get, put, send } from "./client.ts";

const APP = "https://app.example";
const AT = "/v1/sys/config/cors";

const from = (origin: string, more: Record<string, string> = {}) => ({ headers: { Origin: origin, ...more } });
const preflight = (origin: string, method: string, path = "/v1/sys/mounts") =>
  send("OPTIONS", path, undefined, { token: null, ...from(origin, { "Access-Control-Request-Method": method }) });

describe("sys/config/cors", () => {
  it("is stored, shown and removed", async () => {
    expect((await get(AT)).body.data).toEqual({ enabled: false });
    expect((await put(AT, { allowed_origins: [APP], allowed_headers: "X-Mine,X-Other" })).status).toBe(204);
    const { data } = (await get(AT)).body;
    expect(data).toMatchObject({ enabled: true, allowed_origins: [APP] });
    // Terraform takes every header beside upstream's ten for a configured one.
    expect(data.allowed_headers).toEqual([
      "Content-Type",
      "X-Requested-With",
      "X-Vault-AWS-IAM-Server-ID",
      "X-Vault-MFA",
      "X-Vault-No-Request-Forwarding",
      "X-Vault-Wrap-Format",
      "X-Vault-Wrap-TTL",
      "X-Vault-Policy-Override",
      "Authorization",
      "X-Vault-Token",
      "X-Mine",
      "X-Other",
    ]);
    expect((await del(AT)).status).toBe(204);
    expect((await get(AT)).body.data).toEqual({ enabled: false });
  });

  it("returns 400 for an invalid origin or header", async () => {
    const rows: readonly [body: object, says: string][] = [
      [{}, "allowed_origins"],
      [{ allowed_origins: [] }, "at least one origin or the wildcard must be provided"],
      [{ allowed_origins: ["*", APP] }, "must be the only value"],
      [{ allowed_origins: [`${APP}/path`] }, "allowed_origins: each must be an origin"],
      [{ allowed_origins: ["app.example"] }, "allowed_origins: each must be an origin"],
      [{ allowed_origins: [APP], allowed_headers: ["a b"] }, "allowed_headers: each must be the name"],
    ];
    for (const [body, says] of rows) {
      const { status, text } = await put(AT, body);
      expect([status, JSON.parse(text).errors[0]]).toEqual([400, expect.stringContaining(says)]);
    }
    expect((await get(AT)).body.data).toEqual({ enabled: false });
  });
});

describe("a browser's request", () => {
  it("has no CORS headers while no origin is configured", async () => {
    const { status, headers } = await get("/v1/sys/mounts", from(APP));
    expect([status, headers.get("Access-Control-Allow-Origin")]).toEqual([200, null]);
    expect((await preflight(APP, "GET")).headers.get("Access-Control-Allow-Origin")).toBeNull();
  });

  it("answers the preflight of an allowed origin", async () => {
    await put(AT, { allowed_origins: [APP], allowed_headers: ["X-Mine"] });
    for (const path of ["/v1/sys/mounts", "/v1/kv/data/x", "/v1/nodes"]) {
      const { status, headers } = await preflight(APP, "PUT", path);
      expect([path, status, headers.get("Access-Control-Allow-Origin")]).toEqual([path, 204, APP]);
      expect(headers.get("Access-Control-Allow-Headers")).toMatch(/X-Vault-Token.*X-Orch-Token.*,X-Mine$/);
      expect(headers.get("Access-Control-Allow-Methods")).toContain("PATCH");
      expect(headers.get("Vary")).toContain("Origin");
    }
    expect((await preflight(APP, "CONNECT")).status).toBe(405);
  });

  it("lets an allowed origin read answers and errors, and refuses others", async () => {
    await put(AT, { allowed_origins: ["https://APP.example"] });
    for (const [path, status] of [
      ["/v1/sys/mounts", 200],
      ["/v1/sys/none", 404],
      ["/v1/nodes", 200],
    ] as const) {
      const answer = await get(path, from(APP));
      expect([path, answer.status, answer.headers.get("Access-Control-Allow-Origin")]).toEqual([path, status, APP]);
    }
    for (const origin of ["https://app.example.evil", "http://app.example", "null"]) {
      const { status, headers, text } = await get("/v1/sys/mounts", from(origin));
      expect([origin, status, headers.get("Access-Control-Allow-Origin")]).toEqual([origin, 403, null]);
      expect(text).toContain("origin not allowed");
      expect((await preflight(origin, "GET")).status).toBe(403);
    }
    expect((await get("/v1/sys/mounts", from("https://x"))).status).toBe(200);
    expect((await get("/v1/sys/mounts")).headers.get("Access-Control-Allow-Origin")).toBeNull();
  });

  it("is allowed from every origin with *", async () => {
    await put(AT, { allowed_origins: "*" });
    expect((await get("/v1/sys/mounts", from("https://any.example"))).headers.get("Access-Control-Allow-Origin")).toBe(
      "https://any.example",
    );
    await del(AT);
    clearCorsCache();
    expect((await get("/v1/sys/mounts", from("https://any.example"))).headers.get("Access-Control-Allow-Origin")).toBe(
      null,
    );
  });
});
