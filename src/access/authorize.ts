import type { ClusterRights } from "../contracts/cluster-rights.ts";
import type { Mount } from "../contracts/mount.ts";
import type { Identity } from "../platform/http/exchange.ts";
import type { Capability, ParameterConstraints } from "./path-rules.ts";

/** What a request asks `AccessControl` before anything else happens. */
export interface Ask {
  readonly token: string | null;
  /** As the caller wrote it; may be empty. */
  readonly namespace: string;
  /** Path without `/v1/`, decoded; null for requests of areas C and D, which are judged by `cluster` rights. */
  readonly path: string | null;
  readonly list?: boolean;
}

/** The answer: who it is, what the request may do, and what it is about. */
export interface Grant {
  readonly ok: true;
  readonly identity: Identity;
  /** The namespace the request is in: the header's, and what of the path led further. */
  readonly namespace: string;
  /** Its identity, which a later namespace at its path does not have; `root` for the root. */
  readonly namespaceId: string;
  /** The path inside that namespace. */
  readonly path: string;
  /** What the token may do there; `["root"]` or `["deny"]` or capabilities. */
  readonly capabilities: readonly (Capability | "root")[];
  readonly constraints: ParameterConstraints | null;
  /** The mount the path falls under, if any. */
  readonly mount: Mount | null;
  /** None where a path was asked for: those of areas C and D are not judged by it. */
  readonly cluster: ClusterRights;
  /** False when the answer must not be used twice: the token counts its uses. */
  readonly cacheable: boolean;
}

/** Whether a grant holds a capability; root holds all. */
export const may = (grant: Grant, capability: Capability): boolean =>
  grant.capabilities.includes("root") || grant.capabilities.includes(capability);
