import { keyedHash } from "../../crypto/keyed-hash.ts";
import type { Answered, Exchange } from "../../http/exchange.ts";
import { settings } from "../../settings.ts";

/*
 * A line of the audit log: one JSON object, the same text in the log and in every sink. What callers send is not in it but for
 * the path: no body, no query, no header; and no text of an error either, because those repeat what was sent.
 */

/** `request`: is about to be carried out. `answer`: is over. `action`: was done without a request, or behind it. */
export type Kind = "request" | "answer" | "action";

export type Fields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** A token may hold as many policies as it likes; a line is a line. */
const MOST_POLICIES = 16;

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
    policies: caller?.policies.slice(0, MOST_POLICIES) ?? null,
    token: tokenHash,
    ...addressField(exchange, env),
    bytes,
  };
}

/** Where a request came from, as the deployment wants it told. */
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

/** Why, in words of this page: those that the caller reads may repeat what it sent. */
function errorText({ status, caller }: Answered): string {
  if (status === 401 || status === 403) return caller === null ? "caller not known" : "permission denied";
  return ERRORS[status] ?? "refused";
}
