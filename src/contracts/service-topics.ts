import type { PathRule } from "./policies.ts";

/** Topics about the service's own secrets, destinations, leases and engines (docs/guides/events.md). */
export const SERVICE_TOPICS = ["Secret", "Sync", "Lease", "Engine"] as const;
export type ServiceTopic = (typeof SERVICE_TOPICS)[number];

/** The rights of a token on the paths of a pattern. */
export type PathRight = Pick<PathRule, "path" | "capabilities" | "subscribeEventTypes">;
