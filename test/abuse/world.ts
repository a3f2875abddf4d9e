import { setTimeout as sleep } from "node:timers/promises";
import type { Reply, Wire, Wires } from "./raw-http.ts";
import type { Place } from "./routes.ts";
import { sampleOf } from "./sample.ts";
import { deploymentSecrets, type Service } from "./service.ts";

/*
 * Something behind every path of the route table, made through the public API, so that a request which is let through by mistake
 * changes something; and a digest of all that can be seen, which a refused request must leave as it is.
 */

const PATIENCE_MS = 30_000;
const SNAPSHOT_MS = 120_000;
const NODE = "00000000-0000-4000-8000-00000000abe1";
const ALLOCATION = "00000000-0000-4000-8000-00000000abe2";
const EVALUATION = "00000000-0000-4000-8000-00000000abe3";
const DEPLOYMENT = "00000000-0000-4000-8000-00000000abe4";
const NOBODY = "00000000-0000-4000-8000-00000000abe5";
/** A mount of credentials without a configuration; as long as the name of the other. */
const UNCONFIGURED = "cloud-0";

/** Stands in every value that is sent; no refusal and no line of the log may repeat it. */
export const CANARY = "canary-7f3a9c";

/** Secrets that are stored here. Only reads of the very thing may show one. */
export const stored = {
  secret: "stored-secret-51c0aa9e",
  deepSecret: "stored-secret-93b7d102",
  csi: "stored-csi-secret-6d20f1",
  mountFlag: "stored-mount-flag-11a8",
} as const;

/** Tokens of every kind that must not be let in, or not everywhere. */
export interface Tokens {
  /** A root token, for what should be let in. */
  admin: string;
  /** Another, for routes that end the token which calls them. */
  spare: string;
  /** Knows no policy at all. */
  powerless: string;
  /** May do everything, but in another namespace. */
  elsewhere: string;
  /** A management token of the cluster API. */
  management: string;
  /** A client token of the cluster API that may read one namespace. */
  client: string;
  revoked: string;
  expired: string;
}

// biome-ignore lint/suspicious/noTemplateCurlyInString: a volume's reference to a node attribute
const ATTRIBUTE = "${attr.kernel.name}";

