import { expect, it } from "vitest";
import * as z from "zod";
import { RequestError } from "../../platform/http/errors.ts";
import * as query from "../../platform/http/query-fields.ts";
import { parseQuery } from "./query.ts";

const schema = z.object({
  after: query.text(),
  dry_run: query.flag(),
  version: query.count(),
  limit: query.limit(100).default(20),
});
const usual = { after: "", dry_run: false, version: 0, limit: 20 };
const parsed = (text: string) => parseQuery(schema, new URLSearchParams(text));
const refusal = (text: string): string => {
  try {
    return `no refusal: ${JSON.stringify(parsed(text))}`;
  } catch (failure) {
    return failure instanceof RequestError ? `${failure.status} ${failure.messages.join()}` : String(failure);
  }
};

it.each([
  ["", {}],
  ["other=1", {}],
  ["after=a&after=b", { after: "a" }],
  ["dry_run", { dry_run: true }],
  ["dry_run=T", { dry_run: true }],
  ["dry_run=False&version=&limit=100", { limit: 100 }],
  ["version=000000000000007", { version: 7 }],
])("reads the query %j", (text, changes) => {
  expect(parsed(text)).toEqual({ ...usual, ...changes });
});

it.each([
  ["dry_run=yes", "400 dry_run: must be true or false"],
  ["version=-1", "400 version: must be a number, 0 or more"],
  ["version=1.5", "400 version: must be a number, 0 or more"],
  ["limit=", "400 limit: must be 1 to 100"],
  ["limit=0", "400 limit: must be 1 to 100"],
  ["limit=101", "400 limit: must be 1 to 100"],
  ["limit=1e1", "400 limit: must be 1 to 100"],
])("refuses the query %j", (text, message) => {
  expect(refusal(text)).toBe(message);
});

it("parses nothing for requests without parameters, after the first", () => {
  let parses = 0;
  const counted = z.object({
    after: z.preprocess((given) => {
      parses += 1;
      return given;
    }, z.string().default("")),
  });
  const without = [1, 2, 3].map(() => parseQuery(counted, new URLSearchParams()));
  expect([parses, without[2]]).toEqual([1, { after: "" }]);
});

it("refuses a query that lacks a required parameter each time", () => {
  const required = z.object({ q: z.string("is required") });
  for (const text of ["", "", "x=1"])
    expect(() => parseQuery(required, new URLSearchParams(text))).toThrow(RequestError);
});

it("gives all values of a repeatable parameter, and the first of others", () => {
  const schema = z.object({ topic: query.repeated(), name: query.text() });
  const parsed = (text: string) => parseQuery(schema, new URLSearchParams(text));
  expect(parsed("topic=a&name=x&topic=b&name=y")).toEqual({ topic: ["a", "b"], name: "x" });
  expect(parsed("topic=")).toEqual({ topic: [""], name: "" });
  expect(parsed("")).toEqual({ name: "" });
});

it.each([
  ["", { meta: false, task_states: true, force: false, counts: false }],
  ["meta=&task_states=&force=", { meta: true, task_states: true, force: false, counts: false }],
  ["meta=T&task_states=0&force=TRUE&counts=1", { meta: true, task_states: false, force: true, counts: false }],
  ["counts=true", { meta: false, task_states: true, force: false, counts: true }],
])("reads flags in Go's words: %j", (text, expected) => {
  const schema = z.object({
    meta: query.goFlag(undefined, { bare: true }),
    task_states: query.goFlag(undefined, { bare: true, usual: true }),
    force: query.goFlag(),
    counts: query.trueOnly(),
  });
  expect(parseQuery(schema, new URLSearchParams(text))).toEqual(expected);
});

it("refuses other words as a flag, and the lack of a required parameter", () => {
  const schema = z.object({ force: query.goFlag("is no flag"), node: query.required("is required") });
  for (const text of ["force=yes&node=a", "force=tRUE&node=a", "node=", "force=1"])
    expect(() => parseQuery(schema, new URLSearchParams(text)), text).toThrow(RequestError);
});
