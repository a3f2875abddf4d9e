import { runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Settings } from "../../src/platform/settings.ts";
import { accessObject } from "./access.ts";
import { placed, stickyJob } from "./claims-helpers.ts";
import { type Answer, mountKv, put } from "./client.ts";
import { extendDeadlines } from "./clock.ts";
import { addCsiNode, definition, runs, ScriptedCsi } from "./csi-world.ts";
import { addNode, nodeId, ScriptedNodes, volume } from "./host-volumes.ts";
import { newIssuer } from "./issuers.ts";
import { fingerprint, ID, ready } from "./nodes-helpers.ts";
import { closeSockets, subscribe } from "./notification-sockets.ts";
import { expectEvictions, expectShortTimers, Run, unasked, unproven } from "./openapi-run.ts";
import { allocation, deployment, evaluation, job, nodePool, service, uuid } from "./reports.ts";
import { AgentSocket, newIdentity, ScriptedAgent } from "./scripted-agent.ts";
import { closeAll, enableServiceEvents, openStream } from "./streams.ts";
import { newHook, SECRET } from "./webhooks.ts";

/** Real answers of the cluster API, nodes, reported objects and `acl`, held against the document of the API. */

/** Of a call of a token issuer, see src/auth/jwt/key-sources.ts. */
const ISSUER_DEADLINE_MS = 10_000;

let run: Run;
beforeEach(() => {
  extendDeadlines(ISSUER_DEADLINE_MS);
  run = new Run();
});
afterEach(async () => expect(await run.problems()).toEqual([]));
afterEach(closeAll);

it("describes tokens, policies and namespaces of the Nomad API", async () => {
  const { ok, any } = bound(run);
  await ok("PUT", "/v1/namespace/dev", { Description: "for trials", Meta: { owner: "a" } });
  await ok("PUT", "/v1/namespace", { Name: "dev", Description: "for more trials" });
  await ok("GET", "/v1/namespaces");
  await ok("GET", "/v1/namespace/dev?pretty=true");
  const Rules = 'namespace "dev" { policy = "read" }';
  await ok("POST", "/v1/acl/policy/reader", { Description: "reads", Rules });
  await ok("GET", "/v1/acl/policies");
  await ok("GET", "/v1/acl/policy/reader");
  const made = await ok("POST", "/v1/acl/token", {
    Name: "ci",
    Type: "client",
    Policies: ["reader"],
    ExpirationTTL: "8h",
  });
  const { AccessorID, SecretID: token } = made.body;
  await ok("GET", "/v1/acl/policy/self", undefined, { token });
  await ok("GET", "/v1/acl/capabilities/self", undefined, { token });
  await ok("GET", "/v1/acl/token/self", undefined, { token });
  await ok("GET", "/v1/acl/tokens?per_page=1");
  await ok("GET", `/v1/acl/token/${AccessorID}`);
  await ok("POST", `/v1/acl/token/${AccessorID}`, { AccessorID, Name: "ci", Type: "client", Policies: ["reader"] });
  await any("GET", "/v1/acl/tokens", undefined, { token });
  await ok("DELETE", `/v1/acl/token/${AccessorID}`);
  await ok("DELETE", "/v1/acl/policy/reader");
  await ok("DELETE", "/v1/namespace/dev");
  await any("GET", "/v1/namespace/dev");
});

it("describes roles of the Nomad API", async () => {
  const { ok, any } = bound(run);
  await ok("POST", "/v1/acl/policy/reader", { Rules: 'node { policy = "read" }' });
  const { body: role } = await ok("POST", "/v1/acl/role", { Name: "ops", Policies: [{ Name: "reader" }] });
  await ok("GET", "/v1/acl/roles?prefix=");
  await ok("GET", "/v1/acl/role/name/ops");
  await ok("GET", `/v1/acl/role/${role.ID}`);
  await ok("POST", `/v1/acl/role/${role.ID}`, { ...role, Description: "operators" });
  await ok("POST", "/v1/acl/token", { Name: "ci", Type: "client", Roles: [{ Name: "ops" }] });
  await ok("GET", "/v1/acl/tokens");
  await ok("DELETE", `/v1/acl/role/${role.ID}`);
  await any("GET", `/v1/acl/role/${role.ID}`);
  await any("POST", "/v1/acl/role", { Name: "ops" });
});

