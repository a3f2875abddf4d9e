/** The method of `AuditCollector` that Workers call. */
export interface AuditCollectorApi {
  /**
   * Writes lines to every sink, together with those of others.
   * @param isAwaited whether a request waits for the lines; others are written within seconds
   * @returns whether every sink has them. After false, and after a failed call, a sink may have them in part
   */
  write(lines: readonly string[], isAwaited: boolean): Promise<boolean>;
}
