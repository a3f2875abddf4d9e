import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { failure, withoutEffect, withUnsureEffect } from "../../../providers/outcome.ts";
import { type Meaning, restClient, unreadable } from "../../../providers/rest.ts";
import type { CallContext } from "../destination-type.ts";
import type { DeployEnvironmentConnection } from "./connection.ts";

/** Calls of Railway's GraphQL API. A call that fails is answered with status 200 and `errors`. */

const defaultUrl = "https://backboard.railway.com";

const schemas = memo(() => ({
  answer: z.object({
    data: z.record(z.string(), z.unknown()).nullish(),
    errors: z.array(z.object({ message: z.string() })).nullish(),
  }),
}));

export type Answered = { readonly ok: true; readonly data: Readonly<Record<string, unknown>> } | Refused;
type Refused = { readonly ok: false; readonly outcome: Failure };

/** @param doing the subject of error messages, such as "Changing NAME" */
export type GraphQl = (doing: string, query: string, variables: object) => Promise<Answered>;

export function graphQl(connection: DeployEnvironmentConnection, { settings, send }: CallContext): GraphQl {
  const { access_token: token, token_type: kind = "project" } = connection;
  const base = (settings.DEPLOY_ENVIRONMENT_URL || defaultUrl).replace(/\/+$/, "");
  const headers: Record<string, string> =
    kind === "project" ? { "project-access-token": token } : { authorization: `Bearer ${token}` };
  const call = restClient({ base, headers, send });
  return async (doing, query, variables) => {
    const outcomeOf = (outcome: Failure) => (query.startsWith("query") ? withoutEffect(outcome) : outcome);
    const answer = await call(doing, "POST", "/graphql/v2", { query, variables });
    if (!answer.ok) return { ok: false, outcome: outcomeOf(answer.outcome) };
    const parsed = schemas().answer.safeParse(answer.body).data;
    const [error] = parsed?.errors ?? [];
    if (error !== undefined) return { ok: false, outcome: outcomeOf(refusalOf(doing, error.message)) };
    if (parsed?.data) return { ok: true, data: parsed.data };
    return { ok: false, outcome: outcomeOf(unreadable(doing, "POST").outcome) };
  };
}

/** The provider's refusals, by the beginning of their message. */
const meanings: readonly (readonly [RegExp, Meaning])[] = [
  [/^project token not found/i, ["client", "auth_failed", "the credentials are not accepted"]],
  [/^(not authorized|unauthorized)/i, ["client", "permission_denied", "the credentials lack the permission"]],
  [/^two factor/i, ["client", "permission_denied", "the workspace asks for two factors"]],
  [/not found/i, ["client", "not_found", "there is no such project, environment or service"]],
  [/rate limit|too many requests/i, ["external", "throttled", "too many requests"]],
  [/problem processing|internal|timed? ?out/i, ["external", "provider_unavailable", "the provider failed"]],
];

/** The failure of a write. The message may quote a value, so it is not passed on. */
function refusalOf(doing: string, message: string): Failure {
  const known = meanings.find(([pattern]) => pattern.test(message))?.[1];
  const [outcome, code, why] = known ?? ["client", "invalid_request", "the provider does not accept the content"];
  // The status is 200 also when the server fails.
  return withUnsureEffect(failure(outcome, code, `${doing} was refused: ${why}.`), 500);
}
