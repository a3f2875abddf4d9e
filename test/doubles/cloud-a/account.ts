import { randomBytes } from "node:crypto";
import { ServiceError } from "../cloud-a-sm/parameters.ts";

export interface AccessKey {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly userName: string;
  readonly createdAt: number;
  /** The key is refused before. */
  readonly worksFrom: number;
}

export interface User {
  readonly name: string;
  readonly id: string;
  readonly path: string;
  readonly boundary: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly createdAt: number;
  /** Calls about the user are refused before. */
  readonly knownFrom: number;
  readonly attached: Set<string>;
  readonly inline: Map<string, string>;
  readonly groups: Set<string>;
  /** Things that a person has added by hand, by kind. */
  readonly additions: Map<string, Set<string>>;
}

export interface Role {
  readonly arn: string;
  readonly externalId?: string;
  readonly maxSeconds: number;
}

export interface Session {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string;
  readonly expiresAt: number;
  readonly arn: string;
  /** Of a federated or a plain session, which may not open others. */
  readonly kind: "role" | "federated" | "session";
}

/** Times of replication, ms; 0: at once. */
export interface Lags {
  /** Until a new user is known to other calls. */
  readonly userMs: number;
  /** Until a new key is accepted. */
  readonly keyMs: number;
}

/** A fault of the next calls. `drop`: not applied; `apply-then-drop`: applied. Both lose the answer. */
export interface Fault {
  /** Absent: any. */
  readonly operation?: string | readonly string[];
  readonly fault: "error" | "drop" | "apply-then-drop";
  /** Of `error`. */
  readonly code?: string;
  readonly message?: string;
  readonly status?: number;
  readonly count?: number;
}

export interface LoggedRequest {
  readonly service: string;
  readonly operation: string;
  readonly accessKeyId: string;
  status: number | null;
}

const random = (prefix: string): string =>
  prefix +
  randomBytes(16)
    .toString("hex")
    .toUpperCase()
    .replace(/[^A-Z2-7]/g, "Q")
    .slice(0, 16);

/** One account with its users, and the user that engines call as. */
export class Account {
  readonly id = String(100_000_000_000 + Math.floor(Math.random() * 899_999_999_999));
  readonly users = new Map<string, User>();
  readonly keys = new Map<string, AccessKey>();
  readonly sessions = new Map<string, Session>();
  readonly groups = new Map<
    string,
    { readonly attached: readonly string[]; readonly inline: ReadonlyMap<string, string> }
  >();
  readonly policies: ReadonlySet<string>;
  readonly roles: readonly Role[];
  readonly log: LoggedRequest[] = [];
  readonly #faults: { readonly fault: Fault; left: number }[] = [];
  lags: Lags;

  constructor(now: number, lags: Partial<Lags> = {}) {
    this.lags = { userMs: 0, keyMs: 0 };
    this.policies = new Set([
      "arn:aws:iam::aws:policy/ReadOnlyAccess",
      "arn:aws:iam::aws:policy/PowerUserAccess",
      `arn:aws:iam::${this.id}:policy/boundary`,
    ]);
    this.roles = [
      { arn: this.arn("role/deploy"), maxSeconds: 43_200 },
      { arn: this.arn("role/guarded"), externalId: "outside", maxSeconds: 3_600 },
    ];
    const inline = new Map([
      ["list", '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:List*","Resource":"*"}]}'],
    ]);
    this.groups.set("developers", { attached: ["arn:aws:iam::aws:policy/ReadOnlyAccess"], inline });
    this.groups.set("auditors", { attached: [], inline: new Map() });
    this.addUser({ name: "sallyport", path: "/", boundary: "", tags: {}, now });
    this.addKey("sallyport", now);
    this.lags = { ...this.lags, ...lags };
  }

  arn(resource: string): string {
    return `arn:aws:iam::${this.id}:${resource}`;
  }

  userArn({ path, name }: Pick<User, "path" | "name">): string {
    return this.arn(`user${path}${name}`);
  }

  fail(fault: Fault): void {
    this.#faults.push({ fault, left: fault.count ?? 1 });
  }

  nextFault(operation: string): Fault | null {
    const at = this.#faults.findIndex(
      ({ fault }) => fault.operation === undefined || [fault.operation].flat().includes(operation),
    );
    const found = this.#faults[at];
    if (!found) return null;
    found.left--;
    if (found.left <= 0) this.#faults.splice(at, 1);
    return found.fault;
  }

  addUser({
    name,
    path,
    boundary,
    tags,
    now,
  }: Pick<User, "name" | "path" | "boundary" | "tags"> & { now: number }): User {
    const sets = { attached: new Set<string>(), inline: new Map<string, string>(), groups: new Set<string>() };
    const user: User = {
      name,
      path,
      boundary,
      tags,
      id: random("AIDA"),
      createdAt: now,
      knownFrom: now + this.lags.userMs,
      ...sets,
      additions: new Map(),
    };
    this.users.set(name, user);
    return user;
  }

  addKey(userName: string, now: number): AccessKey {
    if (this.keysOf(userName).length >= 2)
      throw new ServiceError("LimitExceeded", "Cannot exceed quota for AccessKeysPerUser: 2", 409);
    const secretAccessKey = randomBytes(30).toString("base64");
    const key = {
      accessKeyId: random("AKIA"),
      secretAccessKey,
      userName,
      createdAt: now,
      worksFrom: now + this.lags.keyMs,
    };
    this.keys.set(key.accessKeyId, key);
    return key;
  }

  addSession(arn: string, kind: Session["kind"], expiresAt: number): Session {
    const texts = {
      secretAccessKey: randomBytes(30).toString("base64"),
      sessionToken: randomBytes(120).toString("base64"),
    };
    const session = { accessKeyId: random("ASIA"), ...texts, expiresAt, arn, kind };
    this.sessions.set(session.accessKeyId, session);
    return session;
  }

  keysOf(userName: string): AccessKey[] {
    return [...this.keys.values()].filter((key) => key.userName === userName);
  }

  /** All that tests compare: users with what they have. */
  everything(): unknown {
    return [...this.users.values()].map(({ name, attached, inline, groups, tags }) => ({
      name,
      keys: this.keysOf(name).map(({ accessKeyId }) => accessKeyId),
      attached: [...attached].sort(),
      inline: [...inline.keys()].sort(),
      groups: [...groups].sort(),
      tags,
    }));
  }
}
