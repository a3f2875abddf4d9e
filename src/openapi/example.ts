/**
 * One request to a route. The API document shows its body, and tests make their rows from it: bad input, the right that
 * the route requires, and the effect of each field. Never part of the Worker.
 */
export interface Example {
  /**
   * The required right, written from docs/ and not from the route. Secrets API: the capability on the path, plus `sudo`.
   * Cluster API: `family:right`; `|` means any of these, `&` both. `anybody` needs no token, `any token` any valid one.
   */
  readonly right: string;
  /** Values of the path's parameters, where the usual ones of the tests do not fit. */
  readonly params?: Readonly<Record<string, string>>;
  /** Has every required field; tests of bad input and rights send those alone. */
  readonly body?: Readonly<Record<string, unknown>>;
  /** The test that shows the effect of fields, `file › title`, and `› row` for a title with a placeholder. */
  readonly effects?: Readonly<Record<string, string>>;
}

/** Examples by verb and path of their route, as in `Group`. */
export type Examples = Readonly<Record<string, Example>>;
