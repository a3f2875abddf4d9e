import type { StoredObjectApi } from "../contracts/stored-objects.ts";
import { objectStub } from "../platform/durable/jurisdiction.ts";
import { bindingOf, type ObjectName } from "../platform/durable/object-kinds.ts";
import type { Remote } from "../platform/durable/rpc.ts";

/** Any object by kind and name. Returns a new stub per call: a stub stays broken after its object restarts. */
export const storedObject = (env: Env, { kind, name }: ObjectName): Remote<StoredObjectApi> =>
  objectStub(env, env[bindingOf(kind)] as DurableObjectNamespace, name) as unknown as Remote<StoredObjectApi>;

export const ACCESS_CONTROL: ObjectName = { kind: "access-control", name: "main" };

/** Objects of every deployment. `AccessControl` comes last: its swap commits a restore. */
export const SINGLETONS: readonly ObjectName[] = [
  { kind: "cluster-registry", name: "main" },
  { kind: "sync-control", name: "main" },
  { kind: "identity-issuer", name: "main" },
  { kind: "event-log", name: "log" },
  ACCESS_CONTROL,
];
