import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { mountedRoutes } from "../../src/routes/table.ts";
import { part } from "../support/long.ts";
import { itRows } from "../support/rows.ts";
import {
  type Attempt,
  arrange,
  CANARY,
  type Case,
  cases,
  faults,
  fieldsOf,
  groups,
  leastBody,
  request,
} from "./bad-input.ts";
import { clock } from "./clock.ts";
import { examples } from "./examples.ts";
import { dump } from "./stored-rows.ts";

clock.moves = true;

/*
 * The whole route table against a catalogue of bad input: always a refusal that names the problem in the convention of its area,
 * never a defect, and never a trace in any table. Made from the table itself, so a new route is covered from its first day.
 */

const printed: string[] = [];

beforeEach(async () => {
  printed.length = 0;
  for (const method of ["log", "info", "warn", "error", "debug"] as const) {
    vi.spyOn(console, method).mockImplementation((...words: unknown[]) => void printed.push(words.join(" ")));
  }
  await arrange();
});

afterEach(() => void vi.useRealTimers());

const MIB = 1024 * 1024;

/** A body without a Content-Length. */
function oversized(): ReadableStream<Uint8Array> {
  let left = MIB + 1;
  return new ReadableStream({
    pull(controller) {
      const size = Math.min(left, 65_536);
      left -= size;
      controller.enqueue(new Uint8Array(size).fill(32));
      if (left === 0) controller.close();
    },
  });
}

const nested = (depth: number) => `{"data":${"[".repeat(depth)}"${CANARY}"${"]".repeat(depth)}}`;
const notUtf8 = new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]);

/** Bodies that no schema ever sees. */
const bodies: readonly [what: string, body: BodyInit, names: RegExp][] = [
  ["an array", `["${CANARY}"]`, /body: must be a JSON object/],
  ["a string", `"${CANARY}"`, /body: .*JSON object/],
  ["a number", "17", /body: .*JSON object/],
  ["a boolean", "true", /body: .*JSON object/],
  ["malformed JSON", `{"data": ${CANARY}}`, /body: is not valid JSON/],
  ["truncated JSON", `{"data": {"value": "${CANARY}`, /body: is not valid JSON/],
  ["two JSON values", `{"a":"${CANARY}"} {}`, /body: is not valid JSON/],
  ["bytes that are not UTF-8", notUtf8, /body: is not UTF-8/],
  ["JSON nested 10 000 deep", nested(10_000), /body: nested deeper than/],
];

function* badBodies({ area, route, path }: Case): Iterable<Attempt> {
  if (route.verb === "GET" || route.verb === "LIST") return;
  // A streamed body has no size limit.
  if (route.streams) return;
  const large = `{"data":{"value":"${CANARY}${"x".repeat(MIB)}"}}`;
  const names = /body: larger than 1048576 bytes/;
  // Routes with specific bounds have separate tests.
  if (route.maxBodyBytes === undefined) {
    yield { what: "more than 1 MiB", path, init: { body: large }, status: 413, names };
    yield { what: "more than 1 MiB, unannounced", path, init: { body: oversized() }, status: 413, names };
  }
  if (!route.body) return;
  for (const [what, body, said] of bodies) yield { what, path, init: { body }, status: 400, names: said };
  if (area === "secrets" || route.access === "none") return;
  yield { what: "no body", path, status: 400, names: /body is empty/i };
  yield { what: "null", path, init: { body: "null" }, status: 400, names: /must be a JSON object/ };
  yield { what: "a form", path, init: { body: `Name=${CANARY}` }, status: 400, names: /is not valid JSON/ };
}

const wrong: readonly unknown[] = [
  { canary: { deep: CANARY } },
  [[CANARY]],
  [{ value: CANARY }],
  1.5,
  -1,
  1e300,
  true,
  `${CANARY}=\u0000`,
];

/** Fields that take any value there is; the handler judges. */
const ANYTHING = ["data", "custom_metadata"];

function* badFields({ name, route: { body: schema }, path }: Case): Iterable<Attempt> {
  if (!schema) return;
  const least = leastBody(schema, examples[name]?.body);
  const attempt = (what: string, field: string, value: unknown): Attempt => {
    const body = JSON.stringify({ ...least, [field]: value });
    return { what: `${field}: ${what}`, path, init: { body }, status: 400, names: new RegExp(field, "i") };
  };
  for (const field of fieldsOf(schema)) {
    const refused = wrong.filter((value) => !schema.safeParse({ ...least, [field]: value }).success);
    if (!ANYTHING.includes(field)) expect(refused, `${field} takes every type`).not.toEqual([]);
    for (const value of refused) yield attempt(JSON.stringify(value), field, value);
  }
  for (const field of Object.keys(least)) {
    yield { ...attempt("missing", field, undefined), names: /\w/ };
    yield { ...attempt("null", field, null), names: /\w/ };
  }
}

const long = "x".repeat(10_000);
const callers: Readonly<Record<string, Record<string, string>>> = {
  "no token": { "X-Orch-Token": "none" },
  "an empty token": { "X-Orch-Token": "" },
  "an unknown token": { "X-Orch-Token": "hvs.unknown" },
  "an expired token": { "X-Orch-Token": "spent" },
  "two tokens in one header": { "X-Orch-Token": "root, root" },
  "a token in other letters": { "X-Orch-Token": "ROOT" },
  "a token of 10 000 characters": { "X-Orch-Token": long },
  "a garbage token": { "X-Orch-Token": "\u00ff' OR 1=1 --" },
  "a bearer of nothing": { "X-Orch-Token": "none", Authorization: "Bearer" },
  "another scheme": { "X-Orch-Token": "none", Authorization: "Basic root" },
  "a bearer of 10 000 characters": { "X-Orch-Token": "none", Authorization: `Bearer ${long}` },
  "a wrong token beside a right one": { "X-Orch-Token": "wrong", Authorization: "Bearer root" },
};

