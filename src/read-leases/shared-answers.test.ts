import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Answer } from "./lease-cache.ts";
import { SharedAnswers } from "./shared-answers.ts";

let answers: SharedAnswers<string>;

beforeEach(() => {
  answers = new SharedAnswers({ characters: 1_000, absent: 10 });
});

const told = (value: string, more: object = {}): Answer<string> => ({
  ms: 60_000,
  term: 1,
  clock: 1,
  value,
  absent: false,
  size: value.length,
  reusable: true,
  ...more,
});

/** An owner that answers when the test says so. */
function owner() {
  const asked: PromiseWithResolvers<Answer<string>>[] = [];
  const ask = vi.fn(() => {
    const question = Promise.withResolvers<Answer<string>>();
    asked.push(question);
    return question.promise;
  });
  return { ask, asked, read: () => answers.read({ owner: "kv", keys: ["a"], tag: "a", ask }) };
}

describe("reads of one key", () => {
  it("are one question while it is under way, and none afterwards", async () => {
    const { ask, asked, read } = owner();
    const reads = [read(), read(), read()];
    asked[0]?.resolve(told("1"));
    expect(await Promise.all(reads)).toEqual(["1", "1", "1"]);
    expect(read()).toBe("1");
    expect(ask).toHaveBeenCalledTimes(1);
  });

  it("ask for themselves when the answer serves one read alone", async () => {
    const { ask, asked, read } = owner();
    const reads = [read(), read(), read()];
    asked[0]?.resolve(told("1", { reusable: false }));
    await vi.waitFor(() => expect(ask).toHaveBeenCalledTimes(3));
    for (const [position, question] of asked.entries())
      question.resolve(told(String(position + 1), { reusable: false }));
    expect(await Promise.all(reads)).toEqual(["1", "2", "3"]);
  });

  it("ask again after a change, though a question is under way", async () => {
    const { asked, read } = owner();
    const early = read();
    answers.invalidate("kv", 2, ["a"]);
    const late = read();
    asked[1]?.resolve(told("new", { clock: 2 }));
    asked[0]?.resolve(told("old"));
    expect([await early, await late, read()]).toEqual(["old", "new", "new"]);
  });

  it("extend a lease that is about to end, with one question that none waits for", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_000 });
    const { ask, asked, read } = owner();
    const first = read();
    asked[0]?.resolve(told("1", { ms: 2_000 }));
    await first;
    vi.setSystemTime(1_900);
    expect([read(), ask.mock.calls.length]).toEqual(["1", 1]);
    vi.setSystemTime(2_500);
    expect([read(), read(), ask.mock.calls.length]).toEqual(["1", "1", 2]);
    asked[1]?.resolve(told("1", { ms: 2_000 }));
    await asked[1]?.promise;
    await Promise.resolve();
    vi.setSystemTime(4_400);
    expect(read()).toBe("1");
    vi.useRealTimers();
  });

  it("all fail with their question, and the next one asks", async () => {
    const { ask, asked, read } = owner();
    const reads = [read(), read()];
    asked[0]?.reject(new Error("no owner"));
    const failed = await Promise.allSettled(reads);
    expect(failed.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    void read();
    expect(ask).toHaveBeenCalledTimes(2);
  });
});
