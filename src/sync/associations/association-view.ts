import type { AssociationView } from "../../contracts/sync-destination.ts";
import type { WorkQueue } from "../../platform/durable/work-queue.ts";
import { isRefusalOfRights, notYetEffective } from "../fresh-rights.ts";
import type { AssociationRow, RemoteObjectRow } from "../schema.ts";

/** Times of a destination that entries show (ms since 1970). */
export interface Waits {
  /** End of the open breaker's pause; 0 while the breaker is closed. */
  readonly openUntil: number;
  /** Until when refusals of rights are retried. */
  readonly freshUntil: number;
}

export const NO_WAITS: Waits = { openUntil: 0, freshUntil: 0 };

/** The `error_code` in the row of an association whose push waits for a paused rule. Answers show a note instead. */
export const RESTING = "rule_paused";

const RESTS = "not pushed: its rules are paused";

const HELD = "held: no rule matches the secret any more; set the association to push it again, or remove it";

/** The note on an object whose clean-up is owed. */
export const owedNote = (because: string): string => `the value is there, and a clean-up is owed: ${because}`;

/** The part of an entry that neither the row of the association nor that of its object has. */
interface Known {
  /** The queued work of the association. */
  readonly work: ReturnType<WorkQueue["find"]>;
  /** See `Associations.originsOf`. */
  readonly origins: readonly string[] | null;
  readonly waits: Waits;
}

/** The entry of an object in answers. @param copy null for an association that has no object */
export function associationView(
  row: AssociationRow,
  copy: RemoteObjectRow | null,
  { work, origins, waits: { openUntil, freshUntil } }: Known,
): AssociationView {
  const attempts = work?.attempts ?? 0;
  const waits = work !== null && !work.leased && (attempts > 0 || openUntil > 0);
  // A pending state or a failure of the whole association takes precedence over the status of its objects.
  const own = row.status === "PENDING" || row.error_code !== null || copy === null;
  const rests = row.error_code === RESTING;
  const { status, error_message, updated } = own ? row : copy;
  const error_code = rests ? null : (own ? row : copy).error_code;
  const leftAlone = copy?.left_alone === 1;
  const version = copy === null ? row.synced_version : leftAlone ? null : copy.version;
  const failure = error_code === null ? null : { outcome: "client" as const, code: error_code };
  const isFresh = waits && status === "CLIENT_SIDE_ERROR" && failure !== null && isRefusalOfRights(failure);
  const fresh = isFresh ? notYetEffective(error_message ?? "", freshUntil) : null;
  return {
    accessor: row.mount_accessor,
    secret_name: row.secret_name,
    ...(copy !== null && copy.sub_key !== "" && { sub_key: copy.sub_key }),
    external_name: copy?.external_name ?? "",
    sync_status: status,
    updated_at: new Date(updated).toISOString(),
    ...(error_code !== null && { error_code, error_message: fresh?.message ?? error_message ?? "" }),
    ...(fresh && { retried_until: fresh.retried_until }),
    ...(origins && { origins }),
    ...(leftAlone && { note: "an object was there already, and update_policy if-not-exists leaves it" }),
    ...(copy?.owed && { note: owedNote(copy.owed) }),
    ...(row.wish === "held" && { note: HELD }),
    ...(rests && { note: RESTS }),
    ...(version !== null && { synced_version: version }),
    ...(attempts > 0 && { attempts }),
    ...(waits && { next_attempt_at: new Date(Math.max(work.readyAt, openUntil)).toISOString() }),
  };
}
