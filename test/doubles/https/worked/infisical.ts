import type { PublishedApi } from "../../../support/published-api.ts";
import { bearerOf, fieldsOf, Refusal, type Reply, startTokenDouble } from "../../http-double.ts";
import type { Received } from "../../loopback.ts";
import { refusalsIn, WorkedAccount } from "./account.ts";

/** The environment `prod` of an Infisical project: creation and change differ, and a policy may hold both back. */

export class InfisicalAccount extends WorkedAccount {
  /** A policy asks for the approval of each change, which is then answered with 200 and has no effect. */
  asksForApproval = false;
}

const error = (statusCode: number, message: string) => ({ reqId: "req-1", statusCode, message, error: "Refused" });
const refuse = (status: number, message: string) => new Refusal(status, error(status, message));
const BASE = "/api/v4/secrets";
const PLACE = ["projectId", "environment", "secretPath"] as const;

function inFolder({ projectId, environment, secretPath }: Record<string, unknown>): void {
  if (projectId !== "PROJECT" || environment !== "prod" || secretPath !== "/") throw refuse(404, "Folder not found");
}

const shown = (name: string, account: WorkedAccount) => {
  const { value, id, version, comment } = account.objects.get(name) ?? account.write(name, "");
  const place = { workspace: "PROJECT", environment: "prod", type: "shared", secretPath: "/" };
  return { ...place, id, _id: id, version, secretKey: name, secretValue: value, secretComment: comment };
};

/** The API trims values, except for one line feed at the end. */
const trimmed = (value: string): string => (value.endsWith("\n") ? `${value.trim()}\n` : value.trim());

function perform(request: Received, account: InfisicalAccount): Reply {
  const { method, url } = request;
  const [, encoded] = /^\/([^/]+)$/.exec(url.pathname.replace(BASE, "")) ?? [];
  const invalid = (message: string) => refuse(422, message);
  if (encoded === undefined) {
    if (method !== "GET" || url.pathname !== BASE) throw refuse(404, "Route not found");
    inFolder(Object.fromEntries(url.searchParams));
    const secrets = [...account.objects.keys()].map((name) => shown(name, account));
    return { status: 200, body: { secrets, imports: [] } };
  }
  const name = decodeURIComponent(encoded);
  const isWrite = method === "POST" || method === "PATCH";
  const more = isWrite ? ["secretValue", "secretComment"] : [];
  const given =
    method === "GET" ? Object.fromEntries(url.searchParams) : fieldsOf(request, [...PLACE, ...more], invalid);
  inFolder(given);
  const found = account.objects.get(name);
  if (method === "POST" && found !== undefined) throw refuse(400, "Secret already exist");
  if (method !== "POST" && found === undefined) throw refuse(404, `Secret with name '${name}' not found`);
  if (method === "GET") return { status: 200, body: { secret: shown(name, account) } };
  if (account.asksForApproval) return { status: 200, body: { approval: { id: "a-1", status: "open" } } };
  if (isWrite) {
    const { secretValue = found?.value ?? "", secretComment = found?.comment ?? "" } = given;
    if (typeof secretValue !== "string" || typeof secretComment !== "string") throw invalid("The secret is invalid");
    account.write(name, trimmed(secretValue), secretComment);
    return { status: 200, body: { secret: shown(name, account) } };
  }
  if (method !== "DELETE") throw refuse(404, "Route not found");
  const secret = shown(name, account);
  account.objects.delete(name);
  return { status: 200, body: { secret } };
}

export const startDouble = () =>
  startTokenDouble<InfisicalAccount>({
    newAccount: () => new InfisicalAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "Token missing"),
    perform,
    refusals: refusalsIn(error(429, "refused")),
  });

const text = { type: "string" };
const object = (properties: object, required: readonly string[] = []) => ({ type: "object", properties, required });
const answer = object({ reqId: text, statusCode: { type: "integer" }, message: text, error: text }, ["message"]);
const secret = object(
  { id: text, workspace: text, environment: text, version: { type: "integer" }, type: text, secretKey: text },
  ["id", "environment", "version", "type", "secretKey", "secretValue", "secretComment"],
);
const one = { anyOf: [object({ secret }, ["secret"]), object({ approval: object({}) }, ["approval"])] };
const place = { projectId: text, environment: text, secretPath: text };
const sent = {
  ...object({ ...place, secretValue: text, secretComment: text }, ["projectId", "environment"]),
  additionalProperties: false,
};
const read = { query: [...PLACE], answers: { 200: object({ secret }, ["secret"]), default: answer } };

/**
 * Facts of the API's routes
 * (https://github.com/Infisical/infisical/blob/424c79cac73e74598a47f11187596179964f7550/backend/src/server/routes/v4/secret-router.ts).
 */
export const published: PublishedApi = {
  base: "/api/v4",
  operations: {
    "GET /secrets": { query: [...PLACE], answers: { 200: object({ secrets: { type: "array" } }), default: answer } },
    "GET /secrets/{secretName}": read,
    "POST /secrets/{secretName}": {
      request: { ...sent, required: ["projectId", "environment", "secretValue"] },
      answers: { 200: one, default: answer },
    },
    "PATCH /secrets/{secretName}": { request: sent, answers: { 200: one, default: answer } },
    "DELETE /secrets/{secretName}": {
      request: { ...object(place, ["projectId", "environment"]), additionalProperties: false },
      answers: { 200: one, default: answer },
    },
  },
};
