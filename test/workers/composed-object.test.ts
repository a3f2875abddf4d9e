import { env } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { composedOf } from "../../src/platform/durable/rpc-methods.ts";

class Greeting {
  greet(name: string): string {
    return `hello ${name}`;
  }
}

describe("an object composed of classes", () => {
  it("refuses two classes with a method of the same name", () => {
    class Other {
      greet(): string {
        return "";
      }
    }
    expect(() => composedOf({ greeting: Greeting, other: Other })).toThrow("two methods of one object are named greet");
  });

  it("refuses a method that every object has", () => {
    class Alarm {
      alarm(): void {}
    }
    expect(() => composedOf({ alarm: Alarm })).toThrow("two methods of one object are named alarm");
  });

  it("answers the methods of its components in one call each", async () => {
    const registry = env.CLUSTER_REGISTRY.getByName("main") as unknown as {
      csiPlugins(prefix: string, from: string): Promise<{ index: number }>;
      jobSummary(namespace: string, id: string): Promise<{ found: null }>;
    };
    expect(await registry.csiPlugins("", "")).toMatchObject({ index: expect.any(Number) });
    expect(await registry.jobSummary("default", "none")).toMatchObject({ found: null });
  });

  it.each(["ACCESS_CONTROL", "CLUSTER_REGISTRY"] as const)("does not offer the components of %s", async (binding) => {
    const stub = env[binding].getByName("main") as unknown as { rpc: Promise<unknown> };
    await expect((async () => stub.rpc)()).rejects.toThrow("does not implement");
  });
});
