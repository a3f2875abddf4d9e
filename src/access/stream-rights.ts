import type { Scope } from "../events/subscription.ts";
import { isJudgedByEvent, mayReadTopic } from "../events/topic-rights.ts";
import type { ClusterRights } from "./cluster-rights.ts";

/** May the holder of a token read these topics of a namespace? Asked when a stream is opened, and again whenever it may matter. */
export interface StreamQuestion {
  readonly accessor: string;
  readonly topics: readonly string[];
  /** `*` = all. */
  readonly namespace: string;
}

export type StreamAnswer =
  | { readonly allowed: false }
  /** `expires`: until when the answer holds (ms since 1970), null = until an event tells otherwise. */
  | { readonly allowed: true; readonly scope: Scope; readonly expires: number | null };

const ALL = "*";

/**
 * What a token lets a stream show, or null when it may not be opened. All namespaces need a management token, or a rule that is
 * about all namespaces and the right in each that exists; namespaces made later are then judged by the same rules.
 * @param since the index at which the one namespace asked for began
 */
export function streamScope(
  rights: ClusterRights,
  { topics, namespace }: StreamQuestion,
  existing: () => readonly string[],
  since: number,
): Scope | null {
  const all = namespace === ALL;
  if (rights.management) return { namespaces: all ? null : [namespace], rules: null, since };
  if (all && !rights.namespaces.some(({ name }) => name === ALL)) return null;
  const namespaces = all ? existing() : [namespace];
  if (!topics.every((topic) => mayReadTopic(rights, topic, namespaces))) return null;
  return {
    namespaces: all ? null : namespaces,
    rules: all || topics.some(isJudgedByEvent) ? rights.namespaces : null,
    since,
  };
}
