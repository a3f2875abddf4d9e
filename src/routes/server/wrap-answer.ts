import { firstHeader, requestHeader } from "../../compat/dialect.ts";
import { isPlainObject } from "../../lib/json.ts";
import { namespaceOf } from "../../platform/http/caller.ts";
import { badRequest, unwrap } from "../../platform/http/errors.ts";
import { parseDuration } from "../../platform/http/fields.ts";
import type { HeaderReader } from "../../platform/http/request-headers.ts";
import { recordAction } from "../../platform/observability/audit/actions.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { wrapEnvelope } from "./respond.ts";
import type { Call } from "./route.ts";

/** Maximum TTL of a wrapped answer, in seconds (768 h): that of every token. */
const MAX_WRAP_TTL = 768 * 3600;
/** TTL of `sys/wrapping/wrap` without the header, in seconds. */
const DEFAULT_WRAP_TTL = 300;
/** A stored answer is one row, which holds 2 MB. */
const MAX_WRAPPED_BYTES = 1_800_000;

const WRAP = /(?:^|\/)sys\/wrapping\/wrap\/?$/;
const WRAP_OF_SERVICE = /^sys\/wrapping\/wrap\/?$/;

const UNWRAP = /(?:^|\/)sys\/wrapping\/unwrap\/?$/;

/** Whether a path ends like that of `sys/wrapping/wrap`; `wrapsAt` says whether it is. */
export const mayWrap = (path: string): boolean => WRAP.test(path);

/** Whether a path is that of `sys/wrapping/wrap`, also behind the name of a namespace; a secret may end like it. */
export async function wrapsAt(env: Env, headers: HeaderReader, path: string): Promise<boolean> {
  if (WRAP_OF_SERVICE.test(path)) return true;
  const at = await accessControl(env).locate(namespaceOf(headers), path);
  return at.ok && WRAP_OF_SERVICE.test(at.value.path);
}

/**
 * The requested TTL of a wrapped answer in seconds, rounded up; 0 = the answer is not wrapped.
 * @param wraps for `sys/wrapping/wrap`, which has a TTL of its own
 * @throws RequestError 400 for a text that is not a duration, or out of bounds: an open answer would expose the secret
 */
export function requestedWrapTtl(headers: HeaderReader, wraps: boolean): number {
  const given = firstHeader(headers, requestHeader.wrapTtl);
  if (given === undefined) return wraps ? DEFAULT_WRAP_TTL : 0;
  const seconds = parseDuration(given);
  if (seconds === null) throw badRequest('X-Vault-Wrap-TTL: must be seconds or a duration such as "5m"');
  if (seconds < 0) throw badRequest("X-Vault-Wrap-TTL: requested wrap ttl cannot be negative");
  if (seconds > MAX_WRAP_TTL) throw badRequest(`X-Vault-Wrap-TTL: at most ${MAX_WRAP_TTL} seconds`);
  return seconds;
}

/**
 * Replaces a successful answer by a wrapping token, if the request asks for it; the answer is stored sealed. Refusals
 * and answers without a body stay as they are, and so do answers of public routes, except logins and unwrapped answers.
 * @param path the path of the request inside its namespace
 * @throws RequestError when the answer cannot be stored: it is never returned in the open
 */
export async function wrapAnswer(call: Call, path: string, response: Response): Promise<Response> {
  if (call.wrapTtl === 0 || !response.ok || response.body === null || call.request.method === "HEAD") return response;
  if (response.headers.get("Content-Type") !== "application/json") return unwrappable(call, response);
  const body = await textOf(response.body);
  const parsed: unknown = JSON.parse(body);
  if (!isPlainObject(parsed) || !("wrap_info" in parsed)) return unwrappable(call, new Response(body, response));
  if (parsed["wrap_info"] !== null) return new Response(body, response);
  const auth = isPlainObject(parsed["auth"]) ? parsed["auth"] : null;
  // Strangers must not fill the store with public answers.
  if (call.grant === null && auth === null && !UNWRAP.test(path)) return new Response(body, response);
  const accessor = wrappedAccessor(call, parsed, auth);
  const namespace = call.grant?.namespace ?? call.authMount?.namespace ?? namespaceOf(call.request.headers);
  const asker = call.grant?.identity.accessor ?? null;
  const request = { namespace, path, ttl: call.wrapTtl, body, accessor, asker };
  const info = unwrap(await accessControl(call.env).wrap(request));
  recordAction("answer-wrapped", { requestId: call.requestId, accessor: info.accessor });
  return wrapEnvelope(call, info);
}

/** The accessor of the token or of the AppRole secret id in an answer; empty without one. */
function wrappedAccessor(call: Call, body: Record<string, unknown>, auth: Record<string, unknown> | null): string {
  if (auth) return String(auth["accessor"] ?? "");
  const data = call.authMount?.type === "approle" ? body["data"] : null;
  return isPlainObject(data) ? String(data["secret_id_accessor"] ?? "") : "";
}

/** Public answers hold no secret. Others that are not an envelope are not sent. */
function unwrappable(call: Call, response: Response): Response {
  if (call.grant === null) return response;
  void response.body?.cancel();
  throw badRequest("X-Vault-Wrap-TTL: this answer cannot be wrapped; leave the header out for an open one");
}

/** @throws RequestError 400 above the size of a row */
async function textOf(body: ReadableStream<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > MAX_WRAPPED_BYTES) {
      throw badRequest(
        `X-Vault-Wrap-TTL: the answer is larger than ${MAX_WRAPPED_BYTES} bytes; leave the header out for an open one`,
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
