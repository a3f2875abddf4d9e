import { createHmac, timingSafeEqual } from "node:crypto";
import {
  BATCH_ACCESSOR,
  BATCH_PREFIX,
  MAX_BATCH_TOKEN,
  type TokenBody,
  type TokenRole,
} from "../../contracts/tokens.ts";
import { randomText } from "../../lib/random-text.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import { Sealed } from "../../platform/crypto/keyring.ts";
import type { AuthMountTable } from "../auth-methods/auth-mounts.ts";
import type { NamespaceTree } from "../namespaces/namespaces.ts";
import { type NewToken, type TokenRow, tokenRow } from "./token.ts";
import type { TokenHashKey } from "./token-hash-key.ts";

/** Format of a statement; a later format gets another number. */
const VERSION = 1;
const CONTEXT = "batch-token";
/** The place of the metadata in a statement. */
const META = 13;

/** The content of a batch token, in this order. Times in ms since 1970. */
type Statement = readonly [
  version: typeof VERSION,
  id: string,
  namespaceId: string,
  namespace: string,
  policies: readonly string[],
  created: number,
  expires: number,
  /** The accessor of the parent; null for an orphan. */
  parent: string | null,
  name: string,
  path: string,
  entity: string,
  role: string | null,
  networks: string | null,
  meta: string | null,
  /** The uuid of the auth mount of a login; absent for other tokens. */
  mount?: string,
];

/**
 * Batch tokens (https://developer.hashicorp.com/vault/docs/concepts/tokens#batch-tokens): statements sealed under the data
 * keys of `AccessControl`. No row is stored. A token names the lifetime of its namespace, so it does not work in a later
 * one at the same path. That of a login names its auth mount, and ends with it. Older data keys stay, so a rotation keeps
 * tokens valid.
 *
 * Inside the service such a token is named by an accessor that holds the statement without its metadata, and a keyed
 * hash of it: it identifies the token in later calls of the same request, and cannot be used as a token.
 */
export class BatchTokens {
  constructor(
    private readonly keys: DataKeys,
    private readonly hashKey: TokenHashKey,
    private readonly namespaces: NamespaceTree,
    private readonly authMounts: AuthMountTable,
  ) {}

  /**
   * Seals the statement of a drafted token.
   * @param parent the accessor of its parent; null for an orphan
   * @returns null when the token would be longer than accepted
   */
  seal(token: NewToken, parent: string | null): string | null {
    const { namespace, policies, name, path, role, meta, created, expires, ...row } = tokenRow(token, "", "");
    const login: [mount?: string] = row.auth_mount === null ? [] : [row.auth_mount];
    const statement: Statement = [
      VERSION,
      randomText(16),
      this.namespaces.idOf(namespace) ?? "",
      namespace,
      JSON.parse(policies),
      created,
      expires as number,
      parent,
      name,
      path,
      row.entity_id,
      role,
      row.bound_cidrs,
      meta,
      ...login,
    ];
    const sealed = this.keys.seal(JSON.stringify(statement), CONTEXT);
    const text = BATCH_PREFIX + Buffer.from(sealed).toString("base64url");
    return text.length > MAX_BATCH_TOKEN ? null : text;
  }

  /** The token of a text; null for texts that are not one. @throws Sealed while the service is sealed */
  open(text: string): TokenRow | null {
    const bytes = decoded(text.slice(BATCH_PREFIX.length));
    if (!bytes) return null;
    try {
      return this.#row(JSON.parse(this.keys.openText(bytes, CONTEXT)) as Statement);
    } catch (failure) {
      if (failure instanceof Sealed && this.keys.sealedBecause() === null) return null;
      throw failure;
    }
  }

  /** The token of an accessor of `open`; null for other texts. */
  named(accessor: string): TokenRow | null {
    const [, , payload = "", mac = ""] = accessor.split(".");
    const [bytes, given] = [decoded(payload), decoded(mac)];
    if (!bytes || !given) return null;
    const expected = this.#mac(payload);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    return this.#row(JSON.parse(bytes.toString()) as Statement);
  }

  #row(statement: Statement): TokenRow | null {
    const [version, , namespaceId, namespace, policies, created, expires, parent] = statement;
    if (version !== VERSION || this.namespaces.idOf(namespace) !== namespaceId) return null;
    const [, , , , , , , , name, path, entity, role, networks, meta, mount] = statement;
    if (mount !== undefined && !this.authMounts.byUuid(mount)) return null;
    const token: NewToken = {
      parent,
      namespace,
      policies: JSON.stringify(policies),
      name,
      meta,
      path,
      family: "batch",
      created,
      expires,
      ttl: Math.round((expires - created) / 1000),
      orphan: parent === null ? 1 : 0,
      entity_id: entity,
      auth_mount: mount ?? null,
      bound_cidrs: networks,
      role,
    };
    return tokenRow(token, "", this.#accessorOf(statement));
  }

  #accessorOf(statement: Statement): string {
    const withoutMeta = statement.with(META, null);
    const payload = Buffer.from(JSON.stringify(withoutMeta)).toString("base64url");
    return `${BATCH_ACCESSOR}${statement[7] ?? ""}.${payload}.${this.#mac(payload).toString("base64url")}`;
  }

  #mac(payload: string): Buffer {
    return createHmac("sha256", this.hashKey.open()).update(`${CONTEXT} ${payload}`).digest();
  }
}

/** Bytes of a text in the one canonical spelling of base64url; null for others. */
function decoded(text: string): Buffer | null {
  const bytes = Buffer.from(text, "base64url");
  return bytes.length > 0 && bytes.toString("base64url") === text ? bytes : null;
}

/** Whether a request makes a batch token: the role decides, or else the request. */
export function isBatchRequest({ type }: Pick<TokenBody, "type">, role: TokenRole | null): boolean {
  if (role?.token_type === "service" || role?.token_type === "batch") return role.token_type === "batch";
  return type === "batch" || (type === "" && role?.token_type === "default-batch");
}

/** Why a batch token cannot have the fields of a request, in upstream's words; null for none. */
export function batchProblem(request: TokenBody, role: TokenRole | null, policies: readonly string[]): string | null {
  const set = request.explicit_max_ttl
    ? "explicit_max_ttl"
    : request.num_uses || role?.token_num_uses
      ? "num_uses"
      : request.period || role?.token_period
        ? "period"
        : request.id
          ? "id"
          : null;
  if (set !== null) return `batch tokens cannot have ${JSON.stringify(set)} set`;
  return policies.includes("root") ? "batch tokens cannot be root tokens" : null;
}