const WITHOUT_TOKEN = new Set(["no token", "an empty token", "a bearer of nothing", "another scheme"]);

function* badCallers({ route, path }: Case): Iterable<Attempt> {
  if (route.access === "none") return;
  for (const [what, headers] of Object.entries(callers)) {
    if (route.withoutToken && WITHOUT_TOKEN.has(what)) continue;
    yield { what, path, init: { headers }, status: 403, names: /permission denied/i };
  }
}

const CONTROL = /path: .*control characters/;
const ENCODING = /path: bad percent-encoding/;
const DOTS = /path: .*\.\./;
const nonNames: readonly [segment: string, names: RegExp][] = [
  ["a%00b", CONTROL],
  ["a%0Ab", CONTROL],
  ["a%7F", CONTROL],
  ["%E2%80%A8", CONTROL],
  ["a%2F..%2F..%2Fsys", DOTS],
  ["..%2Fa", DOTS],
  ["%2e%2e%2fa", DOTS],
  ["a%2F.", DOTS],
  ["a%2F%2Fb", /path: .*empty segments/],
  ["%zz", ENCODING],
  ["a%", ENCODING],
  ["%C3%28", ENCODING],
  ["n".repeat(10_000), /path: longer than/],
];
const named = ({ route, prefix }: Case, name: string) => prefix + route.path.replace(/:\w+\+?/g, name);
const hasName = ({ route }: Case) => route.path.includes(":");

function* badNames(one: Case): Iterable<Attempt> {
  for (const [name, names] of nonNames) {
    const what = `the name ${name.slice(0, 30)}`;
    yield { what, path: `${one.path}/${name}`, status: 400, names };
    if (hasName(one)) yield { what, path: named(one, name), status: 400, names };
  }
}

const methods = { GET: "GET", LIST: "LIST", POST: "PUT", PATCH: "PATCH", DELETE: "DELETE", OTHER: "PROPFIND" };

function* badMethods({ area, table, path, prefix }: Case): Iterable<Attempt> {
  const known: readonly string[] = table.verbs(path.slice(prefix.length));
  for (const [verb, method] of Object.entries(methods)) {
    if (known.includes(verb) || (area === "cluster" && verb === "LIST")) continue;
    const check: Attempt["check"] = ({ headers }) => {
      const allowed = headers.get("Allow")?.split(", ") ?? [];
      if (allowed.includes(method) || ![...known, "OPTIONS"].every((other) => allowed.includes(other)))
        return `allows ${allowed}`;
      return null;
    };
    const names = area === "cluster" ? /Invalid method/ : /unsupported operation/;
    yield { what: "a method that the path does not know", method, path, status: 405, names, check };
  }
}

function* badPaths({ area, table, path, prefix }: Case): Iterable<Attempt> {
  const beyond = `${path}/no/such/thing`;
  if (table.verbs(beyond.slice(prefix.length)).length === 0) {
    const names = area === "cluster" ? /not found/ : /no handler for route/;
    yield { what: "a path beyond", path: beyond, status: 404, names };
  }
  const names = /no handler for route/;
  if (area === "cluster") {
    yield { what: "without /v1", path: path.slice("/v1".length), area: "secrets", status: 404, names };
  } else if (prefix !== "/v1") {
    yield { what: "an unknown mount", path: path.replace(prefix, "/v1/nowhere"), status: 404, names };
  }
}

const catalogue = { badBodies, badFields, badCallers, badNames, badMethods, badPaths };

it("knows the routes of both APIs", () => {
  expect(cases.length).toBeGreaterThan(60);
  expect(new Set(cases.map(({ prefix, area }) => `${area} ${prefix}`)).size).toBe(
    Object.keys(mountedRoutes).length + 2,
  );
});

describe("returns an error for every invalid request, with the reason, and stores nothing", () => {
  itRows(groups)("$about", async ({ members }) => {
    const before = await dump();
    const found: string[] = [];
    for (const one of members) {
      // Each route starts elsewhere in the catalogue, so every kind of bad input meets a sixth of the routes.
      for (const attempts of Object.values(catalogue)) {
        found.push(...(await faults(one, part([...attempts(one)], cases.indexOf(one), 6))));
      }
    }
    expect(found.join("\n")).toBe("");
    expect(await dump()).toEqual(before);
    expect(printed.filter((line) => line.includes(CANARY) || line.includes('"defect"'))).toEqual([]);
  });
});

describe("accepts names of object internals as names", () => {
  itRows(groups)("$about", async ({ members }) => {
    for (const one of members.filter(hasName)) {
      const reads = ["GET", "LIST"].includes(one.route.verb);
      const body = one.route.body ? JSON.stringify(leastBody(one.route.body, examples[one.name]?.body)) : null;
      for (const name of part(["__proto__", "constructor", "hasOwnProperty", "toString"], cases.indexOf(one))) {
        const reply = await request(one.route.verb, named(one, name), reads ? {} : { body });
        // 501 is the answer of routes that only refuse.
        if (reply.status !== 501) expect(reply.status, `${one.name} ${name}: ${reply.text}`).toBeLessThan(500);
      }
    }
  });
});
