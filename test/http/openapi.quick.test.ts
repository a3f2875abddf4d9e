import { readFileSync } from "node:fs";
import { SUBPROTOCOL } from "@sallyport/agent-protocol";
import { Validator } from "@seriousme/openapi-schema-validator";
import { describe, expect, it } from "vitest";
import { Checker, type OpenApiDocument } from "../openapi/checker.ts";

const text = readFileSync("docs/openapi.json", "utf8");
const document = JSON.parse(text) as OpenApiDocument & Record<string, object>;

interface Parameter {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
}

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.values(item).map((operation) => ({ path, ...operation })),
);

/** The target of a reference. */
const at = (ref: string): unknown =>
  ref
    .slice(2)
    .split("/")
    .reduce<unknown>((place, name) => (place as Record<string, unknown> | undefined)?.[name], document);

describe("docs/openapi.json", () => {
  it("is valid OpenAPI 3.1", async () => {
    const validator = new Validator();
    const { valid, errors } = await validator.validate(JSON.parse(text));
    expect({ valid, errors }).toEqual({ valid: true });
    expect(validator.version).toBe("3.1");
  });

  it("has one entry per operation, with a one-line summary and a tag", () => {
    const ids = operations.map(({ operationId }) => operationId);
    expect(ids.filter((id, place) => ids.indexOf(id) !== place)).toEqual([]);
    expect(ids.filter((id) => !/^[a-z][A-Za-z]+$/.test(id))).toEqual([]);
    const tags = (document["tags"] as unknown as { name: string }[]).map(({ name }) => name);
    for (const { operationId, tags: own, summary } of operations as ((typeof operations)[number] & {
      summary: string;
    })[]) {
      expect(own.length === 1 && own.every((tag) => tags.includes(tag)), operationId).toBe(true);
      expect(summary, operationId).toMatch(/^[A-Z][^\n]{5,90}[^.\n]$/);
    }
  });

  it("declares exactly the parameters of each path", () => {
    for (const { path, parameters, operationId } of operations) {
      const all = parameters.map((given) => (given.$ref ? at(given.$ref) : given) as Parameter);
      const declared = all.filter((each) => each.in === "path").map(({ name }) => name);
      expect(declared, operationId).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
      const names = all.map((each) => `${each.in} ${each.name}`);
      expect(new Set(names).size, operationId).toBe(names.length);
    }
  });

  it("describes the place of a replica in each operation with a token, and in its answers", () => {
    const [place, replica] = ["parameters/X-Sallyport-Place", "headers/X-Sallyport-Replica"].map((name) => ({
      $ref: `#/components/${name}`,
    }));
    for (const { operationId, parameters, responses, ...operation } of operations) {
      const isPublic = "security" in operation;
      expect(isPublic || parameters.some(({ $ref }) => $ref === place?.$ref), operationId).toBe(true);
      for (const [status, answer] of Object.entries(responses)) {
        const { headers } = (answer.$ref ? at(answer.$ref) : answer) as { headers?: Record<string, unknown> };
        const hasNone = status === "101" || (isPublic && !answer.$ref);
        expect(headers?.["X-Sallyport-Replica"], `${operationId} ${status}`).toEqual(hasNone ? undefined : replica);
      }
    }
  });

  it("has no dangling references and no unused components", () => {
    const refs = new Set([...text.matchAll(/"\$ref":"(#[^"]+)"/g)].map(([, ref = ""]) => ref));
    expect([...refs].filter((ref) => at(ref) === undefined)).toEqual([]);
    const kept = ["schemas", "parameters"].flatMap((kind) =>
      Object.keys(document.components[kind] ?? {}).map((name) => `#/components/${kind}/${name}`),
    );
    expect(kept.filter((ref) => !refs.has(ref))).toEqual([]);
  });

  it("has examples that match their schemas and contain no secret", () => {
    expect(new Checker(document).checkExamples()).toEqual([]);
    expect(text.match(/hvs\.\w.{9}|PRIVATE KEY-----\\n|"(client_secret|SecretID|Token)":"[^…"*].{9}/g)).toBeNull();
  });

  it("describes the responses, errors and request of each operation", () => {
    for (const operation of operations) {
      const { operationId, responses } = operation;
      const statuses = Object.keys(responses).map(Number);
      expect(
        statuses.some((status) => status < 300),
        operationId,
      ).toBe(true);
      for (const status of [400, 500, 503]) expect(statuses, operationId).toContain(status);
      const isOpen = "security" in operation;
      expect(isOpen || ("x-sallyport-right" in operation && statuses.includes(403)), operationId).toBe(true);
    }
  });
});

