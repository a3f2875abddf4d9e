import type { SuiteName } from "./python-suites.ts";

/**
 * Why a test of a foreign suite cannot pass: the feature, in the words of docs/reference/client-suites.md, by what its
 * name and error say. The first match counts; a failure without one fails our test.
 */
export type Reasons = readonly (readonly [why: string, matches: RegExp])[];

export const REASONS: Readonly<Record<SuiteName | "node-vault", Reasons>> = {
  hvac: [
    [
      "secrets engines transit, PKI, transform, SSH, AWS, Google Cloud",
      /secrets_engines\/test_(transit|pki|transform|ssh|aws|gcp)\.py/,
    ],
    ["engines PKI and transit, which tests of leases and writes mount", /not found in the catalog: (pki|transit)\b/],
    [
      "auth methods LDAP, TLS certificates, Google Cloud, GitHub, Azure, Okta, AWS",
      /auth_methods\/test_(ldap|cert|gcp|github|azure|okta|aws)\.py/,
    ],
    [
      "auth methods GitHub and Google Cloud, which tests of other areas enable",
      /not found in the catalog: (github|gcp)\b/,
    ],
    ["Sentinel policies", /no handler for route "sys\/policies\/[er]gp\//],
    ["certificate authorities of one's own, which Workers cannot trust", /(kubernetes_ca_cert|oidc_discovery_ca_pem)/],
    [
      "the OpenID provider (`identity/oidc`): keys, roles and tokens for applications",
      /no handler for route "identity\/oidc\//,
    ],
    ["key shares: rekey, generated root tokens", /rekey|generate_root|backed_up_keys/],
    ["sealing by request", /test_(seal_unseal|unseal_multi)/],
    ["audit devices that clients enable", /test_audit/],
    ["Raft storage", /sys\/storage\/raft\//],
    ["a field of a newer release that the test does not expect", /test_azure\.py.*delete_config/],
    ["a text of the HTTP library, which is newer than the test", /test_illegal_token/],
  ],
  "python-nomad": [
    [
      "scheduling: jobs are registered, planned, dispatched and stopped by a scheduler",
      /cannot be (registered|stopped|changed)/,
    ],
    ["variables", /test_variables?\.py/],
    ["deployments that clients promote, pause or fail", /test_deployment\.py.*no such path/s],
    ["files, signals and statistics of allocations", /test_client\.py/],
    ["scaling policies", /test_scaling\.py/],
    ["servers that join or leave: there is one", /test_(join_agent|force_leave)/],
    ["the port 4647 of a server's own protocol", /test_status\.py/],
    ["a service that is not bootstrapped: `npm start` does so", /test_(create_bootstrap|list_tokens)\b/],
    ["a field that upstream drops (`DrainSpec.Duration`) is refused", /unknown field "DrainSpec\.Duration"/],
    [
      "requests that the test answers itself, otherwise than its HTTP library does",
      /Connection refused by Responses|test_base\.py/,
    ],
  ],
  "node-vault": [
    ["engines transit and databases", /transit|database/i],
    [
      "auth methods AWS, Google Cloud, GitHub, LDAP, Okta, RADIUS, TLS certificates",
      /"auth\/(aws|gcp|github|ldap|okta|radius|cert)\//,
    ],
    ["key shares and sealing by request", /key shares|seal: /],
    ["audit devices that clients enable", /^\w+Audit: /],
    ["refused by every running server: it is initialized, and there is no such lease", /^(init|renew): /],
    ["node-vault itself fails before the request", /^addKubernetesRole: Cannot convert/],
  ],
};

/** Counts failures by reason. @returns the counts, and the failures without one */
export function explain(failures: readonly string[], reasons: Reasons) {
  const counts: Record<string, number> = {};
  const unexplained: string[] = [];
  for (const failure of failures) {
    const why = reasons.find(([, matches]) => matches.test(failure))?.[0];
    if (why === undefined) unexplained.push(failure);
    else counts[why] = (counts[why] ?? 0) + 1;
  }
  return { counts, unexplained };
}
