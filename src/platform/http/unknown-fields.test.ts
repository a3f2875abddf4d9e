import { describe, expect, it } from "vitest";
import * as z from "zod";
import { caseless, echoed } from "./fields.ts";
import { ignored, internal, knownFields, unknownFields, unknownFieldsText, withAliases } from "./unknown-fields.ts";

const names = (schema: z.ZodType, body: unknown) => unknownFields(knownFields(schema), body).map(({ name }) => name);
const Inner = z.object({ ttl: z.number().optional(), max_ttl: z.number().optional() });

describe("fields that the schema does not define", () => {
  it.each<[string, z.ZodType, unknown, string[]]>([
    ["none", Inner, { ttl: 1 }, []],
    ["one beside those it reads", Inner, { ttl: 1, tll: 2 }, ["tll"]],
    ["an absent one with the value null", Inner, { tll: null }, []],
    ["of an object inside", z.object({ config: Inner.nullish() }), { config: { ttl: 1, x: 1 } }, ["config.x"]],
    ["of a default", z.object({ config: Inner.default({}) }), { config: { x: 1 } }, ["config.x"]],
    ["of objects in a list", z.object({ list: z.array(Inner) }), { list: [{ ttl: 1 }, { x: 1 }] }, ["list.x"]],
    [
      "of a returned object in a write",
      z
        .unknown()
        .transform((body) => body)
        .pipe(Inner),
      { x: 1, ttl: 1 },
      ["x"],
    ],
    ["of a changed object in a write", Inner.transform(({ ttl }) => ttl), { x: 1, ttl: 1 }, ["x"]],
    ["none in a map with any keys", z.object({ meta: z.record(z.string(), z.string()) }), { meta: { x: "1" } }, []],
    ["of a value of any kind", z.object({ data: z.unknown() }), { data: { x: 1 } }, []],
    ["of a loose object", z.looseObject({ a: z.string() }), { x: 1 }, []],
    ["in another case", Inner, { TTL: 1 }, ["TTL"]],
    ["in another case on a caseless route", caseless(z.object({ Name: z.string() })), { nAME: "a", Nam: 1 }, ["Nam"]],
    ["that the schema adds itself", z.object({ seen: internal(z.string().optional()) }), { seen: "x" }, ["seen"]],
    ["an alias", withAliases(z.unknown().pipe(Inner), { duration: "ttl" }), { duration: 1, other: 1 }, ["other"]],
    ["a field of returned objects", z.object({ ...echoed("Index") }), { Index: 7, Other: 1 }, ["Other"]],
    ["of a value that is not an object", Inner, "text", []],
  ])("are reported: %s", (_what, schema, body, found) => {
    expect(names(schema, body)).toEqual(found);
  });

  it("are reported up to 20, each up to 100 characters", () => {
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`x${at}${"y".repeat(500)}`, at]));
    const found = unknownFields(knownFields(Inner), many);
    expect(found).toHaveLength(20);
    expect(Math.max(...found.map(({ name }) => name.length))).toBe(100);
    expect(names(z.object({ list: z.array(Inner) }), { list: [many, many] })).toHaveLength(20);
    expect(names(Inner, { "a\r\nb": 1 })).toEqual(["a  b"]);
  });
});

describe("the suggestion for an unknown field", () => {
  const Body = z.object({ max_lease_ttl: z.string(), listing_visibility: z.string(), type: z.string() });
  it.each([
    ["max_lease_tll", "max_lease_ttl"],
    ["maxLeaseTTL", "max_lease_ttl"],
    ["MAX-LEASE-TTL", "max_lease_ttl"],
    ["listing_visiblity", "listing_visibility"],
    ["typ", "type"],
    ["tpye", null],
    ["description", null],
    ["x", null],
    ["max_lease_ttl_of_this_mount_and_of_others", null],
  ])("%s: %s", (name, meant) => {
    expect(unknownFields(knownFields(Body), { [name]: 1 })).toEqual([{ name, meant }]);
  });

  it("is the nearest of several, in any order", () => {
    const Near = z.object({ delete_version: z.string(), delete_versions: z.string(), deleted_versions: z.string() });
    const meant = (name: string) => unknownFields(knownFields(Near), { [name]: 1 })[0]?.meant;
    expect(["delete_versionz", "delete_versionss", "deleted_version_s"].map(meant)).toEqual([
      "delete_version",
      "delete_versions",
      "deleted_versions",
    ]);
    expect(unknownFields(knownFields(caseless(Near)), { Deleted_Versionss: 1 })[0]?.meant).toBe("deleted_versions");
  });

  it("is part of the warning and of the error", () => {
    const found = unknownFields(knownFields(Body), { typ: 1, colour: 2 });
    expect(ignored(found)).toEqual([
      "Endpoint ignored these unrecognized parameters: [colour typ]",
      "typ: did you mean type?",
    ]);
    expect(unknownFieldsText(found)).toBe('unknown field "typ"; did you mean type?; unknown field "colour"');
    expect(ignored([])).toEqual([]);
  });
});
