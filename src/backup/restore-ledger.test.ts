import { expect, it } from "vitest";
import { memoryStorage } from "../../test/memory-storage.ts";
import { ok } from "../lib/result.ts";
import { RestoreLedger } from "./restore-ledger.ts";

/** A ledger whose objects and host record the calls that they get. */
function ledger() {
  const calls: string[] = [];
  const called = async (call: string, name: string) => {
    calls.push(`${call} ${name}`);
    if (failing.has(call)) throw new Error(`no ${call}`);
    return ok(null);
  };
  const failing = new Set<string>();
  const KV_STORE = {
    getByName: (name: string) => ({
      swap: () => called("swap", name),
      restart: () => called("restart", name),
      release: () => called("release", name),
    }),
  };
  const host = {
    env: { KV_STORE } as unknown as Env,
    storage: memoryStorage(),
    hold: (restore: string) => {
      calls.push(`hold ${restore}`);
      return ok(null);
    },
    swap: () => {
      calls.push("swap the host");
      return ok(null);
    },
    release: () => undefined,
    restart: () => undefined,
  };
  return { restores: new RestoreLedger(host), calls, failing };
}

const store = (name: string) => ({ kind: "kv-store", name }) as const;

it("swaps its own tables after those of all other objects", async () => {
  const { restores, calls } = ledger();
  await restores.begin("r");
  // More than one page.
  const names = Array.from({ length: 17 }, (_, at) => `store${String(at).padStart(2, "0")}`);
  for (const name of names) expect(restores.join("r", store(name)).ok).toBe(true);
  expect(restores.complete("r").ok).toBe(true);
  for (let steps = 0; restores.state()?.phase === "swapping"; steps++) {
    if (steps > 10) throw new Error("no end");
    await restores.step();
  }
  const swaps = calls.filter((call) => call.startsWith("swap"));
  expect(swaps).toEqual([...names.map((name) => `swap ${name}`), "swap the host"]);
});

it("releases the objects of an unfinished restore before the next starts", async () => {
  const { restores, calls } = ledger();
  await restores.begin("first");
  restores.join("first", store("a"));
  expect((await restores.begin("second")).ok).toBe(true);
  expect(calls).toEqual(["hold first", "release a", "hold second"]);
  expect(restores.state()).toEqual({ restore: "second", phase: "loading" });
});

it("lets no object join while it is undone, and ends once for concurrent calls", async () => {
  const { restores } = ledger();
  await restores.begin("r");
  restores.join("r", store("a"));
  const undone = [restores.undo("r"), restores.undo(null), restores.step()];
  expect(restores.state()).toEqual({ restore: "r", phase: "undoing" });
  expect(restores.join("r", store("b"))).toMatchObject({ ok: false, reason: "conflict" });
  expect(restores.complete("r").ok).toBe(false);
  expect(await Promise.all(undone)).toEqual([ok(null), ok(null), false]);
  expect([restores.state(), restores.has("r")]).toEqual([null, false]);
});

it("continues an undo that was cut off, by the alarm", async () => {
  const { restores, calls, failing } = ledger();
  await restores.begin("r");
  restores.join("r", store("a"));
  failing.add("release");
  await expect(restores.undo("r")).rejects.toThrow("no release");
  failing.clear();
  expect(restores.nextDue(0)).toBe(1_000);
  await restores.step();
  expect([restores.state(), calls.at(-1)]).toEqual([null, "release a"]);
});

it("begins one of two concurrent restores, and leaves its ledger to it", async () => {
  const { restores } = ledger();
  await restores.begin("dead");
  restores.join("dead", store("a"));
  const [first, second] = await Promise.all([restores.begin("first"), restores.begin("second")]);
  expect([first.ok, second.ok].sort()).toEqual([false, true]);
  const begun = first.ok ? "first" : "second";
  expect(restores.state()).toEqual({ restore: begun, phase: "loading" });
  expect((await restores.undo("dead")).ok).toBe(true);
  expect(restores.has(begun)).toBe(true);
});
