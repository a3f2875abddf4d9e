import { describe, expect, it } from "vitest";
import { parseGoDuration } from "../../lib/go-duration.ts";
import { readQuery } from "./read-query.ts";

const read = (query: string) => readQuery(new URLSearchParams(query));
const refused = (query: string): unknown => {
  try {
    return read(query);
  } catch (failure) {
    return failure;
  }
};

describe("a parameter of a read", () => {
  it("is optional", () => {
    expect(read("")).toEqual({ perPage: 0, nextToken: "", filter: "", reverse: false, waitMs: 300_000, index: 0 });
  });

  it.each(["stale", "stale=", "stale=1", "stale=T", "stale=true", "stale=FALSE", "stale=0"])("accepts ?%s", (query) => {
    expect(read(query).index).toBe(0);
  });

  it.each([
    ["stale=yes", "Expect `true` or `false` for `stale` query string parameter"],
    ["stale=tRUE", "Expect `true` or `false` for `stale` query string parameter"],
    ["per_page=ten", "Expect a number for `per_page` query string parameter"],
    ["per_page=-1", "Expect a number for `per_page` query string parameter"],
    ["wait=5", "Invalid wait time"],
    ["wait=1d", "Invalid wait time"],
    ["wait=s", "Invalid wait time"],
    ["wait=10 s", "Invalid wait time"],
    ["index=-1", "Invalid index"],
    ["index=0x10", "Invalid index"],
    ["index=1.0", "Invalid index"],
    ["index=latest", "Invalid index"],
    ["index=18446744073709551616", "Invalid index"],
    [`index=${"1".repeat(10_000)}`, "Invalid index"],
  ])("?%s is refused", (query, message) => {
    expect(refused(query)).toMatchObject({ status: 400, messages: [message] });
  });

  it("that is invalid is reported in a fixed order of parameters", () => {
    const bad = ["stale=x", "per_page=x", "wait=x", "index=x"];
    const names = bad.map((_, n) => (refused(bad.slice(n).toReversed().join("&")) as Error).message);
    expect(names).toEqual([
      "Expect `true` or `false` for `stale` query string parameter",
      "Expect a number for `per_page` query string parameter",
      "Invalid wait time",
      "Invalid index",
    ]);
  });

  it("index accepts 64-bit integers", () => {
    expect(read("index=18446744073709551615").index).toBe(2 ** 64);
    expect(read("index=007").index).toBe(7);
  });

  it("reverse accepts true only", () => {
    expect(["true", "1", "TRUE", ""].map((value) => read(`reverse=${value}`).reverse)).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });
});

describe("a duration", () => {
  it.each([
    ["300ms", 300],
    ["1.5h", 5_400_000],
    ["5m30s", 330_000],
    ["10s", 10_000],
    ["0", 0],
    ["-0", 0],
    ["+2s", 2_000],
    ["-1.5s", -1_500],
    [".5s", 500],
    ["1.s", 1_000],
    ["1500us", 1.5],
    ["1500µs", 1.5],
    ["1500μs", 1.5],
    ["500000ns", 0.5],
    ["1h1m1s1ms", 3_661_001],
  ])("%s is %d ms", (text, ms) => {
    expect(parseGoDuration(text)).toBeCloseTo(ms, 9);
  });

  it.each(["", "1", "s", "1x", "1d", ".s", "--1s", "1s ", "1s,2s", "1e3s", "00", "300years", "9999999h"])(
    "rejects %j",
    (text) => {
      expect(parseGoDuration(text)).toBeNull();
    },
  );
});
