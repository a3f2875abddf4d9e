import type { AuthorizeRequest, Grant, KvRead } from "../contracts/access-control.ts";
import type { ReadVersion } from "../contracts/kv-store.ts";
import type { Capability } from "../contracts/policies.ts";
import type { Invalidation } from "../contracts/read-lease.ts";
import type { Refusal } from "../lib/result.ts";
import { routesOf } from "../rights/mount-routes.ts";
import { accessControl, kvStore } from "../rpc/stubs.ts";
import type { Answer } from "./lease-cache.ts";
import { newHolder } from "./replica-name.ts";
import { SharedAnswers } from "./shared-answers.ts";

/** The name of `AccessControl` as an owner; that of a mount is its uuid. */
export const ACCESS_OWNER = "access-control";

/** Memory of an object is 128 MiB; a character takes two bytes at most. */
const GRANTS = { characters: 8 * 1024 * 1024, absent: 10_000 };
const SECRETS = { characters: 16 * 1024 * 1024, absent: 10_000 };
/** Of an entry beside its texts. */
const OVERHEAD = 200;

const NO_LEASE = { ms: 0, term: 0, clock: 0 };

/**
 * The reads of one instance of a replica: authorizations, and secrets with them. Everything is in memory alone, and is
 * answered only under a lease (docs/internals/reads-near-the-caller.md).
 */
export class ReplicaReads {
  readonly holder: string;
  readonly #env: Env;
  readonly #grants = new SharedAnswers<Grant | Refusal>(GRANTS);
  readonly #secrets = new SharedAnswers<ReadVersion | Refusal>(SECRETS);

  /** @param replica its name */
  constructor(env: Env, replica: string) {
    this.#env = env;
    this.holder = newHolder(replica);
  }

  /** See `ReadReplicaApi.authorize`. */
  async authorize(ask: AuthorizeRequest, version: number | null, changes: boolean): Promise<Grant | Refusal> {
    const answer = await this.#grants.read(this.#grantOf(ask));
    if (!answer.ok) return answer;
    if (changes) return this.#givingBack(answer);
    const wanted = version !== null && includesOne(answer, READS) ? secretIn(answer) : null;
    if (version === null || !wanted) return answer;
    const result = await this.#secret(wanted.mount, wanted.path, version);
    const read: KvRead = { path: wanted.path, version, result };
    return { ...answer, read };
  }

  /** The grant of a change, with its secret if that is one: the change need not be announced to this instance. */
  #givingBack(grant: Grant): Grant {
    const secret = includesOne(grant, CHANGES) ? secretIn(grant) : null;
    if (!secret) return grant;
    const question = this.#secrets.giveBack(secret.mount, secret.path);
    return { ...grant, givenBack: { key: secret.path, holder: this.holder, question } };
  }

  invalidate(owner: string, changes: readonly Invalidation[]): void {
    const memory = owner === ACCESS_OWNER ? this.#grants : this.#secrets;
    for (const { seq, keys } of changes) memory.invalidate(owner, seq, keys);
  }

  /** Memory in use. */
  get size() {
    return { grants: this.#grants.size, secrets: this.#secrets.size };
  }

  #grantOf(ask: AuthorizeRequest) {
    const { token, namespace, path, list = false, wrapTtl = 0, address = null, again = false } = ask;
    const key = JSON.stringify([token, namespace, path, list, wrapTtl, ...(again ? ["again"] : [])]);
    // Grants that are kept hold at every address; a refusal may be about the caller's.
    // The last request of a token goes on although the token is unknown to others by then.
    const unknownTo = unknownKey(again ? `again ${token}` : token);
    const keys = [`${key} ${address ?? ""}`, key, unknownTo] as const;
    return {
      owner: ACCESS_OWNER,
      keys,
      tag: null,
      ask: async (): Promise<Answer<Grant | Refusal>> => {
        const { answer, lease, tag, expires, unknown } = await accessControl(this.#env).authorizeFor(this.holder, ask);
        return {
          ...(lease ?? NO_LEASE),
          value: answer,
          reusable: lease !== null,
          absent: !answer.ok,
          size: sizeOf(answer),
          tag,
          ends: expires,
          key: unknown ? unknownTo : keys[answer.ok ? 1 : 0],
        };
      },
    };
  }

  #secret(mount: string, path: string, version: number): ReadVersion | Refusal | Promise<ReadVersion | Refusal> {
    return this.#secrets.read({
      owner: mount,
      keys: [`${version} ${path}`],
      tag: path,
      ask: async (question) => {
        const { answer, lease } = await kvStore(this.#env, mount).readFor(this.holder, path, version, question);
        const ends = answer.ok && answer.state === "lives" ? deletionOf(answer) : null;
        return {
          ...(lease ?? NO_LEASE),
          value: answer,
          reusable: lease !== null,
          absent: !answer.ok,
          size: sizeOf(answer),
          ends,
        };
      },
    });
  }
}

/** One key for all requests with a token that does not exist. */
const unknownKey = (token: string | null): string => `unknown ${token ?? ""}`;

const sizeOf = (value: object): number => JSON.stringify(value).length + OVERHEAD;

/** When a version deletes itself, ms since 1970; null for never. */
const deletionOf = ({ metadata }: ReadVersion): number | null =>
  metadata.deletion_time === "" ? null : Date.parse(metadata.deletion_time);

const READS: readonly (Capability | "root")[] = ["read", "root"];
const CHANGES: readonly (Capability | "root")[] = ["create", "update", "patch", "delete", "root"];

const includesOne = ({ capabilities }: Grant, wanted: readonly (Capability | "root")[]): boolean =>
  wanted.some((each) => capabilities.includes(each));

/** The secret at the path of a grant; null for other paths. */
function secretIn({ mount, path }: Grant): { mount: string; path: string } | null {
  if (!mount) return null;
  const routes = routesOf(mount);
  const below = path.slice(mount.path.length);
  const secret = routes === "kv" ? VERSIONED.exec(below)?.[1] : routes === "kv-v1" ? below : undefined;
  if (!secret || secret.startsWith("/") || secret.endsWith("/") || secret.includes("//")) return null;
  return { mount: mount.uuid, path: secret };
}

const VERSIONED = /^(?:data|subkeys)\/(.+)$/s;
