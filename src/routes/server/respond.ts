import { clusterHeader } from "../../compat/dialect.ts";
import type { WrapInfo } from "../../contracts/wrapping.ts";
import { isPlainObject, parseLossless } from "../../lib/json.ts";
import type { Area } from "../../platform/http/areas.ts";
import type { RequestError } from "../../platform/http/errors.ts";
import { inPage } from "./key-page.ts";
import type { Call } from "./route.ts";

const SECRETS_HEADERS = { "Content-Type": "application/json", "Cache-Control": "no-store" };

interface Envelope {
  readonly data?: unknown;
  readonly auth?: object | null;
  readonly warnings?: readonly string[];
  readonly mountType?: string | undefined;
  /** The lease of `data`; `ttl` in seconds. */
  readonly lease?: { readonly id: string; readonly ttl: number; readonly renewable: boolean };
  /** Copies `data` to the top level for clients of older routes. */
  readonly flat?: boolean;
  readonly status?: number;
}

/** The response envelope of the secrets API. */
export function envelope(
  call: Pick<Call, "requestId">,
  { data, auth, warnings, mountType, lease, flat, status }: Envelope,
): Response {
  const body = {
    ...(flat && typeof data === "object" ? data : {}),
    request_id: call.requestId,
    lease_id: lease?.id ?? "",
    renewable: lease?.renewable ?? false,
    lease_duration: lease?.ttl ?? 0,
    data: data ?? null,
    wrap_info: null,
    // Strict clients reject an empty array, so a success without warnings contains null.
    warnings: warnings && warnings.length > 0 ? warnings : null,
    auth: auth ?? null,
    mount_type: mountType ?? "system",
  };
  return new Response(JSON.stringify(body), { status: status ?? 200, headers: SECRETS_HEADERS });
}

/** The envelope of a wrapped answer: only `wrap_info`. */
export function wrapEnvelope({ requestId }: Pick<Call, "requestId">, info: WrapInfo): Response {
  const empty = { lease_id: "", renewable: false, lease_duration: 0, data: null };
  const body = { request_id: requestId, ...empty, wrap_info: info, warnings: null, auth: null, mount_type: "" };
  return new Response(JSON.stringify(body), { headers: SECRETS_HEADERS });
}

/** JSON text without an envelope, or with that of a stored answer. */
export const storedAnswer = (body: string): Response => new Response(body, { headers: SECRETS_HEADERS });

/** Adds warnings to a successful answer. An answer without a body gets one with the warnings, as upstream. */
export async function withWarnings(
  call: Pick<Call, "requestId" | "grant">,
  response: Response,
  warnings: readonly string[],
): Promise<Response> {
  if (warnings.length === 0 || !response.ok) return response;
  if (response.status === 204) return envelope(call, { warnings, mountType: call.grant?.mount?.type });
  if (response.headers.get("Content-Type") !== SECRETS_HEADERS["Content-Type"]) return response;
  const text = await response.text();
  const body = parseLossless(text);
  const said = isPlainObject(body) ? body["warnings"] : undefined;
  if (!isPlainObject(body) || said === undefined) return new Response(text, response);
  const all = [...(Array.isArray(said) ? said : []), ...warnings];
  return new Response(JSON.stringify({ ...body, warnings: all }), response);
}

/** Like `envelope`, for data that is JSON text already and must pass unchanged. @param ttl `lease_duration`, in seconds */
export function rawEnvelope(
  call: Pick<Call, "requestId">,
  dataText: string,
  mountType: string,
  { ttl = 0, warnings = [] }: { readonly ttl?: number; readonly warnings?: readonly string[] } = {},
): Response {
  const warned = warnings.length > 0 ? JSON.stringify(warnings) : "null";
  const body = `{"request_id":"${call.requestId}","lease_id":"","renewable":false,"lease_duration":${ttl},"data":${dataText},"wrap_info":null,"warnings":${warned},"auth":null,"mount_type":"${mountType}"}`;
  return new Response(body, { headers: SECRETS_HEADERS });
}

