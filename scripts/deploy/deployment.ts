import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Api } from "../../packages/cli/src/api.ts";
import { deepChecks } from "../../packages/cli/src/doctor/deep.ts";
import type { Finding } from "../../packages/cli/src/doctor/finding.ts";
import { Refusal } from "../settings.ts";
import { CloudflareApi, CloudflareError } from "./cloudflare-api.ts";
import { writeDeploymentConfig } from "./deployment-config.ts";
import { reachable, takeFirstToken } from "./first-token.ts";
import { ensure, labelOf, type Need, needs, remove } from "./resources.ts";
import { newSecrets, storedSecrets, storedToken, tokenPath, withoutMasterKey } from "./secrets.ts";
import type { DeploymentState } from "./state.ts";
import { type Credentials, wrangler } from "./wrangler.ts";

/**
 * One deployment of an account, step by step. Each step looks first for what is there, so a run continues where the one
 * before ended:
 *
 *   token verified -> resources -> configuration -> migrated -> deployed -> first token stored -> checked
 */

export interface Chosen {
  readonly dir: string;
  readonly root: string;
  readonly name: string;
  /** Where the service is reached, when it is not at its own address. */
  readonly address: string | undefined;
  /** Whether a bucket has the audit log; a deployment that has one keeps it. */
  readonly withAudit: boolean;
  /** Whether the Secrets Store has the master key; a deployment that began so stays so. */
  readonly inSecretsStore: boolean;
}

interface Done {
  readonly address: string;
  /** Null when an earlier run has shown it. */
  readonly token: string | null;
  /** Empty when the check was done before. */
  readonly findings: readonly Finding[];
}

type Say = (line: string) => void;

/** Permissions of the API token, by the list that shows them. */
const RIGHTS = {
  d1: "Account / D1 / Edit",
  queue: "Account / Queues / Edit",
  r2: "Account / Workers R2 Storage / Edit",
  secret: "Account / Secrets Store / Edit",
  worker: "Account / Workers Scripts / Edit",
} as const;

export class Deployment {
  readonly #chosen: Chosen;
  readonly #credentials: Credentials;
  readonly #api: CloudflareApi;
  readonly #state: DeploymentState;
  readonly #say: Say;

  constructor(chosen: Chosen, credentials: Credentials, state: DeploymentState, say: Say) {
    this.#chosen = chosen;
    this.#credentials = credentials;
    this.#api = new CloudflareApi(credentials.token, credentials.account, credentials.base);
    this.#state = state;
    this.#say = say;
  }

  /** Carries out every step that is not done. @throws Refusal, CloudflareError, WranglerError */
  async run(): Promise<Done> {
    const address = await this.#verify();
    let databaseId = "";
    for (const need of this.#needs()) {
      const id = await this.#ensure(need);
      if (need.kind === "d1") databaseId = id;
    }
    const config = await this.#writeConfig(this.#chosen.dir, address, databaseId, await this.#storedKey());
    await this.#deploy(config, databaseId);
    this.#state.address = address;
    return this.#commission(this.#chosen.address ?? address);
  }