it("describes auth methods, binding rules and logins of the Nomad API", async () => {
  const { ok, any } = bound(run);
  const issuer = await newIssuer("document");
  const Config = { OIDCDiscoveryURL: issuer.url, BoundAudiences: ["a"], ClaimMappings: { sub: "name" } };
  const method = { Name: "ci", Type: "JWT", TokenLocality: "local", MaxTokenTTL: "1h", Config };
  await ok("POST", "/v1/acl/policy/reader", { Rules: 'node { policy = "read" }' });
  await ok("POST", "/v1/acl/auth-method", method);
  await ok("POST", "/v1/acl/auth-method/ci", { ...method, Default: true });
  await ok("GET", "/v1/acl/auth-methods", undefined, { token: null });
  await ok("GET", "/v1/acl/auth-method/ci");
  await any("POST", "/v1/acl/auth-method", { ...method, MaxTokenTTL: "1s" });
  const rule = { AuthMethod: "ci", BindType: "policy", BindName: "reader", Selector: 'value.name == "app"' };
  const { body: made } = await ok("POST", "/v1/acl/binding-rule", rule);
  await ok("POST", `/v1/acl/binding-rule/${made.ID}`, { ...rule, Description: "apps" });
  await ok("GET", "/v1/acl/binding-rules");
  await ok("GET", `/v1/acl/binding-rule/${made.ID}`);
  const LoginToken = await issuer.sign({ sub: "app", aud: "a" });
  await ok("POST", "/v1/acl/login", { AuthMethodName: "ci", LoginToken }, { token: null });
  await any("POST", "/v1/acl/login", { AuthMethodName: "ci", LoginToken: "x" }, { token: null });
  await ok("DELETE", `/v1/acl/binding-rule/${made.ID}`);
  await ok("DELETE", "/v1/acl/auth-method/ci");
  await any("GET", "/v1/acl/auth-method/ci");
});

it("describes logins in a browser of the Nomad API", async () => {
  const { ok, any } = bound(run);
  const issuer = await newIssuer("browser");
  const endpoints = { authorization_endpoint: `${issuer.url}/authorize`, token_endpoint: `${issuer.url}/token` };
  const document = { issuer: issuer.url, jwks_uri: `${issuer.url}/keys`, ...endpoints };
  await issuer.put("/.well-known/openid-configuration", { body: JSON.stringify(document) });
  const RedirectURI = "https://a.example/cb";
  const Config = { OIDCDiscoveryURL: issuer.url, OIDCClientID: "c", AllowedRedirectURIs: [RedirectURI] };
  const method = { Name: "sso", Type: "OIDC", TokenLocality: "local", MaxTokenTTL: "1h", Config };
  await ok("POST", "/v1/acl/auth-method", method);
  await ok("POST", "/v1/acl/binding-rule", { AuthMethod: "sso", BindType: "management" });
  const request = { AuthMethodName: "sso", RedirectURI, ClientNonce: "n" };
  const { body } = await ok("POST", "/v1/acl/oidc/auth-url", request, { token: null });
  const State = new URL(body.AuthURL).searchParams.get("state");
  const id_token = await issuer.sign({ sub: "ann", aud: "c", nonce: "n" });
  await issuer.put("/token", { body: JSON.stringify({ id_token }) });
  await ok("POST", "/v1/acl/oidc/complete-auth", { ...request, State, Code: "c" }, { token: null });
  await any("POST", "/v1/acl/oidc/complete-auth", { ...request, State, Code: "c" }, { token: null });
});

it("describes one-time tokens of the Nomad API", async () => {
  const { ok, any } = bound(run);
  const { body } = await ok("POST", "/v1/acl/token/onetime");
  const { OneTimeSecretID } = body.OneTimeToken;
  await ok("POST", "/v1/acl/token/onetime/exchange", { OneTimeSecretID }, { token: null });
  await any("POST", "/v1/acl/token/onetime/exchange", { OneTimeSecretID }, { token: null });
});

it("describes the first token of a deployment", async () => {
  // The object has another environment in memory.
  run.evicts = false;
  await runInDurableObject(accessObject(), (object, { storage: { sql } }) => {
    sql.exec("DELETE FROM tokens");
    sql.exec("DELETE FROM facts WHERE name = 'bootstrapped'");
    const held = object as unknown as { env: object };
    held.env = { ...held.env, DEV_ROOT_TOKEN: undefined };
  });
  const request = { BootstrapSecret: "bootstrap-secret-of-the-tests" };
  await run.ok("POST", "/v1/acl/bootstrap", request, { token: null });
  await run.any("POST", "/v1/acl/bootstrap", request, { token: null });
});

