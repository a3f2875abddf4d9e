import { env, exports } from "cloudflare:workers";
import { generateKeyPairSync } from "node:crypto";
import { afterEach, beforeEach, expect, it } from "vitest";
import { snapshotName } from "../../src/platform/snapshot-bucket.ts";
import { issue } from "./access.ts";
import { openAwsAccount } from "./aws-helpers.ts";
import { loseEverything, restore } from "./backup-world.ts";
import { cases } from "./bad-input.ts";
import { deployment } from "./deployment.ts";
import { creds, dynamicRole, openTenant, type Tenant, unmount } from "./engine-helpers.ts";
import { examples } from "./examples.ts";
import { openProject } from "./gcp-helpers.ts";
import { CLIENT, newCluster, newIssuer, newProvider, podClaims } from "./issuers.ts";
import { expectEvictions, expectShortTimers, Run, unasked, unproven } from "./openapi-run.ts";
import { openProducer } from "./producer-helpers.ts";

/** Real answers of the secrets API, KV, tokens, policies and `sys`, held against the document of the API. */

let run: Run;
beforeEach(async () => {
  run = new Run();
  await run.ok("POST", "/v1/sys/mounts/secret", { type: "kv", description: "for people", options: { version: "2" } });
});
afterEach(async () => expect(await run.problems()).toEqual([]));

it("describes KV secrets", async () => {
  const { ok, any } = bound(run);
  await ok("POST", "/v1/secret/config", { max_versions: 5, cas_required: false, delete_version_after: "0s" });
  await ok("GET", "/v1/secret/config");
  await ok("POST", "/v1/secret/data/app/db", { data: { user: "app", password: "p" }, options: { cas: 0 } });
  await ok("PATCH", "/v1/secret/data/app/db", { data: { password: "q" } });
  await ok("GET", "/v1/secret/data/app/db?version=2");
  await ok("GET", "/v1/secret/subkeys/app/db?depth=1");
  await ok("POST", "/v1/secret/metadata/app/db", { max_versions: 3, custom_metadata: { owner: "team" } });
  await ok("PATCH", "/v1/secret/metadata/app/db", { custom_metadata: { owner: null, tier: "gold" } });
  await ok("GET", "/v1/secret/metadata/app/db");
  await ok("LIST", "/v1/secret/metadata");
  await ok("LIST", "/v1/secret/metadata/app");
  await ok("LIST", "/v1/secret/detailed-metadata");
  await ok("LIST", "/v1/secret/detailed-metadata/app");
  for (const folder of ["metadata", "metadata/app", "detailed-metadata", "detailed-metadata/app"])
    await ok("GET", `/v1/secret/${folder}?scan=true`);
  await ok("DELETE", "/v1/secret/data/app/db");
  await any("GET", "/v1/secret/data/app/db");
  await any("GET", "/v1/secret/subkeys/app/db");
  await any("PATCH", "/v1/secret/data/app/db", { data: {} });
  await ok("POST", "/v1/secret/undelete/app/db", { versions: [2] });
  await ok("POST", "/v1/secret/delete/app/db", { versions: [1] });
  await ok("POST", "/v1/secret/destroy/app/db", { versions: [1] });
  await ok("DELETE", "/v1/secret/metadata/app/db");
  await any("GET", "/v1/secret/data/app/db");
  await any("LIST", "/v1/secret/metadata");
  await any("POST", "/v1/secret/data/app/db", { data: 1 });
});

it("describes KV secrets of version 1", async () => {
  const { ok, any } = bound(run);
  await ok("POST", "/v1/sys/mounts/kv-v1", { type: "kv" });
  await ok("GET", "/v1/sys/mounts/kv-v1");
  await ok("GET", "/v1/sys/mounts/kv-v1/tune");
  await ok("GET", "/v1/sys/internal/ui/mounts/kv-v1/app");
  await ok("POST", "/v1/kv-v1/app/db", { user: "app", password: "p", ttl: "1h" });
  await ok("GET", "/v1/kv-v1/app/db");
  await ok("LIST", "/v1/kv-v1");
  await ok("LIST", "/v1/kv-v1/app");
  await ok("GET", "/v1/kv-v1?scan=true");
  await ok("GET", "/v1/kv-v1/app?scan=true");
  await ok("DELETE", "/v1/kv-v1/app/db");
  const { migration_id: move } = (await ok("POST", "/v1/sys/remount", { from: "kv-v1", to: "elsewhere" })).body.data;
  await ok("GET", `/v1/sys/remount/status/${move}`);
  await any("GET", "/v1/sys/remount/status/none");
  await any("POST", "/v1/sys/remount", { from: "elsewhere", to: "secret" });
  await ok("POST", "/v1/sys/remount", { from: "elsewhere", to: "kv-v1" });
  await any("GET", "/v1/kv-v1/app/db");
  await any("LIST", "/v1/kv-v1");
  await any("POST", "/v1/kv-v1/app/db", {});
});

