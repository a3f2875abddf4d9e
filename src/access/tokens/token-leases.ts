import type { TokenLease } from "../../contracts/tokens.ts";
import { textBefore } from "../../lib/text-before.ts";
import { isWrapping } from "./token.ts";
import type { TokenStore } from "./token-store.ts";

/**
 * Leases of tokens: upstream lists each token with an expiry under the path that issued it, such as
 * `auth/people/login/ann/h…`. The last segment is `h` and the accessor, so that an id leads to its token.
 */

const ROOT = "auth/";
const LEAF = /^(auth\/.+)\/h([A-Za-z0-9]{1,64})$/;
const PAGE = 1_000;

/**
 * One page of the names directly below a prefix that ends in a slash or is empty, sorted; empty after the last.
 * @param after the last name of the page before; empty for the first
 */
export function tokenLeaseNames(store: TokenStore, namespace: string, prefix: string, after: string): string[] {
  const now = Date.now();
  if (prefix !== "" && !prefix.startsWith(ROOT)) return [];
  const paths = store.issuers(namespace, prefix === "" ? ROOT : prefix.slice(0, -1), now);
  const folders = paths
    .map((path) => `${path}/`)
    .filter((path) => path.startsWith(prefix) && path !== prefix)
    .map((path) => `${textBefore(path.slice(prefix.length), "/")}/`);
  // Of the names in one order, those of tokens begin with h.
  const behind = after < "h" ? "" : after.startsWith("h") ? after.slice(1) : null;
  const isPath = prefix !== "" && behind !== null;
  const leaves = isPath ? store.issuedBy(namespace, prefix.slice(0, -1), behind, now, PAGE) : [];
  const names = [...new Set([...folders, ...leaves.map((accessor) => `h${accessor}`)])];
  return names
    .filter((name) => name > after)
    .sort()
    .slice(0, PAGE);
}

/** The lease of a token by its id; null when there is none. */
export function tokenLease(store: TokenStore, namespace: string, id: string): TokenLease | null {
  const now = Date.now();
  const [, path, accessor = ""] = LEAF.exec(id) ?? [];
  const row = path === undefined ? null : store.byAccessor(accessor, now);
  const isLease = row?.namespace === namespace && row.path === path && row.expires !== null && !isWrapping(row);
  if (!isLease || row.family === "batch") return null;
  const time = (at: number | null) => (at === null ? null : new Date(at).toISOString());
  return {
    id,
    accessor: row.accessor,
    issue_time: time(row.created) ?? "",
    expire_time: time(row.expires),
    last_renewal: time(row.renewed),
    renewable: row.renewable === 1,
    ttl: Math.max(0, Math.floor(((row.expires ?? now) - now) / 1000)),
  };
}
