import type { Failure } from "../../../contracts/failure.ts";
import { tryParseObject } from "../../../lib/json.ts";
import { type Caller, tokensOf } from "../../../providers/cloud-c-gcp/access-token.ts";
import { type CloudCConnection, projectOf, refuseTokenUri } from "../../../providers/cloud-c-gcp/connection.ts";
import { type CloudCAnswer, refusal, unanswered } from "../../../providers/cloud-c-gcp/errors.ts";
import { failure, isWebPage, withoutEffect } from "../../../providers/outcome.ts";

interface SecretManager {
  /**
   * Sends one request, once; the caller retries.
   * @param operation the RPC's name, for messages
   * @param path below the project, beginning with `secrets`
   */
  call(
    operation: string,
    method: "GET" | "POST" | "PATCH" | "DELETE",
    path: string,
    body?: Record<string, unknown>,
  ): Promise<CloudCAnswer>;
}

/** A client of Google Secret Manager (REST v1) for one operation of an adapter, as the connection's service account. */
export function secretManager(connection: CloudCConnection, caller: Caller): SecretManager {
  const { settings, send } = caller;
  const base = (settings.CLOUD_C_SM_URL || "https://secretmanager.googleapis.com").replace(/\/+$/, "");
  const root = `${base}/v1/projects/${encodeURIComponent(projectOf(connection))}`;
  const tokens = tokensOf(connection, caller);

  return {
    async call(operation, method, path, body) {
      const refused = refuseTokenUri(connection.credentials, settings);
      if (refused !== null) return unanswered(failure("client", "token_uri_refused", `${refused}.`));
      let issuedNow = false;
      const attempt = async (): Promise<CloudCAnswer> => {
        const token = await tokens.get(() => {
          issuedNow = true;
        });
        if (!token.ok) return unanswered(token.outcome);
        const headers = {
          authorization: `Bearer ${token.token.value}`,
          accept: "application/json",
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        };
        const sent = body === undefined ? {} : { body: JSON.stringify(body) };
        const call = await send([`${root}/${path}`, { method, headers, ...sent }]);
        if (!call.ok) return unanswered(method === "GET" ? withoutEffect(call.outcome) : call.outcome);
        if (!call.response.ok) return refusal(call.response, call.text, operation);
        const answer = tryParseObject(call.text);
        const isDone = answer !== null || (method === "DELETE" && !isWebPage(call.text));
        if (isDone) return { ok: true, body: answer ?? {} };
        return unanswered(unreadable(operation, method === "GET" ? "external" : "unknown"));
      };
      const answer = await attempt();
      if (answer.ok || answer.status !== "UNAUTHENTICATED") return answer;
      tokens.forget();
      // A token can end early (account disabled, key deleted); the token endpoint reports the cause.
      return issuedNow ? answer : attempt();
    },
  };
}

/**
 * The failure for an unreadable success. It may come from another server than the service, so a write is `unknown`.
 */
export const unreadable = (operation: string, outcome: "external" | "unknown"): Failure =>
  failure(outcome, "unreadable_answer", `${operation} was answered, but not as the service answers.`);
