import type { PathRule } from "../contracts/policies.ts";
import { type PathRight, SERVICE_TOPICS } from "../contracts/service-topics.ts";
import type { Labels } from "../publishing/event-headers.ts";
import { inCanonicalNames } from "./aliases.ts";
import { compilePaths, granted, type PathAcl, ruleFor } from "./path-rules.ts";

export const isServiceTopic = (topic: string): boolean => (SERVICE_TOPICS as readonly string[]).includes(topic);

/** Paths of an engine that name a role, which is stored by its lower-case name. */
const ROLE = /\/(?:creds|roles)\/[^/]+$/;

/** Whether a token may see an event of a service topic. */
export type PathJudge = (event: Pick<Labels, "Topic" | "FilterKeys">) => boolean;

/**
 * Judges events of service topics by path rules: `read` or `list` on the API path that is the event's first filter key.
 * @param rules from the root, with the namespaces of their policies; null for all rights
 */
export function pathJudge(rules: readonly PathRight[] | null): PathJudge {
  if (rules === null) return () => true;
  const acl = compilePaths([{ namespace: "", paths: rules }]);
  return ({ Topic, FilterKeys }) => {
    const rule = ruleAt(acl, Topic, FilterKeys?.[0] ?? "");
    return granted(rule).some((each) => each === "read" || each === "list");
  };
}

/** The rule that decides about the path of an event of a topic. @param path from the root */
export function ruleAt(acl: PathAcl, topic: string, path: string): PathRule | undefined {
  const at = topic === "Sync" ? path.indexOf("sys/sync/") : 0;
  const caseless = topic !== "Secret" && ROLE.test(path) ? { first: path.split("/").length - 1, count: 1 } : null;
  const named = inCanonicalNames(acl, path.slice(0, at), path.slice(at), caseless);
  return ruleFor(named.acl, named.path);
}
