import type { ClusterRights } from "../../contracts/cluster-rights.ts";
import type { Scope, StreamAnswer, StreamQuestion } from "../../contracts/stream-rights.ts";
import { isJudgedByEvent, mayReadTopic } from "../../contracts/topic-rights.ts";
import type { ClusterNamespaces } from "../namespaces/cluster-namespaces.ts";
import type { TokenHolders } from "../tokens/token-holders.ts";
import type { TokenStore } from "../tokens/token-store.ts";

const ALL = "*";

/**
 * The scope of a stream for a token, or null without the right to open it. A stream of all namespaces requires a
 * management token, or a rule for all namespaces and the right in each existing one. The same rules then apply to later
 * namespaces.
 * @param since index of the creation of the requested namespace
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

/** Authorizes event streams; one answer per question, in order. */
export function streamAnswers(
  questions: readonly StreamQuestion[],
  tokens: TokenStore,
  holders: TokenHolders,
  clusterNamespaces: ClusterNamespaces,
  now: number,
): StreamAnswer[] {
  let names: readonly string[] | undefined;
  const existing = () => {
    names ??= clusterNamespaces.names();
    return names;
  };
  return questions.map((question) => {
    const row = tokens.byAccessor(question.accessor, now, true);
    const rights = row && holders.grantsOf(row).cluster;
    const since = clusterNamespaces.since(question.namespace);
    const scope = rights && streamScope(rights, question, existing, since);
    return scope ? { allowed: true, scope, expires: row.expires } : { allowed: false };
  });
}
