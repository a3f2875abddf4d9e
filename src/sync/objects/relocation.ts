import type { ObjectContext } from "../../platform/durable/object-context.ts";
import type { OutboxRow } from "../../platform/durable/outbox-delivery.ts";
import { kvStore } from "../../rpc/stubs.ts";
import { announceListing } from "../associations/announcements.ts";
import { type Associations, secretOf } from "../associations/associations.ts";
import type { RuleStore } from "../rules/rule-store.ts";

const PAGE = 500;

/**
 * Follows mounts that move: records the new path in associations and listings. Remote objects keep their names, and
 * nothing is pushed. Owned by `SyncDestination`. Costs one outbox row per mount, and a transaction per 500 associations.
 */
export class Relocation {
  constructor(
    private readonly object: ObjectContext,
    private readonly associations: Associations,
    private readonly rules: Pick<RuleStore, "moved">,
  ) {}

  /** Enqueues the move of a mount. Its path is read at delivery, so late and repeated notices do no harm. */
  begin(mountUuid: string): void {
    const { outbox } = this.object;
    this.object.commit(() => outbox.enlistLatest("moved", mountUuid, ""));
    this.object.waitUntil(outbox.drain("moved").then(() => outbox.drain("associations")));
  }

  /** Updates one page of a mount's associations. @param rows hold the secret before the page */
  async deliver(mountUuid: string, rows: OutboxRow[]): Promise<() => void> {
    const { env, outbox } = this.object;
    const associations = this.associations;
    // One page at a time bounds the outbox to a page of rows.
    await outbox.drain("associations");
    if (outbox.holds("associations")) throw new Error("the listings are behind");
    const path = await kvStore(env, mountUuid).movedTo();
    return () => {
      if (path === null) return;
      this.rules.moved(mountUuid, path);
      const after = JSON.parse(rows.at(-1)?.body ?? '""') as string;
      const page = associations.elsewhere(mountUuid, path, after, PAGE);
      for (const row of page) {
        const secret = secretOf(row);
        associations.relocate(row, path);
        for (const mountPath of [secret.mountPath, path]) announceListing(outbox, { ...secret, mountPath });
      }
      const last = page.at(-1);
      if (last && page.length === PAGE) outbox.enlist("moved", mountUuid, last.secret_name);
    };
  }
}
