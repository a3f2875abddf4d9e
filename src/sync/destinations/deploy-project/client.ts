import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { tryParseJson } from "../../../lib/json.ts";
import { memo } from "../../../lib/memo.ts";
import {
  failure,
  isWebPage,
  maxRetryAfterMs,
  retryAfterMs,
  type Send,
  throttleHintMs,
  withoutEffect,
  withUnsureEffect,
} from "../../../providers/outcome.ts";
import { type Meaning, meaningsBy, type RestMethod } from "../../../providers/rest.ts";

export const deploymentEnvironments = ["development", "preview", "production"] as const;
export type DeploymentEnvironment = (typeof deploymentEnvironments)[number];

/** A destination's connection to its project. Unset fields are absent. */
export interface DeployProjectConnection {
  access_token: string;
  /** The project's id, or its name. */
  project_id: string;
  /** Not empty, no duplicates, in the order of `deploymentEnvironments`. */
  deployment_environments: DeploymentEnvironment[];
  team_id?: string;
}

/** A write of a variable; a change may leave out `key`, `type`, `target` and `comment`. */
export interface VariableChange {
  key?: string;
  value?: string;
  type?: "encrypted";
  target?: string[];
  comment?: string;
  gitBranch?: null;
}

/** A failed call. `status` and `code` (lower case, or empty) are the provider's; null without a readable answer. */
export interface ApiFailure {
  ok: false;
  error: { status: number; code: string } | null;
  outcome: Failure;
}

export type Answer<T> = ({ ok: true } & T) | ApiFailure;

export type DeployProject = ReturnType<typeof deployProjectApi>;

const defaultUrl = "https://api.vercel.com";

/** Covers far more than the 1000 variables of an environment. */
const maxPages = 20;

/** One environment variable of the project as the API lists it, without its value. */
const variableSchema = memo(() =>
  z.object({
    id: z.string(),
    key: z.string(),
    type: z.string(),
    target: z
      .union([z.array(z.string()), z.string()])
      .nullish()
      .transform((target) => [target ?? []].flat()),
    /** The branch, for a variable of one branch of `preview`; null for all branches. */
    gitBranch: z
      .string()
      .nullish()
      .transform((branch) => branch || null),
    customEnvironmentIds: z
      .array(z.string())
      .nullish()
      .transform((ids) => ids ?? []),
    comment: z
      .string()
      .nullish()
      .transform((comment) => comment ?? ""),
    /** Milliseconds since 1970. */
    updatedAt: z
      .number()
      .nullish()
      .transform((time) => time ?? 0),
  }),
);
export type Variable = z.infer<ReturnType<typeof variableSchema>>;

const pageSchema = memo(() =>
  z.object({
    envs: z.array(z.unknown()),
    pagination: z.object({ next: z.number().nullish() }).nullish(),
    hiddenProductionEnvCount: z.number().nullish(),
  }),
);

const createdSchema = memo(() =>
  z.object({
    created: z.union([variableSchema(), z.array(variableSchema())]).nullish(),
    failed: z.array(z.object({ error: z.object({ code: z.string() }) })),
  }),
);

const errorSchema = memo(() =>
  z.object({
    error: z.object({
      code: z.string().catch(""),
      invalidToken: z.boolean().optional().catch(undefined),
      missingToken: z.boolean().optional().catch(undefined),
      limit: z.object({ reset: z.number().optional(), resetMs: z.number().optional() }).optional().catch(undefined),
    }),
  }),
);

/**
 * A client of the Vercel REST API (versions as in the paths) for one project and one operation of an adapter. Each call
 * sends one request, `list` one per page; the caller retries.
 */