it("describes reports of schedulers", async () => {
  const { ok, any } = bound(run);
  await ok("PUT", "/v1/cluster/objects?source=eu&source_index=7", [
    job({ Name: "web", Meta: { a: "b" } }),
    allocation(),
    evaluation(),
    deployment(),
    nodePool(),
    service({ AllocID: uuid(1), Tags: ["a"] }),
  ]);
  await any("PUT", "/v1/cluster/objects?source=eu&source_index=7", [job()]);
  for (const list of ["services", "service/http", `allocation/${uuid(1)}/services`]) await ok("GET", `/v1/${list}`);
  await ok("GET", `/v1/evaluation/${uuid(2)}?related=true`);
  await ok("PUT", "/v1/cluster/objects?full=true&topic=Service&namespace=default", []);
  await ok("PUT", "/v1/cluster/objects?changes=true", [job({ Name: "web", Meta: { a: "b" } })]);
  for (const read of ["summary", "versions", "scale", "deployment"]) await ok("GET", `/v1/job/web/${read}`);
  for (const maker of [`evaluation/${uuid(2)}/allocations`, `deployment/allocations/${uuid(3)}`])
    await ok("GET", `/v1/${maker}`);
  for (const list of ["jobs?meta=true", "job/web/allocations", "job/web/evaluations", "job/web/deployments"])
    await ok("GET", `/v1/${list}`);
  for (const list of ["allocations?resources=true", "evaluations?job=web", "deployments?per_page=1"])
    await ok("GET", `/v1/${list}`);
  await ok("GET", `/v1/node/${uuid(9)}/allocations`);
  for (const one of ["job/web", `allocation/${uuid(1)}`, `evaluation/${uuid(2)}`, `deployment/${uuid(3)}`])
    await ok("GET", `/v1/${one}`);
  await any("GET", "/v1/job/none");
  await any("GET", "/v1/jobs?filter=no+such+(");
  await any("GET", "/v1/jobs", undefined, { token: null });
  await streams();
});

/** A stream stays open: what has come until now is its answer. */
async function streams(): Promise<void> {
  for (const Accept of ["*/*", "text/event-stream"]) {
    const stream = await openStream("?topic=Job", { headers: { Accept } });
    let text = "";
    while (!text.includes('"Job"')) text += `${await stream.nextText()}\n`;
    run.keep("GET", "/v1/event/stream?topic=Job", undefined, {
      ...stream.response,
      status: 200,
      headers: stream.response.headers,
      text,
    });
  }
  await run.any("GET", "/v1/event/stream?topic=Job&index=x");
}

it("describes event notifications", async () => {
  enableServiceEvents("Secret,Lease,Engine");
  await mountKv();
  const path = "kv*?json=true&namespaces=*&filter=operation%20%3D%3D%20%22data-write%22&index=0";
  const stream = await subscribe(path);
  await put("/v1/kv/data/a", { data: {} });
  const frames = [String(await stream.next())];
  const { status, headers } = stream.response;
  run.keep("GET", `/v1/sys/events/subscribe/${path}`, undefined, { status, headers, text: "", frames });
  await run.any("GET", "/v1/sys/events/subscribe/kv*");
  closeSockets();
  enableServiceEvents(Settings.parse({}).SERVICE_EVENTS);
});

it("describes event subscriptions", async () => {
  const { ok, any } = bound(run);
  const hook = await newHook({ status: 400 });
  const at = "/v1/event/subscription/deploys";
  await ok("PUT", at, {
    Topics: { Job: ["*"] },
    Target: { Type: "webhook", URL: hook.url, Secret: SECRET },
    MaxAttempts: 1,
  });
  await ok("PUT", "/v1/cluster/objects", [job()]);
  await vi.waitFor(async () => expect((await ok("GET", `${at}?pretty=true`)).body.DeadLetters).toBe(1));
  await ok("GET", `${at}/dead-letters?pretty=true`);
  await ok("POST", `${at}/pause`);
  await ok("GET", "/v1/event/subscriptions?pretty=true");
  await ok("POST", `${at}/resume`);
  await ok("POST", `${at}/replay`, { Index: 1 });
  await any("PUT", at, { Target: { Type: "mail" } });
  await ok("DELETE", at);
  await any("GET", at);
});