  /** Says what `run` would do. Changes nothing, here or in the account. */
  async plan(): Promise<void> {
    const address = await this.#verify();
    for (const { kind, name } of this.#needs()) {
      const recorded = this.#state.find(kind, name);
      this.#say(`${recorded?.id == null ? "would make" : "has"} the ${labelOf(kind)} ${name}`);
    }
    const key = this.#keyName;
    if (key !== null)
      this.#say(
        `${this.#state.find("secret", key)?.id == null ? "would make" : "has"} the ${labelOf("secret")} ${key}`,
      );
    const dir = mkdtempSync(join(tmpdir(), "sallyport-plan-"));
    try {
      const masterKey = key === null ? null : { store: "0".repeat(32), name: key };
      const config = await this.#writeConfig(dir, address, "6b1f0d0e-6a8c-4d4f-9a57-1a2b3c4d5e6f", masterKey);
      await wrangler(this.#credentials, ["deploy", "--dry-run", "-c", config, "--outdir", join(dir, "out")], []);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
    this.#say("the Worker can be bundled with this configuration");
    const isDeployed = this.#state.isDone("deployed");
    this.#say(
      `${isDeployed ? "has" : "would make"} the ${key === null ? "secrets MASTER_KEY and" : "secret"} BOOTSTRAP_SECRET`,
    );
    this.#say(`${this.#state.isDone("migrated") ? "has migrated" : "would migrate"} the D1 database`);
    this.#say(`${isDeployed ? "has deployed" : "would deploy"} the Worker ${this.#chosen.name} to ${address}`);
    if (!this.#state.isDone("token-stored")) this.#say("would create the first token, and show it once");
    if (!this.#state.isDone("checked")) this.#say("would check the deployment");
  }

  /** Deletes the Worker of a deployment whose first token was lost, so that `run` deploys it again. */
  async replaceWorker(): Promise<void> {
    if (this.#state.isDone("token-stored"))
      throw new Refusal("--replace-worker: the first token was received: the Worker may hold data, and stays.");
    await this.#removeWorker("empty objects");
    this.#state.reopen("deployed");
  }

  /** Deletes what is recorded, and nothing else. Returns the failures. */
  async destroy(): Promise<string[]> {
    const failures: string[] = [];
    const attempt = async (work: () => Promise<void>) => {
      try {
        await work();
      } catch (failure) {
        if (!(failure instanceof CloudflareError || failure instanceof Refusal)) throw failure;
        failures.push(failure.message);
      }
    };
    await attempt(() => this.#removeWorker("objects"));
    // While the Worker is there, it uses the others.
    if (failures.length > 0) return failures;
    this.#state.reopen("migrated", "deployed", "token-stored", "checked");
    rmSync(tokenPath(this.#chosen.dir), { force: true });
    for (const { kind, name } of this.#state.resources)
      if (kind !== "worker") await attempt(() => remove(this.#api, this.#state, { kind, name }, this.#say));
    return failures;
  }

  #needs() {
    return needs(this.#chosen.name, this.#state.suffix, this.#withAudit);
  }

  get #withAudit(): boolean {
    const { name, withAudit } = this.#chosen;
    const bucket = needs(name, this.#state.suffix, true).at(-1)?.name ?? "";
    return withAudit || this.#state.find("r2", bucket) !== undefined;
  }

  /** The name of the master key in the Secrets Store; null for a secret of the Worker. @throws Refusal for a change */
  get #keyName(): string | null {
    const { name, inSecretsStore } = this.#chosen;
    const { suffix } = this.#state;
    const key = `${name}-master-key-${suffix}`;
    if (this.#state.find("secret", key) !== undefined) return key;
    if (!inSecretsStore) return null;
    if (this.#state.find("worker", name) !== undefined)
      throw new Refusal(
        "--secrets-store: the Worker has MASTER_KEY as a secret of its own; docs/operate/deploy.md says how to move it.",
      );
    return key;
  }

  /** Has the Secrets Store hold the master key, where that was chosen. */
  async #storedKey(): Promise<{ store: string; name: string } | null> {
    const name = this.#keyName;
    if (name === null) return null;
    const { dir } = this.#chosen;
    const recorded = this.#state.find("secret", name);
    const secrets = storedSecrets(dir) ?? (recorded === undefined ? newSecrets(dir) : null);
    const value = secrets?.values["MASTER_KEY"];
    // A key that may have been stored cannot be read back, and another would not open what it has sealed.
    if (value === undefined && recorded?.id == null)
      throw new Refusal(`${dir}/secrets.env is missing, and the Secrets Store may have its key: put it back.`);
    if (value === undefined && (await this.#isMissing(name)))
      throw new Refusal(`The Secrets Store has no ${name}, and ${dir}/secrets.env is missing: put it back.`);
    await this.#ensure({ kind: "secret", name, ...(value !== undefined && { value }) });
    return { store: (await this.#api.secretsStore()) ?? "", name };
  }

  /** Returns the resource's id. @throws Refusal for a token that may read, and not make it */
  #ensure(need: Need): Promise<string> {
    return ensure(this.#api, this.#state, need, this.#say).catch((failure: unknown) => {
      if (!(failure instanceof CloudflareError) || failure.status !== 403) throw failure;
      throw new Refusal(`CLOUDFLARE_API_TOKEN lacks ${RIGHTS[need.kind]} for this account.`);
    });
  }

  async #isMissing(name: string): Promise<boolean> {
    const store = await this.#api.secretsStore();
    return store === null || !(await this.#api.storedSecrets(store)).some((each) => each.name === name);
  }

  /** Checks the token, its rights and the name; returns the address of the service. */
  async #verify(): Promise<string> {
    const status = await this.#api.tokenStatus();
    if (status !== "active") throw new Refusal(`CLOUDFLARE_API_TOKEN is ${status}.`);
    const { place } = this.#state;
    const lists = {
      d1: () => this.#api.databases(),
      queue: () => this.#api.queues(),
      r2: () => this.#api.buckets(place.jurisdiction),
      secret: () => this.#api.secretsStore(),
      worker: () => this.#api.workers(),
    };
    const missing: string[] = [];
    const isStored = this.#keyName !== null;
    for (const kind of ["d1", "queue", "r2", ...(isStored ? ["secret" as const] : []), "worker"] as const)
      await lists[kind]().catch((failure: unknown) => {
        if (!(failure instanceof CloudflareError) || (failure.status !== 403 && failure.status !== 401)) throw failure;
        missing.push(RIGHTS[kind]);
      });
    if (missing.length > 0) throw new Refusal(`CLOUDFLARE_API_TOKEN lacks ${missing.join(", ")} for this account.`);
    const { name } = this.#chosen;
    const { domain } = this.#state;
    await this.#ownWorker();
    this.#say(`the token is active, and may read D1, Queues, R2${isStored ? ", the Secrets Store" : ""} and Workers`);
    if (domain !== null) {
      await this.#freeDomain(domain);
      return `https://${domain}`;
    }
    const subdomain = await this.#api.subdomain();
    if (subdomain === null)
      throw new Refusal(
        "The account has no name below workers.dev: choose one in the dashboard (Workers & Pages), or name a --domain.",
      );
    return `https://${name}.${subdomain}.workers.dev`;
  }

  /** Without a terminal wrangler takes a domain from another Worker, and replaces its DNS records. @throws Refusal */
  async #freeDomain(domain: string): Promise<void> {
    const { name } = this.#chosen;
    const holder = await this.#api.workerAt(domain);
    if (holder === name && (await this.#ownWorker())) return;
    if (holder !== null) throw new Refusal(`--domain: ${domain} is the domain of the Worker ${holder}.`);
    const hasRecords = await this.#api.hasRecords(domain);
    if (hasRecords === null) throw new Refusal(`--domain: no zone of the account has ${domain}.`);
    if (hasRecords) throw new Refusal(`--domain: ${domain} has DNS records, which the deployment would replace.`);
  }

  /** Whether the recorded Worker is there. @throws Refusal for a Worker of the name that is another */
  async #ownWorker(): Promise<boolean> {
    const { name } = this.#chosen;
    if (!(await this.#api.workers()).some((each) => each.name === name)) return false;
    const database = this.#state.resources.find(({ kind }) => kind === "d1");
    const isRecorded = this.#state.find("worker", name) !== undefined && database?.id != null;
    if (isRecorded && (await this.#api.databasesOf(name)).includes(database.id ?? "")) return true;
    throw new Refusal(`A Worker ${name} exists, and is not of this deployment: choose another --name.`);
  }

  #writeConfig(
    dir: string,
    address: string,
    databaseId: string,
    masterKey: { store: string; name: string } | null,
  ): Promise<string> {
    const { root, name } = this.#chosen;
    const { suffix, place, domain } = this.#state;
    const withAudit = this.#withAudit;
    const chosen = { name, suffix, databaseId, domain, address, withAudit, masterKey };
    return writeDeploymentConfig(dir, root, { ...chosen, ...place });
  }

  async #deploy(config: string, databaseId: string): Promise<void> {
    const { dir, name } = this.#chosen;
    const isThere = await this.#ownWorker();
    if (!isThere && this.#state.isDone("deployed")) {
      this.#say(`misses the Worker ${name}, which was deleted elsewhere, with its objects`);
      this.#state.reopen("migrated", "deployed", "token-stored", "checked");
    }
    if (!this.#state.isDone("migrated")) {
      await wrangler(this.#credentials, ["d1", "migrations", "apply", "LISTINGS", "--remote", "-c", config], []);
      this.#state.finish("migrated");
      this.#say(`migrated the D1 database ${databaseId}`);
    }
    if (this.#state.isDone("deployed")) return;
    const stored = storedSecrets(dir);
    if (isThere && stored === null && !this.#state.isDone("token-stored"))
      throw new Refusal(`${dir}/secrets.env is missing, and the Worker may have its keys: put it back, and run again.`);
    const all = isThere ? stored : (stored ?? newSecrets(dir));
    const secrets = all !== null && this.#keyName !== null ? withoutMasterKey(dir, all) : all;
    if (this.#state.find("worker", name) === undefined) this.#state.intend("worker", name);
    const file = secrets === null ? [] : ["--secrets-file", secrets.path];
    await wrangler(this.#credentials, ["deploy", "-c", config, ...file], Object.values(secrets?.values ?? {}));
    if (secrets !== all) rmSync(secrets?.path ?? "", { force: true });
    this.#state.made("worker", name, name);
    this.#state.finish("deployed");
    this.#say(`deployed the Worker ${name}`);
  }

  /** Takes the first token and checks the service. */
  async #commission(address: string): Promise<Done> {
    const { dir } = this.#chosen;
    await reachable(address, this.#say);
    if (!this.#state.isDone("token-stored")) {
      const secret = storedSecrets(dir)?.values["BOOTSTRAP_SECRET"];
      if (storedToken(dir) === null) {
        if (secret === undefined)
          throw new Refusal(`${dir}/secrets.env is missing: it has the secret of the first token.`);
        await takeFirstToken(dir, address, secret);
      }
      this.#state.finish("token-stored");
      this.#say("created the first token");
    }
    const stored = storedToken(dir);
    const token = stored ?? process.env["SALLYPORT_TOKEN"];
    const isChecked = this.#state.isDone("checked");
    if (!isChecked && token === undefined)
      this.#say("does not check the deployment: SALLYPORT_TOKEN is not set to a root token");
    if (isChecked || token === undefined) return { address, token: stored, findings: [] };
    this.#say("checks the deployment, which takes up to two minutes");
    const server = { address: new URL(address), token, namespace: "" };
    return { address, token: stored, findings: await deepChecks({ ...server, api: new Api(server, 3) }) };
  }

  async #removeWorker(what: string): Promise<void> {
    const { name } = this.#chosen;
    if (this.#state.find("worker", name) === undefined) return;
    if (await this.#ownWorker()) {
      await this.#api.deleteWorker(name);
      this.#say(`deleted the Worker ${name} with its ${what}`);
    }
    this.#state.forget("worker", name);
  }
}
