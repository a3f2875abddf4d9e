import { createHash } from "node:crypto";
import { firstHeader, requestHeader } from "../compat/dialect.ts";
import type { ClusterRights, NamespaceRight } from "../contracts/cluster-rights.ts";
import type { Texts } from "../contracts/csi-volumes.ts";
import { badRequest } from "../platform/http/errors.ts";
import { allowsNamespace, allowsNamespaceAny, allowsPlugin } from "../rights/cluster-rights.ts";
import { MAX_SECRET_NAME, MAX_SECRET_VALUE, MAX_SECRETS } from "../volumes/csi/secrets.ts";
import { ALL, namespaceOf } from "./server/cluster-reads.ts";
import type { AuthorisedCall } from "./server/route.ts";

/** Shared by the routes of CSI volumes and snapshots: authorization, plugin secrets and idempotency. */

/**
 * Whether the caller has any of these rights in a namespace; for lists over `*`, in any namespace, since each item is
 * authorized.
 */
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

/** The right to write volumes; upstream callers also need to read plugins (docs/reference/compatibility.md). */
export const mayWrite = (rights: ClusterRights, { dialect }: AuthorisedCall, namespace: string): boolean =>
  allowsNamespace(rights, namespace, "csi-write-volume") && (dialect === "neutral" || allowsPlugin(rights, "read"));

/**
 * Plugin secrets in a header: `k=v,k2=v2`, split at commas, then at the first equals sign. Parts without one are
 * ignored, and the last of equal names wins.
 * @throws RequestError beyond the bounds of secrets
 */
export function headerSecrets({ request }: Pick<AuthorisedCall, "request">): Texts {
  const pairs = (firstHeader(request.headers, requestHeader.csiSecrets) ?? "").split(",");
  const cut = pairs.map((pair): [string, string] => {
    const at = pair.indexOf("=");
    return at < 0 ? ["", ""] : [pair.slice(0, at), pair.slice(at + 1)];
  });
  const secrets = Object.fromEntries(cut.filter(([name]) => name !== ""));
  const all = Object.entries(secrets);
  const [header] = requestHeader.csiSecrets;
  if (all.length > MAX_SECRETS) throw badRequest(`${header}: at most ${MAX_SECRETS} secrets`);
  if (all.some(([name, value]) => name.length > MAX_SECRET_NAME || value.length > MAX_SECRET_VALUE))
    throw badRequest(`${header}: at most ${MAX_SECRET_NAME} characters per name and ${MAX_SECRET_VALUE} per value`);
  return secrets;
}

/** Idempotency digest of a request by its caller. */
export const digestOf = ({ grant }: AuthorisedCall, ...what: unknown[]): string =>
  createHash("sha256")
    .update(JSON.stringify([grant.identity.accessor, ...what]))
    .digest("base64url");
