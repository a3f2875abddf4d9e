import type { Append, NewEvent } from "../contracts/event.ts";
import type { MountPlace } from "../contracts/mount.ts";
import type { Located } from "../contracts/namespaces.ts";
import type { ServiceTopic } from "../contracts/service-topics.ts";
import type { Outbox } from "../platform/durable/outbox.ts";
import { type Deliver, type OutboxRow, storedLater } from "../platform/durable/outbox-delivery.ts";
import { settings } from "../platform/settings.ts";
import { accessControl, eventLog } from "../rpc/stubs.ts";
import { serviceAccount } from "./event-accounts.ts";

/** An event as its object records it. Its place, such as the path of the mount, is added when it is delivered. */
interface ServiceEvent {
  readonly topic: ServiceTopic;
  readonly type: string;
  /** Inside the place. */
  readonly key: string;
  /** The API path inside the place whose readers may see the event. */
  readonly path: string;
  /** A further filter key inside the place; default: the mount; null for none. */
  readonly also?: string | null;
  /** Names, versions, times and codes; never a value. */
  readonly payload: Readonly<Record<string, unknown>>;
}

/** An event in the outbox. A row of an older release has no time. */
type Recorded = ServiceEvent & { readonly at?: number };

type Place = Located | MountPlace;

/** Records service events in the transaction of their change. */
export type ServiceEmitter = Pick<ServiceEvents, "emit">;

/** Least interval between two deliveries. The first event leaves at once; those after it share calls and commits. */
const DELIVERED_EVERY_MS = 25;
/** Topic and lane in the outbox: one lane, so that events keep their order. */
const TOPIC = "event";
const LANE = "log";

/**
 * Publishes the events of one mount or destination: `emit` inside a transaction, `deliver` as the outbox topic `event`.
 * Costs one outbox row an event, and one call of the event log for all that wait; the rows are deleted with a later
 * commit. The commit of an event does not wait for its delivery.
 */
export class ServiceEvents {
  /** When the last delivery began. */
  #deliveredAt = 0;
  #isScheduled = false;

  /** @param place where the object is now; null after its deletion, when its events are dropped */
  constructor(
    private readonly env: Env,
    private readonly source: string,
    private readonly outbox: () => Outbox,
    private readonly place: () => Promise<Place | null>,
  ) {}

  /** Of the object of a mount. */
  static ofMount(env: Env, uuid: string, outbox: () => Outbox): ServiceEvents {
    return new ServiceEvents(env, `mount ${uuid}`, outbox, () => accessControl(env).mountPlace(uuid));
  }

  /** @param onDemand whether subscribers to event notifications want an event of a topic that is not enabled */
  emit(event: ServiceEvent, onDemand = false): void {
    const topics = settings(this.env).SERVICE_EVENTS;
    if (!topics.includes(event.topic) && !(onDemand && topics !== "")) return;
    this.outbox().enlist(TOPIC, LANE, { ...event, at: Date.now() });
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // After the transaction; without waiting, because the rows are durable and the alarm delivers them too.
    const waitMs = Math.min(this.#deliveredAt + DELIVERED_EVERY_MS - Date.now(), DELIVERED_EVERY_MS);
    if (waitMs <= 0) queueMicrotask(() => this.#drain());
    else setTimeout(() => this.#drain(), waitMs);
  }

  #drain(): void {
    this.#isScheduled = false;
    this.#deliveredAt = Date.now();
    void this.outbox().drain(TOPIC, LANE);
  }

  /** Appends pending events in order, one line each. */
  async deliver(rows: readonly OutboxRow[]): Promise<void> {
    const place = await this.place();
    if (!place) return;
    const entries = rows.map(
      ({ seq, body }): Append => ({ seq, events: [eventAt(place, JSON.parse(body) as Recorded)] }),
    );
    await eventLog(this.env).append(this.source, entries);
  }
}

/** The delivery of the outbox topic `event`. */
export const eventDelivery = (events: () => Pick<ServiceEvents, "deliver">): Deliver =>
  storedLater((_lane, rows) => events().deliver(rows));

function eventAt(place: Place, { topic, type, key, path, also, payload, at }: Recorded): NewEvent {
  const { namespace, path: mount } = place;
  const root = namespace + mount;
  const about = {
    Namespace: namespace,
    ...(mount !== "" && { Mount: mount }),
    ...("type" in place && { MountType: place.type, MountAccessor: place.accessor }),
    ...(at !== undefined && { Time: new Date(at).toISOString() }),
  };
  const keys = also === null ? [root + path] : [root + path, root + (also ?? "")];
  return {
    Topic: topic,
    Type: type,
    Key: root + key,
    Namespace: "",
    FilterKeys: keys,
    Account: serviceAccount(namespace),
    Payload: { [topic]: { ...about, ...payload } },
  };
}
