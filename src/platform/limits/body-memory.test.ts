import { describe, expect, it } from "vitest";
import { BodyMemory } from "./body-memory.ts";

/** A memory of 10 bytes, and a clock that `pass` moves. */
function world() {
  let now = 1_000_000;
  const waiting = new Set<() => void>();
  const clock = {
    now: () => now,
    wait: () => new Promise<void>((resolve) => void waiting.add(resolve)),
  };
  const pass = async (ms: number) => {
    now += ms;
    for (const resolve of [...waiting]) resolve();
    waiting.clear();
    for (let turn = 0; turn < 5; turn++) await Promise.resolve();
  };
  return { memory: new BodyMemory(10, clock), pass, cutOff: () => waiting.clear() };
}

describe("the memory for bodies", () => {
  const { memory, pass, cutOff } = world();
  const had: string[] = [];
  const ends = new Map<string, () => void>();
  const reserve = (name: string, bytes: number) =>
    memory.reserve(bytes).then((reserved) => {
      had.push(reserved.ok ? name : `${name}: ${reserved.message}`);
      if (reserved.ok) ends.set(name, reserved.value);
    });
  const taken = async (ms = 20) => {
    await pass(ms);
    return had.splice(0);
  };
  const end = (name: string) => ends.get(name)?.();

  it("has room for bodies up to its size, and lets others wait in their order", async () => {
    void reserve("a", 6);
    void reserve("b", 4);
    void reserve("c", 5);
    void reserve("d", 1);
    expect(await taken()).toEqual(["a", "b"]);
    end("b");
    expect(await taken()).toEqual([]);
    end("a");
    expect(await taken()).toEqual(["c", "d"]);
  });

  it("is alone for a body that is larger", async () => {
    void reserve("large", 30);
    void reserve("small", 1);
    expect(await taken()).toEqual([]);
    end("c");
    expect(await taken()).toEqual([]);
    end("d");
    expect(await taken()).toEqual(["large"]);
    end("large");
    expect(await taken()).toEqual(["small"]);
    end("small");
  });

  it("refuses a body that waits for too long, which then waits for nothing", async () => {
    void reserve("e", 10);
    void reserve("f", 10);
    expect(await taken()).toEqual(["e"]);
    for (let second = 0; second < 19; second++) expect(await taken(1_000)).toEqual([]);
    expect(await taken(1_000)).toEqual(["f: too many large requests are under way; ask again"]);
    end("e");
    void reserve("g", 10);
    expect(await taken()).toEqual(["g"]);
  });

  it("forgets a request that the runtime cut off while it waited", async () => {
    void reserve("lost", 10);
    await pass(20);
    cutOff();
    void reserve("h", 10);
    end("g");
    expect(await taken(1_000)).toEqual([]);
    expect(await taken(1_001)).toEqual(["h"]);
  });

  it("forgets a request that the runtime cut off while it had its room", async () => {
    // Of `h` nothing is heard again.
    for (let second = 20; second < 120; second += 20) {
      void reserve(`i${second}`, 10);
      await pass(1_000);
      expect(await taken(19_000)).toEqual([`i${second}: too many large requests are under way; ask again`]);
    }
    void reserve("j", 10);
    expect(await taken(19_000)).toEqual([]);
    expect(await taken(1_001)).toEqual(["j"]);
  });
});