/** A valid body for routes whose schema does not say enough; the path's name is `n` in all of them. */
const bodies: Readonly<Record<string, unknown>> = {
  "POST /v1/auth/token/create": { policies: ["n"], ttl: "12h", meta: { by: "abuse" }, display_name: "n" },
  "POST /v1/auth/token/create-orphan": { policies: ["n"], ttl: "12h" },
  "POST /v1/sys/policies/acl/:name+": { policy: 'path "kv/*" { capabilities = ["read"] }' },
  "POST /v1/sys/policy/:name+": { policy: 'path "kv/*" { capabilities = ["read"] }' },
  "POST /v1/sys/capabilities-self": { paths: ["kv/data/n", "sys/mounts"] },
  "POST /v1/sys/capabilities": { paths: ["kv/data/n"], token: "abuse-plain-token" },
  "POST /v1/sys/mounts/:path+": { type: "kv", options: { version: "2" }, config: { max_lease_ttl: "1h" } },
  "POST /v1/sys/mounts/:path+/tune": { max_lease_ttl: "2h", description: "tuned" },
  "POST /v1/sys/quotas/rate-limit/:name": { rate: 1_000_000, path: "kv/data/abused" },
  "POST /v1/sys/config/cors": { allowed_origins: ["https://app.example"] },
  "POST /v1/sys/namespaces/:name": { custom_metadata: { team: "a" } },
  "PATCH /v1/sys/namespaces/:name": { custom_metadata: { team: "b" } },
  "POST /v1/identity/oidc/config": { issuer: "https://issuer.example" },
  "POST /v1/identity/oidc/key/default/rotate": { verification_ttl: "1h" },
  "PATCH /v1/sys/sync/config": { disabled: false, queue_capacity: 1000 },
  "POST /v1/sys/sync/destinations/:type/:name": { secret_name_template: "", custom_tags: { team: "a" } },
  "PATCH /v1/sys/sync/destinations/:type/:name": { custom_tags: { team: "b" }, tags_to_remove: ["x"] },
  "DELETE /v1/sys/sync/destinations/:type/:name": { purge: false },
  "POST /v1/sys/sync/destinations/:type/:name/associations/set": { mount: "kv", secret_name: "n" },
  "POST /v1/sys/sync/destinations/:type/:name/associations/remove": { mount: "kv", secret_name: "n" },
  "POST /v1/kv/config": { max_versions: 5, cas_required: false, delete_version_after: "0s" },
  "POST /v1/kv/data/:path+": { data: { value: stored.secret, deep: { n: 1.5 } }, options: {} },
  "PATCH /v1/kv/data/:path+": { data: { more: "x" }, options: {} },
  "POST /v1/kv/metadata/:path+": { max_versions: 3, custom_metadata: { owner: "a" } },
  "PATCH /v1/kv/metadata/:path+": { custom_metadata: { owner: "b" } },
  "POST /v1/kv/delete/:path+": { versions: [1] },
  "POST /v1/kv/undelete/:path+": { versions: [1] },
  "POST /v1/kv/destroy/:path+": { versions: [999] },
  "POST /v1/acl/policy/:name": { Name: "n", Description: "d", Rules: 'node { policy = "read" }' },
  "POST /v1/acl/token": { Name: "n", Type: "client", Policies: ["n"], ExpirationTTL: "12h" },
  "POST /v1/acl/token/:accessor": { Name: "n", Type: "client", Policies: ["n"] },
  "POST /v1/namespace": { Name: "n", Description: "d", Meta: { a: "b" } },
  "POST /v1/namespace/:name": { Name: "n", Description: "d", Meta: { a: "b" } },
  "POST /v1/node/:id/drain": { DrainSpec: { Deadline: 60_000_000_000, IgnoreSystemJobs: true }, Meta: { why: "x" } },
  "POST /v1/node/:id/eligibility": { Eligibility: "eligible" },
  "POST /v1/agent/tokens": { NodePool: "default", Name: "n", TTL: "10m" },
  "POST /v1/agent/join": { Token: "none", PublicKey: `${"A".repeat(43)}=`, Name: "n" },
  "POST /v1/node/pools": { Name: "n", Description: "d", Meta: { a: "b" }, NodeIdentityTTL: "24h" },
  "POST /v1/node/pool/:name": { Description: "d", SchedulerConfiguration: { SchedulerAlgorithm: "spread" } },
  "POST /v1/event/subscription/:name": {
    Topics: { Job: ["*"] },
    Namespace: "default",
    Target: { Type: "webhook", URL: "https://receiver.invalid/", Secret: `whsec_${"A".repeat(32)}` },
    StartIndex: 1,
    MaxAttempts: 3,
  },
  "POST /v1/event/subscription/:name/replay": { Index: 1 },
  "POST /v1/cluster/objects": [
    {
      Topic: "Job",
      Type: "JobRegistered",
      Namespace: "default",
      Payload: { Job: { ID: "n", Name: "n", Type: "service" } },
    },
  ],
  "POST /v1/volume/host/create": {
    Volume: {
      Name: "abused",
      Namespace: "default",
      PluginID: "mkdir",
      RequestedCapacityMinBytes: 1,
      RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
      Parameters: { mode: "0700" },
      Constraints: [{ LTarget: ATTRIBUTE, Operand: "=", RTarget: "linux" }],
    },
    PolicyOverride: false,
  },
  "POST /v1/volumes/snapshot": { Snapshots: [{ SourceVolumeID: "n", Name: "s", Secrets: { k: stored.csi } }] },
};

const csiVolume = {
  Volumes: [
    {
      ID: "n",
      Name: "n",
      Namespace: "default",
      PluginID: "no-such-plugin",
      NodeID: NODE,
      ExternalID: "ext",
      RequestedCapabilities: [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }],
      MountOptions: { FSType: "ext4", MountFlags: [stored.mountFlag] },
      Secrets: { k: stored.csi },
      Parameters: { p: "q" },
      RequestedCapacityMin: 1,
      RequestedTopologies: { Required: [{ Segments: { rack: "a" } }] },
    },
  ],
};

/** Values for parameters of paths; `n` for all others. */
const parameters: Readonly<Record<string, string>> = {
  type: "in-mem",
  mount: "kv",
  prefix: "cloud-b/creds/n",
  migration: "none",
  node: NODE,
};

