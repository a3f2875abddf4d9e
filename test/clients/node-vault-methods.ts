import { createRequire } from "node:module";
import vault from "node-vault";
import { LocalIssuer, POD_CLAIMS } from "./local-issuer.ts";

/** Every method of node-vault, called once against a service, in an order in which each finds what it needs. */

type Client = ReturnType<typeof vault>;
type Method = (options?: object) => Promise<Answer>;
interface Answer {
  readonly auth: { readonly client_token: string; readonly accessor: string };
  readonly data: Readonly<Record<string, string>>;
  readonly wrap_info: { readonly token: string };
}

/** `ok`, or the error of each method. */
export type Outcomes = Readonly<Record<string, string>>;

/** Names of the methods that node-vault makes from its table of commands, and of those it has besides. */
export const commandNames: readonly string[] = Object.keys(
  createRequire(import.meta.url)("node-vault/src/commands.js") as object,
);
export const clientNames = ["request", "help", "write", "update", "read", "list", "delete"] as const;

export class NodeVaultMethods {
  readonly #address: string;
  readonly #root: string;
  readonly #outcomes: Record<string, string> = {};

  constructor(address: string, root: string) {
    this.#address = address;
    this.#root = root;
  }

  async run(): Promise<Outcomes> {
    await this.#system();
    await this.#tokens();
    await this.#secrets();
    await this.#approle();
    await this.#logins();
    await this.#unserved();
    return this.#outcomes;
  }

  #client(token = this.#root): Client {
    return vault({ endpoint: this.#address, token });
  }

  /** Calls a method and records its outcome. @returns its answer; an empty one after a refusal */
  async #call(name: string, options?: object, token = this.#root): Promise<Answer> {
    const client = this.#client(token) as unknown as Record<string, Method>;
    return this.#record(name, async () => (await client[name]?.(options)) as Answer);
  }

