/**
 * Files of `npm start` and `npm run serve`, all under STATE_DIR:
 *
 *   .dev.vars    the master key and the root token (mode 0600); in development only
 *   about.json   the key that sealed the data, applied migrations and files, whether it was ever ready
 *   agent/       state of each local node agent and of its CSI driver
 *   csi/         CSI volumes and snapshots
 *   files/       content of the bucket FILES; optional, created by the user
 *   listen.json  where `npm run serve` listens
 *   lock, .db    the process that is using the state, and the lock itself
 *   runtime/     the Worker of the running service, and its temporary files; made at each start
 *   shared/      directories that may be registered as volumes; optional, created by the user
 *   state/       the data, in wrangler's layout
 *   volumes/     the host volumes of each local node agent
 */
import { randomBytes, randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join, resolve } from "node:path";
import { parseEnv } from "node:util";
import { type Keyring, parseKeyring } from "../src/platform/crypto/keyring.ts";
import { Lock } from "./lock.ts";
import { type Environment, PLAYGROUND_DIR, Refusal } from "./settings.ts";

/** Mode bits: write permission of group and others. */
const OTHERS_WRITE = 0o022;
const ALL_WRITE = 0o002;
const SET_GROUP = 0o2000;

interface About {
  masterKey?: string;
  migrations?: string;
  /** Absent when the bucket FILES is empty. */
  files?: string | undefined;
  /** Only a playground has used the data, which may be deleted. */
  playground?: true | undefined;
  /** False from the first byte of data until the service was ready for the first time. */
  ready?: boolean;
}

interface Credentials {
  masterKey: string;
  /** Empty in production, where the first token is created by the API. */
  rootToken: string;
}

/** `playground` deletes the data of an earlier one; `production` never does, takes its key from the settings and stores none. */
type Purpose = "development" | "playground" | "production";

export class LocalState {
  /** Without data: this start creates it. */
  readonly fresh: boolean;
  readonly #dir: string;
  readonly #purpose: Purpose;
  readonly #credentials: Credentials;
  readonly #keyring: Keyring;
  readonly #lock: Lock;
  #about: About;

  /**
   * Opens the state exclusively for this process. @throws Refusal for an unusable state, without a change of the data
   */
  constructor(dir: string, env: Environment, purpose: Purpose = "development") {
    const afresh = purpose === "playground";
    const mayRemove = purpose !== "production";
    // Absolute: `mkdirSync` with a relative path never ends once the current directory is deleted.
    this.#dir = resolve(dir);
    this.#purpose = purpose;
    try {
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      if (purpose === "production" && isOpenedByKubernetes(dir)) chmodSync(dir, 0o700);
      if ((statSync(dir).mode & OTHERS_WRITE) !== 0) {
        throw new Refusal(
          `STATE_DIR ${dir} can be written by others: run \`chmod go-w\` on it, or set STATE_DIR to another one.`,
        );
      }
      this.#lock = new Lock(this.#path("lock"), dir);
    } catch (failure) {
      throw asRefusal(dir, failure);
    }
    try {
      const about = this.#readAbout();
      if (afresh && about.playground !== true) this.#refuseOthersData();
      // An unfinished first start has left only part of the seeds, and no client has seen them.
      if ((about.ready === false && mayRemove) || afresh) this.#remove(this.dataDir);
      this.fresh = !existsSync(this.dataDir) || readdirSync(this.dataDir).length === 0;
      // These agents are unknown to any service. Their volumes may still be needed.
      if (this.fresh && mayRemove) this.#remove(this.agentsDir);
      if (afresh) for (const dir of [this.volumesDir, this.csiDir]) this.#remove(dir);
      this.#shut();
      this.#about = this.fresh ? {} : about;
      this.#credentials = mayRemove ? this.#findCredentials(env) : this.#givenKey(env);
      this.#keyring = keyringOf(this.#credentials.masterKey);
      const sealedWith = this.#about.masterKey ?? this.#keyring.newest.id;
      if (!this.#keyring.byId.has(sealedWith)) {
        throw new Refusal(
          `The MASTER_KEY in ${env["MASTER_KEY"] ? "the environment" : this.#path(".dev.vars")} is not the one that sealed the data in ${this.#dir}: ${this.#waysOut()}`,
        );
      }
      // Recorded before the key seals any data.
      this.#note({ masterKey: sealedWith, ready: !this.fresh, playground: afresh || undefined });
    } catch (failure) {
      this.close();
      throw asRefusal(dir, failure);
    }
  }

