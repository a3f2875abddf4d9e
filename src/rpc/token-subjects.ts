import type { Bearer } from "../contracts/federation.ts";

/** The issuer of the tokens of sync destinations. */
export const syncIssuerAt = (origin: string, namespace: string): string =>
  `${origin}/v1/${namespace}identity/oidc/secrets-sync`;

/** The subject that names a destination (https://developer.hashicorp.com/vault/docs/v2.x/sync/awssm). */
export const syncSubjectOf = (namespace: string, type: string, name: string): string =>
  `secrets-sync:${namespace.replace(/\/$/, "")}:${type}:${name}`;

/** The issuer of a namespace's tokens. Providers compare it exactly, path and case included. */
export const issuerAt = (origin: string, namespace: string): string => `${origin}/v1/${namespace}identity/oidc/plugins`;

/** The subject that a federated credential at the provider names; it survives a move of the mount. */
export const subjectOf = ({ namespaceId, mountAccessor }: Pick<Bearer, "namespaceId" | "mountAccessor">): string =>
  `plugin-identity:${namespaceId}:secret:${mountAccessor}`;
