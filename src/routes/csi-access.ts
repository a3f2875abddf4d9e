import { createHash } from "node:crypto";
import { firstHeader, requestHeader } from "../compat/dialect.ts";
import {
  allowsNamespace,
  allowsNamespaceAny,
  allowsPlugin,
  type ClusterRights,
  type NamespaceRight,
} from "../contracts/cluster-rights.ts";
import type { Texts } from "../contracts/csi-volumes.ts";
import { namespaceOf } from "./server/cluster-reads.ts";
import type { AuthorisedCall } from "./server/route.ts";

/** What the routes of CSI volumes and snapshots share: who may, with which secrets, and what makes a request the same. */

const ALL = "*";

/** Whether any of these rights is held in a namespace; in `*` for lists, any in any, as each item is judged. */
export const allowsOne = (
  rights: ClusterRights,
  namespace: string,
  capabilities: readonly NamespaceRight[],
): boolean =>
  namespace === ALL
    ? allowsNamespaceAny(rights, capabilities)
    : capabilities.some((capability) => allowsNamespace(rights, namespace, capability));

export const mayAny =
  (capabilities: readonly NamespaceRight[]) =>
  (rights: ClusterRights, call: Pick<AuthorisedCall, "query">): boolean =>
    allowsOne(rights, namespaceOf(call), capabilities);

/** The right to write volumes; upstream's callers need to see plugins, too (docs/reference/compatibility.md). */
export const mayWrite = (rights: ClusterRights, { dialect }: AuthorisedCall, namespace: string): boolean =>
  allowsNamespace(rights, namespace, "csi-write-volume") && (dialect === "neutral" || allowsPlugin(rights, "read"));

/**
 * Secrets for a plugin in a header: `k=v,k2=v2`, cut at commas, each at its first equals sign; what has none says nothing, and
 * the last one of a name counts (contract: events-and-volumes 4.8).
 */
export function headerSecrets({ request }: Pick<AuthorisedCall, "request">): Texts {
  const pairs = (firstHeader(request.headers, requestHeader.csiSecrets) ?? "").split(",");
  const cut = pairs.map((pair): [string, string] => {
    const at = pair.indexOf("=");
    return at < 0 ? ["", ""] : [pair.slice(0, at), pair.slice(at + 1)];
  });
  return Object.fromEntries(cut.filter(([name]) => name !== ""));
}

/** What recognises a request when it comes again, from the same caller. */
export const digestOf = ({ grant }: AuthorisedCall, ...what: unknown[]): string =>
  createHash("sha256")
    .update(JSON.stringify([grant.identity.accessor, ...what]))
    .digest("base64url");
