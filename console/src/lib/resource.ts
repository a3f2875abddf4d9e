/** Reads of the API as state of a component. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { forgetRights } from "../api/rights.ts";
import { session } from "../api/session.ts";

export interface Resource<Value> {
  /** The last answer; stays while a newer one is read or has failed. */
  readonly value: Value | undefined;
  /** Why the last read failed. */
  readonly error: unknown;
  readonly isLoading: boolean;
  /** Reads again, and has rights asked for again; the value stays meanwhile. */
  readonly reload: () => void;
}

interface State<Value> {
  readonly key: string;
  readonly value: Value | undefined;
  readonly error: unknown;
  readonly isLoading: boolean;
}

/** A read without an answer for this long is given up when it is polled. */
const HANGS_MS = 60_000;

/**
 * Reads when the component appears and when `key` changes; a change of `key` also drops the last value.
 * @param read gets a signal that aborts when the answer is no longer needed
 * @param everyMs reads again after this time, while the page is visible
 */
export function useResource<Value>(
  key: readonly unknown[],
  read: (signal: AbortSignal) => Promise<Value>,
  { everyMs = 0, skip = false }: { readonly everyMs?: number; readonly skip?: boolean } = {},
): Resource<Value> {
  const id = JSON.stringify(key);
  const [state, setState] = useState<State<Value>>({ key: id, value: undefined, error: null, isLoading: !skip });
  const [round, setRound] = useState(0);
  const latest = useRef(read);
  latest.current = read;
  /** The read that is under way, and when it began. */
  const reading = useRef<{ readonly aborting: AbortController; readonly began: number } | null>(null);

  useEffect(() => {
    if (skip) return;
    const aborting = new AbortController();
    reading.current = { aborting, began: Date.now() };
    setState((last) => ({
      key: id,
      value: last.key === id ? last.value : undefined,
      error: last.key === id ? last.error : null,
      isLoading: true,
    }));
    latest
      .current(aborting.signal)
      .then(
        (value) => {
          if (!aborting.signal.aborted) setState({ key: id, value, error: null, isLoading: false });
        },
        (error: unknown) => {
          if (!aborting.signal.aborted)
            setState((last) => ({ key: id, value: last.key === id ? last.value : undefined, error, isLoading: false }));
        },
      )
      .finally(() => {
        if (reading.current?.aborting === aborting) reading.current = null;
      });
    return () => aborting.abort();
  }, [id, round, skip]);

  const reload = useCallback(() => {
    forgetRights();
    setRound((last) => last + 1);
  }, []);
  useEffect(() => {
    if (everyMs === 0 || skip) return;
    // The next read aborts the last one, so a slow one is waited for, and one that hangs is not.
    const isRead = () =>
      reading.current !== null && Date.now() - reading.current.began < Math.max(4 * everyMs, HANGS_MS);
    const timer = setInterval(() => {
      if (!document.hidden && session.peek() && !isRead()) setRound((last) => last + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, skip]);

  const isCurrent = state.key === id;
  return {
    value: isCurrent ? state.value : undefined,
    error: isCurrent ? state.error : null,
    isLoading: isCurrent ? state.isLoading : !skip,
    reload,
  };
}

export interface Page<Row> {
  readonly rows: readonly Row[];
  /** Where the next page begins; null on the last one. */
  readonly next: string | null;
}

export interface Pages<Row> extends Resource<readonly Row[]> {
  /** Whether the service has more rows than were read. */
  readonly hasMore: boolean;
  readonly loadMore: () => void;
}

const NO_ROWS: readonly never[] = [];

/** A list that is read page by page, as far as it is shown. */
export function usePages<Row>(
  key: readonly unknown[],
  read: (from: string | null, signal: AbortSignal) => Promise<Page<Row>>,
  options: { readonly everyMs?: number; readonly skip?: boolean } = {},
): Pages<Row> {
  const first = useResource(key, (signal) => read(null, signal), options);
  // Of this value of the first page: another one is a list that was read again.
  const [more, setMore] = useState<Page<Row> & { readonly of: unknown; readonly error: unknown }>();
  const isReading = useRef(false);
  const latest = useRef(read);
  latest.current = read;
  const added = more && more.of === first.value ? more : undefined;
  const next = added ? added.next : (first.value?.next ?? null);
  const further = added?.rows ?? NO_ROWS;

  // The same after a failure: a table calls each new one at its end.
  const loadMore = useCallback(() => {
    if (next === null || isReading.current || !first.value) return;
    isReading.current = true;
    const before = { of: first.value, rows: further, next, error: null };
    latest
      .current(next, new AbortController().signal)
      .then(
        (page) => setMore({ ...before, rows: [...further, ...page.rows], next: page.next }),
        (error: unknown) => setMore({ ...before, error }),
      )
      .finally(() => {
        isReading.current = false;
      });
  }, [next, first.value, further]);

  return {
    value: first.value && (further.length > 0 ? [...first.value.rows, ...further] : first.value.rows),
    error: first.error ?? added?.error ?? null,
    isLoading: first.isLoading,
    reload: first.reload,
    hasMore: next !== null,
    loadMore,
  };
}

interface Action<Args extends unknown[]> {
  readonly run: (...args: Args) => Promise<boolean>;
  readonly isBusy: boolean;
  readonly error: unknown;
  readonly clear: () => void;
}

/** A write that a button starts: `run` resolves with whether it succeeded; a failure is kept in `error`. */
export function useAction<Args extends unknown[]>(perform: (...args: Args) => Promise<unknown>): Action<Args> {
  const [state, setState] = useState<{ readonly isBusy: boolean; readonly error: unknown }>({
    isBusy: false,
    error: null,
  });
  const latest = useRef(perform);
  latest.current = perform;
  const run = useCallback(async (...args: Args) => {
    setState({ isBusy: true, error: null });
    try {
      await latest.current(...args);
      setState({ isBusy: false, error: null });
      return true;
    } catch (error) {
      setState({ isBusy: false, error });
      return false;
    }
  }, []);
  const clear = useCallback(() => setState({ isBusy: false, error: null }), []);
  return { ...state, run, clear };
}
