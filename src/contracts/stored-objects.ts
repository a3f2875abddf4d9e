import { bindingOf, type ObjectName } from "../platform/durable/object-kinds.ts";
import type { Remote } from "../platform/durable/rpc.ts";
import type { StoredObject } from "../platform/durable/stored-object.ts";

/** What every object can do. A fresh stub each time: one whose object was restarted stays broken. */
export const storedObject = (env: Env, { kind, name }: ObjectName): Remote<StoredObjectApi> =>
  (env[bindingOf(kind)] as DurableObjectNamespace).getByName(name) as unknown as Remote<StoredObjectApi>;

export const ACCESS_CONTROL: ObjectName = { kind: "access-control", name: "main" };

/** Objects that every deployment has. `AccessControl` comes last: with it, a restore decides. */
export const SINGLETONS: readonly ObjectName[] = [
  { kind: "cluster-registry", name: "main" },
  { kind: "sync-control", name: "main" },
  { kind: "identity-issuer", name: "main" },
  { kind: "event-log", name: "log" },
  ACCESS_CONTROL,
];

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
