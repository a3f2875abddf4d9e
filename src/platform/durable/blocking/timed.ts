/** A component of the registry whose rows have deadlines. */
export interface Timed {
  /** SQL statement that returns the earliest deadline (ms since 1970), or null. */
  readonly due: string;
  /** Processes due rows. Rows left over are due again immediately. */
  onAlarm(now: number): Promise<void>;
}
