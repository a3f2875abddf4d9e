/** A caller's limit after a request was counted. */
export interface RateLimit {
  readonly limit: number;
  readonly remaining: number;
  /** Seconds until the caller may send requests again, or until its interval ends. */
  readonly resetS: number;
  /** Whether answers show the limit. */
  readonly shown: boolean;
}