it("describes logins by role id and secret id, and locked names", async () => {
  const { ok, any } = bound(run);
  const role = "/v1/auth/approle/role/web";
  await ok("POST", "/v1/sys/auth/approle", { type: "approle" });
  await ok("POST", role, { token_policies: ["app"], secret_id_bound_cidrs: ["10.0.0.0/8"] });
  await ok("GET", role);
  await ok("LIST", "/v1/auth/approle/role");
  await ok("POST", `${role}/role-id`, { role_id: "web" });
  await ok("GET", `${role}/role-id`);
  await ok("GET", `${role}/local-secret-ids`);
  const fields: Readonly<Record<string, object>> = {
    policies: { token_policies: ["app"] },
    "bind-secret-id": { bind_secret_id: true },
    "secret-id-bound-cidrs": { secret_id_bound_cidrs: ["10.0.0.0/8"] },
    "bound-cidr-list": { bound_cidr_list: ["10.0.0.0/8"] },
    "secret-id-num-uses": { secret_id_num_uses: 9 },
    "secret-id-ttl": { secret_id_ttl: 900 },
    period: { token_period: 60 },
    "token-ttl": { token_ttl: 60 },
    "token-max-ttl": { token_max_ttl: 90 },
    "token-num-uses": { token_num_uses: 9 },
    "token-bound-cidrs": { token_bound_cidrs: ["10.0.0.0/8"] },
  };
  for (const [field, body] of Object.entries(fields)) {
    await ok("POST", `${role}/${field}`, body);
    await ok("GET", `${role}/${field}`);
    await ok("DELETE", `${role}/${field}`);
  }
  const { secret_id, secret_id_accessor } = (await ok("POST", `${role}/secret-id`, { metadata: { a: "b" } })).body.data;
  await ok("POST", `${role}/custom-secret-id`, { secret_id: "chosen", ttl: 60, num_uses: 2 });
  await ok("LIST", `${role}/secret-id`);
  await ok("POST", `${role}/secret-id/lookup`, { secret_id });
  await ok("POST", `${role}/secret-id-accessor/lookup`, { secret_id_accessor });
  await ok("POST", "/v1/auth/approle/login", { role_id: "web", secret_id });
  // Failures are counted in memory, as in Vault.
  run.evicts = false;
  for (let failure = 0; failure < 5; failure += 1) {
    await any("POST", "/v1/auth/approle/login", { role_id: "web", secret_id: "wrong" });
  }
  const [group] = (await ok("GET", "/v1/sys/locked-users")).body.data.by_namespace;
  await ok("POST", `/v1/sys/locked-users/${group.mount_accessors[0].mount_accessor}/unlock/web`);
  run.evicts = true;
  await ok("POST", `${role}/secret-id-accessor/destroy`, { secret_id_accessor });
  await ok("DELETE", `${role}/secret-id/destroy`, { secret_id });
  await ok("POST", `${role}/secret-id/destroy`, { secret_id });
  await any("DELETE", `${role}/secret-id-accessor/destroy`, { secret_id_accessor });
  const second = (await ok("POST", `${role}/secret-id`, {})).body.data;
  await ok("DELETE", `${role}/secret-id-accessor/destroy`, { secret_id_accessor: second.secret_id_accessor });
  await ok("POST", "/v1/auth/approle/tidy/secret-id");
  await ok("DELETE", role);
});

it("describes auth methods", async () => {
  const { ok, any } = bound(run);
  await ok("POST", "/v1/sys/auth/userpass", { type: "userpass", description: "people" });
  await ok("POST", "/v1/sys/auth/userpass/tune", {
    default_lease_ttl: "1h",
    user_lockout_config: { lockout_threshold: 3 },
  });
  await ok("GET", "/v1/sys/auth");
  await ok("GET", "/v1/sys/auth/userpass");
  await ok("GET", "/v1/sys/auth/userpass/tune");
  await ok("GET", "/v1/sys/mounts/auth/userpass");
  await ok("GET", "/v1/sys/mounts/auth/userpass/tune");
  await ok("POST", "/v1/sys/mounts/auth/userpass/tune", { description: "people" });
  await ok("POST", "/v1/auth/userpass/users/ann", { password: "p", token_policies: ["app"], token_ttl: "1h" });
  await ok("POST", "/v1/auth/userpass/users/ann/password", { password: "q" });
  await ok("POST", "/v1/auth/userpass/users/ann/policies", { token_policies: ["app", "ops"] });
  await ok("GET", "/v1/auth/userpass/users/ann");
  await ok("LIST", "/v1/auth/userpass/users");
  await ok("POST", "/v1/auth/userpass/login/ann", { password: "q" });
  await any("POST", "/v1/auth/userpass/login/ann", { password: "wrong" });
  await ok("DELETE", "/v1/auth/userpass/users/ann");
  await ok("DELETE", "/v1/sys/auth/userpass");
});

it("describes logins by signed tokens", async () => {
  const { ok, any } = bound(run);
  const issuer = await newIssuer("openapi");
  await ok("POST", "/v1/sys/auth/jwt", { type: "jwt" });
  await ok("POST", "/v1/auth/jwt/config", { oidc_discovery_url: issuer.url });
  await ok("GET", "/v1/auth/jwt/config");
  const role = { role_type: "jwt", user_claim: "sub", bound_claims: { ref: "main" }, token_policies: ["app"] };
  await ok("POST", "/v1/auth/jwt/role/ci", role);
  await ok("GET", "/v1/auth/jwt/role/ci");
  await ok("LIST", "/v1/auth/jwt/role");
  await ok("POST", "/v1/auth/jwt/login", { role: "ci", jwt: await issuer.sign({ sub: "job", ref: "main" }) });
  await any("POST", "/v1/auth/jwt/login", { role: "ci", jwt: "wrong" });
  await ok("DELETE", "/v1/auth/jwt/role/ci");
});

it("describes logins of service accounts", async () => {
  const { ok, any } = bound(run);
  const cluster = await newCluster("openapi", ["a.b.c"]);
  await ok("POST", "/v1/sys/auth/kubernetes", { type: "kubernetes" });
  const config = { kubernetes_host: cluster.url, token_reviewer_jwt: "a.b.c" };
  await ok("POST", "/v1/auth/kubernetes/config", config);
  await ok("GET", "/v1/auth/kubernetes/config");
  const role = { bound_service_account_names: ["app"], bound_service_account_namespaces: ["prod"] };
  await ok("POST", "/v1/auth/kubernetes/role/app", role);
  await ok("POST", "/v1/auth/kubernetes/role/app", { audience: "sallyport" });
  await ok("GET", "/v1/auth/kubernetes/role/app");
  await ok("LIST", "/v1/auth/kubernetes/role");
  await ok("POST", "/v1/auth/kubernetes/login", { role: "app", jwt: await cluster.sign(podClaims()) });
  await any("POST", "/v1/auth/kubernetes/login", { role: "app", jwt: "wrong" });
  await ok("DELETE", "/v1/auth/kubernetes/role/app");
});

