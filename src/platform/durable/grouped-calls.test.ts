import { beforeEach, describe, expect, it, vi } from "vitest";
import { GroupedCalls } from "./grouped-calls.ts";

/** Calls, commits, rollbacks and answers, in their order. */
let seen: string[];
/** The calls whose effects are committed. */
let stored: string[];
let grouped: GroupedCalls;
let commits: boolean;

const turn = () => new Promise((resolve) => setTimeout(resolve, 5));

beforeEach(() => {
  vi.stubGlobal("scheduler", { wait: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)) });
  [seen, stored, commits] = [[], [], true];
  grouped = new GroupedCalls((run) => {
    const before = [...stored];
    try {
      run();
      if (!commits) throw new Error("the disk is full");
      seen.push("commit");
    } catch (failure) {
      stored = before;
      seen.push("rollback");
      throw failure;
    }
  });
});

/** A call by name. @param fails at how many of its first runs it throws */
function call(name: string, fails = 0): string | Promise<string> {
  let runs = 0;
  const answer = grouped.run(
    () => {
      runs += 1;
      seen.push(name);
      if (runs <= fails) throw new Error(`${name} fails`);
      stored.push(name);
      return name;
    },
    (result) => {
      seen.push(`answer ${result}`);
      return `${result}!`;
    },
  );
  if (answer instanceof Promise) answer.catch(() => undefined);
  return answer;
}

describe("calls that arrive together", () => {
  it("are one commit in their order, and are answered after it", async () => {
    const answers = ["a", "b", "c"].map((name) => call(name));
    expect(seen).toEqual([]);
    expect(await Promise.all(answers)).toEqual(["a!", "b!", "c!"]);
    expect(seen).toEqual(["a", "b", "c", "commit", "answer a", "answer b", "answer c"]);
  });

  it("run alone, in their order, when one of them fails, which fails alone", async () => {
    const answers = await Promise.allSettled([call("a"), call("b", 2), call("c")]);
    expect(answers.map((answer) => (answer.status === "fulfilled" ? answer.value : String(answer.reason)))).toEqual([
      "a!",
      "Error: b fails",
      "c!",
    ]);
    expect(seen).toEqual(["a", "b", "rollback", "a", "answer a", "b", "c", "answer c"]);
    expect(stored).toEqual(["a", "c"]);
  });

  it("run alone when their commit fails, and have had no answer before", async () => {
    commits = false;
    await Promise.all([call("a"), call("b")]);
    expect(seen).toEqual(["a", "b", "rollback", "a", "answer a", "b", "answer b"]);
    expect(stored).toEqual(["a", "b"]);
  });

  it("are several commits when they are many", async () => {
    await Promise.all(Array.from({ length: 70 }, (_, position) => call(`${position}`)));
    expect(seen.filter((what) => what === "commit")).toHaveLength(3);
    expect(stored).toEqual(Array.from({ length: 70 }, (_, position) => `${position}`));
  });

  it("run before a later call that is not grouped", async () => {
    const answers = [call("a"), call("b")];
    grouped.flush();
    expect(stored).toEqual(["a", "b"]);
    expect(await Promise.all(answers)).toEqual(["a!", "b!"]);
    await turn();
    expect(stored).toEqual(["a", "b"]);
  });
});

describe("calls that come one after the other", () => {
  it("run at once, but for one in sixteen, after three groups of one", async () => {
    const waited: boolean[] = [];
    for (let count = 0; count < 36; count++) {
      const answer = call("a");
      waited.push(answer instanceof Promise);
      expect(await answer).toBe("a!");
    }
    const expected = [true, true, true, ...Array(15).fill(false), true, ...Array(15).fill(false), true, false];
    expect(waited).toEqual(expected);
    expect(seen).not.toContain("commit");
  });

  it("do not overtake calls that wait", async () => {
    for (let count = 0; count < 3 + 15; count++) await call("a");
    stored = [];
    const answers = [call("first"), call("second")];
    expect(answers.every((answer) => answer instanceof Promise)).toBe(true);
    await Promise.all(answers);
    expect(stored).toEqual(["first", "second"]);
  });
});