describe("the page at /docs", () => {
  const html = readFileSync("docs/openapi.html", "utf8");

  it("is one small file without external resources", () => {
    expect(html.length).toBeLessThan(30 * 1024);
    expect(html).not.toMatch(/https?:|["'(]\/\/|@import|<link|<img|<iframe|\bsrc=|\bcookie|localStorage/i);
  });

  it("sets all content as text, so that a document cannot inject scripts", () => {
    expect(html).not.toMatch(/innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|\son\w+=/);
  });
});

const SPOKEN = { "sec-websocket-protocol": SUBPROTOCOL };

/** Tests the checker: it must find an answer that the document does not describe. */
describe("the checker", () => {
  const checker = new Checker(document);
  const exchange = { method: "GET", path: "/v1/sys/init", sent: "", status: 200, type: "application/json" };
  const check = (more: object) =>
    checker.check({ ...exchange, text: '{"initialized":true}', headers: {}, asked: [], glanced: [], ...more });

  it("accepts described responses", () => {
    expect(check({})).toEqual([]);
    expect(check({ status: 503, text: '{"errors":["sealed"]}' })).toEqual([]);
  });

  it.each([
    ["an unknown field", { text: '{"initialized":true,"extra":1}' }],
    ["a missing field", { text: "{}" }],
    ["another type of a field", { text: '{"initialized":"yes"}' }],
    ["another media type", { type: "text/plain" }],
    ["an unknown status", { status: 418 }],
    ["an unknown path", { path: "/v1/sys/unknown/thing" }],
    ["an undeclared parameter", { asked: ["secretly"] }],
    ["another type of a header", { path: "/v1/nodes", text: "[]", headers: { "x-orch-index": "none" } }],
    [
      "another frame of a socket",
      { path: "/v1/agent/connect", status: 101, text: "", type: null, headers: SPOKEN, frames: ['{"t":"hello"}'] },
    ],
    ["a socket without its protocol", { path: "/v1/agent/connect", status: 101, text: "", type: null }],
    [
      "an unknown field in an envelope",
      { path: "/v1/sys/sync/config", text: envelope({ disabled: true, queue_capacity: 1, more: 1 }) },
    ],
    [
      "an unknown field beside an envelope's",
      { path: "/v1/sys/sync/config", text: envelope({ disabled: true, queue_capacity: 1 }, { more: 1 }) },
    ],
    [
      "an undescribed body",
      { path: "/v1/sys/rotate", method: "POST", sent: '{"a":1}', status: 204, type: null, text: "" },
    ],
  ])("detects %s", (_what, more) => {
    expect(check(more)).not.toEqual([]);
  });

  it("detects an unknown field in a line of a stream", () => {
    const stream = { path: "/v1/event/stream?topic=Job" };
    expect(check({ ...stream, text: '{"Index":1,"Events":[]}\n{"Index":2,"Events":[]}\n' })).toEqual([]);
    expect(check({ ...stream, text: '{"Index":1,"Events":[]}\n{"Index":2,"Events":[],"More":1}\n' })).not.toEqual([]);
  });
});

function envelope(data: object, more: object = {}): string {
  const nothing = { wrap_info: null, warnings: null, auth: null, lease_id: "", lease_duration: 0, renewable: false };
  return JSON.stringify({ request_id: "r", ...nothing, data, mount_type: "system", ...more });
}
