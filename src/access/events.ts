import type { Journal as EventJournal } from "../contracts/event-publisher.ts";

/** A row whose indexes are filled in after the event log has assigned them. */
export type Stamp = { token: string } | { policy: [namespace: string, name: string] } | { clusterNamespace: string };

export type Journal = EventJournal<Stamp>;
