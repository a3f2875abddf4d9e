import * as z from "zod";
import { clusterHeader } from "../compat/dialect.ts";
import { SERVICE_TOPICS } from "../contracts/service-topics.ts";
import { parseTopics, type Subscription } from "../events/subscription.ts";
import { refuse } from "../lib/result.ts";
import { objectStub } from "../platform/durable/jurisdiction.ts";
import { badRequest, denied, refusalError } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { type ClientLocation, nearestPlace, placedName } from "../platform/place.ts";
import { settings } from "../platform/settings.ts";
import { namespaceOf } from "./server/cluster-reads.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** The event stream: fully authorized before its first byte. */

const shown = (text: string): string => JSON.stringify(text.slice(0, 40));

const MAX_UINT64 = 2n ** 64n - 1n;

/** An index of 64 bits. One beyond every line is a great number, however great. @throws RequestError 400 */
function indexIn(text: string, message: string): number {
  // An unencoded plus sign arrives as a space.
  if (!/^[ +-]?\d{1,100}$/.test(text)) throw badRequest(message);
  const index = BigInt(text.replace(/^[ +]/, ""));
  if (index > MAX_UINT64 || -index > MAX_UINT64) throw badRequest(message);
  return Math.max(-1, Math.min(Number(index), Number.MAX_SAFE_INTEGER - 1));
}

export const startIndex = (text: string): number =>
  text ? indexIn(text, `Unable to parse index: ${shown(text)} is not an integer of 64 bits`) : 0;

/** Resume position of a reconnecting reader: the last event id (WHATWG HTML 9.2.4). */
export function resumeIndex(headers: Headers): number | null {
  const id = headers.get("Last-Event-ID");
  if (!id) return null;
  const message = `Last-Event-ID: ${shown(id)} is not the id of a line`;
  const index = indexIn(id, message);
  if (index < 0) throw badRequest(message);
  return index + 1;
}

export const SERVER_SENT = "text/event-stream";

/** The preferred output format: lines, unless server-sent events have strictly higher preference. */
export function formatOf(accept: string | null): Subscription["format"] {
  const quality = new Map<string, number>();
  for (const range of (accept ?? "").toLowerCase().split(",")) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim());
    const q = parameters.find((parameter) => parameter.startsWith("q="));
    quality.set(type, q === undefined ? 1 : Number(q.slice(2)) || 0);
  }
  const events = quality.get(SERVER_SENT) ?? 0;
  const lines = Math.max(quality.get("application/json") ?? 0, quality.get("application/x-ndjson") ?? 0);
  const others = Math.max(quality.get("*/*") ?? 0, quality.get("application/*") ?? 0);
  return events > 0 && events > lines && events >= others ? "server-sent-events" : "lines";
}

/** Headers of a stream of events. The encoding prevents local tooling from compressing it, which would never flush it. */
export const streamHeaders = (type: string): Headers =>
  new Headers({
    "Content-Type": type,
    "Cache-Control": "no-store, no-transform",
    "Content-Encoding": "identity",
  });

/** The server of a stream: the log itself, or one of its relays. */
function serverOf(env: Env, request: Request, accessor: string): Fetcher {
  const relays = settings(env).EVENT_RELAYS;
  if (relays === 0) return objectStub(env, env.EVENT_LOG, "log");
  const place = nearestPlace((request.cf ?? {}) as ClientLocation);
  // By the ray where available: many readers may share an address and a token.
  const client = `${accessor} ${request.headers.get("CF-Ray") ?? request.headers.get("CF-Connecting-IP")}`;
  const name = placedName(place ?? "anywhere", client, relays);
  return objectStub(env, env.EVENT_RELAY, name, place);
}

/** The topics that are asked for by name, and whose events are not published here. */
function disabledTopics(env: Env, topics: Subscription["topics"]): string[] {
  const enabled = settings(env).SERVICE_EVENTS.split(",");
  return SERVICE_TOPICS.filter((topic) => topic in topics && !enabled.includes(topic));
}

const StreamQuery = z.object({ topic: query.repeated(), index: query.text(), errors: query.flag() });

async function stream(call: AuthorisedCall & Asked<typeof StreamQuery>): Promise<Response> {
  const { asked, grant, dialect, env, request } = call;
  const format = formatOf(request.headers.get("Accept"));
  const parsed = parseTopics(asked.topic ?? []);
  const from = startIndex(asked.index);
  if (!parsed.ok) throw badRequest(parsed.message);
  const subscription: Subscription = {
    accessor: grant.identity.accessor,
    topics: parsed.topics,
    namespace: namespaceOf(call),
    from: (format === "server-sent-events" ? resumeIndex(request.headers) : null) ?? from,
    dialect,
    format,
    errors: asked.errors,
  };
  // In a body instead of a header, because topics are arbitrary text.
  const opened = await serverOf(env, request, subscription.accessor).fetch("https://event-log/stream", {
    method: "POST",
    body: JSON.stringify(subscription),
    signal: request.signal,
  });
  if (opened.status === 403) throw denied();
  if (!opened.ok) throw refusalError(refuse("unavailable", "the stream cannot be opened now; try again"));
  const headers = streamHeaders(format === "server-sent-events" ? SERVER_SENT : "application/json");
  for (const name of clusterHeader.oldestIndex) headers.set(name, opened.headers.get("x-oldest-index") ?? "0");
  const disabled = disabledTopics(env, parsed.topics).join();
  if (disabled !== "") for (const name of clusterHeader.disabledTopics) headers.set(name, disabled);
  const start = opened.headers.get("x-start-index");
  if (start !== null) for (const name of clusterHeader.startIndex) headers.set(name, start);
  return new Response(opened.body, { headers });
}

export const eventStreamRoutes = [
  cluster("GET /event/stream", { rights: "any", fresh: true, query: StreamQuery }, stream),
];
