/**
 * The catalogue of all metrics and their names. Names, units and suffixes follow the conventions of Prometheus; labels
 * are few and bounded, so the number of series is bounded. A test compares docs/operate/metrics.md with this list.
 */

export interface Definition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
}

const counter = (help: string, ...labels: string[]): Definition => ({ type: "counter", help, labels });
const gauge = (help: string, ...labels: string[]): Definition => ({ type: "gauge", help, labels });
const histogram = (help: string, ...labels: string[]): Definition => ({ type: "histogram", help, labels });

export const METRICS = {
  sallyport_build_info: gauge("1; the label says which version answers.", "version"),
  sallyport_sealed: gauge("1 while secrets cannot be opened, because a master key is missing or wrong."),

  sallyport_http_requests_total: counter("Requests answered.", "route", "method", "status"),
  sallyport_http_request_duration_seconds: histogram("Time to the head of the answer.", "area"),

  sallyport_audit_lines_lost_total: counter(
    "Lines of the audit log that a sink does not have; reason: it failed, or was full because too many lines waited.",
    ...["reason"],
  ),

  sallyport_sync_paused: gauge("1 while syncing is paused."),
  sallyport_sync_queue_capacity: gauge("Sync operations that may be pending at a time."),
  sallyport_sync_queue_granted: gauge("Room of the queue that destinations hold."),
  sallyport_sync_pending: gauge(
    "Associations with something left to do: queued, or waiting for room in the queue.",
    ...["destination", "state"],
  ),
  sallyport_sync_associations: gauge("Associations by their latest status.", "destination", "status"),
  sallyport_sync_tasks_total: counter("Tries to bring an association in line.", "destination", "outcome"),
  sallyport_sync_objects_total: counter("What those tries did to external objects.", "destination", "result"),

  sallyport_leases: gauge("Leases; irrevocable: revoking failed so often that a person should look.", "mount", "state"),
  sallyport_engine_jobs: gauge("Work at the cloud that is not over.", "mount", "kind"),
  sallyport_engine_jobs_ended_total: counter(
    "Ends of such work, a failed round of a removal counting as one; outcome is ok, or why not.",
    ...["mount", "kind", "outcome"],
  ),

  sallyport_event_streams: gauge("Streams that are open, by who serves them: the log, or a relay.", "server"),
  sallyport_event_streams_cut_total: counter(
    "Streams that the service has cut since their server woke.",
    ...["server", "reason"],
  ),
  sallyport_event_lines_delivered_total: counter("Lines given to streams since their server woke.", "server"),
  sallyport_event_relays: gauge("Relays that follow the log."),
  sallyport_event_buffer_lines: gauge("Lines in the backlog."),
  sallyport_event_buffer_bytes: gauge("Bytes of these lines."),
  sallyport_event_buffer_oldest_age_seconds: gauge("Age of the oldest line in the backlog."),
  sallyport_event_index: gauge("The newest index."),

  sallyport_nodes: gauge("Nodes.", "status"),
  sallyport_agents: gauge("Agents that have joined: connected, or away.", "state"),
  sallyport_csi_plugin_instances: gauge("What nodes say of the CSI plugins they run.", "plugin", "role", "health"),
  sallyport_host_volumes: gauge("Host volumes.", "state"),
  sallyport_csi_volumes: gauge("CSI volumes.", "plugin"),
  sallyport_csi_claims: gauge(
    "Claims of allocations on CSI volumes, by how far they are; failing: its last step was refused and is tried again.",
    ...["state", "health"],
  ),
  sallyport_volume_claims: gauge("Sticky claims on host volumes: made, or asked for and not to be had yet.", "state"),
  sallyport_volume_operations: gauge("Operations of nodes on volumes that are not over.", "kind", "method", "state"),
  sallyport_volume_operations_ended_total: counter(
    "Operations of nodes on volumes that are over; outcome is ok, or why not.",
    ...["kind", "method", "outcome"],
  ),

  sallyport_object_size_bytes: gauge("Size of an object's database.", "class", "object"),
  sallyport_outbox_rows: gauge("Effects promised and not delivered yet; counted to 10 000.", "class", "object"),
  sallyport_outbox_oldest_age_seconds: gauge(
    "How long the oldest of them has waited: the truest sign of trouble. 0 without any.",
    ...["class", "object"],
  ),
  sallyport_alarm_lag_seconds: gauge(
    "How late an object has looked at what was due: the worst of five minutes, or what is overdue now.",
    ...["class", "object"],
  ),

  sallyport_scrape_errors: gauge("Objects left out of this answer, because they did not answer in time.", "class"),
  sallyport_scrape_skipped_objects: gauge("Objects left out of this answer, because there are too many.", "class"),
  sallyport_scrape_duration_seconds: gauge("How long asking the objects took."),
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
];

/** Label value of further series once a metric has no room left. */
export const OTHER = "other";
