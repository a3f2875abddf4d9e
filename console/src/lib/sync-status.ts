/**
 * Statuses of secret sync as words and tones (docs/guides/sync.md). A person meets two failures: `Failing` needs
 * something done, `Retrying` goes by itself.
 */
import type { Tone } from "../components/status.tsx";

const STATUSES: Readonly<Record<string, readonly [Tone, string, string]>> = {
  PENDING: ["wait", "Pending", "Queued, paused, or on its way"],
  SYNCED: ["ok", "Synced", "The destination has the newest version"],
  UNSYNCED: ["off", "Not synced", "Not at the destination any more"],
  EXTERNAL_SERVICE_ERROR: ["warn", "Retrying", "The provider fails or throttles; tried again by itself"],
  UNKNOWN: ["warn", "Retrying", "A call left and no answer came; tried again by itself"],
  CLIENT_SIDE_ERROR: [
    "bad",
    "Failing",
    "Credentials, rights, a name or a size are refused; tried again when something changes",
  ],
  INTERNAL_ERROR: ["bad", "Failing", "A failure of the service; tried again by itself"],
};

export const syncTone = (status: string): Tone => STATUSES[status]?.[0] ?? "info";
export const syncWord = (status: string): string => STATUSES[status]?.[1] ?? status;
export const syncMeaning = (status: string): string => STATUSES[status]?.[2] ?? "";
