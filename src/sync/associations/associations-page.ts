import type { AssociationsPage } from "../../contracts/sync-destination.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import type { DestinationRecord } from "../configuration/destination-record.ts";
import type { Breaker } from "../scheduler/breaker.ts";
import type { Associations } from "./associations.ts";

const PAGE = 1_000;

/** Returns the associations in `ids`, or one page of all when `ids` is null. */
export function associationsPage(
  record: DestinationRecord,
  associations: Associations,
  breaker: Breaker,
  ids: readonly string[] | null,
  after = "",
  limit = PAGE,
): Result<AssociationsPage> {
  const destination = record.row();
  if (!destination) return refuse("missing");
  const most = Math.min(limit, PAGE);
  const rows = ids
    ? ids.map((id) => associations.find(id)).filter((row) => row !== null)
    : associations.page(after, most);
  const openUntil = breaker.view()?.openUntil ?? 0;
  return ok({
    store_name: destination.name,
    store_type: destination.type,
    associated_secrets: rows.flatMap((row) => associations.views(row, openUntil)),
    next: ids || rows.length < most ? null : (rows.at(-1)?.id ?? null),
  });
}
