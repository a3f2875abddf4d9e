import { expect, it } from "vitest";
import { issuerAt, subjectOf, syncIssuerAt, syncSubjectOf } from "../rpc/token-subjects.ts";
import { claimsOf, discovery, MAX_TTL, syncClaimsOf } from "./token.ts";

const ask = {
  namespace: "team/",
  namespaceId: "a1B2c",
  mountAccessor: "cloud-b_0123abcd",
  mountPath: "cloud-b/",
  issuer: "https://h/v1/team/identity/oidc/plugins",
  audience: "api://AzureADTokenExchange",
};
const NOW = 1_800_000_000_999;
const lifeOf = (ttlSeconds: number) => Number(claimsOf({ ...ask, ttlSeconds }, NOW)["exp"]) - 1_800_000_000;

it("contains the issuer, the mount and the audience", () => {
  expect(claimsOf({ ...ask, ttlSeconds: 60 }, NOW)).toEqual({
    iss: "https://h/v1/team/identity/oidc/plugins",
    sub: "plugin-identity:a1B2c:secret:cloud-b_0123abcd",
    aud: ["api://AzureADTokenExchange"],
    iat: 1_800_000_000,
    nbf: 1_800_000_000,
    exp: 1_800_000_060,
    "vaultproject.io": {
      accessor: "cloud-b_0123abcd",
      class: "secret",
      local: false,
      namespace_id: "a1B2c",
      namespace_path: "team/",
      path: "cloud-b/",
      plugin: "azure",
      version: "2.2.0+ent",
    },
  });
});

// Proves: A.config.identity_token_ttl.applied, E.limits.identity_token_ttl
it("lives for the requested seconds, an hour by default, and at most the publication of its key", () => {
  expect([1, 3600, 7200].map(lifeOf)).toEqual([1, 3600, 7200]);
  expect(lifeOf(0)).toBe(3600);
  expect([MAX_TTL, MAX_TTL + 1, Number.MAX_SAFE_INTEGER].map(lifeOf)).toEqual([86_400, 86_400, 86_400]);
});

it("names its namespace, and its discovery document links its keys", () => {
  expect(issuerAt("https://h:1", "")).toBe("https://h:1/v1/identity/oidc/plugins");
  const issuer = issuerAt("https://h:1", "a/b/");
  expect(issuer).toBe("https://h:1/v1/a/b/identity/oidc/plugins");
  expect(discovery(issuer)).toMatchObject({ issuer, jwks_uri: `${issuer}/.well-known/keys` });
  expect(subjectOf({ namespaceId: "root", mountAccessor: "x" })).toBe("plugin-identity:root:secret:x");
});

it("of a sync destination contains its type and name, and nothing about a mount", () => {
  const subject = syncSubjectOf("team/dev/", "aws-sm", "prod-eu");
  const issuer = syncIssuerAt("https://h", "team/dev/");
  expect(syncClaimsOf({ issuer, subject, audience: "sts.amazonaws.com", ttlSeconds: 0 }, NOW)).toEqual({
    iss: "https://h/v1/team/dev/identity/oidc/secrets-sync",
    sub: "secrets-sync:team/dev:aws-sm:prod-eu",
    aud: ["sts.amazonaws.com"],
    iat: 1_800_000_000,
    nbf: 1_800_000_000,
    exp: 1_800_003_600,
  });
  expect(syncSubjectOf("", "cloud-a-sm", "d")).toBe("secrets-sync::cloud-a-sm:d");
});