export function deployProjectApi(
  connection: DeployProjectConnection,
  context: { settings: { DEPLOY_PROJECT_URL?: string | undefined }; send: Send },
) {
  const base = (context.settings.DEPLOY_PROJECT_URL || defaultUrl).replace(/\/+$/, "");
  const project = `projects/${encodeURIComponent(connection.project_id)}`;

  /** @param doing the subject of error messages, such as "Creating NAME" */
  async function call(
    doing: string,
    method: RestMethod,
    path: string,
    { query = {}, body }: { query?: Record<string, string>; body?: VariableChange } = {},
  ): Promise<Answer<{ body: unknown }>> {
    const parameters = new URLSearchParams({ ...(connection.team_id ? { teamId: connection.team_id } : {}), ...query });
    const headers = {
      accept: "application/json",
      authorization: `Bearer ${connection.access_token}`,
      ...(body ? { "content-type": "application/json" } : {}),
    };
    const url = `${base}/${path}${parameters.size > 0 ? `?${parameters}` : ""}`;
    const sent = await context.send([url, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) }]);
    if (!sent.ok) return unanswered(method === "GET" ? withoutEffect(sent.outcome) : sent.outcome);
    const { response, text } = sent;
    const answer = tryParseJson(text) ?? (response.ok && method === "DELETE" && !isWebPage(text) ? {} : null);
    if (response.ok) return { ok: true, body: answer };
    const refused = refusal(doing, response, answer);
    return method === "GET" ? refused : { ...refused, outcome: withUnsureEffect(refused.outcome, response.status) };
  }

  return {
    /** Lists all variables; `hidden`: the number of production variables that the token may not see. */
    async list(): Promise<Answer<{ variables: Variable[]; hidden: number }>> {
      const doing = "Listing the project's variables";
      const variables: Variable[] = [];
      let query = {};
      for (let page = 0; page < maxPages; page++) {
        const answer = await call(doing, "GET", `v10/${project}/env`, { query });
        if (!answer.ok) return answer;
        const parsed = pageSchema().safeParse(answer.body);
        if (!parsed.success) return unreadable("external", doing);
        variables.push(...parsed.data.envs.flatMap((one) => variableSchema().safeParse(one).data ?? []));
        const next = parsed.data.pagination?.next ?? null;
        if (next === null) return { ok: true, variables, hidden: parsed.data.hiddenProductionEnvCount ?? 0 };
        query = { until: String(next) };
      }
      return unanswered(
        failure("client", "too_many_variables", `The project has more than ${maxPages} pages of them.`),
      );
    },

    /** With `upsert`, a variable with the same key and targets is changed in place instead of being a conflict. */
    async create(
      variable: VariableChange & { key: string },
      { upsert }: { upsert: boolean },
    ): Promise<Answer<{ variable: Variable }>> {
      const doing = `Creating ${variable.key}`;
      const query = upsert ? { upsert: "true" } : {};
      const answer = await call(doing, "POST", `v10/${project}/env`, { query, body: variable });
      if (!answer.ok) return answer;
      const parsed = createdSchema().safeParse(answer.body);
      if (!parsed.success) return unreadable("unknown", doing);
      // The status is 201 even when no variable was created.
      const failed = parsed.data.failed[0];
      if (failed) return named(doing, 201, failed.error.code);
      const created = [parsed.data.created ?? []].flat()[0];
      return created?.key === variable.key ? { ok: true, variable: created } : unreadable("unknown", doing);
    },

    /** @param name for messages only */
    async edit(id: string, name: string, change: VariableChange): Promise<Answer<{ variable: Variable }>> {
      const doing = `Changing ${name}`;
      const answer = await call(doing, "PATCH", variablePath(id), { body: change });
      if (!answer.ok) return answer;
      const parsed = variableSchema().safeParse(answer.body);
      return parsed.success ? { ok: true, variable: parsed.data } : unreadable("unknown", doing);
    },

    async remove(id: string, name: string): Promise<Answer<object>> {
      const doing = `Deleting ${name}`;
      const answer = await call(doing, "DELETE", variablePath(id));
      if (!answer.ok) return answer;
      return isObject(answer.body) ? { ok: true } : unreadable("unknown", doing);
    },

    /** The value of a variable that is not sensitive. @param name for messages only */
    async readValue(id: string, name: string): Promise<Answer<{ value: string }>> {
      const doing = `Reading ${name}`;
      const answer = await call(doing, "GET", `v1/${project}/env/${encodeURIComponent(id)}`);
      if (!answer.ok) return answer;
      const parsed = z.object({ value: z.string() }).safeParse(answer.body);
      return parsed.success ? { ok: true, value: parsed.data.value } : unreadable("external", doing);
    },

    readProject: () => read("Reading the project", `v9/${project}`),
    /** The account behind the token; does not depend on project or team. */
    readUser: () => read("Reading the token's account", "v2/user"),
  };

  function variablePath(id: string): string {
    return `v9/${project}/env/${encodeURIComponent(id)}`;
  }

  async function read(doing: string, path: string): Promise<Answer<object>> {
    const answer = await call(doing, "GET", path);
    if (!answer.ok) return answer;
    return isObject(answer.body) ? { ok: true } : unreadable("external", doing);
  }
}

const unanswered = (outcome: Failure): ApiFailure => ({ ok: false, error: null, outcome });

