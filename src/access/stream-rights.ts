import type { ClusterRights } from "../contracts/cluster-rights.ts";
import type { Scope, StreamAnswer, StreamQuestion } from "../contracts/stream-rights.ts";
import { isJudgedByEvent, mayReadTopic } from "../contracts/topic-rights.ts";
import type { ClusterNamespaces } from "./cluster-namespaces.ts";
import type { Grants } from "./policy-store.ts";
import type { TokenRow } from "./token.ts";
import type { TokenStore } from "./token-store.ts";

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

interface Dependencies {
  readonly tokenStore: TokenStore;
  readonly clusterNamespaces: ClusterNamespaces;
  grantsOf(row: TokenRow): Grants;
}

/** Authorizes event streams; one answer per question, in order. */
export function streamAnswers(questions: readonly StreamQuestion[], deps: Dependencies, now: number): StreamAnswer[] {
  let names: readonly string[] | undefined;
  const existing = () => {
    names ??= deps.clusterNamespaces.names();
    return names;
  };
  return questions.map((question) => {
    const row = deps.tokenStore.byAccessor(question.accessor, now, true);
    const rights = row && deps.grantsOf(row).cluster;
    const since = deps.clusterNamespaces.since(question.namespace);
    const scope = rights && streamScope(rights, question, existing, since);
    return scope ? { allowed: true, scope, expires: row.expires } : { allowed: false };
  });
}
