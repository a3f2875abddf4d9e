import type { Kind } from "../../lib/bexpr/kinds.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { blocking, nothing } from "./blocking.ts";
import { type Listing, readList } from "./listing.ts";
import { clusterJson } from "./respond.ts";
import type { AuthorisedCall } from "./route.ts";

/** Reads of tokens, policies, roles, auth methods and binding rules; all support blocking queries. */

const changedOf = (call: AuthorisedCall) => (since: number, waitMs: number) =>
  accessControl(call.env).clusterAclChanged(since, waitMs);

/** A list of these objects. */
export interface AclList<Row> {
  /** All rows that the caller may see, in any order. */
  rows(): Promise<readonly Row[]>;
  /** Sort key of a row, unique in the list. */
  token(row: Row): string;
  /** List view of a row; default: the row. */
  stub?(row: Row): unknown;
  /** Filterable fields. */
  readonly fields: Kind;
}

/** Answers a list. Its index grows with every change of these objects. */
export const listAcl = <Row>(call: AuthorisedCall, list: AclList<Row>): Promise<Response> =>
  blocking(
    call,
    async () => {
      // Before the list: a change in between is found by the next wait.
      const index = await accessControl(call.env).clusterAclIndex();
      return readList(call, wholeListing(list, await list.rows(), index));
    },
    changedOf(call),
  );

/** The pages of a list that was read whole. A page begins at the first row that is not before its token. */
export function wholeListing<Row>(
  { token, stub = (row) => row, fields }: Omit<AclList<Row>, "rows">,
  rows: readonly Row[],
  index: number,
): Listing<Row> {
  const sorted = rows.map((row) => ({ row, at: token(row) })).sort((a, b) => (a.at < b.at ? -1 : 1));
  const reversed = sorted.toReversed();
  return {
    fetch: async (from, limit, reverse) => {
      const all = reverse ? reversed : sorted;
      const first = from === "" ? 0 : all.findIndex(({ at }) => (reverse ? at <= from : at >= from));
      const end = first < 0 ? all.length : first + limit;
      const page = first < 0 ? [] : all.slice(first, end);
      return { rows: page.map(({ row }) => row), next: all[end]?.at ?? null, index };
    },
    token,
    stub,
    fields,
  };
}

/** Answers one object; `missing` is the message without it. */
export const readAcl = <Found extends { readonly ModifyIndex: number | null }>(
  call: AuthorisedCall,
  read: () => Promise<Found | null>,
  missing: string,
  shown: (found: Found) => unknown = (found) => found,
): Promise<Response> =>
  blocking(
    call,
    async () => {
      const found = await read();
      if (!found) return nothing(missing);
      // Without an index while its event is being published.
      const { ModifyIndex: index } = found;
      return { index: index ?? 0, respond: () => clusterJson(call, shown(found), { index }) };
    },
    changedOf(call),
  );
