import type { Mount } from "../../contracts/mount.ts";
import { unwrap } from "../../platform/http/errors.ts";
import { accessControl } from "../../rpc/stubs.ts";
import type { AuthorisedCall } from "../server/route.ts";

/** The common part of all sources of a search: the words, the rights of the caller, and the bounds of one request. */

export const TYPES = ["secret", "role", "policy", "destination", "node", "volume", "job"] as const;
export type Type = (typeof TYPES)[number];

/** An object that a search has found. */
export interface Hit {
  readonly type: Type;
  /** A secret's path in its mount, else a name. */
  readonly name: string;
  /** Of secrets, policies, roles and destinations with a trailing slash; of volumes and jobs that of the cluster. */
  readonly namespace: string;
  /** With a trailing slash; empty for objects that are in no mount. */
  readonly mount: string;
  /** The path of the API that reads it, inside its namespace. */
  readonly path: string;
}

/** A part of the result of one source. */
export interface Part {
  readonly hits: readonly Hit[];
  /** Where the source goes on; null at its end. */
  readonly next: unknown;
}

/**
 * Finds objects of one type, in an order of its own.
 * @param position `next` of an earlier part; null for the beginning
 * @param room the greatest number of hits
 */
export type Source = (search: Search, position: unknown, room: number) => Promise<Part>;

/** Paths that show the existence of an object: a caller sees it with `list` or `read` on one of them. */
export interface Evidence {
  /** In the namespace of the object. */
  readonly namespace: string;
  readonly lists: readonly string[];
  readonly reads: readonly string[];
}

/** Steps of one request: calls of objects and of D1 together. */
const MAX_STEPS = 24;
const MAX_ROWS = 400_000;
const MAX_JUDGED = 2_000;
const JUDGED_AT_ONCE = 300;
const MOUNTS = 64;

/** One request of a search. */
export class Search {
  readonly env: Env;
  /** Whether a path lets the caller see what it lists or reads, as judged by this request. */
  readonly #judged = new Map<string, boolean>();
  #steps = 0;
  #rows = 0;
  #judgements = 0;

  constructor(
    private readonly call: AuthorisedCall,
    /** In lower case. */
    readonly words: readonly string[],
    /** Everything is found in this namespace and below it. */
    readonly namespace: string,
    /** The path of the only mount that is searched, with its slash; empty: all. */
    private readonly mount: string,
  ) {
    this.env = call.env;
  }

  /** Whether the request may do more. */
  get goesOn(): boolean {
    return this.#steps < MAX_STEPS && this.#rows < MAX_ROWS && this.#judgements < MAX_JUDGED;
  }

  /** Counts a step. @param rows that were read */
  step(rows = 0): void {
    this.#steps++;
    this.#rows += rows;
  }

  matches(text: string): boolean {
    const folded = text.toLowerCase();
    return this.words.every((word) => folded.includes(word));
  }

  /** Whether the names of a mount are wanted. */
  includes({ namespace, path }: Mount): boolean {
    return this.mount === "" || (namespace === this.namespace && path === this.mount);
  }

  /** The next mounts in which the caller has any right, by uuid. @param after the uuid before the first */
  async mounts(after: string): Promise<{ mounts: Mount[]; isLast: boolean }> {
    this.step();
    const { accessor } = this.call.grant.identity;
    const mounts = await accessControl(this.env).searchableMounts(accessor, this.namespace, after, MOUNTS);
    return { mounts, isLast: mounts.length < MOUNTS };
  }

  /** Which objects the caller may see, by the policies of this moment. */
  async visible(objects: readonly Evidence[]): Promise<boolean[]> {
    if (this.call.grant.capabilities.includes("root")) return objects.map(() => true);
    this.#judgements += objects.length;
    const visible: boolean[] = [];
    for (let start = 0; start < objects.length; start += JUDGED_AT_ONCE) {
      const some = objects.slice(start, start + JUDGED_AT_ONCE);
      await this.#judge(some.flatMap((each) => [...each.lists, ...each.reads].map((path) => each.namespace + path)));
      visible.push(...some.map((each) => this.#isVisible(each)));
    }
    return visible;
  }

  #isVisible({ namespace, lists, reads }: Evidence): boolean {
    const has = (path: string, right: "list" | "read") => this.#judged.get(`${right} ${namespace}${path}`) === true;
    return lists.some((path) => has(path, "list")) || reads.some((path) => has(path, "read"));
  }

  /** @param paths from the root, with their namespaces */
  async #judge(paths: readonly string[]): Promise<void> {
    const { grant, token } = this.call;
    const from = grant.namespace;
    const unknown = [...new Set(paths)].filter((path) => !this.#judged.has(`list ${path}`));
    if (unknown.length === 0) return;
    const inside = unknown.map((path) => path.slice(from.length));
    const found = unwrap(await accessControl(this.env).capabilities({ own: token }, from, inside));
    for (const path of unknown) {
      const has = found[path.slice(from.length)] ?? [];
      for (const right of ["list", "read"] as const) this.#judged.set(`${right} ${path}`, has.includes(right));
    }
  }
}
