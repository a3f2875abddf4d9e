import type { ClusterRights } from "../../contracts/cluster-rights.ts";
import type { PathRight } from "../../contracts/service-topics.ts";
import type { Scope, StreamAnswer, StreamQuestion } from "../../contracts/stream-rights.ts";
import { ANONYMOUS } from "../../contracts/tokens.ts";
import { memo } from "../../lib/memo.ts";
import { isServiceTopic } from "../../rights/path-judge.ts";
import { granted, ruleFor } from "../../rights/path-rules.ts";
import { isJudgedByEvent, mayReadTopic } from "../../rights/topic-rights.ts";
import { policyKey } from "../cluster-acl/cluster-acl.ts";
import type { ClusterNamespaces } from "../namespaces/cluster-namespaces.ts";
import type { Grants } from "../policies/policy-store.ts";
import { policiesOf as ownPolicies, type TokenRow } from "../tokens/token.ts";
import type { TokenHolders } from "../tokens/token-holders.ts";
import type { TokenStore } from "../tokens/token-store.ts";

const ALL = "*";

/**
 * The scope of a stream for a token, or null without the right to open it. A stream of all namespaces requires a
 * management token, or a rule for all namespaces and the right in each existing one. The same rules then apply to later
 * namespaces.
 * @param since index of the creation of the requested namespace
 */
function streamScope(
  rights: ClusterRights,
  { topics: asked, namespace, service }: StreamQuestion,
  existing: () => readonly string[],
  since: number,
): Scope | null {
  // Service topics are open to every token: their events are checked one by one.
  const topics = service ? asked.filter((topic) => !isServiceTopic(topic)) : asked;
  if (topics.length === 0) return { namespaces: [], rules: null, since };
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

/** The path rules of a token for service topics; null for all rights. */
function pathsOf({ root, paths }: Grants): PathRight[] | null {
  if (root) return null;
  const rules = [...paths.exact.values(), ...paths.wild.map(({ rule }) => rule)];
  return rules.map(({ path, capabilities, subscribeEventTypes }) => ({
    path,
    capabilities,
    ...(subscribeEventTypes && { subscribeEventTypes }),
  }));
}

/** Whether a token may open a subscription to event notifications. */
const maySubscribe = ({ root, paths }: Grants, { namespace, path }: NonNullable<StreamQuestion["subscribe"]>) =>
  root || granted(ruleFor(paths, namespace + path)).includes("read");

/** A longer list costs more than the questions that it saves. */
const MAX_POLICIES = 50;

/** Keys of a token's policies; null for many, and with an entity, whose policies change without an event. */
function policiesOf(row: TokenRow, holders: TokenHolders): string[] | null {
  if (row.entity_id !== "") return null;
  const names = [...ownPolicies(row), ...holders.rolesOf(row).policies];
  return names.length > MAX_POLICIES ? null : names.map((name) => policyKey({ namespace: row.namespace, name }));
}

/** The answer about a stream without a token, which has none of the topics that path rules select. */
function anonymousAnswer(
  question: StreamQuestion,
  holders: TokenHolders,
  existing: () => readonly string[],
  clusterNamespaces: ClusterNamespaces,
): StreamAnswer {
  const rights = question.subscribe ? null : holders.anonymousRights();
  const since = clusterNamespaces.since(question.namespace);
  const scope = rights && streamScope(rights, question, existing, since);
  if (!scope) return { allowed: false };
  const seen = question.service ? { ...scope, paths: [] } : scope;
  return { allowed: true, scope: seen, expires: null, policies: [policyKey({ namespace: "", name: ANONYMOUS })] };
}

/** How long rights through an entity are valid unchecked, ms, should the line that reports their change be late. */
const ENTITY_MS = 30_000;
/** As upstream. Subscriptions to notifications may be idle, and a question would wake their object. */
const SUBSCRIBER_ENTITY_MS = 300_000;

/** Authorizes event streams; one answer per question, in order. */
export function streamAnswers(
  questions: readonly StreamQuestion[],
  tokens: TokenStore,
  holders: TokenHolders,
  clusterNamespaces: ClusterNamespaces,
  now: number,
): StreamAnswer[] {
  const existing = memo(() => clusterNamespaces.names());
  return questions.map((question) => {
    if (question.accessor === ANONYMOUS) return anonymousAnswer(question, holders, existing, clusterNamespaces);
    const row = tokens.byAccessor(question.accessor, now, true);
    if (!row || !holders.isEntityActive(row)) return { allowed: false };
    const grants = holders.grantsOf(row);
    if (question.subscribe && !maySubscribe(grants, question.subscribe)) return { allowed: false };
    const since = clusterNamespaces.since(question.namespace);
    const scope = streamScope(grants.cluster, question, existing, since);
    if (!scope) return { allowed: false };
    const policies = policiesOf(row, holders);
    const end = tokens.endOf(row);
    const validMs = question.subscribe ? SUBSCRIBER_ENTITY_MS : ENTITY_MS;
    const expires = row.entity_id === "" ? end : Math.min(end ?? Infinity, now + validMs);
    const seen = question.service ? { ...scope, paths: pathsOf(grants) } : scope;
    return { allowed: true, scope: seen, expires, policies };
  });
}
