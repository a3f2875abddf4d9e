import * as z from "zod";
import type { DeadLetter, SubscriptionView } from "../contracts/event-subscription.ts";
import { STREAM_TOPICS } from "../contracts/stream-topics.ts";
import { channelOf } from "../events/alerts/channel-names.ts";
import { parseLossless } from "../lib/json.ts";
import { mapLimit } from "../lib/map-limit.ts";
import type { Result } from "../lib/result.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { caseless, echoed } from "../platform/http/fields.ts";
import { nearestOf } from "../platform/http/unknown-fields.ts";
import { refusedUrl } from "../providers/outbound-url.ts";
import { eventLog, eventSubscription } from "../rpc/stubs.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, type ClusterRoute, cluster } from "./server/route.ts";
import { timeOf, WEBHOOK_SECRET } from "./sys-notifications/bodies.ts";

/*
 * Event subscriptions. All require a management token: like a sync destination, a subscription belongs to the deployment.
 * It outlives the token that wrote it, and delivers what its filter selects.
 */

const NAME = /^[a-zA-Z0-9_-]{1,128}$/;
const MAX_TOPICS = 50;
const MAX_KEYS = 500;
const MAX_ATTEMPTS = 1_000;
/** 30 days. */
const MAX_OVERLAP_S = 2_592_000;
const MAX_CONCURRENT_READS = 6;

/** One beyond every line is a great number, however great: delivery then begins with new lines. */
const index = z
  .number()
  .refine((given) => Number.isInteger(given), "must be an integer")
  .min(0)
  .transform((given) => Math.min(given, Number.MAX_SAFE_INTEGER));

const MAX_SHOWN = 40;

/** Why a topic never has an event; null for a topic of the stream. */
function topicFault(topic: string): string | null {
  if (topic === "*" || STREAM_TOPICS.includes(topic)) return null;
  const meant = nearestOf(topic, STREAM_TOPICS);
  const hint = meant === null ? `the topics are ${STREAM_TOPICS.join(", ")}` : `did you mean ${meant}?`;
  return `no topic ${JSON.stringify(topic.slice(0, MAX_SHOWN))}: ${hint}`;
}

const Body = caseless(
  z.object({
    Topics: z
      .record(z.string(), z.array(z.string()).min(1).max(MAX_KEYS))
      .refine((topics) => Object.keys(topics).length > 0, "must name a topic")
      .refine((topics) => Object.keys(topics).length <= MAX_TOPICS, `at most ${MAX_TOPICS} topics`)
      .superRefine((topics, context) => {
        for (const message of Object.keys(topics).map(topicFault))
          if (message !== null) context.addIssue({ code: "custom", message });
      })
      .default({ "*": ["*"] }),
    Namespace: z.string().min(1).default("default"),
    Target: caseless(
      z.object({
        Type: z.enum(["webhook", "queue"], "must be webhook or queue"),
        URL: z.string().max(2_048).nullish(),
        Secret: z.string().regex(WEBHOOK_SECRET, "must be whsec_ and the base64 text of 24 to 64 bytes").nullish(),
        SecretOverlapSeconds: z.int().min(0).max(MAX_OVERLAP_S).nullish(),
        ...echoed("PreviousSecretUntil"),
      }),
    ),
    StartIndex: index.nullish(),
    MaxAttempts: z.int().min(1).max(MAX_ATTEMPTS).default(20),
    ...echoed("Name", "DeliveredIndex", "Paused", "Attempts", "LastError", "RetryAt", "DeadLetters"),
  }),
);

const nameOf = (call: AuthorisedCall<"name">): string => {
  const name = call.params.name;
  if (!NAME.test(name)) throw badRequest(`name: must match ${NAME.source}`);
  return name;
};

const subscriptionOf = (call: AuthorisedCall<"name">) => eventSubscription(call.env, nameOf(call));

