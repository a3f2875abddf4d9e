import type { StandIn } from "../doubles/stand-in.ts";
import { startStandIn as jsonFiles } from "./json-files/stand-in.ts";

/** Starts the doubles of the made-up destination types. */
export const startMadeUp = (): Promise<StandIn[]> => Promise.all([jsonFiles].map((start) => start()));