  get dir(): string {
    return this.#dir;
  }

  get dataDir(): string {
    return this.#path("state");
  }

  get agentsDir(): string {
    return this.#path("agent");
  }

  get volumesDir(): string {
    return this.#path("volumes");
  }

  get csiDir(): string {
    return this.#path("csi");
  }

  get sharedDir(): string {
    return this.#path("shared");
  }

  get filesDir(): string {
    return this.#path("files");
  }

  /** The Worker as it was built for this start, and the runtime's temporary files. */
  get runtimeDir(): string {
    return this.#path("runtime");
  }

  /** Removes what an earlier run has left, but for the files `kept`. */
  emptyRuntimeDir(kept: readonly string[]): void {
    mkdirSync(this.runtimeDir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(this.runtimeDir))
      if (!kept.includes(name)) this.#remove(join(this.runtimeDir, name));
  }

  get masterKey(): string {
    return this.#credentials.masterKey;
  }

  get rootToken(): string {
    return this.#credentials.rootToken;
  }

  get migrations(): string | undefined {
    return this.#about.migrations;
  }

  get files(): string | undefined {
    return this.#about.files;
  }

  noteMigrations(version: string): void {
    this.#note({ migrations: version });
  }

  noteFiles(version: string | undefined): void {
    this.#note({ files: version });
  }

  /** The service runs with this keyring: from now on its newest key is required. */
  noteReady(): void {
    this.#note({ masterKey: this.#keyring.newest.id, ready: true });
  }

  /** Where the service listens, for the health check of its container. */
  noteListening(at: { readonly host: string; readonly port: number; readonly tls: boolean }): void {
    this.#write("listen.json", `${JSON.stringify(at)}\n`);
  }

  close(): void {
    this.#lock.release();
  }

  #path(name: string): string {
    return join(this.#dir, name);
  }

