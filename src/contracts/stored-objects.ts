import type { StoredObject } from "../platform/durable/stored-object.ts";

/** The methods of every object that keeps rows: see `StoredObject`. */
export type StoredObjectApi = Pick<
  StoredObject,
  | "beginStaging"
  | "cutPart"
  | "endCut"
  | "freeze"
  | "holdForRestore"
  | "holdsOnly"
  | "keepCut"
  | "known"
  | "nextDue"
  | "prepareCut"
  | "release"
  | "restart"
  | "stage"
  | "swap"
  | "thaw"
  | "vitals"
>;
