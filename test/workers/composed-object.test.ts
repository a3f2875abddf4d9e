import { env } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { composedOf } from "../../src/platform/durable/rpc-methods.ts";

describe("an object composed of method tables", () => {
  it("refuses two rows of the same name", () => {
    const greeting = { greet: (_parts: object, name: string) => `hello ${name}` };
    expect(() => composedOf<object>()(greeting, { greet: () => "" })).toThrow(
      "two methods of one object are named greet",
    );
  });

  it("refuses a method that every object has", () => {
    const wakeUps = { alarm: () => undefined };
    expect(() => composedOf<object>()(wakeUps)).toThrow("two methods of one object are named alarm");
  });

  it("answers each of its rows in one call", async () => {
    const registry = env.CLUSTER_REGISTRY.getByName("main") as unknown as {
      csiPlugins(prefix: string, from: string): Promise<{ index: number }>;
      jobSummary(namespace: string, id: string): Promise<{ found: null }>;
    };
    expect(await registry.csiPlugins("", "")).toMatchObject({ index: expect.any(Number) });
    expect(await registry.jobSummary("default", "none")).toMatchObject({ found: null });
  });

  it.each([
    "ACCESS_CONTROL",
    "CLUSTER_REGISTRY",
    "KV_STORE",
    "CREDENTIAL_ENGINE",
    "SYNC_CONTROL",
    "SYNC_DESTINATION",
  ] as const)("does not offer the components of %s", async (binding) => {
    const stub = env[binding].getByName("main") as unknown as { parts: Promise<unknown> };
    await expect((async () => stub.parts)()).rejects.toThrow("does not implement");
  });
});
