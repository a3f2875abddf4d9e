import type { AuthorizeRequest, Grant } from "../contracts/access-control.ts";
import type { ReadVersion } from "../contracts/kv-store.ts";
import type { Capability } from "../contracts/policies.ts";
import type { Invalidation } from "../contracts/read-lease.ts";
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

/** An answer of `AccessControl`. */
interface KeptGrant {
  /** `Grant | Refusal` as JSON. */
  readonly text: string;
  readonly secret: {
    /** The uuid of its mount. */
    readonly mount: string;
    readonly path: string;
    readonly mayRead: boolean;
    readonly mayChange: boolean;
  } | null;
}

const NO_LEASE = { ms: 0, term: 0, clock: 0 };

/**
 * The reads of one instance of a replica: authorizations, and secrets with them. Everything is in memory alone, and is
 * answered only under a lease (docs/internals/reads-near-the-caller.md).
 */
export class ReplicaReads {
  readonly holder: string;
  readonly #grants = new SharedAnswers<KeptGrant>(GRANTS);
  /** `ReadVersion | Refusal` as JSON text. */
  readonly #secrets = new SharedAnswers<string>(SECRETS);

  /** @param replica its name */
  constructor(
    private readonly env: Env,
    replica: string,
  ) {
    this.holder = newHolder(replica);
  }

  /** See `ReadReplicaApi.authorizeAsText`. */
  async authorize(ask: AuthorizeRequest, version: number | null, changes: boolean): Promise<string> {
    const { text, secret } = await this.#grants.read(this.#grantOf(ask));
    if (secret === null) return text;
    const { mount, path } = secret;
    if (changes) {
      if (!secret.mayChange) return text;
      // The change need not be announced to this instance.
      const question = this.#secrets.giveBack(mount, path);
      return withMember(text, "givenBack", JSON.stringify({ key: path, holder: this.holder, question }));
    }
    if (version === null || !secret.mayRead) return text;
    const result = await this.#secret(mount, path, version);
    return withMember(text, "read", `{"path":${JSON.stringify(path)},"version":${version},"result":${result}}`);
  }

  invalidate(owner: string, changes: readonly Invalidation[]): void {
    const memory = owner === ACCESS_OWNER ? this.#grants : this.#secrets;
    for (const { seq, keys } of changes) memory.invalidate(owner, seq, keys);
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
      ask: async (): Promise<Answer<KeptGrant>> => {
        const { answer, lease, tag, expires, unknown } = await accessControl(this.env).authorizeFor(this.holder, ask);
        const text = JSON.stringify(answer);
        return {
          ...(lease ?? NO_LEASE),
          value: { text, secret: answer.ok ? secretIn(answer) : null },
          reusable: lease !== null,
          absent: !answer.ok,
          size: text.length + OVERHEAD,
          tag,
          ends: expires,
          key: unknown ? unknownTo : keys[answer.ok ? 1 : 0],
        };
      },
    };
  }

  #secret(mount: string, path: string, version: number): string | Promise<string> {
    return this.#secrets.read({
      owner: mount,
      keys: [`${version} ${path}`],
      tag: path,
      ask: async (question) => {
        const { answer, lease } = await kvStore(this.env, mount).readFor(this.holder, path, version, question);
        const ends = answer.ok && answer.state === "lives" ? deletionOf(answer) : null;
        const text = JSON.stringify(answer);
        return {
          ...(lease ?? NO_LEASE),
          value: text,
          reusable: lease !== null,
          absent: !answer.ok,
          size: text.length + OVERHEAD,
          ends,
        };
      },
    });
  }
}

/** One key for all requests with a token that does not exist. */
const unknownKey = (token: string | null): string => `unknown ${token ?? ""}`;

/** The JSON text of an object with a further member. */
const withMember = (text: string, name: string, value: string): string => `${text.slice(0, -1)},"${name}":${value}}`;

/** When a version deletes itself, ms since 1970; null for never. */
const deletionOf = ({ metadata }: ReadVersion): number | null =>
  metadata.deletion_time === "" ? null : Date.parse(metadata.deletion_time);

const READS: readonly (Capability | "root")[] = ["read", "root"];
const CHANGES: readonly (Capability | "root")[] = ["create", "update", "patch", "delete", "root"];

const includesOne = ({ capabilities }: Grant, wanted: readonly (Capability | "root")[]): boolean =>
  wanted.some((each) => capabilities.includes(each));

/** The secret at the path of a grant, and what the caller may do with it; null for other paths. */
function secretIn(grant: Grant): KeptGrant["secret"] {
  const { mount, path } = grant;
  if (!mount) return null;
  const routes = routesOf(mount);
  const below = path.slice(mount.path.length);
  const secret = routes === "kv" ? VERSIONED.exec(below)?.[1] : routes === "kv-v1" ? below : undefined;
  if (!secret || secret.startsWith("/") || secret.endsWith("/") || secret.includes("//")) return null;
  const [mayRead, mayChange] = [includesOne(grant, READS), includesOne(grant, CHANGES)];
  return { mount: mount.uuid, path: secret, mayRead, mayChange };
}

const VERSIONED = /^(?:data|subkeys)\/(.+)$/s;
