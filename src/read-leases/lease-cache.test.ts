import { beforeEach, describe, expect, it } from "vitest";
import { LeaseCache } from "./lease-cache.ts";

let cache: LeaseCache<string>;

beforeEach(() => {
  cache = new LeaseCache({ characters: 100, absent: 2 });
});

const grant = { ms: 2_000, term: 1, clock: 1 };
const answer = (value: string, more: object = {}) => ({
  ...grant,
  value,
  absent: false,
  size: value.length,
  reusable: true,
  ...more,
});

/** Asks at `sentAt` and is answered at `now`. */
function learn(
  key: string,
  value: string,
  { sentAt = 0, now = sentAt, ...more }: Record<string, unknown> = {},
): number {
  return cache.answer(cache.ask("kv", key, Number(sentAt)), answer(value, more), Number(now));
}

describe("an answer", () => {
  it("is served from memory while the lease runs, counted from before the question", () => {
    learn("a", "1", { sentAt: 100, now: 900 });
    expect([cache.read("kv", "a", 2_099), cache.read("kv", "a", 2_100)]).toEqual(["1", undefined]);
  });

  it("of one key extends the lease of all keys of its owner", () => {
    learn("a", "1");
    learn("b", "2", { sentAt: 1_500 });
    expect([cache.read("kv", "a", 3_000), cache.read("other", "a", 3_000)]).toEqual(["1", undefined]);
  });

  it("is not kept when it is older than an invalidation of its key", () => {
    const question = cache.ask("kv", "a", 0);
    cache.invalidate("kv", 2, ["a"]);
    cache.answer(question, answer("old"), 10);
    expect(cache.read("kv", "a", 20)).toBeUndefined();
  });

  it("is kept when it includes the invalidation that overtook it", () => {
    const question = cache.ask("kv", "a", 0);
    cache.invalidate("kv", 2, ["a"]);
    cache.answer(question, answer("new", { clock: 2 }), 10);
    expect(cache.read("kv", "a", 20)).toBe("new");
  });

  it("is not kept when everything was invalidated since", () => {
    const question = cache.ask("kv", "a", 0);
    cache.invalidate("kv", 2, null);
    cache.answer(question, answer("old"), 10);
    expect(cache.read("kv", "a", 20)).toBeUndefined();
  });

  it("of an earlier term is not kept", () => {
    const late = cache.ask("kv", "a", 0);
    learn("b", "2", { sentAt: 10, term: 5, clock: 5 });
    cache.answer(late, answer("old"), 20);
    expect([cache.read("kv", "a", 30), cache.read("kv", "b", 30)]).toEqual([undefined, "2"]);
  });

  it("that may not be used again is not kept, and serves no read that joined", () => {
    expect(learn("a", "1", { sentAt: 5, now: 50, reusable: false })).toBe(5);
    expect(cache.read("kv", "a", 60)).toBeUndefined();
  });

  it("serves reads that joined while its lease would have run", () => {
    expect(learn("a", "1", { sentAt: 100, now: 5_000, ms: 700 })).toBe(800);
  });
});

describe("an entry", () => {
  it("is forgotten when its key is invalidated", () => {
    learn("a", "1");
    learn("b", "2");
    cache.invalidate("kv", 2, ["a"]);
    expect([cache.read("kv", "a", 10), cache.read("kv", "b", 10)]).toEqual([undefined, "2"]);
  });

  it("stays when an invalidation arrives that it includes", () => {
    learn("a", "new", { clock: 7 });
    cache.invalidate("kv", 7, ["a"]);
    cache.invalidate("kv", 6, null);
    expect(cache.read("kv", "a", 10)).toBe("new");
  });

  it("that is given back is forgotten, and answers to questions under way are not kept", () => {
    learn("a", "1");
    const early = cache.ask("kv", "a", 0);
    expect(cache.giveBack("kv", "a")).toBe(early.number);
    expect([cache.read("kv", "a", 10), cache.joinable("kv", "a")]).toEqual([undefined, null]);
    cache.answer(early, answer("1", { clock: 9 }), 10);
    expect(cache.read("kv", "a", 10)).toBeUndefined();
    learn("a", "2");
    expect(cache.read("kv", "a", 10)).toBe("2");
  });

  it("does not come back with a new term", () => {
    learn("a", "1");
    learn("b", "2", { sentAt: 5_000, term: 2, clock: 2 });
    expect([cache.read("kv", "a", 5_001), cache.read("kv", "b", 5_001)]).toEqual([undefined, "2"]);
  });
});

