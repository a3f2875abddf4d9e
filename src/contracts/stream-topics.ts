import { REPORTED_TOPICS } from "./reports.ts";
import { SERVICE_TOPICS } from "./service-topics.ts";

/** Every topic of the event stream (docs/guides/events.md). */
export const STREAM_TOPICS: readonly string[] = [
  ...REPORTED_TOPICS,
  "Node",
  "NodeDrain",
  "Namespace",
  "HostVolume",
  "CSIVolume",
  "CSIPlugin",
  "ACLToken",
  "ACLPolicy",
  "ACLRole",
  "ACLAuthMethod",
  "ACLBindingRule",
  ...SERVICE_TOPICS,
];
