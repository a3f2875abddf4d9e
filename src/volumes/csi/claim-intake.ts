import type { Told } from "../../contracts/change-set.ts";
import type { Kept, ObjectReport } from "../../contracts/reports.ts";
import { volumeIdOf } from "../../contracts/volume-asks.ts";
import { ok } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import { Refused } from "../../platform/durable/refused.ts";
import type { CsiClaimStore, NewClaim } from "./claim-store.ts";
import type { JobAsk, JobAsks } from "./job-asks.ts";
import type { CsiSecrets } from "./secrets.ts";
import { CSI_VOLUME } from "./volume-store.ts";

/** The fields of an allocation that determine its claims. */
interface Asker extends Record<string, SqlStorageValue> {
  id: string;
  node_id: string | null;
  name: string | null;
  task_group: string | null;
  job_version: number | null;
}

type Ask = Pick<JobAsk, "source" | "perAlloc" | "readOnly" | "accessMode" | "attachmentMode" | "mount">;

interface Parts {
  readonly sql: SqlStorage;
  readonly claims: CsiClaimStore;
  readonly asks: JobAsks;
  readonly secrets: CsiSecrets;
  /** Processes due claims after the transaction. */
  walk(): void;
}

/** Wakes readers of volumes before the claims' own event lines are written. */
const SEEN: Told = { events: [], stamps: [{ table: CSI_VOLUME, row: [] }] };
const UNSEEN: Told = { events: [], stamps: [] };

/**
 * Records claims for reported allocations and jobs, inside the transaction of the report, so the volume is in use at
 * once. Reports may arrive in any order: allocation before job, either before the volume.
 */
export class ClaimIntake {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  allocationChanged(_before: Kept | null, after: Kept | null, report: ObjectReport): Told {
    const { claims, asks } = this.#parts;
    const { namespace, id } = report;
    if (!after || after.terminal) return this.#seen(claims.touchAllocation(namespace, id));
    if (!after.nodeId) return UNSEEN;
    const own = report.csiVolumes;
    const ofJob = own || !after.jobId ? [] : asks.of(namespace, after.jobId);
    if (!own?.length && ofJob.length === 0) return UNSEEN;
    const body = JSON.parse(after.body) as { Name?: string; TaskGroup?: string; JobVersion?: number | null };
    const asker: Asker = {
      ...{ id, node_id: after.nodeId, name: body.Name ?? "", task_group: body.TaskGroup ?? "" },
      job_version: body.JobVersion ?? null,
    };
    const wanted = own
      ? own.map((ask) => ({ ...ask, mount: ask.mount && this.#sealed(ask.mount) }))
      : ofJob.filter((ask) => isAskedBy(ask, asker));
    return this.#seen(this.#claim(namespace, asker, wanted));
  }

  /** Records the claims of allocations that were reported before their job. */
  jobChanged(after: Kept | null, { namespace, id }: ObjectReport): Told {
    const { sql, asks } = this.#parts;
    if (!after) {
      asks.forget(namespace, id);
      return UNSEEN;
    }
    const noted = refuseIfSealed(() => ok(asks.note(namespace, id, after.body)));
    if (!noted.ok) throw new Refused(noted);
    if (!noted.value) return UNSEEN;
    const live = sql
      .exec<Asker>(
        `SELECT id, node_id, json_extract(body, '$.Name') AS name, json_extract(body, '$.TaskGroup') AS task_group,
           json_extract(body, '$.JobVersion') AS job_version
         FROM reported WHERE topic = 'Allocation' AND namespace = ? AND job_id = ? AND terminal = 0`,
        namespace,
        id,
      )
      .toArray();
    const all = asks.of(namespace, id);
    const made = live.map((asker) =>
      this.#claim(
        namespace,
        asker,
        all.filter((ask) => isAskedBy(ask, asker)),
      ),
    );
    return this.#seen(made.includes(true));
  }

  /** @returns whether any claim was made */
  #claim(namespace: string, asker: Asker, asks: readonly (Ask | (Omit<Ask, "mount"> & Pick<NewClaim, "mount">))[]) {
    const now = Date.now();
    if (!asker.node_id) return false;
    const made = asks.map((ask) =>
      this.#parts.claims.insert(
        {
          ...{ namespace, volumeId: volumeIdOf(ask, asker.name ?? ""), allocId: asker.id, nodeId: asker.node_id ?? "" },
          ...{ mode: ask.readOnly ? "read" : "write", accessMode: ask.accessMode, attachmentMode: ask.attachmentMode },
          mount: ask.mount,
        },
        now,
      ),
    );
    return made.includes(true);
  }

  #sealed(mount: unknown): Uint8Array {
    const sealed = refuseIfSealed(() => ok(this.#parts.secrets.sealForClaim(mount)));
    if (!sealed.ok) throw new Refused(sealed);
    return sealed.value;
  }

  #seen(anything: boolean): Told {
    if (!anything) return UNSEEN;
    this.#parts.walk();
    return SEEN;
  }
}

const isAskedBy = ({ taskGroup, firstVersion, lastVersion }: JobAsk, { task_group, job_version }: Asker): boolean => {
  const version = job_version ?? lastVersion;
  return task_group === taskGroup && firstVersion <= version && version <= lastVersion;
};
