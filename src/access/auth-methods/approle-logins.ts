import type { Approle, ApproleLogin } from "../../contracts/approle.ts";
import type { AuthMount, TokenSettings } from "../../contracts/auth.ts";
import type { Authed } from "../../contracts/tokens.ts";
import { isWithinNetworks } from "../../lib/networks.ts";
import { ok, type Refusal, type Result, refuse } from "../../lib/result.ts";
import { type ApproleStore, approleEntry, type SecretIdDetails, type StoredSecretId } from "./approle-store.ts";
import { isSubset } from "./approles.ts";
import type { AuthMethodEntries } from "./auth-method-entries.ts";
import type { AuthMountTable } from "./auth-mounts.ts";
import type { Logins } from "./logins.ts";

/** The credentials of a login, verified. */
interface Verified {
  readonly role: Approle;
  readonly name: string;
  /** The secret id and what is known of it; null when the role needs none. */
  readonly secretId: { readonly row: StoredSecretId; readonly details: SecretIdDetails } | null;
}

const INVALID = "invalid role or secret ID";

/**
 * Logins by role id and secret id. A use of the secret id is counted in the transaction that issues the token. An unknown
 * role id, and an unknown secret id, cost the same two reads and get the same answer.
 */
export class ApproleLogins {
  constructor(
    private readonly store: ApproleStore,
    private readonly mounts: AuthMountTable,
    private readonly entries: AuthMethodEntries,
    private readonly logins: Logins,
  ) {}

  /** @throws Sealed */
  login(login: ApproleLogin, now: number): Result<Authed> {
    const mount = this.mounts.byUuid(login.mount);
    // The role id is the name that failures are counted by.
    if (!mount || this.entries.isLocked(login.mount, login.roleId, now)) return refuse("denied", "permission denied");
    const verified = this.#verify(login, now);
    if (!verified.ok) return verified;
    const { role, name, secretId } = verified.value;
    const metadata = { ...secretId?.details.metadata, role_name: name };
    return this.logins.login(
      {
        entry: approleEntry({ mount: mount.uuid, role: name }),
        alias: { name: role.role_id, metadata },
        groups: [],
        displayName: "",
        metadata,
        settings: settingsOf(role, secretId?.details),
        address: login.address,
        path: pathOf(mount),
      },
      () => secretId && this.store.use(secretId.row, now),
    );
  }

  #verify(login: ApproleLogin, now: number): Result<Verified> {
    const { mount, roleId, secretId, address } = login;
    const found = this.store.byRoleId(mount, roleId);
    const row = this.store.find({ mount, role: found?.role ?? "" }, { secretId }, now);
    if ((found?.bound ?? true) && secretId === "") return refuse("invalid", "missing secret_id");
    const name = found?.role ?? "";
    const role = found && (found.bound ? row !== null : true) ? this.#role(mount, name) : null;
    // Without a secret id, a role that does not accept the address counts as unknown.
    if (!role || (!role.bind_secret_id && !isWithinNetworks(address, role.secret_id_bound_cidrs))) {
      this.entries.failed(mount, roleId, found !== null);
      return refuse("invalid", INVALID);
    }
    if (!role.bind_secret_id || !row) return ok({ role, name, secretId: null });
    const details = this.store.details(row);
    const refused = refusedAddress(role, details, address);
    return refused ?? ok({ role, name, secretId: { row, details } });
  }

  #role(mount: string, role: string): Approle | null {
    const text = this.entries.entry(approleEntry({ mount, role }));
    return text === null ? null : (JSON.parse(text) as Approle);
  }
}

const pathOf = ({ path }: AuthMount): string => `auth/${path}login`;

/** Why a verified secret id is not accepted from an address; null when it is. */
function refusedAddress(role: Approle, { cidrs }: SecretIdDetails, address: string | null): Refusal | null {
  const { secret_id_bound_cidrs: bound } = role;
  if (!isSubset(cidrs, bound)) {
    return refuse("invalid", "CIDR blocks on the secret ID are no longer a subset of those on the role");
  }
  if (!isWithinNetworks(address, cidrs)) {
    return refuse("invalid", "source address unauthorized through CIDR restrictions on the secret ID");
  }
  return isWithinNetworks(address, bound)
    ? null
    : refuse("invalid", "source address unauthorized by CIDR restrictions on the role");
}

const settingsOf = (role: Approle, details: SecretIdDetails | undefined): TokenSettings =>
  details && details.tokenCidrs.length > 0 ? { ...role, token_bound_cidrs: details.tokenCidrs } : role;
