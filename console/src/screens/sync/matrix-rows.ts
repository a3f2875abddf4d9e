/**
 * Rows of the matrix: the associations of several destinations, merged by secret. Each destination is read in pages
 * that are sorted by secret, so rows are complete up to the smallest end of all pages; the rest waits for the next
 * ones.
 */

import { isMissing } from "../../api/client.ts";
import { inParallel } from "../../lib/parallel.ts";
import { usePages } from "../../lib/resource.ts";
import { byName } from "../../lib/text.ts";
import {
  type Association,
  type DestinationRef,
  keyOf,
  MAX_CONCURRENT,
  readAssociations,
  readMountPaths,
} from "./reads.ts";

export interface MatrixRow {
  /** Accessor of the mount, and path of the secret in it. */
  readonly id: string;
  /** Path of the mount; null when the caller may not see it, or it is gone. */
  readonly mount: string | null;
  readonly secret: string;
  /**
   * The secret's objects at each destination, by the destination's key: more than one entry where each key is an
   * object.
   */
  readonly cells: ReadonlyMap<string, readonly Association[]>;
}

interface MatrixData {
  readonly rows: readonly MatrixRow[];
  /** Destinations that could not be read, with why. */
  readonly failures: ReadonlyMap<string, unknown>;
}

/** One step of reading: a page of each destination that is behind. */
interface Chunk {
  readonly entries: readonly (readonly [destination: string, Association])[];
  readonly mounts: ReadonlyMap<string, string>;
  readonly failures: readonly (readonly [destination: string, unknown])[];
  /** Where each destination's next page begins; absent where it is read to its end. */
  readonly cursors: Cursors;
}

type Cursors = Readonly<Record<string, string>>;

const idOf = ({ accessor, secret_name }: Association): string => `${accessor}/${secret_name}`;

const smallest = (cursors: Cursors): string | null => Object.values(cursors).sort(byText)[0] ?? null;

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

async function readChunk(refs: readonly DestinationRef[], before: Cursors | null, signal: AbortSignal): Promise<Chunk> {
  const least = before && smallest(before);
  const due = before ? refs.filter((ref) => before[keyOf(ref)] === least) : refs;
  const cursors: Record<string, string> = { ...before };
  const entries: (readonly [string, Association])[] = [];
  const failures: (readonly [string, unknown])[] = [];
  const mounts = before ? new Map<string, string>() : await readMountPaths(signal);
  await inParallel(due, MAX_CONCURRENT, async (ref) => {
    const key = keyOf(ref);
    const from = cursors[key] ?? null;
    delete cursors[key];
    try {
      const page = await readAssociations(ref, from, signal, { quiet: true });
      for (const [, entry] of page.entries) entries.push([key, entry]);
      if (page.next !== null) cursors[key] = page.next;
    } catch (failure) {
      if (signal.aborted) throw failure;
      // A destination may end between its listing and this read.
      if (!isMissing(failure)) failures.push([key, failure]);
    }
  });
  return { entries, mounts, failures, cursors };
}

function merged(chunks: readonly Chunk[]): MatrixData {
  const horizon = smallest(chunks.at(-1)?.cursors ?? {});
  const mounts = chunks[0]?.mounts ?? new Map<string, string>();
  const rows = new Map<string, { row: Omit<MatrixRow, "cells">; cells: Map<string, Association[]> }>();
  for (const { entries } of chunks)
    for (const [destination, entry] of entries) {
      const id = idOf(entry);
      if (horizon !== null && id > horizon) continue;
      let found = rows.get(id);
      if (!found) {
        const row = { id, mount: mounts.get(entry.accessor) ?? null, secret: entry.secret_name };
        found = { row, cells: new Map() };
        rows.set(id, found);
      }
      found.cells.set(destination, [...(found.cells.get(destination) ?? []), entry]);
    }
  const list = [...rows.values()].map(({ row, cells }): MatrixRow => ({ ...row, cells }));
  list.sort(
    horizon === null
      ? (a, b) => byName(`${a.mount ?? a.id}/${a.secret}`, `${b.mount ?? b.id}/${b.secret}`)
      : (a, b) => byText(a.id, b.id),
  );
  return { rows: list, failures: new Map(chunks.flatMap(({ failures }) => failures)) };
}

/** The matrix as far as it is read. */
export function useMatrix(refs: readonly DestinationRef[], everyMs: number) {
  const pages = usePages(
    ["matrix", refs.map(keyOf)],
    async (from, signal) => {
      const chunk = await readChunk(refs, from === null ? null : (JSON.parse(from) as Cursors), signal);
      const isLast = Object.keys(chunk.cursors).length === 0;
      return { rows: [chunk], next: isLast ? null : JSON.stringify(chunk.cursors) };
    },
    // A list of one page is kept fresh; a longer one is read again on demand.
    { everyMs },
  );
  return { ...pages, value: pages.value && merged(pages.value), chunks: pages.value?.length ?? 0 };
}
