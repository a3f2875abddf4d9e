import type { NamespaceRule } from "./cluster-rights.ts";

/** What a reader's token lets it see of what it asked for. */
export interface Scope {
  /** Null = all. */
  readonly namespaces: readonly string[] | null;
  /** Rules by which each event is judged besides; null when none needs to be. */
  readonly rules: readonly NamespaceRule[] | null;
  /** The index at which the one namespace began: earlier events in its name are another one's. Absent in answers of older releases. */
  readonly since?: number;
}

/** May the holder of a token read these topics of a namespace? Asked when a stream is opened, and again whenever it may matter. */
export interface StreamQuestion {
  readonly accessor: string;
  readonly topics: readonly string[];
  /** `*` = all. */
  readonly namespace: string;
}

export type StreamAnswer =
  | { readonly allowed: false }
  /** `expires`: until when the answer holds (ms since 1970), null = until an event tells otherwise. */
  | { readonly allowed: true; readonly scope: Scope; readonly expires: number | null };