it("describes nodes and their pools", async () => {
  const { ok, any } = bound(run);
  await ready(ID, fingerprint());
  await ok("GET", "/v1/nodes?os=true&resources=true");
  await ok("GET", `/v1/node/${ID}`);
  await ok("PUT", `/v1/node/${ID}/drain`, {
    DrainSpec: { Deadline: 3_600_000_000_000, IgnoreSystemJobs: true },
    Meta: { why: "upgrade" },
  });
  await ok("GET", `/v1/node/${ID}`);
  await ok("GET", "/v1/nodes");
  await ok("PUT", `/v1/node/${ID}/drain`, { DrainSpec: null, MarkEligible: true });
  await ok("PUT", `/v1/node/${ID}/eligibility`, { Eligibility: "ineligible" });
  await ok("PUT", `/v1/node/${ID}/evaluate`);
  await ok("GET", "/v1/node/pools");
  await ok("GET", "/v1/node/pool/default");
  await ok("GET", "/v1/node/pool/default/nodes");
  await ok("GET", "/v1/node/pool/default/jobs?namespace=*");
  await ok("PUT", "/v1/node/pools", { Name: "gpu", Description: "cards", NodeIdentityTTL: "24h" });
  await ok("PUT", "/v1/node/pool/gpu", { SchedulerConfiguration: { SchedulerAlgorithm: "spread" } });
  await ok("GET", "/v1/node/pool/gpu");
  await ok("DELETE", "/v1/node/pool/gpu");
  await any("PUT", "/v1/node/pools", { Name: "all" });
  await any("GET", "/v1/node/pool/none");
  await any("PUT", `/v1/node/${ID}/eligibility`, { Eligibility: "perhaps" });
  await ok("PUT", `/v1/node/${ID}/purge?force=true`);
  await any("GET", `/v1/node/${ID}`);
});

it("describes search and the operator API", async () => {
  const { ok, any } = bound(run);
  await ready(ID, fingerprint());
  await ok("PUT", "/v1/cluster/objects", [job({ Name: "web" })]);
  await ok("PUT", "/v1/search", { Prefix: "we", Context: "jobs" });
  await ok("PUT", "/v1/search", { Prefix: "", Context: "all" });
  await ok("PUT", "/v1/search/fuzzy", { Text: "we" });
  await any("PUT", "/v1/search/fuzzy", { Text: "w" });
  for (const path of ["raft/configuration", "autopilot/configuration", "autopilot/health", "scheduler/configuration"])
    await ok("GET", `/v1/operator/${path}?pretty=true`);
  for (const path of ["gc", "reconcile/summaries"]) await ok("PUT", `/v1/system/${path}`);
});

it("describes node agents", async () => {
  const { ok, any } = bound(run);
  const token = (await ok("POST", "/v1/agent/tokens", { Name: "node-1", TTL: "10m" })).body;
  const identity = await newIdentity();
  await ok("GET", "/v1/agent/tokens");
  const request = { Token: token.Token, PublicKey: identity.publicKey, Name: "node-1" };
  const joined = (await ok("POST", "/v1/agent/join", request, { token: null })).body;
  await any("POST", "/v1/agent/join", { ...request, Token: "x" }, { token: null });
  const agent = new ScriptedAgent(joined.NodeID, joined.Service, identity);
  const opened = await agent.request(await agent.token());
  if (!opened.webSocket) throw new Error(`not connected: ${opened.status}`);
  const socket = new AgentSocket(opened.webSocket);
  await socket.welcome();
  const { status, headers } = opened;
  run.keep("GET", "/v1/agent/connect", undefined, { status, headers, text: "", frames: socket.texts });
  await ok("GET", "/v1/agents");
  await ok("GET", `/v1/agent/${joined.NodeID}`);
  await any("GET", "/v1/agent/connect", undefined, { token: null });
  await ok("DELETE", `/v1/agent/token/${(await ok("POST", "/v1/agent/tokens", {})).body.AccessorID}`);
  await ok("DELETE", `/v1/agent/${joined.NodeID}`);
  await any("GET", `/v1/agent/${joined.NodeID}`);
});

