import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { settings } from "../../platform/settings.ts";
import type { EngineStores } from "../engine-stores.ts";
import type { EngineSettings, EngineStates } from "../engines/engine-type.ts";
import type { Job } from "../jobs/job-store.ts";

type Account = EngineStates["account"];

/** The identity for the calls of a job. */
interface JobAccount {
  readonly account: Account;
  /** Not the one that made the job's resources, so that "not found" proves nothing. */
  readonly isOther: boolean;
}

/**
 * The identities that an engine uses at the provider: that of its configuration or the deployment's settings for new calls,
 * and former ones for the resources that they have made.
 *
 *     configuration ──follow──► recorded ──another identity──► former ──nothing of it is left──► deleted
 */
export class EngineAccounts {
  #onFormer: (id: number) => void = () => {};

  constructor(
    private readonly stores: EngineStores,
    private readonly env: Env,
  ) {}

  /** @param onFormer called inside the transaction with the id of an identity that makes no new calls */
  watch(onFormer: (id: number) => void): void {
    this.#onFormer = onFormer;
  }

  /** The deployment's settings of providers. */
  settings(): EngineSettings {
    return settings(this.env);
  }

  /** The identity for new calls. @throws Sealed */
  account(): Result<Account> {
    const { type, config } = this.stores;
    return type.config.account(config.find(), this.settings());
  }

  /**
   * Records the identity for new calls. Another one than before gets an id of its own, so that earlier resources keep
   * theirs. Runs inside a transaction. @throws Sealed
   */
  follow(): void {
    const { type, accounts } = this.stores;
    const account = this.account();
    if (!account.ok || this.isFollowed()) return;
    const before = accounts.current();
    const known = accounts.find(before);
    if (known === null || type.config.reach(known, account.value) === "same") {
      accounts.put(before, account.value);
      return;
    }
    const again = [...accounts.all()].find(([, former]) => type.config.reach(former, account.value) === "same");
    const id = again?.[0] ?? accounts.newId();
    accounts.put(id, account.value);
    accounts.setCurrent(id);
    this.#onFormer(before);
    this.stores.pruneAccount(before);
  }

  /** Whether the identity for new calls is recorded with its newest secret. @throws Sealed */
  isFollowed(): boolean {
    const { accounts } = this.stores;
    const account = this.account();
    return account.ok && JSON.stringify(accounts.find(accounts.current())) === JSON.stringify(account.value);
  }

  /** Changes the configuration. Runs inside a transaction. @throws Sealed */
  change(change: () => Result<null>): Result<null> {
    const { accounts } = this.stores;
    this.follow();
    const had = this.account().ok;
    const changed = change();
    if (!changed.ok) return changed;
    if (this.account().ok) this.follow();
    else if (had) this.#onFormer(accounts.current());
    return changed;
  }

  /**
   * The identity for the next calls of a job: the one that made its resources. A removal that it could not complete is
   * tried every other time with the present one, if that may reach the same resources.
   * @throws Sealed
   */
  ofJob({ work, account: id, failures }: Job): Result<JobAccount> {
    if (work.kind === "rotation") return ok({ account: work.rotation.account, isOther: false });
    const { type, accounts } = this.stores;
    const present = this.account();
    const early = work.kind === "removal" ? (work.account ?? null) : null;
    const maker = early ?? accounts.find(id);
    if (maker === null) {
      if (id !== accounts.current()) return refuse("invalid", "the identity that made it is not known any more");
      return present.ok ? ok({ account: present.value, isOther: false }) : present;
    }
    const own = ok({ account: maker, isOther: false });
    if (!present.ok) return own;
    const isOdd = failures % 2 === 1;
    // Another identity may find resources of others by the same name.
    const isNextTry = work.kind === "removal" && (work.other ?? (isOdd && work.removal.search === null));
    switch (this.#isStill(id, early, present.value) ? "same" : type.config.reach(maker, present.value)) {
      case "same":
        return early === null || isNextTry || isOdd ? ok({ account: present.value, isOther: false }) : own;
      case "perhaps":
        return isNextTry ? ok({ account: present.value, isOther: true }) : own;
      case "never":
        return own;
    }
  }

  /** Whether the present identity is that of an earlier secret, which rotations have replaced since. */
  #isStill(id: number, early: Account | null, present: Account): boolean {
    const { type, accounts } = this.stores;
    if (early === null || id !== accounts.current()) return false;
    const recorded = accounts.find(id);
    return recorded === null || type.config.reach(recorded, present) === "same";
  }

  /** The refusal of a write of a role whose resources are out of reach of the present identity; null otherwise. */
  refusesRole(name: string, now: number): Refusal | null {
    const { type, accounts, roles } = this.stores;
    const role = roles.find(name);
    const maker = role && accounts.find(roles.account(name));
    const present = this.account();
    if (!maker || !present.ok || type.config.reach(maker, present.value) !== "never") return null;
    return type.roles.undoOfRole(role, now) === null ? null : refuse("invalid", OUT_OF_REACH);
  }
}

const OUT_OF_REACH =
  "the former identity made the resources of the role, which are out of reach of this one; delete the role, and write it again";
