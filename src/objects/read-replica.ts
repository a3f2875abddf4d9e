import { DurableObject } from "cloudflare:workers";
import type { AuthorizeRequest, Grant } from "../contracts/access-control.ts";
import type { Invalidation } from "../contracts/read-lease.ts";
import type { ReadReplicaApi } from "../contracts/read-replica.ts";
import type { Refusal } from "../lib/result.ts";
import { ReplicaReads } from "../read-leases/replica-reads.ts";

/**
 * Answers authorizations and reads of secrets near their callers, from memory while a lease of their owner runs. It
 * stores nothing, and does nothing without a caller.
 */
export class ReadReplica extends DurableObject<Env> implements ReadReplicaApi {
  readonly #reads: ReplicaReads;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#reads = new ReplicaReads(env, ctx.id.name ?? ctx.id.toString());
  }

  authorizeAsText(ask: AuthorizeRequest, version: number | null, changes: boolean): Promise<string> {
    return this.#reads.authorize(ask, version, changes);
  }

  async authorize(ask: AuthorizeRequest, version: number | null, changes = false): Promise<Grant | Refusal> {
    return JSON.parse(await this.authorizeAsText(ask, version, changes)) as Grant | Refusal;
  }

  invalidate(owner: string, changes: readonly Invalidation[]): string {
    this.#reads.invalidate(owner, changes);
    return this.#reads.holder;
  }
}
