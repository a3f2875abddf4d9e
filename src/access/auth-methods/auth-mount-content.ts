import type { AuthMount } from "../../contracts/auth.ts";
import type { Entities } from "../identity/entities.ts";
import type { TokenStore } from "../tokens/token-store.ts";
import type { ApproleStore } from "./approle-store.ts";
import type { AuthEntries } from "./auth-entries.ts";
import type { LoginLockouts } from "./login-lockouts.ts";

/** All that an auth mount has beside its own row: entries, secret ids, aliases, tokens of its logins, locked names. */
export class AuthMountContent {
  constructor(
    private readonly entries: AuthEntries,
    private readonly approles: ApproleStore,
    private readonly entities: Entities,
    private readonly tokens: TokenStore,
    private readonly lockouts: LoginLockouts,
  ) {}

  /** Deletes its rows, and lets its tokens expire at once. Runs inside a transaction. */
  delete({ uuid, accessor }: AuthMount): void {
    this.entries.deleteMount(uuid);
    this.approles.deleteMount(uuid);
    this.entities.deleteAliasesOf(accessor);
    this.tokens.endLogins(uuid, Date.now());
  }

  /** Drops what is kept in memory, after the transaction. */
  forget({ uuid }: AuthMount): void {
    this.lockouts.forget(uuid);
  }
}
