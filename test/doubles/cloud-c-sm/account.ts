import { type CallFault, takeFault } from "../faults.ts";
import { errorInfo, type Parsed, StatusError, type StatusName } from "./requests.ts";
import { SecretsStore, type StoreCall } from "./store.ts";
import { type KeyFile, newKey, type Registered } from "./token.ts";

/**
 * A fault of an RPC's name, or "Token". `error` is refused with a google.rpc.Status; the token endpoint has `raw` for this.
 * `meanwhile` is performed after another writer's `calls`.
 */
export type Fault =
  | CallFault<{ status: StatusName; details?: readonly Record<string, unknown>[] }>
  | { count?: number; operation?: string | readonly string[]; fault: "meanwhile"; calls: readonly StoreCall[] };

/** One request as the log keeps it: no value, no token, no text of an error. */
export interface LoggedRequest {
  /** The RPC's name, "Token", or null when it is none. */
  operation: string | null;
  method: string;
  /** Path and query. */
  target: string;
  version: string | null;
  valueBytes: number | null;
  /** Null when the connection was dropped before it was performed. */
  status: number | null;
  /** The google.rpc code or OAuth error. */
  error: string | null;
}

/** The state of an account that tests change. */
export interface AccountState {
  /** Permissions that its service account lacks. */
  deny: readonly string[];
  /** Whether the Secret Manager API is enabled in the project. */
  apiEnabled: boolean;
  /** Whether the service account is disabled. */
  disabled: boolean;
  /** Whether the project exists. */
  projectExists: boolean;
  /** Whether deletions are answered 204 without a body, as a proxy before the service may. */
  emptyDeletes: boolean;
}

export interface AccountOptions {
  now(): number;
  etagMismatch: StatusName;
  writesPerSecret: number;
  writesPerMinute: number;
}

const initial: AccountState = {
  deny: [],
  apiEnabled: true,
  disabled: false,
  projectExists: true,
  emptyDeletes: false,
};

/** One project with one service account. Nothing that happens in one is seen in another. */
export class Account {
  readonly id: string;
  readonly projectNumber: string;
  readonly keyFile: KeyFile;
  readonly #publicKey: Registered["publicKey"];
  readonly #options: AccountOptions;
  state = initial;
  store: SecretsStore;
  log: LoggedRequest[] = [];
  faults: Fault[] = [];
  #writes: number[] = [];

  private constructor(id: string, number: string, key: Awaited<ReturnType<typeof newKey>>, options: AccountOptions) {
    this.id = id;
    this.projectNumber = number;
    this.keyFile = key.keyFile;
    this.#publicKey = key.publicKey;
    this.#options = options;
    this.store = new SecretsStore({ ...options, projectNumber: number });
  }

  static async open(id: string, projectNumber: string, options: AccountOptions): Promise<Account> {
    return new Account(id, projectNumber, await newKey(id), options);
  }

  get registered(): Registered {
    const { client_email: email, private_key_id: keyId } = this.keyFile;
    return { email, keyId, publicKey: this.#publicKey, disabled: this.state.disabled };
  }

  /** Everything but its key and its name. */
  reset(): void {
    this.state = initial;
    this.store = new SecretsStore({ ...this.#options, projectNumber: this.projectNumber });
    this.log = [];
    this.faults = [];
    this.#writes = [];
  }

  takeFault(operation: string | null): Fault | undefined {
    return takeFault(this.faults, operation);
  }

  /** IAM, as the project's policy has it for the account's own service account. */
  checkPermission({ rpc, secretId }: Parsed): void {
    if (!this.state.deny.includes(rpc.permission)) return;
    const resource = `projects/${this.id}${secretId === null ? "" : `/secrets/${secretId}`}`;
    const text = `Permission '${rpc.permission}' denied for resource '${resource}' (or it may not exist).`;
    const details = [
      errorInfo("IAM_PERMISSION_DENIED", { permission: rpc.permission, resource }, "iam.googleapis.com"),
    ];
    throw new StatusError("PERMISSION_DENIED", text, details);
  }

  /** The project's write requests per minute. */
  countWrite({ rpc }: Parsed): void {
    if (!rpc.write) return;
    const now = this.#options.now();
    this.#writes = this.#writes.filter((at) => at > now - 60_000);
    if (this.#writes.length >= this.#options.writesPerMinute) {
      throw new StatusError("RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Write requests'", [
        errorInfo("RATE_LIMIT_EXCEEDED", { quota_limit: "WriteRequestsPerMinutePerProject" }),
      ]);
    }
    this.#writes.push(now);
  }
}
