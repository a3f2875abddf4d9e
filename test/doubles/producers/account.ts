import { randomBytes, randomInt, randomUUID } from "node:crypto";
import type { CallFault } from "../faults.ts";
import type { Received } from "../loopback.ts";

/** One account at the providers of examples/producers: its objects, and the words of their APIs. */

export type ProviderName = "gitlab" | "cloudflare" | "datadog" | "atlas" | "snowflake";

/** An object that a provider has made. */
export interface Made {
  readonly id: string;
  readonly name: string;
  readonly secret: string;
  /** Its end, ms since 1970; null: none. */
  expires: number | null;
  /** It may make and remove objects, as the engine's own secret. */
  readonly isRoot?: boolean;
}

export type Fault = CallFault<{ readonly status: number }, "create" | "find" | "revoke" | "renew" | "login">;

export interface Answer {
  readonly status: number;
  readonly body?: unknown;
}

export class Account {
  readonly id = randomBytes(16).toString("hex");
  readonly provider: ProviderName;
  /** The secret of the engine. */
  readonly token = randomBytes(20).toString("hex");
  /** Id of that secret, until it is removed. */
  tokenId: string | null = randomBytes(16).toString("hex");
  /** Bearer tokens of logins. */
  readonly logins = new Set<string>();
  readonly faults: Fault[] = [];
  readonly made: Made[] = [];
  /** Entries of a page. */
  readonly pageSize = 2;

  constructor(provider: ProviderName) {
    this.provider = provider;
    // Objects of others, so that pages and searches have something to leave out.
    for (const name of ["theirs", "sp-theirs", "another"]) this.add(name, null);
  }

  add(name: string, expires: number | null, secret = randomBytes(20).toString("hex"), isRoot = false): Made {
    const id = this.provider === "gitlab" ? String(randomInt(1, 2 ** 31)) : randomUUID().replaceAll("-", "");
    const made = { id, name, secret, expires, ...(isRoot && { isRoot }) };
    this.made.push(made);
    return made;
  }

  living(now: number): Made[] {
    return this.made.filter(({ expires }) => expires === null || expires > now);
  }

  remove(id: string): boolean {
    if (id === this.tokenId) {
      this.tokenId = null;
      return true;
    }
    const at = this.made.findIndex((each) => each.id === id);
    if (at < 0) return false;
    this.made.splice(at, 1);
    return true;
  }

  /** Whether a secret is one that makes and removes objects. */
  owns(secret: string, now: number): boolean {
    const isFirst = secret === this.token && this.tokenId !== null;
    return isFirst || this.living(now).some((each) => each.secret === secret && each.isRoot === true);
  }

  works(secret: string, now: number): boolean {
    return this.living(now).some((each) => each.secret === secret);
  }

  /** A page of a list. @param first number of the first page */
  page<T>(all: readonly T[], page: number, first: number): readonly T[] {
    const from = (page - first) * this.pageSize;
    return all.slice(from, from + this.pageSize);
  }
}

export const bearerOf = ({ headers }: Received): string => headers["authorization"]?.replace(/^Bearer /, "") ?? "";

export const jsonIn = ({ headers, body }: Received): unknown => {
  if (!/^application\/(json|vnd\.atlas\.[\d-]+\+json)$/.test(headers["content-type"] ?? "")) return undefined;
  try {
    return JSON.parse(body.toString());
  } catch {
    return undefined;
  }
};