/** Like `rawEnvelope`, for data too large for memory: its JSON text is streamed. */
export function rawStream(call: Pick<Call, "requestId">, pieces: () => AsyncGenerator<string>): Response {
  async function* all(): AsyncGenerator<string> {
    yield `{"request_id":"${call.requestId}","lease_id":"","renewable":false,"lease_duration":0,"wrap_info":null,"warnings":null,"auth":null,"mount_type":"system","data":`;
    yield* pieces();
    yield "}";
  }
  return new Response(textStream(all()), { headers: SECRETS_HEADERS });
}

/** A body streamed from a generator, with backpressure. */
export function textStream(source: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      let text = "";
      while (text.length < STREAM_CHUNK) {
        const { done, value } = await source.next();
        if (done) {
          controller.enqueue(encoder.encode(text));
          return controller.close();
        }
        text += value;
      }
      controller.enqueue(encoder.encode(text));
    },
    cancel: async () => {
      await source.return(undefined);
    },
  });
}

/** Characters per chunk of a streamed answer. */
const STREAM_CHUNK = 16_384;

/** Success of the secrets API without content. */
export const noContent = (): Response => new Response(null, { status: 204, headers: { "Cache-Control": "no-store" } });

/** Members of the answer to a list beside its names. */
interface BesideKeys {
  /** By name; those of names that the page does not have are left out. */
  readonly key_info?: Readonly<Record<string, unknown>>;
  readonly [member: string]: unknown;
}

/** A page of a list; an empty one is a 404, like a read of a missing object. */
export function keyList(call: Call, all: readonly string[], beside: BesideKeys = {}, mountType?: string): Response {
  const keys = inPage(all, call.query);
  const { key_info: info } = beside;
  const isPart = info !== undefined && keys.length < all.length;
  const more = isPart ? { ...beside, key_info: Object.fromEntries(keys.map((key) => [key, info[key]])) } : beside;
  if (keys.length === 0) return new Response('{"errors":[]}', { status: 404, headers: SECRETS_HEADERS });
  return envelope(call, { data: { keys, ...more }, ...(mountType !== undefined && { mountType }) });
}

interface ClusterAnswer {
  readonly index?: number | null;
  readonly nextToken?: string | null;
}

function clusterHeaders({ index, nextToken }: ClusterAnswer): Headers {
  const headers = new Headers();
  const set = (names: readonly string[], value: string) => {
    for (const name of names) headers.set(name, value);
  };
  set(clusterHeader.index, String(Math.max(1, index ?? 1)));
  set(clusterHeader.knownLeader, "true");
  set(clusterHeader.lastContact, "0");
  if (nextToken) set(clusterHeader.nextToken, nextToken);
  return headers;
}

/** Whether the caller wants indented output with a trailing newline. */
export const wantsPretty = ({ query }: Pick<Call, "query">): boolean =>
  query.has("pretty") && query.get("pretty") !== "0";

/** Answer of the cluster API: bare JSON, always exactly 200. */
export const clusterJson = (call: Pick<Call, "query">, body: unknown, answer: ClusterAnswer = {}): Response =>
  clusterText(wantsPretty(call) ? `${JSON.stringify(body, null, 4)}\n` : JSON.stringify(body), answer);

/** Like `clusterJson`, for JSON text that is complete or streamed. */
export function clusterText(body: string | ReadableStream<Uint8Array>, answer: ClusterAnswer = {}): Response {
  const headers = clusterHeaders(answer);
  headers.set("Content-Type", "application/json");
  return new Response(body, { headers });
}

/** Success of the cluster API without an object: 200 and no body. */
export const clusterEmpty = (answer: ClusterAnswer = {}): Response =>
  new Response("", { headers: clusterHeaders(answer) });

/** An error in the convention of its area. */
export function errorResponse(area: Area, error: Pick<RequestError, "status" | "messages" | "headers">): Response {
  if (area === "secrets") {
    const body = JSON.stringify({ errors: error.messages });
    return new Response(body, { status: error.status, headers: { ...SECRETS_HEADERS, ...error.headers } });
  }
  // Plain text is shown on terminals, so control characters are removed; lists of findings keep their newlines.
  const text = error.messages.join("; ").replace(/[^\P{Cc}\n\t]/gu, " ");
  const denied = error.status === 403 && text.startsWith("permission denied") ? "Permission denied" : text;
  const headers = { "Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store", ...error.headers };
  return new Response(denied === "" ? "not found" : denied, { status: error.status, headers });
}
