import { createHmac } from "node:crypto";
import type { Delivery, DeliveryReport } from "../../contracts/event-subscription.ts";
import { retryWhileFrozen } from "../../platform/durable/snapshot/frozen.ts";
import { textOf } from "../../platform/observability/log.ts";
import { flushCountsSoon } from "../../platform/observability/metrics/flush.ts";
import { count } from "../../platform/observability/metrics/isolate-counters.ts";
import { tracedWork } from "../../platform/observability/otlp/spans.ts";
import { OWN_TRACE } from "../../platform/observability/otlp/trace-context.ts";
import { callTenantUrl } from "../../providers/outbound-url.ts";
import { retryAfterMs } from "../../providers/outcome.ts";
import { eventSubscription } from "../../rpc/stubs.ts";
import { MAX_QUEUE_BYTES } from "./batch.ts";
import { formats, isMessageType, notificationIn } from "./formats/formats.ts";

/*
 * The Worker's side of event subscriptions: sends leased batches and reports the outcomes. Webhooks follow Standard
 * Webhooks 1.0 (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 */

/** The specification recommends 15 to 30 s. */
const DEADLINE_MS = 15_000;
const GONE = 410;

/** Delivers the batches of a subscription, in order, until none is ready or the budget for new ones is spent. */
export async function performDeliveries(env: Env, name: string, { budgetMs }: { budgetMs: number }): Promise<void> {
  const end = Date.now() + budgetMs;
  for (let report: DeliveryReport | null = null; ; ) {
    const outcome: DeliveryReport | null = report;
    // A new stub for each call, because a stub stays broken after its object restarts.
    const next = (): Promise<Delivery | null> => eventSubscription(env, name).next(outcome, Date.now() < end);
    const delivery: Delivery | null = await retryWhileFrozen(next).catch((failure: unknown) => {
      if (outcome === null) throw failure;
      return next();
    });
    if (!delivery) return;
    const attempt = () => send(env, delivery);
    const sent = await tracedWork(env, OWN_TRACE, "event-delivery", attempt, ({ error }) => error !== null);
    report = { lease: delivery.lease, ...sent };
    count("sallyport_event_deliveries_total", name, report.error === null ? "ok" : "failed");
    flushCountsSoon();
  }
}

type Outcome = Omit<DeliveryReport, "lease">;

const DELIVERED: Outcome = { error: null, action: "retry", afterMs: 0 };
const failed = (error: string, action: Outcome["action"] = "retry", afterMs = 0): Outcome => ({
  error,
  action,
  afterMs,
});

function send(env: Env, delivery: Delivery): Promise<Outcome> {
  const { url } = delivery.target;
  if (url === null) return toQueue(env, delivery);
  return isMessageType(delivery.type) ? toService(url, delivery) : toWebhook(url, delivery);
}

async function toQueue({ EVENT_QUEUE: queue }: Env, { body }: Delivery): Promise<Outcome> {
  if (!queue) return failed("EVENT_QUEUE is not bound");
  if (Buffer.byteLength(body) > MAX_QUEUE_BYTES) return failed("the line is too large for a queue", "dead");
  try {
    await queue.send(body, { contentType: "text" });
    return DELIVERED;
  } catch (failure) {
    return failed(textOf(failure));
  }
}

/**
 * Every answer but 2xx is a failed attempt, also 4xx: a receiver that is misconfigured for an hour must not lose lines.
 * 410 asks for no further deliveries.
 */
async function toWebhook(url: string, { id, body, target }: Delivery): Promise<Outcome> {
  const timestamp = Math.floor(Date.now() / 1000);
  const { secret, previous } = target;
  const secrets = [secret ?? "", ...(previous && previous.until > Date.now() ? [previous.secret] : [])];
  const signatures = secrets.map((each) => {
    const key = Buffer.from(each.replace("whsec_", ""), "base64");
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
  });
  const headers = {
    "Content-Type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": signatures.join(" "),
  };
  return post(url, headers, body);
}

/** A message in the form of a service. The same for all attempts, so that a repetition changes nothing there. */
async function toService(url: string, { body, target, type, options = {} }: Delivery): Promise<Outcome> {
  const notification = notificationIn(body);
  if (!notification || !isMessageType(type)) return failed("the line has no notification", "dead");
  const request = formats[type].request({ notification, url, secret: target.secret, options });
  return post(request.url, request.headers, request.body);
}

async function post(url: string, headers: Readonly<Record<string, string>>, body: string): Promise<Outcome> {
  const init = { method: "POST", headers, body };
  // The status decides, however long the receiver's body is and whether it ends.
  const call = await callTenantUrl(url, init, { deadlineMs: DEADLINE_MS, ignoresBody: true });
  if (!call.ok) return failed(call.outcome.message);
  const { response } = call;
  if (response.ok) return DELIVERED;
  const error = `the receiver answered with status ${response.status}`;
  return failed(error, response.status === GONE ? "pause" : "retry", retryAfterMs(response) ?? 0);
}
