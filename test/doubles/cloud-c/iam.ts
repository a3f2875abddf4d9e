import { randomBytes } from "node:crypto";
import { checkFields, errorInfo, invalid, isObject, StatusError } from "../cloud-c-sm/requests.ts";
import { type KeyFile, newKey, type Registered } from "../cloud-c-sm/token.ts";

/** IAM of one project: service accounts with keys, and policies of resources. Stricter than Google: see `perform`. */

interface Key {
  readonly id: string;
  readonly file: KeyFile;
  readonly publicKey: Registered["publicKey"];
  readonly madeAt: number;
  disabled: boolean;
  /** Uses that are refused before the key is known everywhere. */
  unknown: number;
}

interface Account {
  readonly email: string;
  readonly uniqueId: string;
  readonly displayName: string;
  readonly description: string;
  readonly keys: Map<string, Key>;
  /** Policies that name the account, and tokens for it, are refused so often before it is known everywhere. */
  unknown: number;
}

interface Binding {
  readonly role: string;
  readonly members: readonly string[];
  readonly condition?: unknown;
}

interface Policy {
  readonly version: number;
  readonly etag: string;
  readonly bindings: readonly Binding[];
}

export interface Call {
  readonly method: string;
  readonly host: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: unknown;
  /** E-mail address of the caller. */
  readonly caller: string;
}

const MAX_KEYS = 10;
const TOKEN_CREATOR = "roles/iam.serviceAccountTokenCreator";
const EMPTY: Policy = { version: 1, etag: "BwAAAAAAAAA=", bindings: [] };
const seconds = (ms: number) => `${new Date(ms).toISOString().slice(0, 19)}Z`;

export class Project {
  readonly id: string;
  readonly accounts = new Map<string, Account>();
  readonly policies = new Map<string, Policy>();
  /** How often a new account, right or key is still unknown. */
  lag = 1;
  readonly #issue: (email: string, ttlS: number) => string;

  constructor(id: string, issue: (email: string, ttlS: number) => string) {
    this.id = id;
    this.#issue = issue;
  }

  /** Makes an account, which is known everywhere. */
  add(accountId: string): Account {
    const account = this.#newAccount(accountId, "", "");
    account.unknown = 0;
    return account;
  }

  async addKey(account: Account): Promise<Key> {
    const { keyFile, publicKey } = await newKey(this.id);
    const { email: client_email, uniqueId: client_id } = account;
    const file = { ...keyFile, client_email, client_id };
    const id = keyFile.private_key_id;
    const key = { id, file, publicKey, madeAt: Date.now(), disabled: false, unknown: this.lag };
    account.keys.set(id, key);
    return key;
  }

  /** The key of an assertion, for the token endpoint. */
  registered(email: string, kid: string | undefined): Registered | undefined {
    const account = this.accounts.get(email);
    const key = kid === undefined ? undefined : account?.keys.get(kid);
    if (!key) return undefined;
    if (key.unknown > 0) {
      key.unknown--;
      return undefined;
    }
    return { email, keyId: key.id, publicKey: key.publicKey, disabled: key.disabled };
  }

  /** Everything that exists, for comparison. */
  everything(): string[] {
    const accounts = [...this.accounts.values()].flatMap(({ email, keys }) => [
      `account ${email}`,
      ...[...keys.values()].map(({ id, disabled }) => `key ${email} ${id}${disabled ? " disabled" : ""}`),
    ]);
    const rights = [...this.policies].flatMap(([resource, { bindings }]) =>
      bindings.flatMap(({ role, members, condition }) =>
        members.map((member) => `right ${resource} ${role} ${member}${condition ? " conditional" : ""}`),
      ),
    );
    return [...accounts, ...rights].sort();
  }

  /** Sets a policy as another writer does. */
  put(resource: string, bindings: readonly Binding[]): void {
    this.policies.set(resource, { version: 3, etag: randomBytes(8).toString("base64"), bindings });
  }

  /** @throws StatusError */
  async perform({ method, host, path, query, body, caller }: Call): Promise<Record<string, unknown>> {
    const policy = policyCall(method, host, path, query, body);
    if (policy?.verb === "get") return { ...(this.policies.get(policy.resource) ?? EMPTY) };
    if (policy) return this.#setPolicy(policy.resource, policy.policy);
    if (host === "iamcredentials.googleapis.com") return this.#token(method, path, body, caller);
    if (host === "iam.googleapis.com") return this.#iam(method, path, query, body);
    throw new StatusError("NOT_FOUND", "");
  }

