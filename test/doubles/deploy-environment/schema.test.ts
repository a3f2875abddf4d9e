import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { deployEnvironment } from "../../../src/sync/destinations/deploy-environment/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { flag, object, text } from "../../support/json-schemas.ts";
import { type Call, operationOf, startDeployEnvironment } from "./server.ts";
import { bodyOf } from "./stand-in.ts";

// The adapter's operations are valid by the provider's published schema:
// https://github.com/railwayapp/cli/blob/df3838bf/src/gql/schema.json (2026-08-21).

const at = { projectId: text, environmentId: text, serviceId: text };

/** The arguments of each field, those of `input` unwrapped, and the kind of its operation. */
const fields: Readonly<Record<string, readonly [kind: string, given: object]>> = {
  variables: ["query", object({ ...at, unrendered: flag }, ["projectId", "environmentId"])],
  variableCollectionUpsert: [
    "mutation",
    object({ ...at, variables: { type: "object", additionalProperties: text }, replace: flag, skipDeploys: flag }, [
      "projectId",
      "environmentId",
      "variables",
    ]),
  ],
  variableDelete: ["mutation", object({ ...at, name: text }, ["projectId", "environmentId", "name"])],
};
/** The types of declared variables: those of the arguments that they stand for. */
const types = ["String!", "String", "VariableCollectionUpsertInput!", "VariableDeleteInput!"];

const ajv = new Ajv2020();

function faultsOf(kind: string, { field, given }: Call): string[] {
  const [known, schema] = fields[field] ?? [];
  if (schema === undefined || known !== kind) return [`${kind} has no field ${field}`];
  return ajv.validate(schema, given) ? [] : [`${field}: ${ajv.errorsText()}`];
}

let double: Awaited<ReturnType<typeof startDeployEnvironment>>;
beforeAll(async () => {
  double = await startDeployEnvironment();
});
afterAll(() => double.close());

describe("by the published schema", () => {
  it("operations of pushes, reads and removals are valid", async () => {
    const account = double.open();
    const seen = new Set<string>();
    const faults: string[] = [];
    const fetched = globalThis.fetch;
    const spy = vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
      const { query } = JSON.parse(String(init?.body)) as { query: string };
      const { kind, calls } = operationOf(Buffer.from(String(init?.body)));
      for (const [, type = ""] of query.matchAll(/\$\w+: ([\w!]+)/g)) if (!types.includes(type)) faults.push(type);
      for (const call of calls) {
        seen.add(call.field);
        faults.push(...faultsOf(kind, call));
      }
      return fetched(url, init);
    });
    const driver = driverOf(
      deployEnvironment,
      () => double,
      () => bodyOf(account),
    );
    for (const changed of [{}, { service_id: "", skip_deploys: true }]) {
      expect(await driver.put({}, changed)).toEqual({ outcome: "ok", reference: "written" });
      expect(await driver.inspect("written", changed, "hunter2-hunter2")).toMatchObject({ state: "unchanged" });
      expect(await driver.remove(changed)).toEqual({ outcome: "ok" });
    }
    spy.mockRestore();
    expect(faults).toEqual([]);
    expect([...seen].sort()).toEqual(Object.keys(fields).sort());
  });
});
