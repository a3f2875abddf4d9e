import { object, text } from "../../../support/json-schemas.ts";
import type { PublishedApi } from "../../../support/published-api.ts";
import { bearerOf, fieldsOf, Refusal, type Reply, startTokenDouble } from "../../http-double.ts";
import type { Received } from "../../loopback.ts";
import { refusalsIn, WorkedAccount } from "./account.ts";

/** The scope `prod` of a Databricks workspace: one call creates and changes, and values are never shown. */

const error = (code: string) => ({ error_code: code, message: "refused" });
const refuse = (status: number, code: string) => new Refusal(status, error(code));
const BASE = "/api/2.0/secrets";
const invalid = () => refuse(400, "INVALID_PARAMETER_VALUE");
const KEY = /^[\w.-]{1,128}$/;

function inScope(scope: unknown): void {
  if (scope !== "prod") throw refuse(404, "RESOURCE_DOES_NOT_EXIST");
}

function perform(request: Received, account: WorkedAccount): Reply {
  const { method, url } = request;
  switch (`${method} ${url.pathname.replace(BASE, "")}`) {
    case "POST /put": {
      const { scope, key, string_value: value } = fieldsOf(request, ["scope", "key", "string_value"], invalid);
      inScope(scope);
      if (typeof key !== "string" || !KEY.test(key) || typeof value !== "string") throw invalid();
      if (Buffer.byteLength(value) > 128 * 1024) throw invalid();
      account.write(key, value);
      return { status: 200, body: {} };
    }
    case "POST /delete": {
      const { scope, key } = fieldsOf(request, ["scope", "key"], invalid);
      inScope(scope);
      if (!account.objects.delete(String(key))) throw refuse(404, "RESOURCE_DOES_NOT_EXIST");
      return { status: 200, body: {} };
    }
    case "GET /list": {
      inScope(url.searchParams.get("scope"));
      const secrets = [...account.objects].map(([key, { version }]) => ({ key, last_updated_timestamp: version }));
      return { status: 200, body: secrets.length === 0 ? {} : { secrets } };
    }
    default:
      throw refuse(404, "ENDPOINT_NOT_FOUND");
  }
}

export const startDouble = () =>
  startTokenDouble<WorkedAccount>({
    newAccount: () => new WorkedAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "UNAUTHENTICATED"),
    perform,
    refusals: refusalsIn(error("REQUEST_LIMIT_EXCEEDED")),
  });

const answer = object({ error_code: text, message: text }, ["error_code"]);
const metadata = object({ key: text, last_updated_timestamp: { type: "integer" } });

/** Facts of the API's official client (npm `@databricks/sdk-experimental` 0.14.2). */
export const published: PublishedApi = {
  base: BASE,
  operations: {
    "POST /put": {
      request: object({ scope: text, key: text, string_value: text, bytes_value: text }, ["scope", "key"]),
      answers: { 200: object({}), default: answer },
    },
    "POST /delete": {
      request: object({ scope: text, key: text }, ["scope", "key"]),
      answers: { 200: object({}), default: answer },
    },
    "GET /list": {
      query: ["scope"],
      answers: { 200: object({ secrets: { type: "array", items: metadata } }), default: answer },
    },
  },
};
