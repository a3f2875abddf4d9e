import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { inLowerCase } from "../../rights/aliases.ts";
import { caselessSegments } from "../paths/path-evaluator.ts";
import type { PathResolver } from "../paths/path-resolver.ts";

/** The kinds of a quota's path. */
export type QuotaKind = "global" | "namespace" | "mount" | "prefix" | "exact";
/** The larger wins. */
export const RANK: Readonly<Record<QuotaKind, number>> = { global: 0, namespace: 1, mount: 2, prefix: 3, exact: 4 };

/** The place of a quota: a namespace, a mount, or paths in one. */
export interface QuotaScope {
  readonly kind: QuotaKind;
  /** From the root; that of a namespace or a mount ends in a slash. */
  readonly path: string;
  /** Whether the quota of a namespace counts for those below it. */
  readonly inheritable: boolean;
}

/** A path in a namespace. */
interface Place {
  readonly namespace: string;
  readonly path: string;
}

const NAME = /^[A-Za-z0-9._-]{1,128}$/;

/** The refusal of a quota's name; null for a valid one. */
export const quotaNameRefusal = (name: string): Refusal | null =>
  NAME.test(name) ? null : refuse("invalid", "name: must be 1 to 128 of a-z A-Z 0-9 . _ -");

/** The paths of quotas of every kind: which place they name, and which requests they cover. Owns no state. */
export class QuotaScopes {
  constructor(private readonly paths: PathResolver) {}

  /** The kind and the stored spelling of a path that a request gives. */
  scopeOf(text: string): Result<Pick<QuotaScope, "kind" | "path">> {
    const path = text.replace(/^\/+/, "");
    const kind = this.#kindOf(path);
    if (kind === null) return refuse("invalid", "path: invalid mount path: there is neither a mount nor a namespace");
    return ok({ kind, path: kind === "namespace" || kind === "mount" ? path.replace(/\/?$/, "/") : path });
  }

  /** Whether a quota covers a place, as a predicate on quotas. */
  covering(place: Place): (quota: QuotaScope) => boolean {
    const { namespace, path } = place;
    const whole = namespace + path;
    return (quota) => {
      if (quota.kind === "global" || quota.kind === "namespace")
        return namespace === quota.path || (quota.inheritable && namespace.startsWith(quota.path));
      if (quota.kind === "mount") return whole.startsWith(quota.path);
      const spelled = this.spelling(place);
      return isNamed(spelled(whole), spelled(quota.path));
    };
  }

  /** Spells paths as that of a place is routed: a caseless name has one spelling. */
  spelling(place: Place): (path: string) => string {
    const inside = caselessSegments(this.paths, place);
    if (inside === null) return (path) => path;
    const segments = { first: inside.first + place.namespace.split("/").length - 1, count: inside.count };
    return (path) => inLowerCase(path, segments);
  }

  #kindOf(path: string): QuotaKind | null {
    if (path === "") return "global";
    const place = this.paths.kindOf(path.replace(/\*$/, ""));
    if (place !== null && path.endsWith("*")) return "prefix";
    return place === "inside" ? "exact" : place;
  }
}

/** Whether a setting names a path: a final `*` makes a prefix, and a final slash of the path is ignored. */
export const isNamed = (path: string, setting: string): boolean =>
  setting.endsWith("*") ? path.startsWith(setting.slice(0, -1)) : path === setting || path === `${setting}/`;
