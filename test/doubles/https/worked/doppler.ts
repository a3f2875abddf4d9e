import type { PublishedApi } from "../../../support/published-api.ts";
import { bearerOf, fieldsOf, Refusal, type Reply, startTokenDouble } from "../../http-double.ts";
import type { Received } from "../../loopback.ts";
import { refusalsIn, WorkedAccount } from "./account.ts";

/** The config `prd` of the Doppler project `web`: one call creates and changes, and values are shown. */

const error = (...messages: string[]) => ({ messages, success: false });
const refuse = (status: number, message: string) => new Refusal(status, error(message));
const BASE = "/v3/configs/config";
const NAME = /^[A-Z_][A-Z0-9_]*$/;

function inConfig(project: unknown, config: unknown): void {
  if (project !== "web" || config !== "prd") throw refuse(404, "Could not find requested config");
}

const shown = (value: string) => ({ raw: value, computed: value, note: "" });

function perform(request: Received, account: WorkedAccount): Reply {
  const { method, url } = request;
  const query = Object.fromEntries(url.searchParams);
  switch (`${method} ${url.pathname.replace(BASE, "")}`) {
    case "GET ":
      inConfig(query["project"], query["config"]);
      return { status: 200, body: { config: { name: "prd", project: "web", environment: "prd" } } };
    case "POST /secrets": {
      const given = fieldsOf(request, ["project", "config", "secrets"], (message) => refuse(400, message));
      inConfig(given["project"], given["config"]);
      const secrets = Object.entries((given["secrets"] ?? {}) as Record<string, unknown>);
      const isValid = secrets.every(([name, value]) => NAME.test(name) && typeof value === "string");
      if (secrets.length === 0 || !isValid) throw refuse(400, "Secret names must be of A-Z, 0-9 and _");
      if (secrets.some(([name]) => name.startsWith("DOPPLER_"))) throw refuse(400, "The name is reserved");
      for (const [name, value] of secrets) account.write(name, String(value));
      const all = [...account.objects].map(([name, { value }]) => [name, shown(value)] as const);
      return { status: 200, body: { success: true, secrets: Object.fromEntries(all) } };
    }
    case "GET /secret":
    case "DELETE /secret": {
      const { project, config, name = "" } = query;
      inConfig(project, config);
      const found = account.objects.get(name);
      if (found === undefined) throw refuse(404, `Could not find requested secret: ${name}`);
      if (method === "GET") return { status: 200, body: { success: true, name, value: shown(found.value) } };
      account.objects.delete(name);
      return { status: 204 };
    }
    default:
      throw refuse(404, "Not found");
  }
}

export const startDouble = () =>
  startTokenDouble<WorkedAccount>({
    newAccount: () => new WorkedAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "Invalid Auth token"),
    perform,
    refusals: refusalsIn(error("refused")),
  });

const text = { type: "string" };
const object = (properties: object, required: readonly string[] = []) => ({ type: "object", properties, required });
const answer = object({ messages: { type: "array", items: text }, success: { const: false } }, ["messages", "success"]);
const value = object({ raw: text, computed: text, note: text });
const map = (items: object) => ({ type: "object", additionalProperties: items });

/** Facts of the API's official client (npm `@dopplerhq/node-sdk` 1.3.0). */
export const published: PublishedApi = {
  base: "/v3/configs",
  operations: {
    "GET /config": { query: ["project", "config"], answers: { 200: object({ config: object({}) }), default: answer } },
    "POST /config/secrets": {
      request: object({ project: text, config: text, secrets: map(text) }, ["project", "config"]),
      answers: { 200: object({ secrets: map(value) }), default: answer },
    },
    "GET /config/secret": {
      query: ["project", "config", "name"],
      answers: { 200: object({ name: text, value }), default: answer },
    },
    "DELETE /config/secret": { query: ["project", "config", "name"], answers: { 204: null, default: answer } },
  },
};