it("describes logins in a browser", async () => {
  const { ok, any } = bound(run);
  const redirect = "http://localhost:8250/oidc/callback";
  const provider = await newProvider("openapi", [redirect]);
  for (const type of ["oidc", "jwt"]) {
    await ok("POST", `/v1/sys/auth/${type}`, { type });
    await ok("POST", `/v1/auth/${type}/config`, { oidc_discovery_url: provider.url, ...CLIENT });
    await ok("GET", `/v1/auth/${type}/config`);
    const role = { user_claim: "sub", allowed_redirect_uris: [redirect], token_policies: ["app"] };
    await ok("POST", `/v1/auth/${type}/role/people`, role);
    await ok("GET", `/v1/auth/${type}/role/people`);
    await ok("LIST", `/v1/auth/${type}/role`);
    const asked = { role: "people", redirect_uri: redirect, client_nonce: "n" };
    const { body } = await ok("POST", `/v1/auth/${type}/oidc/auth_url`, asked);
    const returned = await provider.visit(body.data.auth_url);
    const query = new URLSearchParams({ ...returned, client_nonce: "n" });
    await ok("GET", `/v1/auth/${type}/oidc/callback?${query}`);
    await any("GET", `/v1/auth/${type}/oidc/callback?state=x&code=y`);
    const inForms = { oidc_discovery_url: provider.url, ...CLIENT, oidc_response_mode: "form_post" };
    await ok("POST", `/v1/auth/${type}/config`, inForms);
    const second = await ok("POST", `/v1/auth/${type}/oidc/auth_url`, asked);
    await ok("POST", `/v1/auth/${type}/oidc/callback`, await provider.visit(second.body.data.auth_url));
    await any("POST", `/v1/auth/${type}/login`, { role: "people", jwt: "wrong" });
    const signed = { role_type: "jwt", user_claim: "sub", bound_audiences: ["app"] };
    await ok("POST", `/v1/auth/${type}/role/ci`, signed);
    const jwt = await provider.sign({ sub: "job", aud: "app" });
    await ok("POST", `/v1/auth/${type}/login`, { role: "ci", jwt });
    await ok("DELETE", `/v1/auth/${type}/role/people`);
    await ok("DELETE", `/v1/sys/auth/${type}`);
  }
});

it("describes cubbyholes", async () => {
  const { ok, any } = bound(run);
  await ok("POST", "/v1/cubbyhole/app/db", { user: "app", password: "p" });
  await ok("GET", "/v1/cubbyhole/app/db");
  await ok("LIST", "/v1/cubbyhole");
  await ok("LIST", "/v1/cubbyhole/app");
  await ok("GET", "/v1/sys/mounts/cubbyhole");
  await ok("GET", "/v1/sys/internal/ui/mounts/cubbyhole/app");
  await ok("DELETE", "/v1/cubbyhole/app/db");
  await any("GET", "/v1/cubbyhole/app/db");
  await any("LIST", "/v1/cubbyhole");
  await any("POST", "/v1/cubbyhole/app/db", {});
});

it("describes wrapped answers", async () => {
  const { ok, any } = bound(run);
  const wrap = async () => (await ok("POST", "/v1/sys/wrapping/wrap", { password: "p" })).body.wrap_info.token;
  const token = await wrap();
  await ok("POST", "/v1/sys/wrapping/lookup", { token }, { token: null });
  await ok("GET", "/v1/sys/wrapping/lookup", undefined, { token });
  await ok("POST", "/v1/sys/wrapping/rewrap", { token });
  await ok("POST", "/v1/sys/wrapping/unwrap", { token: await wrap() });
  await any("POST", "/v1/sys/wrapping/unwrap", { token });
});

