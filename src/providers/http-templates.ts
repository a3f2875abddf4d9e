import { createHmac } from "node:crypto";

/**
 * Parts of requests that a tenant writes as templates, for the HTTPS destination and the HTTPS producer: placeholders, URLs
 * whose host is fixed, JSON pointers, headers, and the signature of Standard Webhooks.
 */

const PLACEHOLDER = /\{\{\s*(.*?)\s*\}\}/g;

/** The texts inside the placeholders of a template. */
export const placeholders = (template: string): string[] =>
  [...template.matchAll(PLACEHOLDER)].map(([, field = ""]) => field);

/** The template with `text` of each placeholder in its place. */
export const filled = (template: string, text: (field: string) => string): string =>
  template.replaceAll(PLACEHOLDER, (_, field: string) => text(field));

/** The text inside the placeholder that a template is; null for any other template. */
export const onlyPlaceholder = (template: string): string | null =>
  /^\{\{\s*([^{}]*?)\s*\}\}$/.exec(template)?.[1] ?? null;

/** The refusal of a URL template, without the field's name; null when its host is the same for every value. */
export function refusedOrigin(template: string): string | null {
  const url = URL.parse(filled(template, () => "x"));
  if (url === null || !["https:", "http:"].includes(url.protocol))
    return "must be a URL such as https://api.example.com/x";
  if (url.username !== "" || url.password !== "" || url.hash !== "")
    return "must have neither credentials nor a fragment";
  return template.startsWith(`${url.origin}/`) ? null : "must begin with the origin and a path, without placeholders";
}

/** The URL with percent-encoded values; null when one of them would change its path, as dots alone do. */
export function filledUrl(template: string, value: (field: string) => string): string | null {
  const text = filled(template, (field) => encodeURIComponent(value(field)));
  const url = URL.parse(text);
  const [path = ""] = text.split("?");
  return url !== null && `${url.origin}${url.pathname}` === path ? text : null;
}

/** A JSON pointer (RFC 6901) below the whole document. */
export const POINTER = /^(\/([^~/]|~[01])*){1,16}$/;

/** The member of a JSON document at a pointer (RFC 6901); undefined when there is none. */
export function atPointer(document: unknown, pointer: string): unknown {
  return pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>(
      (at, part) =>
        typeof at === "object" && at !== null && Object.hasOwn(at, part)
          ? (at as Record<string, unknown>)[part]
          : undefined,
      document,
    );
}

/** Set by the runtime, by proxies, or by this service. */
const OWN_HEADER =
  /^(host|content-length|content-type|connection|transfer-encoding|te|upgrade|expect|idempotency-key|cf-.*|x-forwarded-.*|webhook-.*)$/i;

export const isHeaderName = (name: string): boolean => /^[A-Za-z0-9-]{1,128}$/.test(name);
export const isOwnHeader = (name: string): boolean => OWN_HEADER.test(name);
export const isHeaderValue = (value: string): boolean => /^[\x20-\x7e]{0,4096}$/.test(value);

/** A secret of Standard Webhooks. */
export const SIGNING_SECRET = /^whsec_(?=.{32,88}$)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Headers by https://www.standardwebhooks.com. */
export function webhookSignature(secret: string, id: string, body: string): Record<string, string> {
  const timestamp = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const digest = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${digest}` };
}
