import { FOLDER_NAMES, TYPE_NAMES } from "./dialect.ts";

/** A path segment with an alias. */
export interface Alias {
  /** Counted from 0. */
  readonly segment: number;
  readonly neutral: string;
  readonly upstream: string;
}

/**
 * Finds the aliased segment of a path (inside its namespace, without leading slash). Only its fixed position counts:
 * names of destinations and secrets are never aliases.
 */
export function aliasIn(path: string): Alias | null {
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

/** The path with that segment replaced. */
export function withSegment(path: string, segment: number, word: string): string {
  return path.split("/").with(segment, word).join("/");
}

/** The path with neutral names, as used by routes. */
export function neutralPath(path: string): string {
  const named = aliasIn(path);
  return named ? withSegment(path, named.segment, named.neutral) : path;
}
