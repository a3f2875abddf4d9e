import type { EventPublisher } from "../publishing/event-publisher.ts";

/** A row whose indexes are filled in after the event log has assigned them. */
export type IndexBackfill =
  | { token: string }
  | { policy: [namespace: string, name: string] }
  | { clusterRole: string }
  | { clusterAuthMethod: string }
  | { bindingRule: string }
  | { clusterNamespace: string };

export type AccessPublisher = EventPublisher<IndexBackfill>;
