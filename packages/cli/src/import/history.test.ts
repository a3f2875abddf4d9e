import { describe, expect, it } from "vitest";
import { settingsIn, stateOf, valueIn, versionsIn } from "./history.ts";

const NOW = Date.parse("2026-11-25T12:00:00Z");

describe("stateOf", () => {
  it.each([
    [{ deletion_time: "", destroyed: false }, "live"],
    [{ deletion_time: "2026-11-25T12:00:01.000000001Z", destroyed: false }, "live"],
    [{ deletion_time: "2026-11-25T11:59:59.999999999Z", destroyed: false }, "deleted"],
    [{ deletion_time: "2026-11-25T11:00:00Z", destroyed: true }, "destroyed"],
    [{}, "live"],
  ])("%j is %s", (version, state) => {
    expect(stateOf(version, NOW)).toBe(state);
  });
});

it("versionsIn sorts by number, and settingsIn has the defaults of the API", () => {
  const versions = { 10: { destroyed: false }, 9: { destroyed: true } };
  expect([...versionsIn({ current_version: 10, versions }, NOW).states]).toEqual([
    [9, "destroyed"],
    [10, "live"],
  ]);
  expect(settingsIn({ custom_metadata: {} })).toEqual({
    max_versions: 0,
    cas_required: false,
    delete_version_after: "0s",
    custom_metadata: null,
  });
});

it("valueIn is the text of the value, or null for a deleted one", () => {
  expect(valueIn('{"data":{"n":1.50},"metadata":{}}')).toBe('{"n":1.50}');
  expect(valueIn('{"data":null,"metadata":{}}')).toBeNull();
  expect(valueIn(null)).toBeNull();
});
