import * as z from "zod";
import type { Failure } from "../contracts/failure.ts";
import { tryParseJson } from "../lib/json.ts";
import { memo } from "../lib/memo.ts";
import { failure, retryAfterMs, type Send, throttleHintMs, withoutEffect, withUnsureEffect } from "./outcome.ts";
import type { Meaning, RestMethod } from "./rest.ts";

/**
 * Calls of the Cloudflare API (https://developers.cloudflare.com/api/), for all types of that provider: the envelope of
 * answers, and the meaning of errors.
 */

/** A failed call. `codes`: those of the answer; empty without one. */
export interface EdgeFailure {
  readonly ok: false;
  readonly status: number | null;
  readonly codes: readonly number[];
  readonly outcome: Failure;
}

export type EdgeAnswer =
  /** `pages`: how many a list has; null when the answer has no such number. */
  { readonly ok: true; readonly result: unknown; readonly pages: number | null } | EdgeFailure;

/** Meanings by error code; the status decides about others. */
export type EdgeMeanings = ReadonlyMap<number, Meaning>;

const defaultUrl = "https://api.cloudflare.com/client/v4";

const envelope = memo(() =>
  z.object({
    success: z.boolean(),
    errors: z.array(z.object({ code: z.number() })).catch([]),
    result: z.unknown().optional(),
    result_info: z.object({ total_pages: z.number() }).optional().catch(undefined),
  }),
);

const denied: Meaning = ["client", "permission_denied", "the API token lacks the permission"];

/** @param url the base URL; empty is the provider's */
export function edgeApi(
  account: { readonly account_id: string; readonly api_token: string },
  { url, send }: { readonly url: string | undefined; readonly send: Send },
  meanings: EdgeMeanings = new Map(),
) {
  const base = url?.replace(/\/+$/, "") || defaultUrl;
  const ofAccount = `${base}/accounts/${account.account_id}`;

  async function request(doing: string, url: string, init: RequestInit): Promise<EdgeAnswer> {
    const isRead = (init.method ?? "GET") === "GET";
    const headers = { accept: "application/json", authorization: `Bearer ${account.api_token}`, ...init.headers };
    const sent = await send([url, { ...init, headers }]);
    if (!sent.ok) return unanswered(isRead ? withoutEffect(sent.outcome) : sent.outcome);
    const { response, text } = sent;
    const parsed = envelope().safeParse(tryParseJson(text));
    // The envelope decides: an answer 200 may be a failure.
    if (response.ok && parsed.data?.success) {
      const { result, result_info: info } = parsed.data;
      return { ok: true, result, pages: info?.total_pages ?? null };
    }
    if (response.ok && !parsed.success) return unreadable(isRead ? "external" : "unknown", doing);
    return refusal(doing, response, parsed.data?.errors.map(({ code }) => code) ?? [], meanings, isRead);
  }

  /** Whether the token is a valid one: of the account, or of a user. */
  async function isValidToken(): Promise<boolean> {
    for (const owner of [ofAccount, `${base}/user`]) {
      const answer = await request("Reading the token", `${owner}/tokens/verify`, {});
      if (answer.ok) return true;
      if (answer.outcome.outcome !== "client") return true;
    }
    return false;
  }

  return {
    /** Sends one request, once; the caller retries. @param path below the account, begins with a slash */
    async call(
      doing: string,
      method: RestMethod,
      path: string,
      body?: { readonly content: unknown; readonly type?: string },
    ): Promise<EdgeAnswer> {
      const init = {
        method,
        ...(body && {
          headers: { "content-type": body.type ?? "application/json" },
          body: JSON.stringify(body.content),
        }),
      };
      const answer = await request(doing, `${ofAccount}${path}`, init);
      // A missing right and a wrong token have one answer.
      if (answer.ok || answer.outcome.code !== "permission_denied" || (await isValidToken())) return answer;
      return { ...answer, outcome: failure("client", "auth_failed", "The API token is not accepted.") };
    },
  };
}

export const unanswered = (outcome: Failure): EdgeFailure => ({ ok: false, status: null, codes: [], outcome });

/** The failure for a success of another shape. */
export const unreadable = (outcome: "external" | "unknown", doing: string): EdgeFailure =>
  unanswered(failure(outcome, "unreadable_answer", `${doing} was answered, but not in a way that can be read.`));

function refusal(
  doing: string,
  response: Response,
  codes: readonly number[],
  meanings: EdgeMeanings,
  isRead: boolean,
): EdgeFailure {
  const { status } = response;
  const [outcome, code, text] =
    codes.map((one) => meanings.get(one)).find((one) => one !== undefined) ?? byStatus(status);
  const wait = outcome === "client" ? null : status === 429 ? throttleHintMs(response) : retryAfterMs(response);
  const cause = [...codes.slice(0, 3).map((one) => `code ${one}`), `HTTP ${status}`].join(", ");
  const refused = failure(outcome, code, `${doing} was refused: ${text} (${cause}).`, wait);
  return { ok: false, status, codes, outcome: isRead ? refused : withUnsureEffect(refused, status) };
}

function byStatus(status: number): Meaning {
  if (status === 401 || status === 403) return denied;
  if (status === 404) return ["client", "not_found", "there is no such resource"];
  if (status === 413) return ["client", "value_too_large", "the value is larger than the provider takes"];
  if (status === 429) return ["external", "throttled", "too many requests"];
  if (status >= 500 || status === 408) return ["external", "provider_unavailable", "the provider failed"];
  return ["client", "refused", "the provider does not accept the request"];
}