/** The failure for an unreadable success, which may come from another server than the service. */
const unreadable = (outcome: "external" | "unknown", doing: string): ApiFailure =>
  unanswered(failure(outcome, "unreadable_answer", `${doing} was answered, but not in a way that can be read.`));

const isObject = (body: unknown): body is object => typeof body === "object" && body !== null;

const authFailed: Meaning = ["client", "auth_failed", "the access token is not accepted"];
const denied: Meaning = ["client", "permission_denied", "the access token has no access to this project or team"];
const notFound: Meaning = [
  "client",
  "not_found",
  "there is no such project or variable, or it belongs to another team",
];
const throttled: Meaning = ["external", "throttled", "too many requests"];
const unavailable: Meaning = ["external", "provider_unavailable", "the provider failed"];
const valueTooLarge: Meaning = ["client", "value_too_large", "the value, or all values together, are too large"];
const payment: Meaning = ["client", "payment_required", "the account's plan or payment does not allow it"];
const invalid: Meaning = ["client", "invalid_request", "the provider does not accept the request"];

/** Meanings of error codes: the page "Errors" of the REST API, and the codes handled by the provider's CLI. */
const meanings = meaningsBy<string>(
  [throttled, "rate_limited"],
  [unavailable, "internal_server_error"],
  [denied, "forbidden", "not_authorized", "team_unauthorized"],
  [authFailed, "unauthorized"],
  [notFound, "not_found", "team_not_found", "id_not_found"],
  [
    ["client", "already_exists", "a variable with this name and environment exists already"],
    "env_already_exists",
    "env_conflict",
    "existing_key_and_target",
  ],
  [
    ["client", "name_invalid", "the provider does not take the name"],
    "invalid_key",
    "missing_key",
    "key_invalid_characters",
    "key_invalid_length",
  ],
  [["client", "name_invalid", "the name is reserved"], "key_reserved", "reserved_env_variable"],
  [["client", "value_empty", "the value is empty"], "missing_value"],
  [valueTooLarge, "value_invalid_length"],
  [["client", "value_invalid", "the provider does not take the value"], "value_invalid_type", "invalid_value"],
  [["client", "quota_exceeded", "the project has as many variables as it may have"], "max_envs_exceeded"],
  [payment, "payment_required"],
);

const statusMeanings = meaningsBy<number>(
  [authFailed, 401],
  [payment, 402],
  [denied, 403],
  [notFound, 404],
  [unavailable, 408],
  [["client", "conflict", "the state of the project or variable does not allow it"], 409],
  [["client", "gone", "this part of the API, or the project, is gone for good"], 410],
  [valueTooLarge, 413],
);

function refusal(doing: string, response: Response, body: unknown): ApiFailure {
  const error = errorSchema().safeParse(body).data?.error;
  const { status } = response;
  const code = error?.code ?? "";
  if (error?.invalidToken || error?.missingToken) return refused(doing, status, code, authFailed);
  if (status >= 500) return refused(doing, status, code, unavailable, retryAfterMs(response));
  if (status === 429 || code === "rate_limited") {
    return refused(
      doing,
      status,
      code,
      throttled,
      retryAfterMs(response) ?? untilReset(error?.limit) ?? throttleHintMs(response),
    );
  }
  return named(doing, status, code);
}

const named = (doing: string, status: number, code: string): ApiFailure =>
  refused(doing, status, code, meanings.get(code.toLowerCase()) ?? statusMeanings.get(status) ?? invalid);

function refused(
  doing: string,
  status: number,
  code: string,
  [outcome, ownCode, text]: Meaning,
  wait: number | null = null,
): ApiFailure {
  // Only texts in the form of a code are shown: any other text may quote the value.
  const word = /^[A-Za-z]{1,32}(_[A-Za-z]{1,32}){0,7}$/.test(code) ? code : "unnamed";
  return {
    ok: false,
    error: { status, code: code.toLowerCase() },
    outcome: failure(outcome, ownCode, `${doing} was refused: ${text} (${word}, HTTP ${status}).`, wait),
  };
}

/** The wait until a limit of the body is lifted, milliseconds, at most an hour. */
function untilReset({ reset, resetMs }: { reset?: number | undefined; resetMs?: number | undefined } = {}) {
  const at = resetMs ?? (reset === undefined ? null : reset * 1000);
  return at === null ? null : Math.min(Math.max(at - Date.now(), 0), maxRetryAfterMs);
}
