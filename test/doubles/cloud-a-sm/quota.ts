import { ServiceError } from "./parameters.ts";

/** Operations that share a quota (Secrets Manager quotas, "Rate quotas"). Quotas of reads are never reached here. */
const groups: Record<string, string> = {
  CreateSecret: "create",
  UpdateSecret: "update",
  PutSecretValue: "update",
  DeleteSecret: "delete",
  RestoreSecret: "restore",
  TagResource: "tag",
  UntagResource: "tag",
};

/** So many operations of each group in each second of `now` (ms since the epoch). Like the real service it names no wait. */
export class RateQuota {
  readonly #perSecond: number;
  readonly #now: () => number;
  readonly #taken = new Map<string, { second: number; count: number }>();

  constructor({ perSecond, now }: { perSecond: number; now: () => number }) {
    this.#perSecond = perSecond;
    this.#now = now;
  }

  /** Throws `ServiceError` when the operation's group has had its share of this second. */
  take(operation: string): void {
    const group = groups[operation];
    if (group === undefined) return;
    const second = Math.floor(this.#now() / 1000);
    const taken = this.#taken.get(group);
    const count = taken?.second === second ? taken.count + 1 : 1;
    if (count > this.#perSecond) throw new ServiceError("ThrottlingException", "Rate exceeded");
    this.#taken.set(group, { second, count });
  }
}
