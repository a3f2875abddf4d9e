import type { ClusterRights } from "../access/cluster-rights.ts";
import { clusterHeader } from "../compat/dialect.ts";
import { parseTopics, type Subscription } from "../events/subscription.ts";
import { mayReadTopic } from "../events/topic-rights.ts";
import { badRequest, denied } from "../http/errors.ts";
import { type AuthorisedCall, cluster } from "../http/route.ts";
import { accessControl } from "../objects/stubs.ts";

/** The event stream of area C: authorised whole before its first byte. */

function startIndex(text: string | null): number {
  if (text === null || text === "") return 0;
  // A plus that nobody encoded arrives as a space.
  if (!/^[ +-]?\d{1,15}$/.test(text))
    throw badRequest(`Unable to parse index: ${JSON.stringify(text.slice(0, 40))} is not an integer`);
  return Number(text);
}

const ALL = "*";

/** The namespaces whose events a request is about. @throws RequestError 403 when it asks for all and no rule of its says so */
async function namespacesFor(call: AuthorisedCall, wanted: string): Promise<string[]> {
  if (wanted !== ALL) return [wanted];
  const { management, namespaces }: ClusterRights = call.grant.cluster;
  if (!management && !namespaces.some((rule) => rule.name === ALL)) throw denied();
  const known = await accessControl(call.env).listClusterNamespaces("");
  return known.map(({ Name }) => Name);
}

async function stream(call: AuthorisedCall): Promise<Response> {
  const { query, grant, dialect, env, request } = call;
  const from = startIndex(query.get("index"));
  const parsed = parseTopics(query.getAll("topic"));
  if (!parsed.ok) throw badRequest(parsed.message);
  const wanted = query.get("namespace") || "default";
  const namespaces = await namespacesFor(call, wanted);
  if (!Object.keys(parsed.topics).every((topic) => mayReadTopic(grant.cluster, topic, namespaces))) throw denied();
  const subscription: Subscription = {
    topics: parsed.topics,
    // A management token keeps seeing namespaces that are made later.
    namespaces: wanted === ALL && grant.cluster.management ? null : namespaces,
    from,
    heartbeat: dialect === "upstream" ? "empty" : "indexed",
    errors: /^(1|t|true)$/i.test(query.get("errors") ?? ""),
  };
  // A body, not a header: topics are any text, and a deployment may have thousands of namespaces.
  const opened = await env.EVENT_LOG.getByName("log").fetch("https://event-log/stream", {
    method: "POST",
    body: JSON.stringify(subscription),
    signal: request.signal,
  });
  const headers = new Headers({
    "Content-Type": "application/json",
    "Cache-Control": "no-store, no-transform",
    // Local tooling would compress the stream and never flush it (contract: platform 0, fact 2).
    "Content-Encoding": "identity",
  });
  for (const name of clusterHeader.oldestIndex) headers.set(name, opened.headers.get("x-oldest-index") ?? "0");
  return new Response(opened.body, { headers });
}

export const eventStreamRoutes = [
  cluster({ verb: "GET", path: "/event/stream", rights: "any", fresh: true, handle: stream }),
];
