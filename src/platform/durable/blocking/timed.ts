/** A part of the registry whose rows wait for a time. */
export interface Timed {
  /** The statement that answers the earliest of these times (ms since 1970), or null. */
  readonly due: string;
  /** Does what is due. What is left over is due again at once. */
  onAlarm(now: number): Promise<void>;
}
