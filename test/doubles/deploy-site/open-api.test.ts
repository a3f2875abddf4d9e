import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { deploySite } from "../../../src/sync/destinations/deploy-site/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import { judgeExchanges, type PublishedApi } from "../../support/published-api.ts";
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

function requestOf(parameters: NonNullable<Operation["parameters"]>): { request?: object } {
  const request = parameters.find((one) => one.in === "body")?.schema;
  return request === undefined ? {} : { request };
}

const published: PublishedApi = {
  base: "/api/v1",
  operations: Object.fromEntries(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { parameters = [], responses = {} }]) => [
        `${method.toUpperCase()} ${path}`,
        {
          query: parameters.filter((one) => one.in === "query").map(({ name }) => name),
          ...requestOf(parameters),
          answers: Object.fromEntries(Object.entries(responses).map(([status, { schema = null }]) => [status, schema])),
        },
      ]),
    ),
  ),
};

let double: AccountDouble<SiteAccount>;
beforeAll(async () => {
  double = await startDeploySite();
});
afterAll(() => double.close());

describe("by the published document", () => {
  it("requests and answers of pushes, removals and refusals are valid", async () => {
    const account = double.open();
    const judge = judgeExchanges(published);
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
    judge.stop();
    expect(judge.faults).toEqual([]);
    expect([...judge.seen].sort()).toEqual([
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