it("describes entities and groups", async () => {
  const { ok, any } = bound(run);
  await ok("POST", "/v1/sys/auth/userpass", { type: "userpass" });
  const accessor = (await ok("GET", "/v1/sys/auth/userpass")).body.data.accessor;
  const entity = { name: "ann", policies: ["app"], metadata: { team: "a" } };
  const { id } = (await ok("POST", "/v1/identity/entity", entity)).body.data;
  await ok("POST", "/v1/identity/entity", entity);
  await ok("POST", `/v1/identity/entity/id/${id}`, { metadata: { team: "b" } });
  await ok("POST", "/v1/identity/entity/name/ann", { disabled: false });
  const alias = { name: "ann", canonical_id: id, mount_accessor: accessor };
  const aliasId = (await ok("POST", "/v1/identity/entity-alias", alias)).body.data.id;
  await ok("GET", `/v1/identity/entity-alias/id/${aliasId}`);
  await ok("POST", `/v1/identity/entity-alias/id/${aliasId}`, { custom_metadata: { a: "b" } });
  await ok("LIST", "/v1/identity/entity-alias/id");
  await ok("POST", "/v1/identity/lookup/entity", { alias_id: aliasId });
  await ok("POST", "/v1/identity/lookup/entity", { name: "nobody" });
  await ok("GET", `/v1/identity/entity/id/${id}`);
  await ok("GET", "/v1/identity/entity/name/ann");
  await ok("LIST", "/v1/identity/entity/id");
  await ok("LIST", "/v1/identity/entity/name");
  const inner = { name: "team", policies: ["app"], member_entity_ids: [id] };
  const team = (await ok("POST", "/v1/identity/group", inner)).body.data.id;
  await ok("POST", `/v1/identity/group/id/${team}`, { metadata: { a: "b" } });
  await ok("POST", "/v1/identity/group/name/team", { policies: ["app", "ops"] });
  await ok("GET", `/v1/identity/group/id/${team}`);
  await ok("GET", "/v1/identity/group/name/team");
  await ok("LIST", "/v1/identity/group/id");
  await ok("LIST", "/v1/identity/group/name");
  const outer = (await ok("POST", "/v1/identity/group", { name: "ext", type: "external" })).body.data.id;
  const groupAlias = { name: "ops", canonical_id: outer, mount_accessor: accessor };
  const groupAliasId = (await ok("POST", "/v1/identity/group-alias", groupAlias)).body.data.id;
  await ok("GET", `/v1/identity/group-alias/id/${groupAliasId}`);
  await ok("POST", `/v1/identity/group-alias/id/${groupAliasId}`, { name: "staff" });
  await ok("LIST", "/v1/identity/group-alias/id");
  await ok("POST", "/v1/identity/lookup/group", { name: "team" });
  await ok("POST", "/v1/identity/lookup/group", { name: "nobody" });
  await ok("DELETE", `/v1/identity/group-alias/id/${groupAliasId}`);
  await ok("DELETE", `/v1/identity/group/id/${team}`);
  await ok("DELETE", "/v1/identity/group/name/ext");
  for (const force of [false, true]) {
    const from = (await ok("POST", "/v1/identity/entity", {})).body.data.id;
    await ok("POST", "/v1/identity/entity/merge", { to_entity_id: id, from_entity_ids: [from], force });
  }
  await ok("POST", "/v1/identity/entity/batch-delete", { entity_ids: [aliasId] });
  await ok("DELETE", `/v1/identity/entity-alias/id/${aliasId}`);
  await ok("DELETE", `/v1/identity/entity/id/${id}`);
  await ok("DELETE", "/v1/identity/entity/name/ann");
  await any("GET", "/v1/identity/entity/name/ann");
});

it("describes tokens", async () => {
  const { ok, any } = bound(run);
  const { auth } = (
    await ok("POST", "/v1/auth/token/create", { policies: ["app"], ttl: 3600, meta: { a: "b" }, period: "1h" })
  ).body;
  const orphan = (await ok("POST", "/v1/auth/token/create-orphan", { policies: ["app"], num_uses: 0 })).body.auth;
  const token = auth.client_token;
  const own = { token };
  await ok("GET", "/v1/auth/token/lookup-self", undefined, own);
  await ok("POST", "/v1/auth/token/lookup-self");
  await ok("POST", "/v1/auth/token/renew-self", { increment: "1h" }, own);
  await ok("POST", "/v1/auth/token/renew", { token, increment: 60 });
  await ok("POST", "/v1/auth/token/renew-accessor", { accessor: auth.accessor });
  await ok("POST", "/v1/auth/token/lookup", { token });
  await ok("GET", `/v1/auth/token/lookup?token=${token}`);
  await ok("POST", "/v1/auth/token/lookup-accessor", { accessor: auth.accessor });
  await ok("LIST", "/v1/auth/token/accessors");
  await ok("POST", "/v1/auth/token/roles/app", { allowed_policies: ["app"], token_period: "1h", period: "2h" });
  await ok("POST", "/v1/auth/token/roles/app", { token_num_uses: 5, token_bound_cidrs: ["10.0.0.0/8"] });
  await ok("GET", "/v1/auth/token/roles/app");
  await ok("LIST", "/v1/auth/token/roles");
  await ok("GET", "/v1/auth/token/roles?list=true");
  await ok("POST", "/v1/auth/token/create/app", { policies: ["app"] });
  await ok("DELETE", "/v1/auth/token/roles/app");
  await ok("POST", "/v1/auth/token/tidy");
  await ok("POST", "/v1/auth/token/revoke-orphan", { token: orphan.client_token });
  await ok("POST", "/v1/auth/token/revoke-self", undefined, own);
  await any("GET", "/v1/auth/token/lookup-self", undefined, own);
  await ok("POST", "/v1/auth/token/revoke", { token: (await issue()).client_token });
  await ok("POST", "/v1/auth/token/revoke-accessor", { accessor: (await issue()).accessor });
  await any("POST", "/v1/auth/token/revoke", {});
});

it("describes policies, and sys/capabilities", async () => {
  const { ok, any } = bound(run);
  const policy = 'path "secret/data/app/*" { capabilities = ["read"] }';
  await ok("POST", "/v1/sys/policies/acl/app", { policy });
  await ok("GET", "/v1/sys/policies/acl/app");
  await ok("LIST", "/v1/sys/policies/acl");
  await ok("POST", "/v1/sys/policy/old", { policy });
  await ok("GET", "/v1/sys/policy/old");
  await ok("GET", "/v1/sys/policy");
  await ok("LIST", "/v1/sys/policy");
  await ok("DELETE", "/v1/sys/policy/old");
  const { client_token: token, accessor } = await issue({ policies: ["app"] });
  await ok("POST", "/v1/sys/capabilities-self", { paths: ["secret/data/app/db", "sys/mounts"] }, { token });
  await ok("POST", "/v1/sys/capabilities", { token, path: "secret/data/app/db" });
  await ok("POST", "/v1/sys/capabilities-accessor", { accessor, paths: ["secret/data/app/db"] });
  await ok("DELETE", "/v1/sys/policies/acl/app");
  await any("GET", "/v1/sys/policies/acl/app");
  await any("GET", "/v1/sys/mounts", undefined, { token });
});