  async #record(name: string, call: () => Promise<unknown>): Promise<Answer> {
    let answer: unknown;
    let outcome = "ok";
    try {
      answer = await call();
    } catch (failure) {
      outcome = failure instanceof Error ? failure.message : String(failure);
    }
    this.#outcomes[name] = outcome;
    const { auth, data, wrap_info } = (answer ?? {}) as Partial<Answer>;
    const none = { client_token: "none", accessor: "none" };
    return { auth: auth ?? none, data: data ?? {}, wrap_info: wrap_info ?? { token: "none" } };
  }

  async #system(): Promise<void> {
    for (const name of ["status", "initialized", "health", "leader", "mounts", "policies", "auths", "audits"]) {
      await this.#call(name);
    }
    await this.#call("init", { secret_shares: 1, secret_threshold: 1 });
    await this.#call("unseal", { key: "00" });
    await this.#call("rotate");
    await this.#call("stepDown");
    await this.#call("generateRootInit", {});
    await this.#call("generateRootCancel");
    await this.#call("generateRootUpdate", { key: "00", nonce: "none" });
    await this.#call("seal");
    await this.#call("enableAudit", { name: "file", type: "file", options: { file_path: "stdout" } });
    await this.#call("disableAudit", { name: "file" });
    await this.#call("addPolicy", { name: "methods", rules: 'path "methods/*" { capabilities = ["read"] }' });
    await this.#call("getPolicy", { name: "methods" });
  }

  async #tokens(): Promise<void> {
    await this.#call("addTokenRole", { role_name: "methods", allowed_policies: "methods" });
    await this.#call("getTokenRole", { role_name: "methods" });
    await this.#call("tokenRoles");
    await this.#call("tokenAccessors");
    const policies = ["methods"];
    const { auth: named } = await this.#call("tokenCreateRole", { role_name: "methods", policies });
    const { auth: orphan } = await this.#call("tokenCreateOrphan", { policies });
    const { auth } = await this.#call("tokenCreate", { policies, ttl: "1h" });
    await this.#call("tokenLookup", { token: auth.client_token });
    await this.#call("tokenLookupAccessor", { accessor: auth.accessor });
    await this.#call("tokenLookupSelf", {}, auth.client_token);
    await this.#call("tokenRenew", { token: auth.client_token, increment: 60 });
    await this.#call("tokenRenewSelf", { increment: 60 }, auth.client_token);
    await this.#call("tokenRevokeSelf", {}, auth.client_token);
    await this.#call("tokenRevokeAccessor", { accessor: named.accessor });
    await this.#call("tokenRevokeOrphan", { token: orphan.client_token });
    const again = await this.#client().tokenCreate({ policies, ttl: "1h" });
    await this.#call("tokenRevoke", { token: again.auth.client_token });
    await this.#call("removeTokenRole", { role_name: "methods" });
  }

  async #secrets(): Promise<void> {
    const root = this.#client();
    await this.#call("mount", { mount_point: "methods", type: "kv", options: { version: "2" } });
    const data = { data: { password: "one" } };
    await this.#record("write", () => root.write("methods/data/app", data));
    await this.#record("update", () => root.update("methods/data/app", { data: { user: "app" } }));
    await this.#record("read", () => root.read("methods/data/app"));
    await this.#record("list", () => root.list("methods/metadata"));
    await this.#record("help", () => root.help("sys/mounts"));
    await this.#record("request", () => root.request({ path: "/methods/data/app", method: "GET" }));
    await this.#call("destroySecretVersions", { mount_point: "methods", path: "app", versions: [1] });
    await this.#record("delete", () => root.delete("methods/data/app"));
    await this.#call("remount", { from: "methods", to: "methods-moved" });
    await this.#call("revokePrefix", { path_prefix: "methods-moved/none" });
    await this.#call("revoke", { lease_id: "methods-moved/none/1" });
    const wrapTtl = { headers: { "X-Vault-Wrap-TTL": "60s" } };
    const wrapped = await attempt(root.write("sys/wrapping/wrap", { a: "b" }, wrapTtl));
    await this.#call("unwrap", {}, wrapped?.wrap_info?.token ?? "none");
    await this.#call("unmount", { mount_point: "methods-moved" });
  }

  async #approle(): Promise<void> {
    const at = { mount_point: "methods-roles", role_name: "web" };
    await this.#call("enableAuth", { ...at, type: "approle" });
    await this.#call("addApproleRole", { ...at, policies: "methods" });
    await this.#call("approleRoles", at);
    await this.#call("getApproleRole", at);
    await this.#call("updateApproleRoleId", { ...at, role_id: "methods-web" });
    await this.#call("getApproleRoleId", at);
    const { secret_id, secret_id_accessor } = (await this.#call("getApproleRoleSecret", at)).data;
    await this.#call("approleLogin", { ...at, role_id: "methods-web", secret_id });
    await this.#call("approleSecretAccessors", at);
    await this.#call("approleSecretLookup", { ...at, secret_id });
    await this.#call("approleSecretAccessorLookup", { ...at, secret_id_accessor });
    await this.#call("approleSecretAccessorDestroy", { ...at, secret_id_accessor });
    await this.#call("approleSecretDestroy", { ...at, secret_id });
    await this.#call("deleteApproleRole", at);
    await this.#call("disableAuth", at);
  }

  async #logins(): Promise<void> {
    const root = this.#client();
    const issuer = new LocalIssuer("methods");
    const at = (type: string) => ({ mount_point: `methods-${type}` });
    for (const type of ["userpass", "jwt", "kubernetes"]) await attempt(root.enableAuth({ ...at(type), type }));
    await attempt(root.write("auth/methods-userpass/users/ann", { password: "p" }));
    await this.#call("userpassLogin", { ...at("userpass"), username: "ann", password: "p" });
    await attempt(root.write("auth/methods-jwt/config", { jwt_validation_pubkeys: await issuer.publicKey() }));
    const role = { role_type: "jwt", user_claim: "sub", bound_subject: "ann" };
    await attempt(root.write("auth/methods-jwt/role/app", role));
    await this.#call("jwtLogin", { ...at("jwt"), role: "app", jwt: await issuer.sign({ sub: "ann" }) });
    const cluster = { kubernetes_host: "https://cluster.example", pem_keys: await issuer.publicKey() };
    await attempt(root.write("auth/methods-kubernetes/config", cluster));
    const pods = {
      ...at("kubernetes"),
      role_name: "app",
      audience: "sallyport",
      bound_service_account_names: "app",
      bound_service_account_namespaces: "prod",
    };
    await this.#call("addKubernetesRole", pods);
    // Lets the next methods run although node-vault itself fails in the one above.
    await attempt(root.write("auth/methods-kubernetes/role/app", pods));
    await this.#call("getKubernetesRole", pods);
    const login = { ...at("kubernetes"), role: "app", jwt: await issuer.sign(POD_CLAIMS) };
    await this.#call("kubernetesLogin", login);
    await this.#call("deleteKubernetesRole", pods);
    for (const type of ["userpass", "jwt", "kubernetes"]) await attempt(root.disableAuth(at(type)));
    await this.#call("removePolicy", { name: "methods" });
  }

  /** Methods for engines and auth methods that the service does not have, and for a lease that none gave. */
  async #unserved(): Promise<void> {
    await this.#call("renew", { lease_id: "cloud-b/creds/none/1" });
    for (const name of ["encryptData", "decryptData", "rewrapData", "transitCreateKey", "transitReadKey"]) {
      await this.#call(name, { name: "key" });
    }
    await this.#call("transitListKeys");
    await this.#call("transitDeleteKey", { name: "key" });
    await this.#call("generateDatabaseCredentials", { databasePath: "database", name: "role" });
    await this.#call("gcpLogin", { role: "app", jwt: "a.b.c" });
    await this.#call("githubLogin", { token: "none" });
    const request = { iam_http_request_method: "POST", iam_request_url: "", iam_request_body: "" };
    await this.#call("awsIamLogin", { role: "app", ...request, iam_request_headers: "" });
    for (const name of ["ldapLogin", "oktaLogin", "radiusLogin"]) {
      await this.#call(name, { username: "ann", password: "p" });
    }
    await this.#call("certLogin", {});
  }
}

/** Steps of a set-up: their failure shows in the method that needs them. */
async function attempt<T>(step: Promise<T>): Promise<T | null> {
  return step.catch(() => null);
}
