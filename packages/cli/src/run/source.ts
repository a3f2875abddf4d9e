import { type Api, ApiError } from "../api.ts";
import { Failure, InvalidUsage } from "../command.ts";
import { credentialsPath, type Issued, issue, renew, revoke, variableOf } from "../creds.ts";
import { type Data, Kv, type Place, plain } from "../kv/store.ts";

/**
 * The values that a program gets: secrets of KV, and credentials of engines with their leases, which are renewed at two
 * thirds of their time and issued again when they cannot be.
 */

/** `secret/app/db`, `secret/app/db#password` or `DB_PASSWORD=secret/app/db#password`. */
export interface Wanted {
  readonly path: string;
  /** Undefined: every key. */
  readonly key: string | undefined;
  /** Undefined: the key. */
  readonly name: string | undefined;
}

/** @throws InvalidUsage */
export function wantedIn(given: string): Wanted {
  const [, name, path = "", key] = /^(?:([A-Za-z_]\w*)=)?([^#=]+)(?:#(.+))?$/.exec(given) ?? [];
  if (path === "" || (name !== undefined && key === undefined))
    throw new InvalidUsage("--path: must be PATH, PATH#KEY or NAME=PATH#KEY");
  return { path, key, name };
}

interface Lease extends Issued {
  readonly renewAt: number;
}

type Source = { readonly wanted: Wanted } & (
  | { readonly kind: "kv"; readonly place: Place }
  | { readonly kind: "lease"; readonly path: string }
);

const RENEW_AT = 2 / 3;
/** After a renewal that failed without an answer. */
const AGAIN_MS = 15_000;
const LONGEST_PAUSE_MS = 300_000;
/** Linux starts no program with a longer variable, with its name, the sign between them and a zero byte. */
const LONGEST_VARIABLE = 131_072;

/** New credentials that could not be issued: nothing is asked before `until`. */
interface Refused {
  readonly until: number;
  readonly count: number;
  readonly failure: unknown;
}

export class Sources {
  readonly #api: Api;
  readonly #kv: Kv;
  readonly #leases = new Map<string, Lease>();
  readonly #refused = new Map<string, Refused>();
  #issuing: Promise<unknown> = Promise.resolve();
  #isClosed = false;
  readonly #isUpper: boolean;
  readonly #isForFiles: boolean;
  #sources: Source[] = [];

  /**
   * @param isUpper names are made upper case, and their other characters underscores
   * @param isForFiles files have the names of keys; variables of credentials those that the providers' programs read
   */
  constructor(api: Api, { isUpper, isForFiles }: { readonly isUpper: boolean; readonly isForFiles: boolean }) {
    this.#api = api;
    this.#kv = new Kv(api);
    this.#isUpper = isUpper;
    this.#isForFiles = isForFiles;
  }

  /** Finds the mounts. @throws Failure */
  async open(all: readonly Wanted[]): Promise<void> {
    this.#sources = await Promise.all(all.map((wanted) => this.#sourceOf(wanted)));
  }

  async #sourceOf(wanted: Wanted): Promise<Source> {
    const credentials = await credentialsPath(this.#api, wanted.path).catch((failure: unknown) => {
      if (failure instanceof Failure) return null;
      throw failure;
    });
    if (credentials !== null) return { wanted, kind: "lease", path: credentials };
    return { wanted, kind: "kv", place: await this.#kv.secretAt(wanted.path) };
  }

  get places(): Place[] {
    return this.#sources.flatMap((source) => (source.kind === "kv" ? [source.place] : []));
  }

  /** When the first lease must be renewed (ms); infinite without one. */
  get renewAt(): number {
    const times = [...this.#leases].map(([path, { renewAt }]) =>
      Math.max(renewAt, this.#refused.get(path)?.until ?? 0),
    );
    return Math.min(...times);
  }

  /** The values by name; a later path wins. @throws ApiError, Failure */
  async read(): Promise<Map<string, string>> {
    const values = new Map<string, string>();
    for (const source of this.#sources) {
      const { key: only, name, path } = source.wanted;
      const data =
        source.kind === "kv" ? (await this.#kv.mustRead(source.place)).data : await this.#credentials(source.path);
      if (only !== undefined && !data.has(only)) throw new Failure(`${path} has no key ${only}`);
      for (const [key, value] of data)
        if ((only === undefined || key === only) && value !== "null") {
          const target = name ?? this.#nameOf(source.kind, key, path);
          const text = plain(value);
          if (!this.#isForFiles) checkVariable(target, text);
          values.set(target, text);
        }
    }
    return values;
  }

  #nameOf(kind: Source["kind"], key: string, path: string): string {
    if (kind === "lease" && !this.#isForFiles) return variableOf(key);
    const name = this.#isUpper ? key.toUpperCase().replace(/\W/g, "_") : key;
    if (/^[A-Za-z_][\w.-]*$/.test(name)) return name;
    throw new Failure(
      `${path}: the key ${key} is no name of a variable or file: use --upper, or --path NAME=${path}#${key}`,
    );
  }

  async #credentials(path: string): Promise<Data> {
    const lease = this.#leases.get(path);
    if (lease !== undefined && lease.renewAt > Date.now()) return lease.data;
    if (this.#isClosed) throw new Failure("the program has ended");
    const refused = this.#refused.get(path);
    if (refused !== undefined && refused.until > Date.now()) throw refused.failure;
    const renewed = lease?.isRenewable ? await this.#renewed(lease) : null;
    if (renewed !== null) {
      this.#leases.set(path, renewed);
      return renewed.data;
    }
    const issued = this.#issued(path);
    this.#issuing = issued.catch(() => undefined);
    return issued;
  }

  async #issued(path: string): Promise<Data> {
    try {
      const lease = timed(await issue(this.#api, path));
      this.#leases.set(path, lease);
      this.#refused.delete(path);
      return lease.data;
    } catch (failure) {
      const count = (this.#refused.get(path)?.count ?? 0) + 1;
      const until = Date.now() + Math.min(AGAIN_MS * 2 ** Math.min(count - 1, 10), LONGEST_PAUSE_MS);
      this.#refused.set(path, { until, count, failure });
      throw failure;
    }
  }

  /** Null when new credentials are needed. */
  async #renewed(lease: Lease): Promise<Lease | null> {
    try {
      const { seconds } = await renew(this.#api, lease.leaseId);
      // Near its end a lease is extended by less and less.
      return seconds < lease.seconds / 2 ? null : timed({ ...lease, seconds });
    } catch (failure) {
      const { status } = failure instanceof ApiError ? failure : { status: 400 };
      const isTransient = status === 0 || status === 429 || status >= 500;
      return isTransient ? { ...lease, renewAt: Date.now() + AGAIN_MS } : null;
    }
  }

  /** Ends the leases; a failure is left to their own end. */
  async close(): Promise<void> {
    // The program may have been stopped while credentials were on their way; no others are issued.
    this.#isClosed = true;
    await this.#issuing;
    const held = [...this.#leases.values()].filter(({ leaseId }) => leaseId !== "");
    await Promise.all(held.map(({ leaseId }) => revoke(this.#api, leaseId).catch(() => undefined)));
  }
}

/** @throws Failure that does not hold the value */
function checkVariable(name: string, value: string): void {
  if (value.includes("\0")) throw new Failure(`${name}: has a zero byte, which no variable can have: use --files`);
  if (process.platform === "linux" && Buffer.byteLength(value) + name.length + 2 > LONGEST_VARIABLE)
    throw new Failure(`${name}: is longer than 128 KiB, the most that a variable can have: use --files`);
}

const timed = (issued: Issued): Lease => ({
  ...issued,
  renewAt: issued.seconds > 0 ? Date.now() + issued.seconds * 1000 * RENEW_AT : Number.POSITIVE_INFINITY,
});
