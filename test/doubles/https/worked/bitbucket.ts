import type { PublishedApi } from "../../../support/published-api.ts";
import { bearerOf, fieldsOf, Refusal, type Reply, startTokenDouble } from "../../http-double.ts";
import type { Received } from "../../loopback.ts";
import { refusalsIn, WorkedAccount } from "./account.ts";

/** Variables of a Bitbucket repository: secured values are never shown, and a list has pages. */

const error = (message: string) => ({ type: "error", error: { message } });
const refuse = (status: number, message: string) => new Refusal(status, error(message));
const PLACE = "/2.0/repositories/acme/web/pipelines_config/variables";
/** Smaller than the API's, so that a test has several pages. */
const PAGE = 2;

function variableIn(request: Received): { key: string; value: string } {
  const { key, value, secured } = fieldsOf(request, ["key", "value", "secured", "uuid", "type"], (message) =>
    refuse(400, message),
  );
  if (typeof key !== "string" || !/^[A-Za-z_]\w*$/.test(key)) throw refuse(400, "The key is invalid");
  if (typeof value !== "string" || typeof secured !== "boolean") throw refuse(400, "The variable is invalid");
  return { key, value };
}

const shown = (key: string, uuid: string) => ({ type: "pipeline_variable", uuid, key, secured: true });

function listed({ url }: Received, account: WorkedAccount, origin: string): Reply {
  const page = Number(url.searchParams.get("page") ?? "1");
  if (Number(url.searchParams.get("pagelen") ?? "10") > 100) throw refuse(400, "Invalid pagelen");
  const all = [...account.objects].map(([key, { id }]) => shown(key, id));
  const values = all.slice((page - 1) * PAGE, page * PAGE);
  const next = page * PAGE < all.length ? { next: `${origin}${PLACE}?pagelen=100&page=${page + 1}` } : {};
  return { status: 200, body: { page, pagelen: PAGE, size: all.length, values, ...next } };
}

function perform(request: Received, account: WorkedAccount): Reply {
  const [, id] = /^\/([^/]+)$/.exec(request.url.pathname.replace(PLACE, "")) ?? [];
  if (!request.url.pathname.startsWith(PLACE)) throw refuse(404, "Repository not found");
  if (id === undefined) {
    if (request.method === "GET") return listed(request, account, `http://${request.headers["host"]}`);
    if (request.method !== "POST") throw refuse(405, "Method not allowed");
    const { key, value } = variableIn(request);
    if (account.objects.has(key)) throw refuse(409, "A variable with the provided key already exists.");
    return { status: 201, body: shown(key, account.write(key, value).id) };
  }
  const [was] = [...account.objects].find(([, object]) => object.id === decodeURIComponent(id)) ?? [];
  if (was === undefined) throw refuse(404, "The variable was not found");
  if (request.method === "DELETE") {
    account.objects.delete(was);
    return { status: 204 };
  }
  if (request.method !== "PUT") throw refuse(405, "Method not allowed");
  const { key, value } = variableIn(request);
  if (key !== was) throw refuse(400, "The key cannot change here");
  return { status: 200, body: shown(key, account.write(key, value).id) };
}

export const startDouble = () =>
  startTokenDouble<WorkedAccount>({
    newAccount: () => new WorkedAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "Token is invalid or not supported for this endpoint."),
    perform,
    refusals: refusalsIn(error("refused")),
  });

const text = { type: "string" };
const variable = {
  type: "object",
  properties: { type: text, uuid: text, key: text, value: text, secured: { type: "boolean" } },
  required: ["type"],
};
const sent = { ...variable, required: ["key", "value"] };
const list = {
  type: "object",
  properties: {
    page: { type: "integer" },
    pagelen: { type: "integer" },
    size: { type: "integer" },
    values: { type: "array", items: variable },
    next: text,
    previous: text,
  },
  additionalProperties: false,
};
const answer = { type: "object", properties: { type: text, error: { type: "object" } }, required: ["type"] };

/** Facts of the API's client generated from its document (npm `bitbucket` 2.12.0), and https://api.bitbucket.org/swagger.json. */
export const published: PublishedApi = {
  base: "/2.0",
  operations: {
    "GET /repositories/{workspace}/{repo_slug}/pipelines_config/variables": {
      query: ["page", "pagelen"],
      answers: { 200: list, default: answer },
    },
    "POST /repositories/{workspace}/{repo_slug}/pipelines_config/variables": {
      request: sent,
      answers: { 201: variable, 409: answer, default: answer },
    },
    "PUT /repositories/{workspace}/{repo_slug}/pipelines_config/variables/{variable_uuid}": {
      request: sent,
      answers: { 200: variable, default: answer },
    },
    "DELETE /repositories/{workspace}/{repo_slug}/pipelines_config/variables/{variable_uuid}": {
      answers: { 204: null, default: answer },
    },
  },
};
