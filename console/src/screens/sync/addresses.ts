/** Addresses of the screen, and of what it links to. */
import { href } from "../../app/router.ts";
import type { DestinationRef } from "./reads.ts";

type Query = Readonly<Record<string, string | null>>;

export const boardHref = (query: Query = {}): string => href("sync", [], query);

export const destinationHref = ({ type, name }: DestinationRef, query: Query = {}): string =>
  href("sync", [type, name], query);

export const createHref = (type = ""): string => href("sync", ["new", type]);

export const secretHref = (mount: string, secret: string): string =>
  href("secrets", [mount, "at", ...secret.split("/")]);

/** Path of a destination in the API; without one, of any. */
export const destinationPath = (ref?: DestinationRef) =>
  `sys/sync/destinations/${ref?.type ?? "*"}/${ref?.name ?? "*"}` as const;
