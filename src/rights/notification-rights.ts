import type { PathRight } from "../contracts/service-topics.ts";
import { matchesGlob } from "../lib/glob.ts";
import { ruleAt } from "./path-judge.ts";
import { compilePaths, granted } from "./path-rules.ts";

/** The parts of a notification that its rights depend on. */
export interface Judged {
  readonly topic: string;
  readonly type: string;
  /** With a trailing slash; empty for the root. */
  readonly namespace: string;
  /** Inside the namespace. */
  readonly path: string;
}

/**
 * Judges event notifications by path rules, as upstream: `list` and `subscribe` on the event's path, and a rule whose
 * `subscribe_event_types` match its type.
 * @param rules from the root, with the namespaces of their policies; null for all rights
 */
export function notificationJudge(rules: readonly PathRight[] | null): (event: Judged) => boolean {
  if (rules === null) return () => true;
  const acl = compilePaths([{ namespace: "", paths: rules }]);
  return ({ topic, type, namespace, path }) => {
    if (path === "") return false;
    const rule = ruleAt(acl, topic, namespace + path);
    const capabilities = granted(rule);
    if (!capabilities.includes("list") || !capabilities.includes("subscribe")) return false;
    return rule?.subscribeEventTypes?.some((glob) => matchesGlob(type, glob)) ?? false;
  };
}