  #setPolicy(resource: string, given: unknown): Record<string, unknown> {
    const { version, etag, bindings } =
      checkFields(isObject(given) ? { ...given, version: {}, bindings: {} } : given, {
        version: "object",
        etag: "string",
        bindings: "object",
        kind: "string",
        resourceId: "string",
      }) && (given as { version?: number; etag?: string; bindings?: Binding[] });
    const known = this.policies.get(resource) ?? EMPTY;
    if (etag !== known.etag) throw new StatusError("ABORTED", "There were concurrent policy changes.");
    if (!Array.isArray(bindings)) throw invalid("bindings must be a list");
    if (known.bindings.some(({ condition }) => condition !== undefined) && version !== 3) {
      throw invalid("A policy with conditions needs version 3");
    }
    for (const { role, members } of bindings) {
      if (!/^(roles|projects\/[^/]+\/roles|organizations\/[^/]+\/roles)\/[\w.]+$/.test(role))
        throw invalid("Role is not supported");
      if (members.length === 0 || new Set(members).size !== members.length) throw invalid("members");
      for (const member of members) this.#checkMember(member);
    }
    this.put(resource, bindings);
    return { ...this.policies.get(resource) };
  }

  #checkMember(member: string): void {
    const [, email] = /^serviceAccount:(.+)$/.exec(member) ?? [];
    if (email === undefined) return;
    const account = this.accounts.get(email);
    if (account && account.unknown <= 0) return;
    if (account) account.unknown--;
    throw invalid(`Service account ${email} does not exist.`);
  }

  #token(method: string, path: string, body: unknown, caller: string): Record<string, unknown> {
    const [, email = ""] = /^\/v1\/projects\/-\/serviceAccounts\/([^/:]+):generateAccessToken$/.exec(path) ?? [];
    if (method !== "POST" || email === "") throw new StatusError("NOT_FOUND", "");
    if (!isObject(body) || Object.keys(body).sort().join() !== "lifetime,scope") throw invalid("body");
    const { scope, lifetime } = body as { scope: unknown; lifetime: unknown };
    if (!Array.isArray(scope) || scope.length === 0) throw invalid("scope");
    const [, ttl = ""] = /^(\d{1,5})s$/.exec(String(lifetime)) ?? [];
    if (ttl === "" || Number(ttl) > 3600 || Number(ttl) < 1) throw invalid("lifetime");
    const account = this.accounts.get(email);
    const resource = `//iam.googleapis.com/projects/${this.id}/serviceAccounts/${email}`;
    const isAllowed = this.policies
      .get(resource)
      ?.bindings.some(({ role, members }) => role === TOKEN_CREATOR && members.includes(`serviceAccount:${caller}`));
    if (!account || !isAllowed || account.unknown > 0) {
      if (account && isAllowed) account.unknown--;
      const info = errorInfo(
        "IAM_PERMISSION_DENIED",
        { permission: "iam.serviceAccounts.getAccessToken" },
        "iam.googleapis.com",
      );
      throw new StatusError("PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied", [info]);
    }
    return { accessToken: this.#issue(email, Number(ttl)), expireTime: seconds(Date.now() + Number(ttl) * 1000) };
  }

  async #iam(method: string, path: string, query: URLSearchParams, body: unknown): Promise<Record<string, unknown>> {
    if (path === `/v1/projects/${this.id}/serviceAccounts` && method === "POST") return this.#create(body);
    const [, email = "", key, verb] =
      /^\/v1\/projects\/-\/serviceAccounts\/([^/:]+)(?:\/keys(?:\/([\w-]+)(?::(\w+))?)?)?$/.exec(path) ?? [];
    const account = this.accounts.get(email);
    if (!account) throw new StatusError("NOT_FOUND", `Unknown service account ${email}`);
    if (!path.includes("/keys")) {
      if (method === "GET") return this.#view(account);
      if (method !== "DELETE") throw new StatusError("NOT_FOUND", "");
      this.#delete(account);
      return {};
    }
    if (key === undefined) {
      if (method === "POST") return this.#createKey(account, body);
      if (query.toString() !== "keyTypes=USER_MANAGED") throw invalid("keyTypes");
      return { keys: [...account.keys.values()].map((each) => this.#keyView(account, each)) };
    }
    const found = account.keys.get(key);
    if (!found) throw new StatusError("NOT_FOUND", "Service account key does not exist.");
    if (verb === "disable" && method === "POST") {
      checkFields(body, {});
      found.disabled = true;
    } else if (method === "DELETE" && verb === undefined) account.keys.delete(key);
    else if (method === "GET" && verb === undefined) return this.#keyView(account, found);
    else throw new StatusError("NOT_FOUND", "");
    return {};
  }

  #create(body: unknown): Record<string, unknown> {
    const { accountId, serviceAccount } = checkFields(body, { accountId: "string", serviceAccount: "object" });
    const { displayName, description } = checkFields(serviceAccount, { displayName: "string", description: "string" });
    if (!/^[a-z](?:[-a-z0-9]{4,28}[a-z0-9])$/.test(String(accountId))) throw invalid("accountId");
    if (String(displayName).length > 100 || String(description).length > 256) throw invalid("displayName");
    return this.#view(this.#newAccount(String(accountId), String(displayName), String(description)));
  }

  #newAccount(accountId: string, displayName: string, description: string): Account {
    const email = `${accountId}@${this.id}.iam.gserviceaccount.com`;
    if (this.accounts.has(email))
      throw new StatusError("ALREADY_EXISTS", `Service account ${accountId} already exists`);
    const uniqueId = `1${randomBytes(10).toString("hex").replace(/\D/g, "0")}`;
    const account = { email, uniqueId, displayName, description, keys: new Map<string, Key>(), unknown: this.lag };
    this.accounts.set(email, account);
    return account;
  }

  /** Policies keep a deleted account as such: it would be found there. */
  #delete({ email, uniqueId }: Account): void {
    this.accounts.delete(email);
    this.policies.delete(`//iam.googleapis.com/projects/${this.id}/serviceAccounts/${email}`);
    for (const [resource, { bindings }] of this.policies) {
      const marked = (member: string) =>
        member === `serviceAccount:${email}` ? `deleted:serviceAccount:${email}?uid=${uniqueId}` : member;
      this.put(
        resource,
        bindings.map((binding) => ({ ...binding, members: binding.members.map(marked) })),
      );
    }
  }

  async #createKey(account: Account, body: unknown): Promise<Record<string, unknown>> {
    const { keyAlgorithm, privateKeyType } = checkFields(body, { keyAlgorithm: "string", privateKeyType: "string" });
    if (!/^KEY_ALG_RSA_(1024|2048)$/.test(String(keyAlgorithm))) throw invalid("keyAlgorithm");
    if (!/^TYPE_(GOOGLE_CREDENTIALS|PKCS12)_FILE$/.test(String(privateKeyType))) throw invalid("privateKeyType");
    if (account.keys.size >= MAX_KEYS) throw new StatusError("FAILED_PRECONDITION", "Precondition check failed.");
    const key = await this.addKey(account);
    const privateKeyData = Buffer.from(JSON.stringify(key.file)).toString("base64");
    return { ...this.#keyView(account, key), privateKeyType, privateKeyData };
  }

  #view({ email, uniqueId, displayName, description }: Account): Record<string, unknown> {
    const name = `projects/${this.id}/serviceAccounts/${email}`;
    return { name, projectId: this.id, uniqueId, email, displayName, description, etag: "MDEwMjE5MjA=" };
  }

  #keyView({ email }: Account, { id, madeAt, disabled }: Key): Record<string, unknown> {
    return {
      name: `projects/${this.id}/serviceAccounts/${email}/keys/${id}`,
      validAfterTime: seconds(madeAt),
      validBeforeTime: "9999-12-31T23:59:59Z",
      keyAlgorithm: "KEY_ALG_RSA_2048",
      keyOrigin: "GOOGLE_PROVIDED",
      keyType: "USER_MANAGED",
      ...(disabled && { disabled }),
    };
  }
}

