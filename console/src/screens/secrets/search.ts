/** Names of secrets: of a folder and those below it, read one by one, or of a mount, by words. */
import { useEffect, useRef, useState } from "preact/hooks";
import { api, isDenied } from "../../api/client.ts";
import type { KvMount } from "./addresses.ts";
import { listFolder } from "./reads.ts";

interface NameIndex {
  /** Paths of the secrets that were found so far. */
  readonly paths: readonly string[];
  readonly foldersRead: number;
  readonly foldersLeft: number;
  /** Folders whose names the caller may not list. */
  readonly foldersRefused: number;
  readonly isReading: boolean;
  /** Why the reading stopped before its end; null while it goes on. */
  readonly failure: unknown;
  /** Reads on after the bound was reached, or after a failure. */
  readonly readOn: () => void;
}

/** Requests before the search asks whether to continue. */
const MAX_REQUESTS = 300;
const MAX_CONCURRENT = 4;

interface Walk {
  readonly queue: { readonly folder: string; readonly after: string | null }[];
  readonly paths: string[];
  read: number;
  refused: number;
}

const begun = (folder: string): Walk => ({ queue: [{ folder, after: null }], paths: [], read: 0, refused: 0 });

/** @param folder empty, or with a slash at its end */
export function useNameIndex(mount: KvMount, folder: string): NameIndex {
  const walk = useRef(begun(folder));
  const [budget, setBudget] = useState(MAX_REQUESTS);
  const [, setRound] = useState(0);
  const [isReading, setReading] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  useEffect(() => {
    const aborting = new AbortController();
    let hasFailed = false;
    const state = walk.current;
    const readNext = async (): Promise<void> => {
      const take = () => (state.read < budget && !hasFailed ? state.queue.shift() : undefined);
      for (let next = take(); next; next = take()) {
        try {
          const page = await listFolder(mount, next.folder, next.after, aborting.signal);
          for (const name of page.names)
            if (name.endsWith("/")) state.queue.push({ folder: `${next.folder}${name}`, after: null });
            else state.paths.push(`${next.folder}${name}`);
          if (page.next !== null) state.queue.unshift({ folder: next.folder, after: page.next });
        } catch (error) {
          if (aborting.signal.aborted || !isDenied(error)) {
            state.queue.unshift(next);
            hasFailed = true;
            if (!aborting.signal.aborted) setFailure(error);
            return;
          }
          state.refused++;
        }
        state.read++;
        setRound((round) => round + 1);
      }
    };
    const perform = async (): Promise<void> => {
      setReading(true);
      setFailure(null);
      // Readers that find the queue empty end, although the others may still fill it.
      while (state.queue.length > 0 && state.read < budget && !hasFailed && !aborting.signal.aborted)
        await Promise.all(Array.from({ length: MAX_CONCURRENT }, readNext));
      if (!aborting.signal.aborted) setReading(false);
    };
    void perform();
    return () => aborting.abort();
  }, [budget]);
  const { paths, queue, read, refused } = walk.current;
  return {
    paths,
    foldersRead: read,
    foldersLeft: queue.length,
    foldersRefused: refused,
    isReading,
    failure,
    readOn: () => setBudget((before) => before + MAX_REQUESTS),
  };
}

/** Names of a page, the most that the service has in one. */
const PAGE = 100;

/** Secrets of a mount whose paths have all the words, by the index of names. @param most how many at least, where there are as many */
export async function findSecrets(mount: string, q: string, most: number, signal: AbortSignal) {
  const paths: string[] = [];
  let after = "";
  do {
    const query = { q, type: "secret", mount, limit: PAGE, after };
    const { data } = await api("GET /v1/sys/search", { query, signal, quiet: true });
    paths.push(...data.hits.map(({ name }) => name));
    after = data.next;
  } while (after !== "" && paths.length < most);
  return { paths, hasMore: after !== "" };
}

/** Paths with all the words, at most `limit` of them. */
export function matching(paths: readonly string[], words: string, limit: number): string[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found: string[] = [];
  for (const path of paths) {
    const text = path.toLowerCase();
    if (wanted.every((word) => text.includes(word))) found.push(path);
    if (found.length >= limit) break;
  }
  return found;
}
