import type { AccountGap } from "../contracts/event-log.ts";
import type { NotificationRequest } from "../contracts/notification.ts";
import type { PathRight } from "../contracts/service-topics.ts";
import { SERVICE_ACCOUNT, TENANT } from "../publishing/event-accounts.ts";
import { isServiceTopic } from "../rights/path-judge.ts";
import { granted } from "../rights/path-rules.ts";
import type { Filter } from "./subscription.ts";

/*
 * Gaps of accounts: a reader before one has missed lines only if it may see lines of that account. Topics, keys and
 * rights are compared with the account's namespace, so that a flood in one tree of namespaces is no gap for the readers
 * of others. Where that leaves a doubt, there is a gap.
 */

const ANY = "*";
/** Topics about tokens, policies and roles, whose lines below the root count against the account of their tree. */
const isAccessTopic = (topic: string): boolean => topic.startsWith("ACL");

/** The namespace below which the lines of an account are; null for accounts that lose no lines. */
function rootOf(account: string): string | null {
  if (account === SERVICE_ACCOUNT) return "";
  return account.startsWith(TENANT) ? `${account.slice(TENANT.length)}/` : null;
}

/** Whether a pattern may match a path below a namespace. Wildcards are `*`, and `+` for one segment. */
function mayMatchBelow(pattern: string, root: string): boolean {
  const literal = pattern.replace(/[+*].*$/s, "");
  return literal.startsWith(root) || (literal !== pattern && root.startsWith(literal));
}

/** Whether rights on paths may show something below a namespace. @param paths as in `Scope` */
const mayShowBelow = (paths: readonly PathRight[] | null | undefined, root: string): boolean =>
  paths === null ||
  (paths?.some(
    (rule) => granted(rule).some((each) => each === "read" || each === "list") && mayMatchBelow(rule.path, root),
  ) ??
    false);

/** Whether a filter may select lines of an account. */
export function seesAccount({ topics, paths }: Pick<Filter, "topics" | "paths">, account: string): boolean {
  const root = rootOf(account);
  if (root === null) return false;
  return Object.entries(topics).some(([topic, keys]) => {
    const hasService = topic === ANY || isServiceTopic(topic);
    const isNamed = keys.some((key) => key === ANY || key.startsWith(root));
    if (hasService && isNamed && mayShowBelow(paths, root)) return true;
    return root !== "" && (topic === ANY || isAccessTopic(topic));
  });
}

/** Whether a subscription to event notifications may select lines of an account. @param paths as in `Scope` */
export function notifiesOfAccount(
  { namespace, namespaces }: Pick<NotificationRequest, "namespace" | "namespaces">,
  paths: readonly PathRight[] | null | undefined,
  account: string,
): boolean {
  const root = rootOf(account);
  if (root === null || !mayShowBelow(paths, root)) return false;
  if (root === "") return namespace === "";
  const others = namespaces.map((glob) => `${namespace}${glob.replace(/^\/+|\/+$/g, "")}/`);
  return [namespace, ...others].some((each) => mayMatchBelow(each, root));
}

/** The newest index up to which lines are gone that a reader may see; 0 for none. */
export const newestGap = (gaps: readonly AccountGap[], sees: (account: string) => boolean): number =>
  gaps.reduce((newest, { account, upTo }) => (upTo > newest && sees(account) ? upTo : newest), 0);