describe("a question", () => {
  it("is joined by reads of its key until the key is invalidated", () => {
    const question = cache.ask("kv", "a", 0);
    expect([cache.joinable("kv", "a"), cache.joinable("kv", "b")]).toEqual([question, null]);
    cache.invalidate("kv", 2, ["a"]);
    expect(cache.joinable("kv", "a")).toBeNull();
  });

  it("is not joined once it has failed", () => {
    cache.fail(cache.ask("kv", "a", 0));
    expect(cache.joinable("kv", "a")).toBeNull();
  });
});

describe("an entry that depends on a name which only its answer tells", () => {
  const ask = (key: string) => cache.ask("access", key, 0, null);
  const learned = (key: string, tag: string, more: object = {}) =>
    cache.answer(ask(key), answer(key, { tag, ...more }), 0);

  it("is forgotten with all entries of the name", () => {
    learned("t1 a", "t1");
    learned("t1 b", "t1");
    learned("t2 a", "t2");
    cache.invalidate("access", 2, ["t1"]);
    const kept = ["t1 a", "t1 b", "t2 a"].map((key) => cache.read("access", key, 10));
    expect(kept).toEqual([undefined, undefined, "t2 a"]);
  });

  it("is not kept when any change has overtaken its question", () => {
    const question = ask("t1 a");
    cache.invalidate("access", 2, ["t2"]);
    expect(cache.joinable("access", "t1 a")).toBeNull();
    cache.answer(question, answer("old", { tag: "t1" }), 10);
    expect(cache.read("access", "t1 a", 20)).toBeUndefined();
  });

  it("may be kept under a key that several questions have in common", () => {
    learned("t1 a", "t1", { key: "unknown t1" });
    expect([cache.read("access", "t1 a", 10), cache.read("access", "unknown t1", 10)]).toEqual([undefined, "t1 a"]);
  });
});

describe("an entry with an end", () => {
  it("is not served from then on, though the lease runs", () => {
    learn("a", "1", { ends: 500 });
    expect([cache.read("kv", "a", 499), cache.read("kv", "a", 500)]).toEqual(["1", undefined]);
  });
});

it("forgets everything, and keeps no answer that is under way, when the clock cannot be trusted", () => {
  learn("a", "1");
  const question = cache.ask("kv", "b", 5_000);
  cache.forget();
  cache.answer(question, answer("2"), 20);
  expect([cache.read("kv", "a", 30), cache.read("kv", "b", 30)]).toEqual([undefined, undefined]);
});

describe("the memory", () => {
  it("drops the entries whose last use is the oldest", () => {
    for (const key of ["a", "b", "c"]) learn(key, "x".repeat(28));
    expect(cache.read("kv", "a", 10)).toBeDefined();
    learn("d", "x".repeat(28));
    expect(["a", "b", "c", "d"].filter((key) => cache.read("kv", key, 10) !== undefined)).toEqual(["a", "c", "d"]);
    expect(cache.size.characters).toBeLessThanOrEqual(100);
  });

  it("keeps what is there while unknown names flood it", () => {
    learn("a", "1");
    for (let number = 0; number < 50; number++) learn(`unknown ${number}`, "", { absent: true });
    expect([cache.read("kv", "a", 10), cache.size.absent]).toEqual(["1", 2]);
    expect(cache.read("kv", "unknown 49", 10)).toBe("");
  });

  it("bounds the length of absent names, too", () => {
    for (const key of ["a", "b"]) learn(key.repeat(60), "", { absent: true });
    expect(cache.size.absent).toBe(1);
  });

  it("does not hold an entry that is larger than its bound", () => {
    learn("a", "x".repeat(200));
    expect([cache.read("kv", "a", 10), cache.size.present]).toEqual([undefined, 0]);
  });

  it("replaces an absent thing by one that is there", () => {
    learn("a", "", { absent: true });
    learn("a", "1", { clock: 2 });
    expect([cache.read("kv", "a", 10), cache.size.absent, cache.size.present]).toEqual(["1", 0, 1]);
  });
});
