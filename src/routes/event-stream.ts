import { clusterHeader } from "../compat/dialect.ts";
import { parseTopics, type Subscription } from "../events/subscription.ts";
import { mayReadTopic } from "../events/topic-rights.ts";
import { badRequest, denied } from "../http/errors.ts";
import { type AuthorisedCall, cluster } from "../http/route.ts";
import { accessControl, openEventStream } from "../objects/stubs.ts";

/** The event stream of area C: authorised whole before its first byte. */

function startIndex(text: string | null): number {
  if (text === null || text === "") return 0;
  if (!/^[+-]?\d{1,15}$/.test(text))
    throw badRequest(`Unable to parse index: ${JSON.stringify(text.slice(0, 40))} is not an integer`);
  return Number(text);
}

async function stream(call: AuthorisedCall): Promise<Response> {
  const from = startIndex(call.query.get("index"));
  const parsed = parseTopics(call.query.getAll("topic"));
  if (!parsed.ok) throw badRequest(parsed.message);
  const wanted = call.query.get("namespace") ?? "default";
  const everywhere = wanted === "*";
  const known = everywhere ? await accessControl(call.env).listClusterNamespaces("") : [];
  const namespaces = everywhere ? known.map(({ Name }) => Name) : [wanted];
  const rights = call.grant.cluster;
  if (!Object.keys(parsed.topics).every((topic) => mayReadTopic(rights, topic, namespaces, everywhere))) throw denied();
  const subscription: Subscription = {
    topics: parsed.topics,
    // A management token keeps seeing namespaces that are made later.
    namespaces: everywhere && rights.management ? null : namespaces,
    from,
    heartbeat: call.dialect === "upstream" ? "empty" : "indexed",
  };
  const opened = await openEventStream(call.env, JSON.stringify(subscription), call.request.signal);
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