async function put(call: AuthorisedCall<"name">, body: z.output<typeof Body>): Promise<Response> {
  const { Type: type, URL: url = null, Secret: secret = null, SecretOverlapSeconds: overlap = null } = body.Target;
  if (type === "queue" && (url !== null || secret !== null)) {
    throw badRequest("Target: a queue has neither URL nor Secret");
  }
  if (overlap !== null && secret === null) throw badRequest("Target.SecretOverlapSeconds: needs a Secret");
  const refused = type === "webhook" ? refusedUrl(url ?? "") : null;
  if (refused !== null) throw badRequest(`Target.URL: ${refused}`);
  unwrap(
    await subscriptionOf(call).write({
      topics: body.Topics,
      namespace: body.Namespace,
      type,
      url,
      secret,
      startIndex: body.StartIndex ?? null,
      maxAttempts: body.MaxAttempts,
      secretOverlapMs: overlap === null ? null : overlap * 1_000,
    }),
  );
  return clusterEmpty();
}

const shown = (name: string, view: SubscriptionView) => ({
  Name: name,
  Topics: view.topics,
  Namespace: view.namespace,
  Target: {
    Type: view.type,
    ...(view.url !== null && { URL: view.url }),
    ...(view.previousSecretUntil !== null && { PreviousSecretUntil: timeOf(view.previousSecretUntil) }),
  },
  MaxAttempts: view.maxAttempts,
  DeliveredIndex: view.deliveredIndex,
  Paused: view.paused,
  Attempts: view.attempts,
  LastError: view.lastError,
  RetryAt: timeOf(view.retryAt),
  DeadLetters: view.deadLetters,
});

async function list(call: AuthorisedCall): Promise<Response> {
  const names = (await eventLog(call.env).subscriptions()).filter((name) => channelOf(name) === null);
  const found = await mapLimit(names, MAX_CONCURRENT_READS, async (name) => {
    const view = await eventSubscription(call.env, name).read();
    // The log learns of a deletion later.
    return !view.ok && view.reason === "missing" ? [] : [shown(name, unwrap(view))];
  });
  return clusterJson(call, found.flat());
}

/** The events of a delivery are nested as deep as a report may be, within the delivery. */
const MAX_DELIVERY_DEPTH = 256;

const letter = ({ id, attempts, error, at, body }: DeadLetter) => ({
  Id: id,
  Attempts: attempts,
  Error: error,
  FailedAt: timeOf(at),
  Delivery: parseLossless(body, MAX_DELIVERY_DEPTH),
});

const done = async (result: Promise<Result<null>>): Promise<Response> => {
  unwrap(await result);
  return clusterEmpty();
};

const ONE = "/event/subscription/:name";
const MANAGED = { rights: "management", fresh: true } as const satisfies Partial<ClusterRoute>;

export const eventSubscriptionRoutes = [
  cluster("GET /event/subscriptions", { ...MANAGED }, list),
  cluster(`POST ${ONE}`, { ...MANAGED, body: Body }, put),
  cluster(`GET ${ONE}`, { ...MANAGED }, async (call) =>
    clusterJson(call, shown(nameOf(call), unwrap(await subscriptionOf(call).read()))),
  ),
  cluster(`DELETE ${ONE}`, { ...MANAGED }, async (call) => {
    await subscriptionOf(call).delete();
    return clusterEmpty();
  }),
  cluster(`GET ${ONE}/dead-letters`, { ...MANAGED }, async (call) =>
    clusterJson(call, unwrap(await subscriptionOf(call).deadLetters()).map(letter)),
  ),
  cluster(`POST ${ONE}/replay`, { ...MANAGED, body: caseless(z.object({ Index: index })) }, (call, { Index }) =>
    done(subscriptionOf(call).replay(Index)),
  ),
  cluster(`POST ${ONE}/pause`, { ...MANAGED }, (call) => done(subscriptionOf(call).pause("requested"))),
  cluster(`POST ${ONE}/resume`, { ...MANAGED }, (call) => done(subscriptionOf(call).pause(null))),
];