it("describes the deployment, its mounts, namespaces and keys", async () => {
  const { ok, any } = bound(run);
  for (const path of [
    "health?counts=true",
    "seal-status",
    "init",
    "leader",
    "key-status",
    "activation-flags",
    "mounts",
    "internal/ui/mounts",
  ])
    await ok("GET", `/v1/sys/${path}`);
  await ok("GET", "/v1/sys/internal/ui/mounts", undefined, { token: null });
  await ok("GET", "/v1/sys/internal/ui/mounts/secret/data/app");
  await ok("POST", "/v1/sys/activation-flags/secrets-sync/activate");
  for (const path of ["rotate", "rotate/keyring"]) await ok("POST", `/v1/sys/${path}`);
  await ok("POST", "/v1/sys/mounts/secret/tune", { default_lease_ttl: "1h", listing_visibility: "unauth" });
  await ok("GET", "/v1/sys/mounts/secret/tune");
  await ok("GET", "/v1/sys/internal/ui/mounts", undefined, { token: null });
  await ok("GET", "/v1/sys/mounts/secret");
  await ok("POST", "/v1/sys/namespaces/team", { custom_metadata: { owner: "a" } });
  await ok("PATCH", "/v1/sys/namespaces/team", { custom_metadata: { owner: null } });
  await ok("GET", "/v1/sys/namespaces/team");
  await ok("LIST", "/v1/sys/namespaces");
  await ok("GET", "/v1/sys/namespaces?scan=true");
  await any("GET", "/v1/sys/mounts", undefined, { headers: { "X-Orch-Namespace": "nowhere" } });
  await ok("DELETE", "/v1/sys/namespaces/team");
  await ok("DELETE", "/v1/sys/mounts/secret");
  await any("GET", "/v1/sys/mounts/secret");
  await ok("GET", "/v1/identity/oidc/plugins/.well-known/openid-configuration");
  await ok("GET", "/v1/identity/oidc/plugins/.well-known/keys");
  await ok("GET", "/v1/identity/oidc/secrets-sync/.well-known/openid-configuration");
  await ok("GET", "/v1/identity/oidc/secrets-sync/.well-known/keys");
  await ok("GET", "/v1/.well-known/jwks.json");
  await ok("POST", "/v1/identity/oidc/config", { issuer: "https://issuer.example" });
  await ok("GET", "/v1/identity/oidc/config");
  await ok("POST", "/v1/identity/oidc/config", {});
  await ok("POST", "/v1/identity/oidc/key/default/rotate", { verification_ttl: "1h" });
  await ok("GET", "/v1/openapi.json");
  await ok("GET", "/v1/docs");
  for (const format of ["json", "prometheus", "openmetrics"]) {
    await ok("GET", `/v1/sys/metrics?format=${format}`);
    await ok("GET", `/v1/metrics?format=${format}`);
  }
  await ok("GET", "/v1/agent/health");
  for (const path of ["self", "members", "servers", "schedulers", "schedulers/config"])
    await ok("GET", `/v1/agent/${path}`);
  for (const path of ["/v1/status/leader", "/v1/status/peers", "/v1/regions"]) await ok("GET", path);
  for (const path of [
    "license/features",
    "license/status",
    "replication/status",
    "host-info",
    "version",
    "experiments",
    "ha-status",
    "config/state/sanitized",
    "rotate/config",
    "rekey/init",
    "rotate/root/init",
    "generate-root/attempt",
    "generate-root-token/attempt",
    ...["requests", "tokens", "entities", "activity", "activity/monthly", "config"].map(
      (name) => `internal/counters/${name}`,
    ),
    "plugins/catalog",
    "plugins/catalog/secret/kv",
  ])
    await ok("GET", `/v1/sys/${path}`);
  await ok("GET", "/v1/sys/quotas/config");
  await ok("POST", "/v1/sys/quotas/config", { enable_rate_limit_response_headers: true });
  await ok("POST", "/v1/sys/quotas/rate-limit/q", { rate: 1000, interval: "1m", path: "" });
  await ok("GET", "/v1/sys/quotas/rate-limit/q");
  await ok("LIST", "/v1/sys/quotas/rate-limit");
  await ok("DELETE", "/v1/sys/quotas/rate-limit/q");
  await ok("POST", "/v1/sys/quotas/lease-count/q", { max_leases: 1000, path: "" });
  await ok("GET", "/v1/sys/quotas/lease-count/q");
  await ok("LIST", "/v1/sys/quotas/lease-count");
  await ok("DELETE", "/v1/sys/quotas/lease-count/q");
  await ok("GET", "/v1/sys/config/cors");
  await ok("POST", "/v1/sys/config/cors", { allowed_origins: ["https://app.example"], allowed_headers: ["X-Mine"] });
  await ok("GET", "/v1/sys/config/cors");
  await ok("DELETE", "/v1/sys/config/cors");
  for (const path of ["ui/resultant-acl", "ui/namespaces", "specs/openapi"])
    await ok("GET", `/v1/sys/internal/${path}`);
  for (const path of ["version-history", "plugins/catalog/secret"]) await ok("LIST", `/v1/sys/${path}`);
  for (const path of ["random", "random/12", "random/all/12"])
    await ok("POST", `/v1/sys/tools/${path}`, { format: "hex" });
  for (const path of ["hash", "hash/sha2-512"]) await ok("POST", `/v1/sys/tools/${path}`, { input: "YQ==" });
  for (const path of ["unseal", "step-down"]) await ok("POST", `/v1/sys/${path}`);
  for (const path of ["rekey/init", "rotate/root/init", "generate-root/attempt", "generate-root-token/attempt"])
    await ok("DELETE", `/v1/sys/${path}`);
  await ok("GET", "/v1/sys/audit");
  await ok("GET", "/v1/sys/audit/lines?text=sys&kind=answer&before=2099-01-01T00:00:00Z&limit=10&cursor=");
  await ok("POST", "/v1/sys/audit-hash", { input: "a value" });
  await ok("POST", "/v1/sys/audit-hash/log", { input: "a value" });
});

