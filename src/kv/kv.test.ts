import { describe, expect, it } from "vitest";
import { goDuration } from "../lib/go-duration.ts";
import { parseLossless } from "../lib/json.ts";
import { changeCustomMetadata, readCustomMetadata } from "../platform/http/custom-metadata.ts";
import { ConfigBody, MetadataBody } from "../routes/kv/bodies.ts";
import { changeSettings } from "./settings.ts";
import { deletionAt, emptySecret, keptVersions, lives, subkeys, timestamp } from "./version.ts";

describe("times", () => {
  it("formats times with nanoseconds, and null as an empty text", () => {
    expect(timestamp(Date.UTC(2026, 0, 2, 3, 4, 5, 6))).toBe("2026-01-02T03:04:05.006000000Z");
    expect(timestamp(null)).toBe("");
  });

  it.each([
    [0, "0s"],
    [59, "59s"],
    [60, "1m0s"],
    [3600, "1h0m0s"],
    [90_061, "25h1m1s"],
    [-1, "-1s"],
  ])("formats %d seconds as %s", (seconds, text) => expect(goDuration(seconds)).toBe(text));

  it.each([
    [0, 0, null],
    [10, 0, 10_000],
    [0, 20, 20_000],
    [10, 20, 10_000],
    [30, 20, 20_000],
    [10, -1, null],
  ])("with %d on the path and %d on the mount deletes a version of time 0 at %s", (key, mount, at) =>
    expect(deletionAt(0, key, mount)).toBe(at),
  );

  it("counts a version as deleted from its deletion time on", () => {
    const sealed = new ArrayBuffer(1);
    expect(lives({ deletion: 10, sealed }, 9)).toBe(true);
    expect(lives({ deletion: 10, sealed }, 10)).toBe(false);
    expect(lives({ deletion: null, sealed }, 10)).toBe(true);
    expect(lives({ deletion: null, sealed: null }, 10)).toBe(false);
  });
});

it("retains the larger of the two numbers of versions, ten by default", () => {
  expect([keptVersions(0, 0), keptVersions(3, 0), keptVersions(0, 5), keptVersions(3, 5)]).toEqual([10, 3, 5, 5]);
});

describe("subkeys", () => {
  const data = { a: 1, b: { c: { d: [1] }, e: {} }, f: null, ["__proto__x"]: "" };
  it("returns every key and no value", () => {
    expect(subkeys(data, 0)).toEqual({ a: null, b: { c: { d: null }, e: null }, f: null, __proto__x: null });
  });
  it("stops at the given depth", () => {
    expect(subkeys(data, 1)).toEqual({ a: null, b: null, f: null, __proto__x: null });
    expect(subkeys(data, 2)).toEqual({ a: null, b: { c: null, e: null }, f: null, __proto__x: null });
  });
  it("returns an empty object for an empty secret", () => expect(subkeys({}, 0)).toEqual({}));
  it("keeps a key named __proto__", () => {
    expect(JSON.stringify(subkeys(JSON.parse('{"__proto__":{"a":1}}'), 0))).toBe('{"__proto__":{"a":null}}');
  });
});

it("refuses more than 10 000 versions", () => {
  for (const body of [ConfigBody, MetadataBody]) {
    expect(body.safeParse({ max_versions: "10000" }).success).toBe(true);
    expect(body.safeParse({ max_versions: 10_001 }).error?.issues[0]?.message).toBe("must be at most 10000");
  }
});

describe("settings of a path", () => {
  const row = { ...emptySecret("p", 1), max_versions: 4, cas_required: 1, delete_version_after: 60 };
  it("treats null as unchanged in a write and as the default in a patch", () => {
    const nulls = { max_versions: null, cas_required: null, delete_version_after: null };
    expect(changeSettings(row, nulls, false, 2)).toMatchObject({ value: { ...row, updated: 2, metadata_version: 1 } });
    expect(changeSettings(row, nulls, true, 2)).toMatchObject({
      value: { max_versions: 0, cas_required: 0, delete_version_after: 0 },
    });
  });
});

