/**
 * Addresses of the screen: `/ui/secrets`, `/ui/secrets/MOUNT`, `/ui/secrets/MOUNT/at/PATH/OF/SECRET`, and for many
 * secrets of a folder `/ui/secrets/MOUNT/many/FOLDER` or `/ui/secrets/MOUNT/compare/FOLDER`.
 */
import type { Schemas } from "../../api/client.ts";
import { href, place } from "../../app/router.ts";

export interface KvMount {
  /** Without the slash at its end. */
  readonly path: string;
  readonly version: 1 | 2;
  readonly description: string;
  /** Null for callers who may only see that the mount exists. */
  readonly details: Schemas["Mount"] | null;
  /** Where it is not the selected namespace. */
  readonly namespace?: string;
}

const AT = "at";
const MANY = "many";
const COMPARE = "compare";

interface SecretsPlace {
  readonly mount: string | null;
  /** Path of the selected secret; null for none. */
  readonly secret: string | null;
  /** Folder whose secrets are selected, empty or with a slash at its end; null elsewhere. */
  readonly many: string | null;
  /** Folder or secret that is compared, without a slash at its end; null elsewhere. */
  readonly compared: string | null;
}

/** The part of the tree that the address selects. Reads the router's signal. */
export function secretsPlace(): SecretsPlace {
  const [mount = null, marker, ...path] = place.value.segments;
  return {
    mount,
    secret: marker === AT && path.length > 0 ? path.join("/") : null,
    compared: marker === COMPARE ? path.join("/") : null,
    many: marker === MANY ? path.map((name) => `${name}/`).join("") : null,
  };
}

/** @param folder empty, or with a slash at its end */
export const manyHref = (mount: string, folder: string): string =>
  href("secrets", [mount, MANY, ...folder.split("/").filter(Boolean)]);

export const compareHref = (mount: string, path: string, query: Readonly<Record<string, string | null>> = {}): string =>
  href("secrets", [mount, COMPARE, ...path.split("/").filter(Boolean)], query);

export const mountHref = (mount: string): string => href("secrets", [mount]);

export const secretHref = (mount: string, path: string, query: Readonly<Record<string, string | null>> = {}): string =>
  href("secrets", [mount, AT, ...path.split("/")], query);

export const parentOf = (path: string): string => path.slice(0, path.lastIndexOf("/") + 1);

export const baseOf = (path: string): string => path.slice(path.replace(/\/$/, "").lastIndexOf("/") + 1);

/** The right to write a new secret in an engine. */
export const newNeed = ({ path, version }: { readonly path: string; readonly version: number }) =>
  `POST ${path}/${version === 2 ? "data/" : ""}*` as const;
