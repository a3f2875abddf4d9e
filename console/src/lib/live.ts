/** Reads that are repeated while the page is open. Only the first one is recorded as a command. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type Page, type Pages, type Resource, usePages, useResource } from "./resource.ts";

/** Options of a request in the background. */
interface ReadOptions {
  readonly signal: AbortSignal;
  readonly quiet: boolean;
}

/** A resource that is read again each `everyMs`. */
export function useLive<Value>(
  key: readonly unknown[],
  read: (options: ReadOptions) => Promise<Value>,
  { everyMs = 5_000, skip = false }: { readonly everyMs?: number; readonly skip?: boolean } = {},
): Resource<Value> {
  const known = useKnown(key);
  return useResource(key, (signal) => known(signal, read), { everyMs, skip });
}

/** A list that is read again while it has one page; a longer one keeps the pages that were read. */
export function useLiveList<Row>(
  key: readonly unknown[],
  read: (from: string | null, options: ReadOptions) => Promise<Page<Row>>,
  { everyMs = 5_000, skip = false }: { readonly everyMs?: number; readonly skip?: boolean } = {},
): Pages<Row> {
  const known = useKnown(key);
  const isLong = useRef(false);
  const pages = usePages(key, (from, signal) => known(signal, (options) => read(from, options)), {
    everyMs: isLong.current ? 0 : everyMs,
    skip,
  });
  isLong.current ||= pages.hasMore;
  return pages;
}

function useKnown(key: readonly unknown[]) {
  const last = useRef<string | null>(null);
  const id = JSON.stringify(key);
  return async <Value>(signal: AbortSignal, read: (options: ReadOptions) => Promise<Value>): Promise<Value> => {
    const value = await read({ signal, quiet: last.current === id });
    last.current = id;
    return value;
  };
}

/** The value once it has not changed for a while: for what a person types. */
export function useSettled<Value>(value: Value, afterMs = 250): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), afterMs);
    return () => clearTimeout(timer);
  }, [value, afterMs]);
  return settled;
}

/** Query parameters of a page of the cluster API. */
export const pageOf = (from: string | null, size = 200): { readonly per_page: number; readonly next_token?: string } =>
  from === null ? { per_page: size } : { per_page: size, next_token: from };

/**
 * Filter of a list of the cluster API: name or ID has this text, in any case. Signs are written as codes, because the
 * filter's language has its own use for them.
 */
export function withText(text: string): { readonly filter?: string } {
  if (text === "") return {};
  const pattern = text.replace(/[^\w -]/gu, (sign) => `\\\\x{${sign.codePointAt(0)?.toString(16)}}`);
  return { filter: `Name matches "(?i)${pattern}" or ID matches "(?i)${pattern}"` };
}