export class World {
  readonly tokens: Tokens = {
    admin: "",
    spare: "",
    powerless: "",
    elsewhere: "",
    management: "",
    client: "",
    revoked: "",
    expired: "",
  };
  /** Credentials at providers that are stored here: no read shows them. */
  readonly credentials: Readonly<Record<string, string>>;
  readonly #wires: Wires;
  readonly #service: Service;
  #accessors: { token: string; cluster: string; join: string } = { token: NOBODY, cluster: NOBODY, join: NOBODY };
  #hostVolume = NOBODY;
  #heldUp = false;
  /** The node whose agent runs beside the service. */
  #agent = NOBODY;
  #lease = "cloud-b/creds/n/none";

  constructor(service: Service, wires: Wires) {
    this.#service = service;
    this.#wires = wires;
    const textOf = (name: string, field: string) => String(service.providerBody(name)[field]);
    this.credentials = {
      clientSecret: textOf("cloud-b", "client_secret"),
      privateKey: textOf("repo-host-app", "private_key").split("\n")[3] ?? "",
    };
  }

  /** A path that leads to something. */
  pathOf({ prefix, route }: Place): string {
    const values: Record<string, string> = { ...parameters };
    if (/\/mounts\//.test(route.path)) values["path"] = "spare";
    if (/\/sync\/associations\/:path/.test(route.path)) values["path"] = "kv/n";
    if (/\/acl\/token\//.test(route.path)) values["accessor"] = this.#accessors.cluster;
    else if (/\/agent\/token\//.test(route.path)) values["accessor"] = this.#accessors.join;
    if (/\/node\/:id/.test(route.path)) values["id"] = NODE;
    if (/\/allocation\//.test(route.path)) values["id"] = ALLOCATION;
    if (/\/evaluation\//.test(route.path)) values["id"] = EVALUATION;
    if (/\/deployment\//.test(route.path)) values["id"] = DEPLOYMENT;
    if (/\/volume\/host\//.test(route.path)) values["id"] = this.#hostVolume;
    if (/\/claim\//.test(route.path)) values["id"] = NOBODY;
    if (/^\/sys\/(leases\/)?(lookup|renew|revoke)/.test(route.path)) values["id"] = this.#lease;
    if (/\/node\/pool/.test(route.path)) values["name"] = "default";
    if (/\/sys\/internal\/ui\/mounts/.test(route.path)) values["path"] = "kv";
    // A rotation would take the credentials away that everything else at the cloud needs.
    const mount = route.path === "/rotate-root" ? prefix.replace("cloud-b", UNCONFIGURED) : prefix;
    return mount + route.path.replace(/:(\w+)\+?/g, (_whole, parameter: string) => values[parameter] ?? "n");
  }

  /** A body that the route takes, or null when it needs none. */
  bodyOf({ name, route }: Place): unknown {
    if (/ \/v1\/(volumes|volume\/csi\/:id(\/create)?)$/.test(name) && route.verb === "POST") return csiVolume;
    if (/ \/v1\/cloud-b\/config$/.test(name) && route.verb === "POST") return this.#service.providerBody("cloud-b");
    if (/ \/v1\/cloud-b\/roles\/:name$/.test(name) && route.verb === "POST")
      return this.#service.providerBody("cloud-b-role");
    if (/ \/v1\/sys\/sync\/repo-host-apps\/:name$/.test(name) && route.verb === "POST")
      return this.#service.providerBody("repo-host-app");
    if (name === "POST /v1/volume/host/register")
      return { Volume: { Name: "abused", NodeID: this.#agent, HostPath: "/srv/abused", CapacityBytes: 1 } };
    const made = bodies[name];
    if (made !== undefined) return made;
    const fields = {
      token: "abuse-plain-token",
      accessor: this.#accessors.token,
      increment: "5m",
      lease_id: this.#lease,
    };
    return route.body === undefined ? null : sampleOf(route.body, fields);
  }

  /** Requests with a token and a JSON body; again while a snapshot holds all writes up. */
  async call(
    method: string,
    path: string,
    body?: unknown,
    token: string = deploymentSecrets.DEV_ROOT_TOKEN,
  ): Promise<Reply> {
    const request = jsonRequest(method, path, token, body);
    for (const deadline = Date.now() + SNAPSHOT_MS; ; ) {
      const reply = await this.#wires.send(request, PATIENCE_MS);
      if (reply.status !== 503 || !/snapshot/.test(reply.text) || Date.now() > deadline) return reply;
      this.#heldUp = true;
      await sleep(100);
    }
  }

  async must(method: string, path: string, body?: unknown, token?: string): Promise<Reply> {
    const reply = await this.call(method, path, body, token);
    if (reply.status < 200 || reply.status > 299)
      throw new Error(`the world cannot be made: ${method} ${path}: ${reply.status} ${reply.text.slice(0, 300)}`);
    return reply;
  }

  /** Makes what no refusal can undo. */
  async create(): Promise<void> {
    await this.must("PUT", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
    await this.must("PUT", "/v1/sys/mounts/kv-v1", { type: "kv" });
    await this.must("PUT", "/v1/sys/mounts/cloud-b", { type: "cloud-b" });
    await this.must("PUT", `/v1/sys/mounts/${UNCONFIGURED}`, { type: "cloud-b" });
    const expiring = await this.must("PUT", "/v1/auth/token/create", { policies: ["root"], ttl: "1s" });
    this.tokens.expired = tokenIn(expiring);
    this.#agent = JSON.parse((await this.must("GET", "/v1/agents")).text)[0].NodeID;
    await this.repair();
    const revoked = await this.must("PUT", "/v1/auth/token/create", { policies: ["root"], ttl: "1h" });
    this.tokens.revoked = tokenIn(revoked);
    await this.must("PUT", "/v1/auth/token/revoke", { token: this.tokens.revoked });
  }

  /** RestoreLedger objects that accepted requests have removed or changed. */
  async repair(): Promise<void> {
    const { secret, deepSecret } = stored;
    if ((await this.call("GET", "/v1/sys/mounts/kv")).status !== 200)
      await this.must("PUT", "/v1/sys/mounts/kv", { type: "kv", options: { version: "2" } });
    if ((await this.call("GET", "/v1/sys/mounts/kv-v1")).status !== 200)
      await this.must("PUT", "/v1/sys/mounts/kv-v1", { type: "kv" });
    if ((await this.call("GET", "/v1/sys/mounts/cloud-b")).status !== 200)
      await this.must("PUT", "/v1/sys/mounts/cloud-b", { type: "cloud-b" });
    if ((await this.call("GET", "/v1/sys/mounts/spare")).status !== 200)
      await this.must("PUT", "/v1/sys/mounts/spare", { type: "kv", options: { version: "2" } });
    await this.must("PUT", "/v1/kv/config", { max_versions: 0, cas_required: false, delete_version_after: "0s" });
    await this.must("DELETE", "/v1/kv/metadata/n");
    await this.must("PUT", "/v1/kv/data/n", { data: { value: secret } });
    await this.must("PUT", "/v1/kv-v1/n", { value: secret });
    await this.must("PUT", "/v1/cubbyhole/n", { value: secret });
    await this.must("PUT", "/v1/kv/data/deep/er/n", { data: { value: deepSecret } });
    await this.must("PUT", "/v1/sys/policies/acl/n", { policy: 'path "kv/*" { capabilities = ["read"] }' });
    await this.must("PUT", "/v1/sys/namespaces/n", {});
    await this.must("PUT", "/v1/n/sys/policies/acl/all", { policy: 'path "*" { capabilities = ["read", "sudo"] }' });
    await this.must("PUT", "/v1/namespace/n", {});
    await this.must("PUT", "/v1/acl/policy/n", { Rules: 'namespace "n" { policy = "read" }' });
    await this.must("DELETE", "/v1/sys/sync/config");
    await this.must("PUT", "/v1/sys/sync/repo-host-apps/n", this.#service.providerBody("repo-host-app"));
    await this.#repairDestination();
    await this.must("PUT", "/v1/identity/oidc/config", { issuer: "" });
    await this.must("PUT", "/v1/cloud-b/config", this.#service.providerBody("cloud-b"));
    // An automatic rotation may have replaced the credentials, after which logins fail here.
    if ((await this.call("GET", "/v1/cloud-b/roles/n")).status !== 200)
      await this.call("PUT", "/v1/cloud-b/roles/n", this.#service.providerBody("cloud-b-role"));
    await this.must("PUT", "/v1/cluster/objects", reported);
    // A drain would complete some time later.
    await this.must("PUT", `/v1/node/${NODE}/drain`, { DrainSpec: null, MarkEligible: true });
    await this.#repairTokens();
  }

  async #repairDestination(): Promise<void> {
    const path = "/v1/sys/sync/destinations/in-mem/n";
    const secret = { mount: "kv", secret_name: "deep/er/n" };
    await this.must("PUT", path, {});
    if ((await this.call("PUT", `${path}/associations/set`, secret)).status === 200) return;
    // Under a template that names nothing all secrets have one name there, and another has it.
    await this.must("DELETE", `${path}?force_delete=true`);
    await this.must("PUT", path, {});
    await this.must("PUT", `${path}/associations/set`, secret);
  }

  async #repairTokens(): Promise<void> {
    const { tokens } = this;
    const isThere = async (token: string) =>
      token !== "" && (await this.call("GET", "/v1/auth/token/lookup-self", undefined, token)).status === 200;
    const issue = async (body: object, namespace = "") => {
      const reply = await this.must("PUT", `/v1/${namespace}auth/token/create`, { ttl: "12h", ...body });
      return { token: tokenIn(reply), accessor: String(JSON.parse(reply.text).auth.accessor) };
    };
    if (!(await isThere("abuse-plain-token")))
      this.#accessors.token = (await issue({ id: "abuse-plain-token", policies: ["n"] })).accessor;
    if (!(await isThere(tokens.admin))) tokens.admin = (await issue({ policies: ["root"] })).token;
    if (!(await isThere(tokens.spare))) tokens.spare = (await issue({ policies: ["root"] })).token;
    if (tokens.powerless === "")
      tokens.powerless = (await issue({ policies: ["none"], no_default_policy: true })).token;
    if (!(await isThere(tokens.elsewhere)))
      tokens.elsewhere = (await issue({ policies: ["all"], no_default_policy: true }, "n/")).token;
    const client = async (body: object) => JSON.parse((await this.must("PUT", "/v1/acl/token", body)).text);
    const isKnown = async (token: string) =>
      token !== "" && (await this.call("GET", "/v1/acl/token/self", undefined, token)).status === 200;
    if (!(await isKnown(tokens.management)))
      tokens.management = (await client({ Name: "m", Type: "management" })).SecretID;
    if (!(await isKnown(tokens.client))) {
      const made = await client({ Name: "c", Type: "client", Policies: ["n"] });
      tokens.client = made.SecretID;
      this.#accessors.cluster = made.AccessorID;
    }
    if ((await this.call("GET", "/v1/agent/tokens")).text.includes(this.#accessors.join) === false)
      this.#accessors.join = JSON.parse((await this.must("PUT", "/v1/agent/tokens", { TTL: "1h" })).text).AccessorID;
    if ((await this.call("GET", `/v1/volume/host/${this.#hostVolume}`)).status !== 200) {
      const body = { Volume: { Name: `v${Date.now()}`, PluginID: "mkdir" } };
      this.#hostVolume = JSON.parse((await this.must("PUT", "/v1/volume/host/create", body)).text).Volume.ID;
    }
    if ((await this.call("PUT", "/v1/sys/leases/lookup", { lease_id: this.#lease })).status === 200) return;
    const issued = await this.call("GET", "/v1/cloud-b/creds/n");
    if (issued.status === 200) this.#lease = JSON.parse(issued.text).lease_id;
  }

  /** Waits for writes that a snapshot has interrupted: they continue after their 503 response. */
  async rest(): Promise<void> {
    for (const deadline = Date.now() + SNAPSHOT_MS; this.#heldUp && Date.now() < deadline; await sleep(500))
      this.#heldUp = !/"outbox":\{"rows":0,/.test((await this.call("GET", "/v1/sys/health?counts=true")).text);
  }

  /** All that can be seen, as text that is equal when nothing has changed. */
  async digest(): Promise<string> {
    const seen: string[] = [];
    const waiting = [...LOOKS];
    const look = async () => {
      for (let at = waiting.shift(); at !== undefined; at = waiting.shift()) {
        const [method = "", path = ""] = at.split(" ");
        const { status, text } = await this.call(method, path);
        seen.push(`${at} ${status} ${withoutTheVolatile(text)}`);
      }
    };
    await Promise.all([look(), look(), look(), look()]);
    return seen.sort().join("\n");
  }
}

/** The reads that make the digest. */
const LOOKS: readonly string[] = [
  "GET /v1/sys/mounts",
  "LIST /v1/sys/policies/acl",
  "GET /v1/sys/policies/acl/n",
  "LIST /v1/sys/namespaces",
  "LIST /v1/n/sys/policies/acl",
  "GET /v1/n/sys/mounts",
  "LIST /v1/auth/token/accessors",
  "GET /v1/sys/key-status",
  "GET /v1/sys/sync/config",
  "LIST /v1/sys/sync/destinations",
  "GET /v1/sys/sync/destinations/in-mem/n",
  "GET /v1/sys/sync/destinations/in-mem/n/associations",
  "LIST /v1/sys/sync/repo-host-apps",
  "GET /v1/sys/sync/destinations/in-mem/n/objects",
  "GET /v1/sys/sync/repo-host-apps/n",
  "LIST /v1/kv/metadata/",
  "GET /v1/kv/metadata/n",
  "GET /v1/kv/data/n",
  "GET /v1/kv/config",
  "GET /v1/kv/metadata/deep/er/n",
  "GET /v1/cloud-b/config",
  "LIST /v1/cloud-b/roles",
  "GET /v1/cloud-b/roles/n",
  "LIST /v1/sys/leases/lookup/cloud-b/creds/n",
  "GET /v1/sys/leases/count",
  "GET /v1/identity/oidc/config",
  "GET /v1/identity/oidc/plugins/.well-known/keys",
  "GET /v1/acl/policies",
  "GET /v1/acl/tokens",
  "GET /v1/namespaces",
  "GET /v1/node/pools",
  "GET /v1/nodes?resources=true",
  `GET /v1/node/${NODE}`,
  "GET /v1/jobs?namespace=*",
  "GET /v1/allocations?namespace=*",
  "GET /v1/evaluations?namespace=*",
  "GET /v1/deployments?namespace=*",
  "GET /v1/services?namespace=*",
  "GET /v1/volumes?type=host&namespace=*",
  "GET /v1/volumes?type=csi&namespace=*",
  "GET /v1/plugins?type=csi",
  "GET /v1/volumes/claims?namespace=*&per_page=100",
  "GET /v1/agents",
  "GET /v1/agent/tokens",
];

const withoutTheVolatile = (text: string): string =>
  text
    .replace(/"request_id":"[^"]*"/g, "")
    .replace(/"(LastSeen|UpdateTime|StatusUpdatedAt|LastHealthyTime|last_sync_time)":("[^"]*"|\d+)/g, '"$1":""');

/** A scheduler's report of a node and a job on it. */
const reported = [
  {
    Topic: "Node",
    Type: "NodeRegistration",
    Payload: { Node: { ID: NODE, Name: "abused", Datacenter: "dc1", Status: "ready" } },
  },
  {
    Topic: "Job",
    Type: "JobRegistered",
    Namespace: "default",
    Payload: { Job: { ID: "n", Name: "n", Type: "service" } },
  },
  {
    Topic: "Allocation",
    Type: "AllocationCreated",
    Namespace: "default",
    Payload: {
      Allocation: {
        ID: ALLOCATION,
        JobID: "n",
        NodeID: NODE,
        TaskGroup: "g",
        EvalID: EVALUATION,
        Namespace: "default",
        ClientStatus: "running",
        DesiredStatus: "run",
      },
    },
  },
  {
    Topic: "Evaluation",
    Type: "EvaluationUpdated",
    Namespace: "default",
    Payload: { Evaluation: { ID: EVALUATION, JobID: "n", Status: "complete", Namespace: "default" } },
  },
  {
    Topic: "Deployment",
    Type: "DeploymentStatusUpdate",
    Namespace: "default",
    Payload: { Deployment: { ID: DEPLOYMENT, JobID: "n", Status: "running", Namespace: "default" } },
  },
];

const tokenIn = (reply: Reply): string => String(JSON.parse(reply.text).auth.client_token);

/** A request as an ordinary client writes it. */
export function jsonRequest(method: string, target: string, token: string | null, body?: unknown): Wire {
  const bytes = body === undefined || body === null ? null : Buffer.from(JSON.stringify(body));
  const headers: [string, string][] = [["Host", "sallyport.test"]];
  if (token !== null) headers.push(["X-Orch-Token", token]);
  if (method === "PATCH") headers.push(["Content-Type", "application/merge-patch+json"]);
  if (bytes) headers.push(["Content-Length", String(bytes.length)]);
  return { method, target, headers, ...(bytes && { body: bytes }) };
}
