/** `custom_metadata.expires_at` of secrets: their end as people know it, such as that of a partner's key. */
import { useEffect, useState } from "preact/hooks";
import { api, isDenied, isMissing } from "../../api/client.ts";
import type { Tone } from "../../components/status.tsx";
import { relativeText, timeOf } from "../../lib/time.ts";
import type { KvMount } from "./addresses.ts";

/** The default of notification rules. */
const SOON_MS = 14 * 86_400_000;
const PAGE = 1_000;
/** Folders that are read for the list. */
const MAX_REQUESTS = 300;

/** The moment of a secret's metadata, ms since 1970; null without one. */
export const expiryOf = (custom: Readonly<Record<string, string>> | null | undefined): number | null =>
  timeOf(custom?.["expires_at"]);

/** Shape and words of an end. */
export function expiryStatus(at: number, now: number): { readonly tone: Tone; readonly text: string } {
  if (at <= now) return { tone: "bad", text: `Expired ${relativeText(at, now)}` };
  return { tone: at - now < SOON_MS ? "warn" : "off", text: `Expires ${relativeText(at, now)}` };
}

export interface Expiring {
  readonly path: string;
  readonly at: number;
}

export interface ExpiringList {
  /** The earliest first. */
  readonly found: readonly Expiring[];
  readonly isReading: boolean;
  /** Folders that may not be listed, or are left beyond the bound or after a failure. */
  readonly unread: number;
  readonly failure: unknown;
  readonly readAgain: () => void;
}

const BEGUN = { found: [], isReading: true, unread: 0, failure: null };

/** Secrets of a mount with an end, by the detailed lists of its folders. */
export function useExpiring({ path: mount }: KvMount): ExpiringList {
  const [state, setState] = useState<Omit<ExpiringList, "readAgain">>(BEGUN);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const aborting = new AbortController();
    const { signal } = aborting;
    const queue: { readonly folder: string; readonly after: string }[] = [{ folder: "", after: "" }];
    const found: Expiring[] = [];
    const read = async (): Promise<void> => {
      let unread = 0;
      let stopped: unknown = null;
      for (let requests = 0; requests < MAX_REQUESTS && !signal.aborted; requests++) {
        const next = queue.shift();
        if (!next) break;
        const { folder, after } = next;
        const query = { limit: PAGE, ...(after === "" ? {} : { after }) };
        const shared = { mount, query, signal, quiet: true };
        const path = folder.replace(/\/$/, "");
        try {
          const { data } = await (path === ""
            ? api("LIST /v1/secret/detailed-metadata", shared)
            : api("LIST /v1/secret/detailed-metadata/{path}", { ...shared, path: { path } }));
          for (const name of data.keys) {
            if (name.endsWith("/")) queue.push({ folder: folder + name, after: "" });
            const info = data.key_info[name] as
              | { readonly custom_metadata?: Record<string, string> | null }
              | undefined;
            const at = expiryOf(info?.custom_metadata);
            if (at !== null) found.push({ path: folder + name, at });
          }
          if (data.keys.length >= PAGE) queue.push({ folder, after: data.keys.at(-1) ?? "" });
        } catch (failure) {
          // An empty folder is none.
          if (isMissing(failure)) continue;
          unread++;
          if (isDenied(failure)) continue;
          stopped = failure;
          break;
        }
      }
      if (signal.aborted) return;
      found.sort((a, b) => a.at - b.at);
      setState({ found, isReading: false, unread: unread + queue.length, failure: stopped });
    };
    setState(BEGUN);
    void read();
    return () => aborting.abort();
  }, [mount, round]);
  return { ...state, readAgain: () => setRound(round + 1) };
}
