import type { NamespaceRule } from "./cluster-rights.ts";
import type { PathRight } from "./service-topics.ts";

/** The part of a subscription that the reader's token may see. */
export interface Scope {
  /** Null = all. */
  readonly namespaces: readonly string[] | null;
  /** Rules checked per event; null when no event needs a check. */
  readonly rules: readonly NamespaceRule[] | null;
  /**
   * First index of the namespace: earlier events belong to a former namespace of that name. Absent from older releases.
   */
  readonly since?: number;
  /** Path rules that events of service topics are checked against; null for all rights, absent for no such events. */
  readonly paths?: readonly PathRight[] | null;
}

/** A stream to authorize: checked when it opens and after every change that may affect it. */
export interface StreamQuestion {
  readonly accessor: string;
  readonly topics: readonly string[];
  /** `*` = all. */
  readonly namespace: string;
  /** Whether the stream may have service topics. Absent from older releases, which do not check `Scope.paths`. */
  readonly service?: boolean;
  /**
   * The subscription to event notifications for which the token needs `read`: a path and the namespace of the request.
   * Absent for streams; not checked by older releases, whose `Scope.paths` have no event types.
   */
  readonly subscribe?: { readonly namespace: string; readonly path: string };
}

export type StreamAnswer =
  | { readonly allowed: false }
  /**
   * `expires`: end of validity (ms since 1970); null = valid until an access event. `policies`: keys of the policies that
   * the answer depends on, while the token and its roles stay as they are; null or absent = any.
   */
  | {
      readonly allowed: true;
      readonly scope: Scope;
      readonly expires: number | null;
      readonly policies?: readonly string[] | null;
    };
