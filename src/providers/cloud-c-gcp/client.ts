import { tryParseObject } from "../../lib/json.ts";
import { failure, isWebPage, withoutEffect, withUnsureEffect } from "../outcome.ts";
import { type Caller, tokensOf } from "./access-token.ts";
import { type CloudCConnection, refuseTokenUri } from "./connection.ts";
import { type CloudCFailure, refusal, unanswered } from "./errors.ts";

/** One request to a service of Google. */
export interface CloudCRequest {
  /** The RPC's name, for messages. */
  readonly operation: string;
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly url: string;
  readonly body?: Readonly<Record<string, unknown>> | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether a call without GET changes nothing. */
  readonly reads?: true;
}

/** `date`: the service's clock, ms since 1970; null without one. */
export type CloudCReply =
  | { readonly ok: true; readonly body: Record<string, unknown>; readonly date: number | null }
  /** `sent`: whether the request itself left. `status`: of the HTTP answer, null without one. */
  | (CloudCFailure & { readonly sent: boolean; readonly http: number | null });

/**
 * Sends one request, once, as the connection's service account; the caller retries. An access token that the service
 * refuses is replaced, unless it was issued for this call.
 */
export async function callCloudC(
  connection: CloudCConnection,
  caller: Caller,
  { operation, method, url, body, headers: extra, reads }: CloudCRequest,
): Promise<CloudCReply> {
  const notSent = (failed: CloudCFailure) => ({ ...failed, sent: false, http: null });
  const refused = refuseTokenUri(connection.credentials, caller.settings);
  if (refused !== null) return notSent(unanswered(failure("client", "token_uri_refused", `${refused}.`)));
  const tokens = tokensOf(connection, caller);
  const changesNothing = method === "GET" || reads === true;
  let issuedNow = false;
  const attempt = async (): Promise<CloudCReply> => {
    const token = await tokens.get(() => {
      issuedNow = true;
    });
    if (!token.ok) return notSent(unanswered(token.outcome));
    const headers = {
      authorization: `Bearer ${token.token.value}`,
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...extra,
    };
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    const call = await caller.send([url, { method, headers, ...content }]);
    if (!call.ok) {
      const outcome = changesNothing ? withoutEffect(call.outcome) : call.outcome;
      return { ...unanswered(outcome), sent: true, http: null };
    }
    const { response, text } = call;
    if (!response.ok) {
      const refused = refusal(response, text, operation);
      const outcome = changesNothing ? refused.outcome : withUnsureEffect(refused.outcome, response.status);
      return { ...refused, outcome, sent: true, http: response.status };
    }
    const answer = tryParseObject(text);
    const date = Date.parse(response.headers.get("date") ?? "");
    if (answer !== null || (method === "DELETE" && !isWebPage(text))) {
      return { ok: true, body: answer ?? {}, date: Number.isNaN(date) ? null : date };
    }
    const outcome = unreadable(operation, changesNothing ? "external" : "unknown");
    return { ...unanswered(outcome), sent: true, http: response.status };
  };
  const answer = await attempt();
  if (answer.ok || answer.status !== "UNAUTHENTICATED") return answer;
  tokens.forget();
  // A token can end early (account disabled, key deleted); the token endpoint reports the cause.
  return issuedNow ? answer : attempt();
}

/**
 * The failure for an unreadable success. It may come from another server than the service, so a write is `unknown`.
 */
export const unreadable = (operation: string, outcome: "external" | "unknown") =>
  failure(outcome, "unreadable_answer", `${operation} was answered, but not as the service answers.`);
