/** A part of the registry whose rows wait for a time. */
export interface Timed {
  /** The earliest of these times (ms since 1970), or null. */
  nextDue(): number | null;
  /** Does what is due. What is left over is due again at once. */
  onAlarm(now: number): Promise<void>;
}