it("describes notifications", async () => {
  const { ok } = bound(run);
  const at = "/v1/sys/notifications";
  const url = `${env.TEST_DOUBLES.messages}/openapi/slack/T0001/B0001/token`;
  await ok("POST", `${at}/channels/ops`, { type: "slack", url });
  await ok("GET", `${at}/channels/ops`);
  await ok("LIST", `${at}/channels`);
  await ok("POST", `${at}/channels/ops/test`);
  await ok("POST", `${at}/channels/ops/resume`);
  const quiet_hours = { from: "22:00", to: "06:00", days: ["mon"], time_zone: "UTC" };
  await ok("POST", `${at}/rules/backup`, { condition: "backup-missing", channels: ["ops"], within: "1d", quiet_hours });
  await ok("GET", `${at}/rules/backup`);
  await ok("LIST", `${at}/rules`);
  await ok("GET", `${at}/active`);
  await ok("DELETE", `${at}/rules/backup`);
  await ok("DELETE", `${at}/channels/ops`);
});

it("describes credentials and leases", async () => {
  const { ok, any } = bound(run);
  const tenant = await openTenant();
  await ok("POST", "/v1/sys/mounts/cloud-b", { type: "cloud-b" });
  await ok("POST", "/v1/cloud-b/config", tenant.config);
  await ok("GET", "/v1/cloud-b/config");
  await ok("POST", "/v1/cloud-b/roles/app", { ...dynamicRole(tenant), ttl: "1h", tags: ["team:a"] });
  await ok("GET", "/v1/cloud-b/roles/app");
  await ok("LIST", "/v1/cloud-b/roles");
  await leases(tenant);
  await staticRoles(tenant);
  await ok("POST", "/v1/cloud-b/rotate-root");
  await ok("DELETE", "/v1/cloud-b/roles/app");
  await any("GET", "/v1/cloud-b/roles/app");
  await any("GET", "/v1/cloud-b/creds/app");
  await ok("DELETE", "/v1/cloud-b/config");
  await unmount();
});

it("describes credentials of Google Cloud", async () => {
  const { ok, any } = bound(run);
  const { account, config, bindings, add } = await openProject();
  const token_scopes = ["https://www.googleapis.com/auth/cloud-platform"];
  const service_account_email = await add("existing");
  const key = { secret_type: "service_account_key" };
  await ok("POST", "/v1/sys/mounts/cloud-c", { type: "cloud-c" });
  await any("GET", "/v1/cloud-c/config");
  await ok("POST", "/v1/cloud-c/config", { ...config, rotation_period: "720h" });
  await ok("GET", "/v1/cloud-c/config");
  await ok("POST", "/v1/cloud-c/roleset/app", { project: account, bindings, token_scopes });
  await any("POST", "/v1/cloud-c/roleset/bad", { project: account });
  await ok("POST", "/v1/cloud-c/roleset/key", { project: account, bindings, ...key });
  await ok("POST", "/v1/cloud-c/static-account/app", { service_account_email, token_scopes });
  await ok("POST", "/v1/cloud-c/static-account/key", { service_account_email, ...key });
  await ok("POST", "/v1/cloud-c/impersonated-account/app", { service_account_email, token_scopes });
  for (const path of ["roleset", "static-account", "impersonated-account"]) {
    await ok("GET", `/v1/cloud-c/${path}/app`);
    await ok("LIST", `/v1/cloud-c/${path}`);
    await ok("LIST", `/v1/cloud-c/${path}s`);
    await ok("GET", `/v1/cloud-c/${path}/app/token`);
    await ok("POST", `/v1/cloud-c/${path}/app/token`, {});
    await any("GET", `/v1/cloud-c/${path}/none/token`);
  }
  for (const path of ["roleset/key/key", "static-account/key/key", "key/key"]) {
    await ok("GET", `/v1/cloud-c/${path}?ttl=1h&metadata=team=a`);
    await ok("POST", `/v1/cloud-c/${path}`, { verify: true });
  }
  await ok("GET", "/v1/cloud-c/token/app");
  await ok("POST", "/v1/cloud-c/token/app", {});
  for (const path of ["roleset/app/rotate", "roleset/app/rotate-key", "static-account/app/rotate-key"]) {
    await ok("POST", `/v1/cloud-c/${path}`);
  }
  await ok("POST", "/v1/cloud-c/config/rotate-root");
  for (const path of ["roleset", "static-account", "impersonated-account"]) {
    await ok("DELETE", `/v1/cloud-c/${path}/app`);
  }
  await ok("DELETE", "/v1/sys/mounts/cloud-c");
});