it("describes host volumes and claims on them", async () => {
  const { ok, any } = bound(run);
  new ScriptedNodes();
  const node = await addNode(1);
  const made = await ok("PUT", "/v1/volume/host/create", {
    Volume: volume({
      NodeID: node,
      Parameters: { mode: "0700" },
      RequestedCapacityMinBytes: 1024,
      // biome-ignore lint/suspicious/noTemplateCurlyInString: how constraints name attributes
      Constraints: [{ LTarget: "${attr.kernel.name}", Operand: "=", RTarget: "linux" }],
    }),
  });
  const { ID: volumeId } = made.body.Volume;
  const byHand = { Volume: { Name: "old", NodeID: node, HostPath: "/srv/old" }, PolicyOverride: false };
  const registered = (await ok("PUT", "/v1/volume/host/register", byHand)).body.Volume;
  await ok("GET", "/v1/volumes?type=host");
  await ok("PUT", "/v1/cluster/objects", [stickyJob(["db"]), placed("a1")]);
  await ok("GET", `/v1/volume/host/${volumeId}`);
  const { Claims } = (await ok("GET", "/v1/volumes/claims?namespace=*&per_page=10")).body;
  await any("DELETE", `/v1/volume/host/${volumeId}/delete`);
  await any("GET", "/v1/volumes/claims?namespace=default");
  await ok("PUT", "/v1/cluster/objects", [placed("a1", { ClientStatus: "complete" })]);
  await ok("DELETE", `/v1/volumes/claim/${Claims[0].ID}`);
  await ok("PUT", "/v1/cluster/objects", [placed("a2"), placed("a2", { ClientStatus: "complete" })]);
  const [again] = (await ok("GET", "/v1/volumes/claims?namespace=*&per_page=10")).body.Claims;
  await ok("DELETE", `/v1/volume/claim/${again.ID}`);
  await ok("DELETE", `/v1/volume/host/${volumeId}/delete`);
  await ok("DELETE", `/v1/volume/host/${registered.ID}`);
  await any("GET", `/v1/volume/host/${volumeId}`);
  await any("PUT", "/v1/volume/host/create", { Volume: {} });
});

it("describes CSI volumes, snapshots and plugins", async () => {
  const { ok, any } = bound(run);
  new ScriptedCsi();
  const node = await addCsiNode(1);
  const more = {
    MountOptions: { FSType: "ext4", MountFlags: ["noatime"] },
    RequestedCapacityMin: 1000,
    Parameters: { tier: "gold" },
  };
  await ok("PUT", "/v1/volume/csi/v1/create", { Volumes: [definition(more)] });
  await ok("PUT", "/v1/volumes", { ...definition({ ID: "v2", ExternalID: "far-away", NodeID: node }) });
  await ok("PUT", "/v1/volume/csi/v2", { Volumes: [definition({ ID: "v2", ExternalID: "far-away", NodeID: node })] });
  await ok("GET", "/v1/volumes?type=csi");
  await ok("GET", "/v1/plugins?type=csi");
  await ok("GET", "/v1/plugin/csi/disk");
  await runs(node);
  await vi.waitFor(async () => expect((await claims()).body).toHaveLength(1));
  await ok("GET", "/v1/volume/csi/v1");
  await any("DELETE", "/v1/volume/csi/v1/delete");
  await runs(node, { status: "complete" });
  await vi.waitFor(async () => expect((await claims()).body).toHaveLength(0));
  await ok("GET", "/v1/volume/csi/v1/operations");
  await ok("GET", "/v1/volumes/external?plugin_id=disk&per_page=10");
  const secrets = { headers: { "X-Orch-CSI-Secrets": "key=value" } };
  await ok(
    "POST",
    "/v1/volumes/snapshot",
    { Snapshots: [{ SourceVolumeID: "v1", PluginID: "disk", Name: "nightly" }] },
    secrets,
  );
  await ok("GET", "/v1/volumes/snapshot?plugin_id=disk&per_page=10");
  await ok("DELETE", "/v1/volumes/snapshot?plugin_id=disk&snapshot_id=snap-nightly", undefined, secrets);
  await ok("DELETE", `/v1/volume/csi/v2/detach?node=${nodeId(1)}`);
  await ok("DELETE", "/v1/volume/csi/v2?force=true");
  await ok("DELETE", "/v1/volume/csi/v1/delete");
  await any("GET", "/v1/volume/csi/v1");
  await any("PUT", "/v1/volume/csi/v1", { Volumes: [{ ID: "v1" }] });
});

const claims = (): Promise<Answer> => run.ok("GET", "/v1/volume/csi/v1/claims");

/** Operations of which no real answer is held against the document yet. This list may only shrink. */
const NOT_YET: readonly string[] = [];

const TAGS = ["Events", "Volumes", "Nodes", "Reported", "Cluster access", "Cluster logins"];

it("evicts every object between requests of these tests", () => expectEvictions());

it("keeps no object in memory by a timer for longer than a minute", () => expectShortTimers());

it("every operation of this API has succeeded in a test", async () => {
  expect(await unproven(TAGS)).toEqual(NOT_YET);
});

it("every described query parameter is read by its route", async () => {
  expect(await unasked(TAGS)).toEqual([]);
});

const bound = (to: Run) => ({ ok: to.ok.bind(to), any: to.any.bind(to) });
