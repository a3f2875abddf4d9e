import type { StandIn } from "./stand-in.ts";

/** Starts the double of each destination type, on a port of its own. */
export const standIns: readonly (() => Promise<StandIn>)[] = [];
