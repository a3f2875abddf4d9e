import * as z from "zod";
import { clusterHeader } from "../compat/dialect.ts";
import type { NotificationRequest } from "../contracts/notification.ts";
import { SERVICE_TOPICS } from "../contracts/service-topics.ts";
import { selectionOf } from "../events/notifications/selection.ts";
import { NOTIFICATION_TYPES } from "../events/notifications/upstream-events.ts";
import { FilterError } from "../lib/bexpr/errors.ts";
import { matchesGlob } from "../lib/glob.ts";
import { parseGoBool } from "../lib/go-bool.ts";
import { refuse } from "../lib/result.ts";
import { objectStub } from "../platform/durable/jurisdiction.ts";
import { badRequest, denied, RequestError, refusalError } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { type ClientLocation, nearestPlace, placedName } from "../platform/place.ts";
import { settings } from "../platform/settings.ts";
import { formatOf, resumeIndex, SERVER_SENT, startIndex, streamHeaders } from "./event-stream.ts";
import { type Asked, type AuthorisedCall, secrets } from "./server/route.ts";

/**
 * Upstream's event notifications over a WebSocket (https://developer.hashicorp.com/vault/api-docs/system/events), or as
 * server-sent events. All refusals come before the upgrade.
 */

/** A hibernating socket keeps its subscription in 16 KiB. */
const MAX_REQUEST = 8_000;

const SubscribeQuery = z.object({
  json: query.text(),
  namespaces: query.repeated(),
  filter: query.text(),
  index: query.text(),
});
type SubscribeCall = AuthorisedCall<never, "eventType"> & Asked<typeof SubscribeQuery>;

async function subscribe(call: SubscribeCall): Promise<Response> {
  const request = requestOf(call);
  const fault = filterFault(request);
  if (fault !== null) return new Response(`Error subscribing: ${fault}`, { status: 400, headers: PLAIN });
  const { env, request: incoming } = call;
  const place = settings(env).EVENT_RELAYS > 0 ? nearestPlace((incoming.cf ?? {}) as ClientLocation) : null;
  const name = placedName(
    `notifications-${place ?? "anywhere"}`,
    request.accessor,
    Math.max(1, settings(env).EVENT_RELAYS),
  );
  const opened = await objectStub(env, env.EVENT_RELAY, name, place).fetch(
    `https://event-relay/notifications?${new URLSearchParams({ request: JSON.stringify(request) })}`,
    { headers: request.format === "server-sent-events" ? {} : { Upgrade: "websocket" }, signal: incoming.signal },
  );
  if (opened.status === 403) throw denied();
  if (opened.status >= 400) {
    throw refusalError(refuse(opened.status === 429 ? "limited" : "unavailable", await opened.text()));
  }
  return answered(opened);
}

/** @throws RequestError 400, 426 */
function requestOf({ request, asked, params, grant, env }: SubscribeCall): NotificationRequest {
  const pattern = params["eventType"] ?? "";
  if (pattern === "") throw badRequest("did not specify eventType to subscribe to");
  const json = parseGoBool(asked.json || "false");
  // Upstream's sentence has the value.
  if (json === null) throw badRequest(`invalid parameter for JSON: ${asked.json.slice(0, 40)}`);
  const upgrades = request.method === "GET" && request.headers.get("Upgrade")?.toLowerCase() === "websocket";
  const streams = !upgrades && formatOf(request.headers.get("Accept")) === "server-sent-events";
  if (!upgrades && !streams) throw new RequestError(426, "Upgrade: must be websocket", { Upgrade: "websocket" });
  const wanted: NotificationRequest = {
    accessor: grant.identity.accessor,
    namespace: grant.namespace,
    pattern,
    namespaces: (asked.namespaces ?? []).filter((glob) => glob !== ""),
    filter: asked.filter,
    format: streams ? "server-sent-events" : json ? "json" : "protobuf",
    from: resumeIndex(request.headers) ?? (asked.index === "" ? -1 : startIndex(asked.index)),
  };
  if (JSON.stringify(wanted).length > MAX_REQUEST) throw badRequest("filter: the request is too long");
  const disabled = disabledTopic(env, pattern);
  if (disabled !== null) throw badRequest(`eventType: the topic ${disabled} is disabled by the setting SERVICE_EVENTS`);
  return wanted;
}

/** The topic of a pattern whose types are all disabled; null for any other pattern. */
function disabledTopic(env: Env, pattern: string): string | null {
  const matched = SERVICE_TOPICS.filter((topic) =>
    NOTIFICATION_TYPES[topic]?.some((type) => matchesGlob(type, pattern)),
  );
  const topics = settings(env).SERVICE_EVENTS;
  // Events of secrets are published on demand.
  const enabled = topics === "" ? [] : [...topics.split(","), "Secret"];
  return matched.some((topic) => enabled.includes(topic)) ? null : (matched[0] ?? null);
}

/** Why the filter is refused; null if it is not. */
function filterFault(request: NotificationRequest): string | null {
  try {
    selectionOf(request);
    return null;
  } catch (failure) {
    if (failure instanceof FilterError) return failure.message;
    throw failure;
  }
}

const PLAIN = { "Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store" };

/** The answer of the relay, with headers that tell where the subscription starts. */
function answered(opened: Response): Response {
  const headers = opened.webSocket ? new Headers() : streamHeaders(SERVER_SENT);
  for (const name of clusterHeader.oldestIndex) headers.set(name, opened.headers.get("x-oldest-index") ?? "0");
  for (const name of clusterHeader.startIndex) headers.set(name, opened.headers.get("x-start-index") ?? "0");
  if (opened.webSocket) return new Response(null, { status: 101, webSocket: opened.webSocket, headers });
  return new Response(opened.body, { headers });
}

export const eventNotificationRoutes = [
  secrets("GET /sys/events/subscribe/:eventType+", { fresh: true, unwrapped: true, query: SubscribeQuery }, subscribe),
  secrets("GET /sys/events/subscribe", { fresh: true, refuses: true, query: SubscribeQuery }, subscribe),
];
