import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { deploySite } from "../../../src/sync/destinations/deploy-site/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import type { AccountDouble } from "../http-double.ts";
import { type SiteAccount, startDeploySite } from "./server.ts";

// The adapter's requests and the double's answers are valid by the provider's published document (@netlify/open-api).

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema?: object }[];
  readonly responses: Readonly<Record<string, { readonly schema?: object }>>;
}
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

const file = createRequire(import.meta.url).resolve("@netlify/open-api");
const { paths } = JSON.parse(readFileSync(file, "utf8")) as { paths: Paths };
const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addKeyword("x-nullable");

let double: AccountDouble<SiteAccount>;
beforeAll(async () => {
  double = await startDeploySite();
});
afterAll(() => double.close());

/** The faults of an exchange by the document; empty when it is valid. */
async function faultsOf(method: string, url: URL, body: unknown, response: Response): Promise<string[]> {
  const path = url.pathname.replace("/api/v1", "");
  const template = Object.keys(paths).find((one) => new RegExp(`^${one.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(path));
  const operation = paths[template ?? ""]?.[method.toLowerCase()];
  if (operation === undefined) return [`${method} ${path} is not documented`];
  const { parameters = [], responses } = operation;
  const given = parameters.find((one) => one.in === "body")?.schema;
  const answered = responses[String(response.status)] ?? (response.ok ? undefined : responses["default"]);
  if (answered === undefined) return [`${method} ${path} is not answered with ${response.status}`];
  const unknown = [...url.searchParams.keys()].filter((name) => !parameters.some((one) => one.name === name));
  const faults = unknown.map((name) => `${method} ${path} has no parameter ${name}`);
  const check = (schema: object | undefined, value: unknown, what: string) => {
    if (schema !== undefined && !ajv.validate(schema, value))
      faults.push(`${method} ${path} ${what}: ${ajv.errorsText()}`);
  };
  check(given, body, "request");
  if (response.status !== 204) check(answered.schema, await response.json(), "answer");
  return faults;
}

describe("by the published document", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    const faults: string[] = [];
    const seen = new Set<string>();
    const fetched = globalThis.fetch;
    vi.spyOn(globalThis, "fetch").mockImplementation(async (url, init) => {
      const response = await fetched(url, init);
      const method = init?.method ?? "GET";
      const body = init?.body === undefined ? undefined : JSON.parse(String(init.body));
      seen.add(`${method} ${response.status}`);
      faults.push(...(await faultsOf(method, new URL(String(url)), body, response.clone())));
      return response;
    });
    const at = driverOf(
      deploySite,
      () => double,
      () => ({ access_token: account.token, account_id: account.id, site_id: "site-1", deploy_context: "production" }),
    );
    const branch = { deploy_context: "branch:release/1" };
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.put({ knownToExist: true }, branch)).toMatchObject({ outcome: "ok" });
    expect(await at.inspect(null, branch)).toMatchObject({ state: "present" });
    expect(await at.put({}, { scopes: "builds" })).toMatchObject({ outcome: "ok" });
    expect(await at.put({ name: "OTHER" }, { scopes: "builds" })).toMatchObject({ code: "plan_required" });
    expect(await at.probe({ access_token: "wrong" })).toMatchObject({ code: "auth_failed" });
    expect(await at.remove(branch)).toEqual({ outcome: "ok" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    vi.restoreAllMocks();
    expect(faults).toEqual([]);
    expect([...seen].sort()).toEqual([
      "DELETE 204",
      "GET 200",
      "GET 401",
      "PATCH 201",
      "PATCH 404",
      "POST 201",
      "POST 403",
    ]);
  });
});
