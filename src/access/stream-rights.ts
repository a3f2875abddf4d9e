import type { ClusterRights } from "../contracts/cluster-rights.ts";
import type { Scope, StreamQuestion } from "../contracts/stream-rights.ts";
import { isJudgedByEvent, mayReadTopic } from "../contracts/topic-rights.ts";

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
