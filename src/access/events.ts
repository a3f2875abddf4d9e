import type { Journal as EventJournal } from "../contracts/event-publisher.ts";

/** Rows whose indexes the event log fills in once it has taken the event. */
export type Stamp = { token: string } | { policy: [namespace: string, name: string] } | { clusterNamespace: string };

export type Journal = EventJournal<Stamp>;
