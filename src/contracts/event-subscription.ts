import type { Result } from "../lib/result.ts";
import type { StoredObjectApi } from "./stored-objects.ts";

/** Services to which a channel of notifications sends messages, besides `webhook`. */
export const MESSAGE_TYPES = ["slack", "teams", "pagerduty", "opsgenie", "sendgrid", "mailgun", "postmark"] as const;
export type MessageType = (typeof MESSAGE_TYPES)[number];
export type TargetType = "webhook" | "queue" | MessageType;

/** The lines that a subscription delivers, and the limit of attempts. */
export interface SubscriptionDefinition {
  /** Keys by topic; `*` as topic or key means any. */
  readonly topics: Readonly<Record<string, readonly string[]>>;
  /** `*` = all. */
  readonly namespace: string;
  readonly type: TargetType;
  readonly maxAttempts: number;
  /** Options of a message type that are no secrets; absent for other types. */
  readonly options?: Readonly<Record<string, string>>;
}

/** A request to create or change a subscription. */
export interface SubscriptionWrite extends SubscriptionDefinition {
  /** Null = the queue bound as `EVENT_QUEUE`; for a message type, the URL as before. */
  readonly url: string | null;
  /** Null keeps the secret. */
  readonly secret: string | null;
  /** How long the secret that is replaced signs, too; 0 ends an overlap. Null = not at all, or as before. */
  readonly secretOverlapMs: number | null;
  /** The first index to deliver; null = the next line, or for an existing subscription no change. */
  readonly startIndex: number | null;
}

/** A subscription as reads show it; never its secret. */
export interface SubscriptionView extends SubscriptionDefinition {
  readonly url: string | null;
  /** Until when the previous secret signs, too, ms since 1970; null without one. */
  readonly previousSecretUntil: number | null;
  /** The index up to which lines are delivered, dead or filtered out. */
  readonly deliveredIndex: number;
  /** Why deliveries are paused; null while they run. */
  readonly paused: string | null;
  /** Failed attempts of the current batch. */
  readonly attempts: number;
  readonly lastError: string | null;
  /** Time of the next attempt, ms since 1970; null without a failed attempt. */
  readonly retryAt: number | null;
  readonly deadLetters: number;
}

/** A batch whose attempts are used up. */
export interface DeadLetter {
  readonly id: string;
  readonly attempts: number;
  readonly error: string;
  /** Time of the last attempt, ms since 1970. */
  readonly at: number;
  /** The body of the delivery. */
  readonly body: string;
}

/** A leased batch. */
export interface Delivery {
  readonly lease: string;
  /** The same for all attempts. */
  readonly id: string;
  readonly body: string;
  readonly target: Target;
  /** Absent from a subscription of version 0.2.0. */
  readonly type?: TargetType;
  readonly options?: Readonly<Record<string, string>>;
}

/** Where a batch goes, with the secret that signs it; a null URL = the queue. */
export interface Target {
  readonly url: string | null;
  readonly secret: string | null;
  /** The secret before the last change, and until when it signs, too, ms since 1970. */
  readonly previous?: { readonly secret: string; readonly until: number } | null;
}

/** The outcome of a delivery. */
export interface DeliveryReport {
  readonly lease: string;
  /** Null = delivered. */
  readonly error: string | null;
  /** `pause`: the receiver asked for no further deliveries. `dead`: no attempt can succeed. */
  readonly action: "retry" | "pause" | "dead";
  /** The shortest wait before the next attempt. */
  readonly afterMs: number;
}

/** The methods of `EventSubscription` that other objects and Workers call. */
export interface EventSubscriptionApi extends StoredObjectApi {
  write(given: SubscriptionWrite): Promise<Result<null>>;
  read(): Result<SubscriptionView>;
  delete(): Promise<null>;
  /** Delivers again from an index on. */
  replay(index: number): Promise<Result<null>>;
  /** @param reason null resumes @param options `forgetsDead`: dead letters are deleted */
  pause(reason: string | null, options?: { readonly forgetsDead?: boolean }): Result<null>;
  deadLetters(): Result<DeadLetter[]>;
  /** Lines up to an index are in the log. */
  wake(newest: number): Promise<void>;
  /** Records the outcome of a delivery, and leases the next batch. */
  next(report: DeliveryReport | null, takes: boolean): Promise<Delivery | null>;
  rekey(term: number): void;
}
