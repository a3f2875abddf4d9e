import { FOLDER_NAMES, TYPE_NAMES } from "./dialect.ts";

/** The segment of a path that has two names, and both of them. */
export interface TwoNames {
  /** Counted from 0. */
  readonly segment: number;
  readonly neutral: string;
  readonly upstream: string;
}

/**
 * Where a path (inside its namespace, without leading slash) uses a word that has two names. Only that place counts: a
 * destination called `gh`, or a secret below a mount, is whatever its owner calls it.
 */
export function twoNames(path: string): TwoNames | null {
  const segments = path.split("/", 4);
  const [sys, sync, folder] = segments;
  if (sys !== "sys" || sync !== "sync") return null;
  const segment = folder === "destinations" ? 3 : 2;
  const names = segment === 3 ? TYPE_NAMES : FOLDER_NAMES;
  for (const [neutral, upstream] of names) {
    if (segments[segment] === neutral || segments[segment] === upstream) return { segment, neutral, upstream };
  }
  return null;
}

/** The path with another word at that segment. */
export function withSegment(path: string, segment: number, word: string): string {
  return path.split("/").with(segment, word).join("/");
}

/** The path as routes know it. */
export function neutralPath(path: string): string {
  const named = twoNames(path);
  return named ? withSegment(path, named.segment, named.neutral) : path;
}
