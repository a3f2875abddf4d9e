import type { KvStoreApi } from "../contracts/kv-store.ts";
import { type KvParts, kvParts } from "../kv/kv-parts.ts";
import { kvMethods } from "../kv/rpc.ts";
import { kvMigrations } from "../kv/schema.ts";
import { earliest } from "../lib/earliest.ts";
import type { Result } from "../lib/result.ts";
import { dataKeyMigrations } from "../platform/crypto/data-keys.ts";
import type { ChangedKeys } from "../platform/durable/object-context.ts";
import { composedOf } from "../platform/durable/rpc-methods.ts";
import { eventDelivery } from "../publishing/service-events.ts";
import { LeaseOwner } from "../read-leases/lease-owner.ts";

const KvMethods = composedOf<KvParts>()(kvMethods);

/**
 * Owns the secrets of one KV mount: versions, metadata, and the destinations that watch each path. Named by the mount's
 * uuid. Components in `src/kv` decide; `src/kv/rpc.ts` has its methods, this class its alarm and its replicas.
 */
export class KvStore extends KvMethods implements KvStoreApi {
  protected override readonly parts: KvParts;
  readonly #leases: LeaseOwner;

  protected override get kind() {
    return "kv-store" as const;
  }

  constructor(ctx: DurableObjectState, env: Env) {
    super(
      ctx,
      env,
      { data_keys: dataKeyMigrations, kv: kvMigrations },
      {
        event: eventDelivery(() => this.parts.events),
        changed: (lane, rows) => this.parts.delivery.deliver("changed", lane, rows),
        moved: (destination) => this.parts.delivery.moved(destination),
        matching: (destination, rows) => this.parts.delivery.deliver("matching", destination, rows),
        names: (lane, rows) => this.parts.names.deliver(lane, rows),
      },
    );
    this.#leases = new LeaseOwner(env, ctx.storage, this.context.name, () => this.arm());
    this.parts = kvParts(this.context, this.#leases);
  }

  override swap(restore: string): Result<null> {
    const swapped = super.swap(restore);
    this.#leases.changeAll();
    this.parts.names.reset();
    return this.#leases.hold(swapped);
  }

  protected override onChange(keys: ChangedKeys): void {
    this.#leases.change(keys);
  }

  protected override onRollback(): void {
    this.#leases.rolledBack();
    this.parts.followers.forget();
    this.parts.state.forget();
    this.parts.names.forgetRows();
  }

  protected override onAnyAlarm(): void {
    this.#leases.review();
  }

  protected override ownDeadline(): number | null {
    return earliest(this.parts.watchers.nextExpiry(), this.#leases.nextReview());
  }

  protected override async onAlarm(now: number): Promise<void> {
    await this.parts.mount.announceExpired(now);
  }
}