interface PolicyCall {
  readonly verb: "get" | "set";
  readonly resource: string;
  readonly policy: unknown;
}

/** A call of a policy; null for another call. @throws StatusError for one that is not made as the service describes */
function policyCall(
  method: string,
  host: string,
  path: string,
  query: URLSearchParams,
  body: unknown,
): PolicyCall | null {
  const bucket = /^\/storage\/v1\/b\/([^/]+)\/iam$/.exec(path);
  if (bucket && host === "storage.googleapis.com") {
    const resource = `//${host}/buckets/${bucket[1]}`;
    if (method === "PUT") return { verb: "set", resource, policy: body };
    if (query.get("optionsRequestedPolicyVersion") !== "3") throw invalid("policy version");
    return { verb: "get", resource, policy: null };
  }
  const [, name, verb] = /^\/v[13]\/(.+):(get|set)IamPolicy$/.exec(path) ?? [];
  if (name === undefined) return null;
  const resource = `//${host}/${name}`;
  if (verb === "set") {
    if (method !== "POST") throw new StatusError("NOT_FOUND", "");
    return { verb: "set", resource, policy: checkFields(body, { policy: "object" })["policy"] };
  }
  const isManager = host === "cloudresourcemanager.googleapis.com";
  const asks = isManager
    ? JSON.stringify(body) === '{"options":{"requestedPolicyVersion":3}}'
    : query.get("options.requestedPolicyVersion") === "3";
  if (!asks || method !== (isManager || host === "iam.googleapis.com" ? "POST" : "GET"))
    throw invalid("policy version");
  return { verb: "get", resource, policy: null };
}