it("describes credentials of AWS", async () => {
  const { ok, any } = bound(run);
  const { config, role_arn, policy_arn, call } = await openAwsAccount();
  await ok("POST", "/v1/sys/mounts/cloud-a", { type: "cloud-a" });
  await any("GET", "/v1/cloud-a/config/root");
  await ok("POST", "/v1/cloud-a/config/root", { ...config, rotation_period: "720h" });
  await ok("GET", "/v1/cloud-a/config/root");
  await ok("POST", "/v1/cloud-a/config/lease", { lease: "1h", lease_max: "24h" });
  await ok("GET", "/v1/cloud-a/config/lease");
  await ok("POST", "/v1/cloud-a/roles/deploy", { credential_type: "assumed_role", role_arns: [role_arn] });
  await ok("POST", "/v1/cloud-a/roles/app", {
    credential_type: "iam_user",
    policy_arns: [policy_arn],
    iam_tags: { a: "b" },
  });
  await any("POST", "/v1/cloud-a/roles/bad", { credential_type: "none" });
  await ok("GET", "/v1/cloud-a/roles/app");
  await ok("LIST", "/v1/cloud-a/roles");
  for (const path of ["creds", "sts"]) {
    await ok("GET", `/v1/cloud-a/${path}/deploy?ttl=1h&metadata=team=a`);
    await ok("POST", `/v1/cloud-a/${path}/app`, { verify: true });
    await any("GET", `/v1/cloud-a/${path}/none`);
  }
  await ok("POST", "/v1/cloud-a/config/rotate-root");
  await ok("DELETE", "/v1/cloud-a/roles/app");
  await call({ action: "CreateUser", parameters: { UserName: "worker" } });
  await ok("POST", "/v1/cloud-a/static-roles/app", { username: "worker", rotation_period: "1h" });
  await any("POST", "/v1/cloud-a/static-roles/bad", { username: "nobody", rotation_period: "1h" });
  await ok("GET", "/v1/cloud-a/static-roles/app");
  await ok("LIST", "/v1/cloud-a/static-roles");
  await ok("GET", "/v1/cloud-a/static-creds/app?metadata=team=a");
  await any("GET", "/v1/cloud-a/static-creds/none");
  await ok("DELETE", "/v1/cloud-a/static-roles/app");
  await ok("DELETE", "/v1/sys/mounts/cloud-a");
});

async function staticRoles({ existing_application: { object_id: id }, call }: Tenant): Promise<void> {
  const { ok, any } = bound(run);
  const body = { application_object_id: id, rotation_period: "720h" };
  await ok("POST", "/v1/cloud-b/static-roles/app", { ...body, metadata: { team: "a" } });
  await any("POST", "/v1/cloud-b/static-roles/bad", { application_object_id: "none" });
  await ok("GET", "/v1/cloud-b/static-roles/app");
  await ok("LIST", "/v1/cloud-b/static-roles");
  await ok("POST", "/v1/cloud-b/rotate-role/app");
  await ok("GET", "/v1/cloud-b/static-creds/app?metadata=env=dev");
  await any("GET", "/v1/cloud-b/static-creds/none");
  await ok("POST", "/v1/cloud-b/static-creds/app/token", { scope: "https://graph.microsoft.com/.default" });
  await any("POST", "/v1/cloud-b/static-creds/app/token", {});
  await ok("DELETE", "/v1/cloud-b/static-roles/app");
  const { keyId } = (await call({ change: "AddPassword", id })) as { keyId: string };
  await ok("POST", "/v1/cloud-b/static-roles/app/import", { ...body, secret_id: keyId });
  await any("POST", "/v1/cloud-b/static-roles/app/import", body);
  await ok("DELETE", "/v1/cloud-b/static-roles/app");
}

it("describes credentials of an HTTPS producer", async () => {
  const { ok, any } = bound(run);
  const { config } = await openProducer("datadog");
  await ok("POST", "/v1/sys/mounts/https-producer", { type: "https-producer" });
  await any("GET", "/v1/https-producer/config");
  await ok("POST", "/v1/https-producer/config", config);
  await any("POST", "/v1/https-producer/config", { url: "none" });
  await ok("GET", "/v1/https-producer/config");
  await ok("POST", "/v1/https-producer/config/rotate-root");
  await ok("POST", "/v1/https-producer/dry-run", { answers: { create: {} } });
  await ok("POST", "/v1/https-producer/roles/app", { ttl: "1h" });
  await any("POST", "/v1/https-producer/roles/bad", { ttl: "2h", max_ttl: "1h" });
  await ok("GET", "/v1/https-producer/roles/app");
  await ok("LIST", "/v1/https-producer/roles");
  await ok("GET", "/v1/https-producer/creds/app?verify=true&metadata=team=a");
  await any("GET", "/v1/https-producer/creds/none");
  await ok("DELETE", "/v1/https-producer/roles/app");
  await ok("DELETE", "/v1/sys/mounts/https-producer");
});

async function leases({ resource_group: scope }: Tenant): Promise<void> {
  const { ok, any } = bound(run);
  const next = async (): Promise<string> => (await creds("app")).body.lease_id;
  const { lease_id: id } = (await ok("GET", "/v1/cloud-b/creds/app?verify=true")).body;
  await ok("POST", "/v1/sys/leases/lookup", { lease_id: id });
  await ok("POST", `/v1/sys/leases/lookup/${id}`);
  await ok("LIST", "/v1/sys/leases/lookup");
  await ok("LIST", "/v1/sys/leases/lookup/cloud-b/creds/app");
  await ok("GET", "/v1/sys/leases/count");
  await ok("GET", "/v1/sys/leases?type=irrevocable");
  for (const at of ["leases/renew", "renew"]) {
    await ok("POST", `/v1/sys/${at}`, { lease_id: id, increment: 60 });
    await ok("POST", `/v1/sys/${at}/${id}`, { increment: "1m" });
  }
  await ok("POST", "/v1/sys/leases/revoke", { lease_id: id, sync: true });
  await ok("POST", `/v1/sys/leases/revoke/${id}`);
  await ok("POST", "/v1/sys/revoke", { lease_id: await next(), sync: false });
  await ok("POST", `/v1/sys/revoke/${id}`);
  await ok("POST", "/v1/sys/leases/revoke-prefix/cloud-b/creds/app", { sync: true });
  await ok("POST", "/v1/sys/revoke-prefix/cloud-b/creds/app", { sync: false });
  await ok("POST", "/v1/sys/leases/revoke-force/cloud-b/creds/app");
  await ok("POST", "/v1/sys/revoke-force/cloud-b/creds/app");
  await ok("POST", "/v1/sys/leases/tidy");
  await any("POST", "/v1/sys/leases/lookup", { lease_id: "cloud-b/creds/app/none" });
  await any("POST", "/v1/cloud-b/roles/bad", { cloud_roles: [{ role_name: "Nobody", scope }] });
}