  /** The service's directories are accessible by the owner only, also in an existing STATE_DIR with another mode. */
  #shut(): void {
    for (const own of [this.dataDir, this.agentsDir, this.runtimeDir]) {
      mkdirSync(own, { recursive: true, mode: 0o700 });
      chmodSync(own, 0o700);
    }
    const secrets = this.#path(".dev.vars");
    if (existsSync(secrets)) chmodSync(secrets, 0o600);
  }

  #remove(dir: string): void {
    rmSync(dir, { recursive: true, force: true });
  }

  /** A playground empties its directory, which must not be that of another service. */
  #refuseOthersData(): void {
    // Playgrounds of version 0.2.0 did not say what they are.
    if (basename(this.#dir) === PLAYGROUND_DIR) return;
    const dirs = [this.dataDir, this.volumesDir, this.csiDir];
    if (dirs.every((dir) => !existsSync(dir) || readdirSync(dir).length === 0)) return;
    throw new Refusal(
      `STATE_DIR ${this.#dir} has the data of a service, and PLAYGROUND=1 would delete it: set STATE_DIR to another directory, or leave it out.`,
    );
  }

  #givenKey(env: Environment): Credentials {
    const masterKey = env["MASTER_KEY"];
    if (!masterKey) throw new Refusal("MASTER_KEY is required: base64 of 32 random bytes, kept in a safe.");
    if (existsSync(this.#path(".dev.vars"))) {
      throw new Refusal(`${this.#dir} belongs to npm start: set STATE_DIR to another directory.`);
    }
    return { masterKey, rootToken: "" };
  }

  #findCredentials(env: Environment): Credentials {
    const file = this.#path(".dev.vars");
    const kept = existsSync(file) ? parseEnv(readFileSync(file, "utf8")) : {};
    const masterKey = env["MASTER_KEY"] || kept["MASTER_KEY"];
    const rootToken =
      (this.fresh ? undefined : kept["DEV_ROOT_TOKEN"]) || env["DEV_ROOT_TOKEN"] || kept["DEV_ROOT_TOKEN"];
    if (masterKey && rootToken === kept["DEV_ROOT_TOKEN"] && rootToken) return { masterKey, rootToken };
    if (!this.fresh && !masterKey) {
      throw new Refusal(
        `The data in ${this.#dir} is sealed with a MASTER_KEY, and ${file} ${existsSync(file) ? "does not hold it any more" : "is gone"}: ${this.#waysOut()}`,
      );
    }
    if (!this.fresh && !rootToken) {
      throw new Refusal(`${file} does not hold the DEV_ROOT_TOKEN of the data any more: ${this.#waysOut()}`);
    }
    if (rootToken && !/^[\w.~+/=-]+$/.test(rootToken)) {
      throw new Refusal("DEV_ROOT_TOKEN may hold letters, digits and . _ ~ + / = - only.");
    }
    const found = {
      masterKey: masterKey || randomBytes(32).toString("base64"),
      // A form that clients of both APIs accept everywhere.
      rootToken: rootToken || randomUUID(),
    };
    // A key from the environment is not stored.
    const keyToKeep = kept["MASTER_KEY"] || (env["MASTER_KEY"] ? "" : found.masterKey);
    this.#write(
      ".dev.vars",
      [
        "# Made by npm start. Without its MASTER_KEY the data beside this file cannot be read: keep a copy.",
        ...(keyToKeep ? [`MASTER_KEY="${keyToKeep}"`] : []),
        `DEV_ROOT_TOKEN="${found.rootToken}"`,
        "",
      ].join("\n"),
    );
    return found;
  }

  #waysOut(): string {
    if (this.#purpose === "production") return "set the key from the safe; nothing else opens it.";
    return `restore ${this.#path(".dev.vars")} from a backup, or remove ${this.#dir} and start afresh.`;
  }

  #readAbout(): About {
    const file = this.#path("about.json");
    if (!existsSync(file)) return {};
    try {
      return JSON.parse(readFileSync(file, "utf8")) as About;
    } catch {
      throw new Refusal(
        `${file} is not JSON any more: restore it from a backup, or remove ${this.#dir} and start afresh.`,
      );
    }
  }

  #note(change: About): void {
    const about = { ...this.#about, ...change };
    if (JSON.stringify(about) === JSON.stringify(this.#about)) return;
    this.#about = about;
    this.#write("about.json", `${JSON.stringify(about, null, 2)}\n`);
  }

  /** Written to a temporary file and renamed: a crash leaves the old or the new file. */
  #write(name: string, text: string): void {
    const path = this.#path(name);
    rmSync(`${path}.new`, { force: true });
    writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true });
    renameSync(`${path}.new`, path);
  }
}

/**
 * Whether a volume's `fsGroup` has opened a directory of this user to its own group: at each mount Kubernetes adds `g+rw`
 * and setgid, https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#set-the-security-context-for-a-pod.
 */
function isOpenedByKubernetes(dir: string): boolean {
  const { mode, uid, gid } = statSync(dir);
  const isOwn = uid === process.getuid?.() && gid === process.getgid?.();
  return isOwn && (mode & SET_GROUP) !== 0 && (mode & ALL_WRITE) === 0;
}

function keyringOf(masterKey: string): Keyring {
  try {
    return parseKeyring(masterKey);
  } catch (failure) {
    throw new Refusal(`${(failure as Error).message.replace(/^sealed: /, "")}.`);
  }
}

function asRefusal(dir: string, failure: unknown): unknown {
  if (failure instanceof Refusal || !(failure instanceof Error) || !("code" in failure)) return failure;
  return new Refusal(`STATE_DIR ${dir} cannot be used: ${failure.message}.`);
}

/** Returns a notice about a root token for the operator: Nomad's command line asks about its token only if that is a UUID. */
export const noteOnToken = (token: string): string[] =>
  /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(token)
    ? []
    : ['It is no UUID, so "nomad acl token self" says "No ACL tokens"; other commands work.'];

/** A word of a shell command, quoted where the shell would split or expand it. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
