/** One event notification, in the terms of upstream (https://developer.hashicorp.com/vault/docs/concepts/events). */
export interface Notification {
  /** The line of the log that holds it. */
  readonly index: number;
  /** Constant: the same after a resume. */
  readonly id: string;
  readonly time: string;
  /** For example `kv-v2/data-write`. */
  readonly type: string;
  /** With a trailing slash; empty for the root. */
  readonly namespace: string;
  /** Texts only, without absent members. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly plugin: NotifyingPlugin | null;
  /** The topic of the event in the log; empty for a notice of the service itself, which every subscriber gets. */
  readonly topic: string;
}

/** The mount that an event is about. */
export interface NotifyingPlugin {
  readonly mount_class: "secret";
  readonly mount_accessor: string;
  readonly mount_path: string;
  readonly plugin: string;
  /** Of the API of a KV mount. */
  readonly version?: string;
}

export type NotificationFormat = "json" | "protobuf" | "server-sent-events";

/** A subscription to event notifications. Plain data: it is sent to a relay, and kept beside a hibernating socket. */
export interface NotificationRequest {
  /** Accessor of the subscriber's token. */
  readonly accessor: string;
  /** Namespace of the request, with a trailing slash; empty for the root. */
  readonly namespace: string;
  /** Glob over event types. */
  readonly pattern: string;
  /** Globs over namespaces below the request's. */
  readonly namespaces: readonly string[];
  /** A filter expression; empty for none. */
  readonly filter: string;
  readonly format: NotificationFormat;
  /** First index; negative = only new events. */
  readonly from: number;
}
