/**
 * The catalogue of all metrics and their names. Names, units and suffixes follow the conventions of Prometheus; labels
 * are few and bounded, so the number of series is bounded. A test compares docs/operate/metrics.md with this list.
 */

interface Definition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
}

const counter = (help: string, ...labels: string[]): Definition => ({ type: "counter", help, labels });
const gauge = (help: string, ...labels: string[]): Definition => ({ type: "gauge", help, labels });
const histogram = (help: string, ...labels: string[]): Definition => ({ type: "histogram", help, labels });

export const METRICS = {
  sallyport_build_info: gauge("1, with the running version as label.", "version"),
  sallyport_sealed: gauge("1 while secrets cannot be opened because a master key is missing or wrong."),

  sallyport_http_requests_total: counter("Answered requests.", "route", "method", "status"),
  sallyport_http_request_duration_seconds: histogram("Time to the response headers.", "area"),

  sallyport_audit_lines_lost_total: counter(
    "Audit lines that a sink has not received; reason: the sink failed, or the buffer was full.",
    "reason",
  ),

  sallyport_snapshots_total: counter(
    "Scheduled snapshots; outcome is ok, failed, or busy for one beside another.",
    "outcome",
  ),
  sallyport_snapshots_stored: gauge("Snapshots of this deployment in the bucket."),
  sallyport_snapshot_age_seconds: gauge("Age of the newest snapshot in the bucket."),
  sallyport_snapshot_size_bytes: gauge("Size of that snapshot."),
  sallyport_snapshot_read_age_seconds: gauge(
    "Time since a snapshot was last read whole, by a caller or for the bucket.",
  ),
  sallyport_snapshot_late: gauge("1 while a scheduled snapshot is due for more than an hour."),

  sallyport_cron_last_run_timestamp_seconds: gauge(
    "When the cron trigger last ran, in seconds since 1970; absent before its first run.",
  ),
  sallyport_cron_awaited_since_timestamp_seconds: gauge(
    "Since when the first run of the cron trigger is awaited; absent after it, and in a self-hosted service.",
  ),

  sallyport_sync_paused: gauge("1 while syncing is paused."),
  sallyport_sync_queue_capacity: gauge("Maximum number of pending sync operations."),
  sallyport_sync_queue_granted: gauge("Queue quota granted to destinations."),
  sallyport_sync_pending: gauge(
    "Associations with pending work: queued, or waiting for queue quota.",
    "destination",
    "state",
  ),
  sallyport_sync_associations: gauge("Associations by their latest status.", "destination", "status"),
  sallyport_sync_credentials_end_seconds: gauge(
    "Time until the login of a destination ends; negative after it. None where its end is not known.",
    "destination",
  ),
  sallyport_sync_tasks_total: counter("Attempts to sync an association.", "destination", "outcome"),
  sallyport_sync_objects_total: counter("Results of those attempts per external object.", "destination", "result"),

  sallyport_lease_count_quota_max: gauge("Number of leases that a quota allows.", "name"),
  sallyport_lease_count_quota_counter: gauge("Leases that a quota counted when it last checked a request.", "name"),
  sallyport_lease_count_quota_violations_total: counter("Requests that a lease-count quota refused.", "name"),
  sallyport_leases: gauge(
    "Leases; irrevocable: revocation has failed repeatedly and needs an operator.",
    "mount",
    "state",
  ),
  sallyport_engine_root_ends_seconds: gauge(
    "Time until the root credential of an engine ends; negative after it. None where its end is not known.",
    "mount",
  ),
  sallyport_engine_jobs: gauge("Running jobs at the cloud.", "mount", "kind"),
  sallyport_engine_pool_size: gauge("Credentials that the pool of a role shall have.", "mount", "role"),
  sallyport_engine_pool_ready: gauge("Credentials of the pool of a role that are ready.", "mount", "role"),
  sallyport_engine_pool_requests_total: counter(
    "Requests for credentials of roles with a pool; hit: the pool had some.",
    "mount",
    "outcome",
  ),
  sallyport_engine_jobs_ended_total: counter(
    "Completed jobs, each failed round of a removal included; outcome is ok or the reason.",
    "mount",
    "kind",
    "outcome",
  ),

  sallyport_event_streams: gauge("Open streams by server: the log or a relay.", "server"),
  sallyport_event_streams_cut_total: counter("Streams cut by the service since their server woke.", "server", "reason"),
  sallyport_event_lines_delivered_total: counter("Lines sent to streams since their server woke.", "server"),
  sallyport_event_relays: gauge("Relays that follow the log."),
  sallyport_event_buffer_lines: gauge("Lines in the backlog."),
  sallyport_event_buffer_bytes: gauge("Bytes of these lines."),
  sallyport_event_buffer_oldest_age_seconds: gauge("Age of the oldest line in the backlog."),
  sallyport_event_deliveries_total: counter(
    "Attempts to deliver a batch; outcome is ok or failed.",
    "subscription",
    "outcome",
  ),
  sallyport_event_subscription_lag: gauge("Lines between a subscription and the newest known index.", "subscription"),
  sallyport_event_dead_letters: gauge("Batches that could not be delivered.", "subscription"),
  sallyport_event_index: gauge("The newest index."),

  sallyport_nodes: gauge("Nodes.", "status"),
  sallyport_agents: gauge("Joined agents: connected or away.", "state"),
  sallyport_csi_plugin_instances: gauge("Instances of CSI plugins as reported by nodes.", "plugin", "role", "health"),
  sallyport_host_volumes: gauge("Host volumes.", "state"),
  sallyport_csi_volumes: gauge("CSI volumes.", "plugin"),
  sallyport_csi_claims: gauge(
    "Claims of allocations on CSI volumes by state; failing: the last step failed and is retried.",
    "state",
    "health",
  ),
  sallyport_volume_claims: gauge("Sticky claims on host volumes: held, or requested and not available yet.", "state"),
  sallyport_volume_operations: gauge("Running operations of nodes on volumes.", "kind", "method", "state"),
  sallyport_volume_operations_ended_total: counter(
    "Completed operations of nodes on volumes; outcome is ok or the reason.",
    "kind",
    "method",
    "outcome",
  ),

  sallyport_object_size_bytes: gauge("Size of an object's database.", "class", "object"),
  sallyport_outbox_rows: gauge("Undelivered outbox rows, counted up to 10 000.", "class", "object"),
  sallyport_outbox_oldest_age_seconds: gauge(
    "Age of the oldest undelivered row, the best indicator of trouble; 0 without any.",
    "class",
    "object",
  ),
  sallyport_alarm_lag_seconds: gauge(
    "Delay of an object's due work: the maximum of five minutes, or the current overdue time.",
    "class",
    "object",
  ),

  sallyport_scrape_errors: gauge("Objects omitted from this scrape because of a time-out.", "class"),
  sallyport_scrape_skipped_objects: gauge("Objects omitted from this scrape because there are too many.", "class"),
  sallyport_scrape_duration_seconds: gauge("Duration of the calls to the objects."),
} as const satisfies Record<string, Definition>;

export type MetricName = keyof typeof METRICS;

export const isMetric = (name: string): name is MetricName => Object.hasOwn(METRICS, name);

export const definitionOf = (name: MetricName): Definition => METRICS[name];

/** Upper bounds of the buckets of every histogram, in seconds; one further bucket holds longer durations. */
export const BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30] as const;

/** Counters initialised to 0: an increase from an absent series is invisible to `increase()`. */
export const FROM_ZERO: readonly (readonly [name: MetricName, label: string])[] = [
  ["sallyport_audit_lines_lost_total", "failed"],
  ["sallyport_audit_lines_lost_total", "full"],
  ["sallyport_snapshots_total", "failed"],
];

/** Label value of further series once a metric has no room left. */
export const OTHER = "other";
