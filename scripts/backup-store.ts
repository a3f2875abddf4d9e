/** Where `npm run serve` keeps its backups. */
export interface BackupStore {
  /** Names of the backups of this deployment, the oldest first. */
  names(signal: AbortSignal): Promise<string[]>;
  /** Stores a whole backup, or nothing. @returns its place and size, for the log */
  put(name: string, content: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<Stored>;
  remove(name: string, signal: AbortSignal): Promise<void>;
}

export interface Stored {
  /** A path, or `s3://BUCKET/KEY`. */
  readonly place: string;
  readonly bytes: number;
}

const NAME = /^sallyport-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.snapshot$/;

export const isBackupName = (name: string): boolean => NAME.test(name);

export const backupName = (ms: number): string =>
  `sallyport-${new Date(ms)
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replace(/[-:]/g, "")}.snapshot`;

/** When a backup was begun, in ms since 1970; 0 for another name. */
export function timeOfBackup(name: string): number {
  const [, year, month, day, hour, minute, second] = NAME.exec(name) ?? [];
  return year === undefined ? 0 : Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
}