describe("custom metadata", () => {
  it("is replaced by a write and merged by a patch, in which null removes a key", () => {
    const before = '{"a":"1","b":"2"}';
    expect(changeCustomMetadata(before, { c: "3" }, false)).toMatchObject({ value: '{"c":"3"}' });
    expect(changeCustomMetadata(before, { a: null, c: "3" }, true)).toMatchObject({ value: '{"b":"2","c":"3"}' });
    expect(changeCustomMetadata(before, undefined, false)).toMatchObject({ value: before });
    expect(changeCustomMetadata(before, null, false)).toMatchObject({ value: before });
  });

  it("is null when the last key was removed", () => {
    expect(changeCustomMetadata('{"a":"1"}', {}, false)).toMatchObject({ value: null });
    expect(changeCustomMetadata('{"a":"1"}', { a: null }, true)).toMatchObject({ value: null });
    expect(changeCustomMetadata('{"a":"1"}', null, true)).toMatchObject({ value: null });
    expect(changeCustomMetadata(null, {}, true)).toMatchObject({ value: null });
  });

  it("is limited in bytes, not characters", () => {
    const key = "k".repeat(128);
    expect(changeCustomMetadata(null, { [key]: "v".repeat(512) }, false).ok).toBe(true);
    expect(changeCustomMetadata(null, { [`${key}k`]: "v" }, false).ok).toBe(false);
    expect(changeCustomMetadata(null, { k: "v".repeat(513) }, false).ok).toBe(false);
    expect(changeCustomMetadata(null, { k: "é".repeat(257) }, false).ok).toBe(false);
    expect(changeCustomMetadata(null, { k: "" }, false).ok).toBe(false);
    expect(changeCustomMetadata(null, { "": "v" }, false).ok).toBe(false);
    expect(changeCustomMetadata(null, { k: "a\tb" }, false).ok).toBe(false);
    expect(changeCustomMetadata(null, { k: "ключ 🔑" }, false).ok).toBe(true);
  });

  it("holds 64 keys, counted after the merge", () => {
    const keys = (n: number, prefix: string) =>
      Object.fromEntries(Array.from({ length: n }, (_, at) => [`${prefix}${at}`, "v"]));
    const full = changeCustomMetadata(null, keys(64, "a"), false);
    expect(full.ok).toBe(true);
    const before = full.ok ? full.value : null;
    expect(changeCustomMetadata(before, keys(1, "b"), true)).toMatchObject({
      message: "custom_metadata validation failed: 65 keys provided, at most 64 allowed",
    });
    expect(changeCustomMetadata(before, { ...keys(1, "b"), a0: null }, true).ok).toBe(true);
  });

  it("lists every violation, but no value", () => {
    const refused = changeCustomMetadata(null, { "": "x", ok: "secret\u0000", long: "x".repeat(600) }, false);
    expect(refused).toEqual({
      ok: false,
      reason: "invalid",
      message:
        'custom_metadata validation failed: key "" has 0 bytes, must have 1 to 128; ' +
        'value of key "ok" holds unprintable characters; value of key "long" has 600 bytes, must have 1 to 512',
    });
  });

  it("is a map of texts or a command line's list; null only in a patch", () => {
    expect(readCustomMetadata("a=1,b=2", false)).toMatchObject({ value: { a: "1", b: "2" } });
    expect(readCustomMetadata({ a: null }, true).ok).toBe(true);
    expect(
      readCustomMetadata(parseLossless('{"a":5,"b":1.10,"c":true,"d":12345678901234567890}'), false),
    ).toMatchObject({
      value: { a: "5", b: "1.10", c: "1", d: "12345678901234567890" },
    });
    expect(readCustomMetadata({ a: null, b: [1], c: "x" }, false)).toMatchObject({
      message:
        'custom_metadata validation failed: value of key "a" must be a string; value of key "b" must be a string',
    });
    for (const wrong of [5, "x", ["x"], true]) expect(readCustomMetadata(wrong, false).ok).toBe(false);
  });

  it("keeps a key named __proto__", () => {
    const kept = changeCustomMetadata(null, JSON.parse('{"__proto__":"x"}'), false);
    expect(kept).toMatchObject({ value: '{"__proto__":"x"}' });
    expect(changeCustomMetadata(kept.ok ? kept.value : null, { a: "1" }, true)).toMatchObject({
      value: '{"__proto__":"x","a":"1"}',
    });
  });
});
