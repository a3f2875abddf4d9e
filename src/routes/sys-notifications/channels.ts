import type * as z from "zod";
import type { SubscriptionView } from "../../contracts/event-subscription.ts";
import { channelKey, channelOf, channelSubscription, NOTIFICATION_TOPIC } from "../../events/alerts/channel-names.ts";
import { performDeliveries } from "../../events/subscriptions/deliver.ts";
import { formats, isMessageType } from "../../events/subscriptions/formats/formats.ts";
import { mapLimit } from "../../lib/map-limit.ts";
import { badRequest, refusalError, unwrap } from "../../platform/http/errors.ts";
import { refusedUrl } from "../../providers/outbound-url.ts";
import { eventLog, eventSubscription } from "../../rpc/stubs.ts";
import { envelope, keyList, noContent } from "../server/respond.ts";
import { type AuthorisedCall, secrets } from "../server/route.ts";
import { ChannelBody, NAME, timeOf, WEBHOOK_SECRET } from "./bodies.ts";

/** Channels of notifications: event subscriptions of their own, which deliver the messages of rules. */

const MAX_ATTEMPTS = 20;
const MAX_CONCURRENT_READS = 6;
/** Secrets are values of headers. */
const PRINTABLE = /^[\x21-\x7e]+$/;
/** Time to wait for the outcome of a test. */
const TEST_MS = 10_000;
const POLL_MS = 200;

/** The name of a channel or a rule in a path. @throws RequestError 400 */
export const nameOf = ({ params: { name } }: AuthorisedCall<"name">): string => {
  if (!NAME.test(name)) throw badRequest(`name: must match ${NAME.source}`);
  return name;
};

const objectOf = (call: AuthorisedCall<"name">) => eventSubscription(call.env, channelSubscription(nameOf(call)));

/** The whole URL of a service whose URL is its secret is never shown. */
const shownUrl = ({ type, url }: SubscriptionView): string =>
  isMessageType(type) && formats[type].secret === null ? `${new URL(url ?? "").origin}/…` : (url ?? "");

const channelJson = (name: string, view: SubscriptionView) => ({
  name,
  type: view.type,
  url: shownUrl(view),
  ...(view.options?.["from"] !== undefined && { from: view.options["from"] }),
  ...(view.options?.["to"] !== undefined && { to: view.options["to"].split(",") }),
  paused: view.paused,
  attempts: view.attempts,
  last_error: view.lastError,
  retry_at: timeOf(view.retryAt),
  dead_letters: view.deadLetters,
  delivered_index: view.deliveredIndex,
});

async function list(call: AuthorisedCall): Promise<Response> {
  const names = (await eventLog(call.env).subscriptions()).flatMap((each) => channelOf(each) ?? []);
  const found = await mapLimit(names, MAX_CONCURRENT_READS, async (name) => {
    const view = await eventSubscription(call.env, channelSubscription(name)).read();
    // The log learns of a deletion later.
    return !view.ok && view.reason === "missing" ? [] : [[name, channelJson(name, unwrap(view))] as const];
  });
  const channels = found.flat();
  return keyList(
    call,
    channels.map(([name]) => name),
    { key_info: Object.fromEntries(channels) },
  );
}

async function put(call: AuthorisedCall<"name">, body: z.output<typeof ChannelBody>): Promise<Response> {
  const name = nameOf(call);
  const { type } = body;
  // A URL that is shown in part only is sent back by clients that change another field.
  const url = body.url === undefined || body.url.endsWith("/…") ? null : body.url;
  const secret = body.secret || null;
  if (type === "webhook" && url === null) throw badRequest("url: is required");
  const refused = url === null ? null : refusedUrl(url);
  if (refused !== null) throw badRequest(`url: ${refused}`);
  if (type === "webhook" && secret !== null && !WEBHOOK_SECRET.test(secret))
    throw badRequest("secret: must be whsec_ and the base64 text of 24 to 64 bytes");
  if (secret !== null && !PRINTABLE.test(secret)) throw badRequest("secret: must have printable characters only");
  if (isMessageType(type) && formats[type].secret === null && secret !== null)
    throw badRequest(`secret: a channel of the type ${type} has none, its URL is the secret`);
  const options = optionsOf(body);
  const written = await objectOf(call).write({
    topics: { [NOTIFICATION_TOPIC]: [channelKey(name)] },
    namespace: "*",
    type,
    url,
    secret,
    secretOverlapMs: null,
    startIndex: null,
    maxAttempts: MAX_ATTEMPTS,
    ...(options && { options }),
  });
  if (!written.ok) throw refusalError({ ...written, message: written.message.replace("Target.Secret", "secret") });
  return noContent();
}

/** The further fields of a type. @throws RequestError 400 for a missing one, and for one of another type */
function optionsOf({ type, from, to }: z.output<typeof ChannelBody>): Record<string, string> | null {
  const given: Readonly<Record<string, string | undefined>> = { from, to: to && [...new Set(to)].join(",") };
  const wanted: readonly string[] = isMessageType(type) ? formats[type].options : [];
  for (const [field, value] of Object.entries(given)) {
    if (value === undefined && wanted.includes(field)) throw badRequest(`${field}: is required`);
    if (value !== undefined && !wanted.includes(field))
      throw badRequest(`${field}: has no effect with the type ${type}`);
  }
  return wanted.length === 0 ? null : Object.fromEntries(wanted.map((field) => [field, given[field] ?? ""]));
}

async function remove(call: AuthorisedCall<"name">): Promise<Response> {
  const name = nameOf(call);
  const rules = await eventLog(call.env).notificationRules();
  const user = rules.find(({ channels }) => channels.includes(name));
  if (user) throw badRequest(`the rule ${user.name} sends to this channel`);
  await objectOf(call).delete();
  return noContent();
}

/** Sends a test through the log, as rules do, and waits for its outcome. */
async function test(call: AuthorisedCall<"name">): Promise<Response> {
  const channel = objectOf(call);
  const { deadLetters } = unwrap(await channel.read());
  const index = unwrap(await eventLog(call.env).testChannel(nameOf(call)));
  const end = Date.now() + TEST_MS;
  await channel.wake(index);
  await performDeliveries(call.env, channelSubscription(nameOf(call)), { budgetMs: TEST_MS });
  for (;;) {
    const view = unwrap(await channel.read());
    const delivered = view.deliveredIndex >= index && view.deadLetters <= deadLetters;
    if (delivered || view.lastError !== null || view.paused !== null || Date.now() >= end) {
      const error = delivered ? null : (view.lastError ?? view.paused ?? "there is no outcome yet");
      return envelope(call, { data: { index, delivered, error } });
    }
    await scheduler.wait(POLL_MS);
  }
}

const ONE = "/sys/notifications/channels/:name";

export const channelRoutes = [
  secrets("LIST /sys/notifications/channels", { fresh: true }, list),
  secrets(`GET ${ONE}`, { fresh: true }, async (call) =>
    envelope(call, { data: channelJson(nameOf(call), unwrap(await objectOf(call).read())) }),
  ),
  secrets(`POST ${ONE}`, { fresh: true, body: ChannelBody }, put),
  secrets(`DELETE ${ONE}`, { fresh: true }, remove),
  secrets(`POST ${ONE}/test`, { fresh: true }, test),
  secrets(`POST ${ONE}/resume`, { fresh: true }, async (call) => {
    // A channel has no replay, so its dead letters would count as failing for ever.
    unwrap(await objectOf(call).pause(null, { forgetsDead: true }));
    return noContent();
  }),
];