it("describes sync", async () => {
  const { ok, any } = bound(run);
  const pem = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs1", format: "pem" });
  await ok("GET", "/v1/sys/sync/config");
  await ok("PATCH", "/v1/sys/sync/config", { queue_capacity: 1000 });
  await ok("DELETE", "/v1/sys/sync/config");
  await ok("POST", "/v1/sys/sync/repo-host-apps/bot", { app_id: 4711, private_key: String(pem) });
  await ok("GET", "/v1/sys/sync/repo-host-apps/bot");
  await ok("LIST", "/v1/sys/sync/repo-host-apps");
  await ok("DELETE", "/v1/sys/sync/repo-host-apps/bot");
  const at = "/v1/sys/sync/destinations/in-mem/playground";
  await ok("POST", at, { custom_tags: { team: "platform" } });
  await ok("POST", `${at}?dry_run=true`, { granularity: "secret-key" });
  await ok("PATCH", `${at}?dry_run=true`, { granularity: "secret-key" });
  await ok("PATCH", at, { custom_tags: { team: "a" } });
  await ok("GET", at);
  const { accessKeyId, secretAccessKey } = env.TEST_CLOUD_A;
  const account = { access_key_id: accessKeyId, secret_access_key: secretAccessKey, region: "eu-west-1" };
  await ok("POST", "/v1/sys/sync/destinations/cloud-a-sm/prod", account);
  await ok("POST", "/v1/sys/sync/destinations/cloud-a-sm/prod/verify");
  await ok("LIST", "/v1/sys/sync/destinations");
  await ok("LIST", "/v1/sys/sync/destinations/in-mem");
  await ok("POST", "/v1/secret/data/app/db", { data: { password: "p" } });
  const imported = { mount: "secret", name_glob: ["**"] };
  await ok("POST", "/v1/sys/sync/destinations/cloud-a-sm/prod/import?dry_run=true", imported);
  const wish = { mount: "secret", secret_name: "app/db" };
  await ok("POST", `${at}/associations/set?dry_run=true`, wish);
  await ok("POST", `${at}/associations/set`, wish);
  const selected = { mount: "secret", selector: { path_prefix: "app" } };
  await ok("POST", `${at}/associations/set?dry_run=true&after=`, selected);
  await ok("POST", `${at}/associations/set`, selected);
  await ok("GET", `${at}/associations`);
  await ok("GET", `${at}/associations?limit=1`);
  await ok("GET", `${at}/drift`);
  await ok("GET", `${at}/objects`);
  await ok("LIST", "/v1/sys/sync/associations");
  await ok("GET", "/v1/sys/sync/associations/destinations?mount=secret&secret_name=app/db");
  await ok("GET", "/v1/sys/sync/associations/secret/app%2Fdb");
  await ok("GET", "/v1/sys/sync/associations/secret/app/db");
  const rule = { mount: "secret", path_prefix: "app" };
  await ok("POST", `${at}/rules/web?dry_run=true`, rule);
  await ok("POST", `${at}/rules/web`, rule);
  await ok("GET", `${at}/rules/web`);
  await ok("GET", `${at}/rules/web/matches`);
  await ok("LIST", `${at}/rules`);
  await any("POST", `${at}/rules/web/confirm`, { plan_id: "pl_0" });
  const narrowed = await ok("POST", `${at}/rules/web`, { mount: "secret", path_prefix: "none", max_removals: 0 });
  await ok("POST", `${at}/rules/web/confirm`, { plan_id: narrowed.body.data.plan_id });
  await ok("DELETE", `${at}/rules/web`);
  await any("DELETE", at);
  await ok("POST", `${at}/associations/remove?dry_run=false`, wish);
  await ok("DELETE", at);
  await any("GET", at);
});

it("describes snapshots, and the lists", async () => {
  const { ok } = bound(run);
  await ok("POST", "/v1/sys/listings/rebuild");
  await ok("GET", "/v1/sys/search?q=a&type=policy&namespace=&mount=&limit=5&after=");
  await ok("DELETE", "/v1/sys/snapshot");
  const taken = await exports.default.fetch("https://x/v1/sys/snapshot", { headers: { "X-Orch-Token": "root" } });
  const file = new Uint8Array(await taken.arrayBuffer());
  run.keep("GET", "/v1/sys/snapshot", undefined, { status: taken.status, headers: taken.headers, text: "" });
  await loseEverything();
  run.keep("POST", "/v1/sys/snapshot", "", await restore(file));
  const bucket = env.FILES as R2Bucket;
  await bucket.put(snapshotName("a", Date.now()), file);
  const { status, headers, text } = await deployment({ SNAPSHOT_BUCKET: bucket })("/v1/sys/snapshot?list=true");
  run.keep("LIST", "/v1/sys/snapshot", undefined, { status, headers, text });
});

it("describes the examples", async () => {
  for (const { name, route, path } of cases) {
    const example = examples[name];
    if (example) await run.any(route.verb, path.replace("/v1/kv/", "/v1/secret/"), example.body);
  }
});

/** Operations of which no real answer is held against the document yet. This list may only shrink. */
const NOT_YET: readonly string[] = [];

const TAGS = ["Credentials", "Leases", "Sync", "Secrets", "Tokens", "Logins", "Identity", "Policies", "System"];

it("evicts every object between requests of these tests", () => expectEvictions());

it("keeps no object in memory by a timer for longer than a minute", () => expectShortTimers());

it("every operation of this API has succeeded in a test", async () => {
  expect(await unproven(TAGS)).toEqual(NOT_YET);
});

it("every described query parameter is read by its route", async () => {
  expect(await unasked(TAGS)).toEqual([]);
});

const bound = (to: Run) => ({ ok: to.ok.bind(to), any: to.any.bind(to) });
