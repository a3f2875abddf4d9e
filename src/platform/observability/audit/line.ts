import { keyedHash } from "../../crypto/keyed-hash.ts";
import type { Answered, Exchange } from "../../http/exchange.ts";
import { settings } from "../../settings.ts";

/*
 * A line of the audit log: one JSON object, the same text in the log and in every sink. Of the caller's input it
 * contains only the path: no body, query or header. It contains no error text either, because errors may repeat the
 * input.
 */

/** `request`: before execution. `answer`: after execution. `action`: done without a request, or behind it. */
type Kind = "request" | "answer" | "action";

export type Fields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** A token may have any number of policies; a line lists at most this many. */
const MAX_POLICIES = 16;

const lineOf = (kind: Kind, time: number, fields: object): string =>
  JSON.stringify({ level: "audit", kind, time: new Date(time).toISOString(), ...fields });

export const requestLine = (exchange: Exchange, env: Env): string =>
  lineOf("request", Date.now(), requestFields(exchange, env));

export function answerLine(answered: Answered, env: Env): string {
  const { status, durationMs } = answered;
  return lineOf("answer", answered.time + durationMs, {
    ...requestFields(answered, env),
    status,
    durationMs,
    ...(status >= 400 && { error: errorText(answered) }),
  });
}

/** @param fields ids and counts only */
export const actionLine = (event: string, fields: Fields): string => lineOf("action", Date.now(), { event, ...fields });

function requestFields(exchange: Readonly<Exchange>, env: Env): object {
  const { requestId, area, method, path, route, namespace, namespaceId, mount, caller, tokenHash, bytes } = exchange;
  return {
    requestId,
    area,
    method,
    path,
    route,
    namespace,
    namespaceId,
    mount,
    accessor: caller?.accessor ?? null,
    policies: caller?.policies.slice(0, MAX_POLICIES) ?? null,
    token: tokenHash,
    ...addressField(exchange, env),
    bytes,
  };
}

/** The client address in the form set by the deployment. */
function addressField({ address }: Readonly<Exchange>, env: Env): object {
  switch (settings(env).AUDIT_ADDRESS) {
    case "none":
      return {};
    case "plain":
      return { address };
    case "hash":
      return { address: address === null ? null : keyedHash(env, address) };
  }
}

const ERRORS: Readonly<Record<number, string>> = {
  400: "invalid or in use",
  404: "nothing there",
  405: "no such method",
  408: "came too slowly",
  409: "conflict",
  413: "too large",
  415: "wrong content type",
  429: "too many requests",
  500: "defect",
  501: "not supported, or not initialised",
  502: "failed outside the service",
  503: "not available",
  504: "took too long",
  507: "no room left",
};

/** The reason in fixed words: error messages for the caller may repeat its input. */
function errorText({ status, caller }: Answered): string {
  if (status === 401 || status === 403) return caller === null ? "caller not known" : "permission denied";
  return ERRORS[status] ?? "refused";
}
