import type * as z from "zod";
import type { Failure } from "../contracts/failure.ts";
import { tryParseJson } from "../lib/json.ts";
import {
  failure,
  isWebPage,
  retryAfterMs,
  type Send,
  throttleHintMs,
  withoutEffect,
  withUnsureEffect,
} from "./outcome.ts";

/** Calls of REST APIs with JSON bodies and static credentials, for types whose protocol has nothing of its own. */

export type RestMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** An answer; `body` is the parsed JSON, or null. */
export interface RestAnswered {
  readonly ok: true;
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
  /** The failure for a body of another shape, which may come from another server than the provider. */
  unreadable(): RestRefused;
}

/** A failed call. `status` is null without an answer. `body`, for decisions only: it may quote a value. */
export interface RestRefused {
  readonly ok: false;
  readonly status: number | null;
  readonly body: unknown;
  readonly outcome: Failure;
}

export type RestAnswer = RestAnswered | RestRefused;

/** @param doing the subject of error messages, such as "Changing NAME" */
export type Rest = (doing: string, method: RestMethod, path: string, body?: unknown) => Promise<RestAnswer>;

/** A refusal's outcome, code, and reason for the message. */
export type Meaning = readonly [outcome: "client" | "external", code: string, text: string];

/** Meanings by the names of errors. A row has a meaning and its names. */
export const meaningsBy = <Name, Text = string>(
  ...rows: readonly (readonly [readonly ["client" | "external", string, Text], ...Name[]])[]
) => new Map(rows.flatMap(([meaning, ...names]) => names.map((name) => [name, meaning])));

export interface RestOptions {
  /** Without a trailing slash. */
  readonly base: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly send: Send;
  /** The media type of bodies; default JSON. */
  readonly contentType?: string;
  /** Makes a body's text; default JSON. */
  readonly encode?: (body: unknown) => string;
  /** Reads may be answered with another text than JSON, such as none. */
  readonly takesAnyText?: true;
  /** The provider's own meaning of a refusal; null for the status's usual one. */
  meaningOf?(status: number, body: unknown, headers: Headers): Meaning | null;
}

const unavailable: Meaning = ["external", "provider_unavailable", "the provider failed"];
const usual = new Map<number, Meaning>([
  [401, ["client", "auth_failed", "the credentials are not accepted"]],
  [402, ["client", "payment_required", "the account's plan or payment does not allow it"]],
  [403, ["client", "permission_denied", "the credentials lack the permission"]],
  [404, ["client", "not_found", "it was not found, or the credentials may not see it"]],
  [408, unavailable],
  [409, ["external", "conflict", "something else changes it at the same time"]],
  [413, ["client", "value_too_large", "the value is too large"]],
  [425, unavailable],
  [429, ["external", "throttled", "too many requests"]],
]);
const invalid: Meaning = ["client", "invalid_request", "the provider does not accept the content"];

/** A client that sends each call once; the caller retries. */
export function restClient(options: RestOptions): Rest {
  const {
    base,
    headers,
    send,
    contentType = "application/json",
    encode = JSON.stringify,
    takesAnyText,
    meaningOf,
  } = options;
  return async (doing, method, path, body) => {
    const given = body === undefined ? {} : { body: encode(body) };
    const type = body === undefined ? {} : { "content-type": contentType };
    const sent = await send([
      base + path,
      { method, headers: { accept: "application/json", ...headers, ...type }, ...given },
    ]);
    if (!sent.ok) return unanswered(method === "GET" ? withoutEffect(sent.outcome) : sent.outcome);
    const { response, text } = sent;
    const { status } = response;
    const parsed = tryParseJson(text) ?? null;
    if (response.ok) {
      const isReadable = method === "GET" && !takesAnyText ? parsed !== null : !isWebPage(text);
      const refused = () => unreadable(doing, method);
      return isReadable
        ? { ok: true, status, headers: response.headers, body: parsed, unreadable: refused }
        : refused();
    }
    const known = meaningOf?.(status, parsed, response.headers) ?? usual.get(status);
    const [outcome, code, why] = known ?? (status >= 500 ? unavailable : invalid);
    const wait = code === "throttled" ? throttleHintMs(response) : status >= 500 ? retryAfterMs(response) : null;
    const refused = failure(outcome, code, `${doing} was refused: ${why} (HTTP ${status}).`, wait);
    return {
      ok: false,
      status,
      body: parsed,
      outcome: method === "GET" ? refused : withUnsureEffect(refused, status),
    };
  };
}

const unanswered = (outcome: Failure): RestRefused => ({ ok: false, status: null, body: null, outcome });

function unreadable(doing: string, method: RestMethod): RestRefused {
  const outcome = method === "GET" ? "external" : "unknown";
  return unanswered(failure(outcome, "unreadable_answer", `${doing} was answered, but not as the provider does.`));
}

/** The content of an answer, as its schema reads it. */
export function contentOf<Content>(
  answer: RestAnswer,
  schema: z.ZodType<Content>,
): { readonly ok: true; readonly content: Content } | RestRefused {
  if (!answer.ok) return answer;
  const parsed = schema.safeParse(answer.body);
  return parsed.success ? { ok: true, content: parsed.data } : answer.unreadable();
}

/** A failure of our own in place of a call. */
export const notSent = unanswered;
