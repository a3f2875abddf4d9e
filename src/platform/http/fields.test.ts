import { describe, expect, it } from "vitest";
import * as z from "zod";
import {
  asMap,
  caseless,
  duration,
  flag,
  integer,
  parseDuration,
  signedDuration,
  stringList,
  stringMap,
} from "./fields.ts";

const accepts = (schema: z.ZodType, value: unknown) => schema.safeParse(value).data;
const refuses = (schema: z.ZodType, value: unknown) =>
  expect(schema.safeParse(value).success, String(value)).toBe(false);

describe("parseDuration", () => {
  it.each([
    [90, 90],
    ["90", 90],
    ["", 0],
    ["0s", 0],
    ["1h30m", 5400],
    ["1.5h", 5400],
    ["182d", 15_724_800],
    ["1m0.5s", 61],
    ["-1s", -1],
    ["+10s", 10],
    ["1500ms", 2],
    [" 5m ", 300],
    ["1.1h", 3960],
    ["0.1d", 8640],
    ["1ns", 1],
    ["0.000000001ns", 1],
    ["0.9s", 1],
    ["59999999us", 60],
    ["-0.1s", -1],
    ["-500ms", -1],
    ["-1.5s", -2],
    ["0.000ms", 0],
    ["-0", 0],
    [-0, 0],
  ])("reads %j as %d seconds", (value, seconds) => expect(parseDuration(value)).toBe(seconds));

  it.each([
    "1x",
    "h",
    "1h 30m",
    "--1s",
    "1h-1m",
    "1e3",
    "1.5",
    1.5,
    " ",
    "\t",
    "1.s",
    ".5s",
    Number.NaN,
    true,
    null,
    undefined,
    {},
    [],
  ])("does not read %j", (value) => expect(parseDuration(value)).toBeNull());
});

describe("fields of requests", () => {
  it("accepts durations within 100 years, and negative ones only in signed fields", () => {
    expect(accepts(duration(), "1h")).toBe(3600);
    expect(accepts(signedDuration(), "-1s")).toBe(-1);
    refuses(duration(), "-1s");
    refuses(signedDuration(), "36501d");
    expect(duration("cannot provide negative value").safeParse(-1).error?.issues[0]?.message).toBe(
      "cannot provide negative value",
    );
  });

  it("accepts every command-line spelling of a flag", () => {
    for (const yes of [true, 1, "1", "t", "T", "true", "TRUE"]) expect(accepts(flag(), yes)).toBe(true);
    for (const no of [false, 0, "0", "f", "false", "False", ""]) expect(accepts(flag(), no)).toBe(false);
    for (const neither of ["yes", " ", 2, null, {}]) refuses(flag(), neither);
  });

  it("accepts integers and their texts, rejects fractions and unsafe integers", () => {
    expect(accepts(integer().min(0), "5")).toBe(5);
    expect(accepts(integer().min(-1), "-1")).toBe(-1);
    expect(accepts(integer().min(0), 7)).toBe(7);
    expect(accepts(integer().min(0), "")).toBe(0);
    for (const wrong of ["-1", -1, 1.5, "1.5", "1e3", " ", "9007199254740993", true, null])
      refuses(integer().min(0), wrong);
  });

  it("accepts lists as comma-separated text", () => {
    expect(accepts(stringList(), "a, b,,c")).toEqual(["a", "b", "c"]);
    expect(accepts(stringList(), ["a,b"])).toEqual(["a,b"]);
    refuses(stringList(), [1]);
  });

  it("accepts maps as pairs, lists of pairs and JSON text", () => {
    for (const spelling of [{ a: "1", b: "x=y" }, "a=1,b=x=y", ["a=1", "b=x=y"], '{"a":"1","b":"x=y"}']) {
      expect(accepts(stringMap(), spelling)).toEqual({ a: "1", b: "x=y" });
    }
    expect(accepts(stringMap(), { a: 1, b: true })).toEqual({ a: "1", b: "true" });
    for (const wrong of ["a", ["a"], { a: {} }, { a: null }, "{broken", 5]) refuses(stringMap(), wrong);
    expect(asMap(["=x"])).toEqual(["=x"]);
  });

  it("matches caseless fields in any case", () => {
    const schema = caseless(z.object({ BootstrapSecret: z.string() }));
    expect(accepts(schema, { bootstrapsecret: "x" })).toEqual({ BootstrapSecret: "x" });
    refuses(schema, ["x"]);
  });
});
