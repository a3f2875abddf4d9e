import type { DestinationType } from "../../src/sync/destinations/index.ts";
import { jsonFiles } from "./json-files/adapter.ts";

/** Destination types that exist in tests only: they show how few files a type touches (test/style/made-up.test.ts). */
export const madeUpTypes: readonly DestinationType<unknown>[] = [jsonFiles as DestinationType<unknown>];
