import { randomText } from "../../../lib/random-text.ts";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { isTransient, isWorthRetrying, retry, retryUnanswered } from "../../runner/saga.ts";
import { plainName } from "../description.ts";
import { type CloudSaga, resultOf, step } from "./calls.ts";
import type { CloudAccount, NewAccount } from "./cloud.ts";
import { type Grant, grantsMade, grantsTried, nextGrants, onlyRemoves, plannedGrants, removalOf } from "./grants.ts";
import { isNotYetThere } from "./lag.ts";
import type { Removal } from "./removal.ts";
import { resourceNamed } from "./resources.ts";
import { kindOfName, type Role, type RoleBody } from "./role.ts";
import { draftRole } from "./role-draft.ts";

/** A role being written. Persisted in the job. */
export interface RoleWrite {
  readonly name: string;
  /** The role to be stored, with the actual and the desired rights. */
  readonly role: Role;
  /** The account of the role is looked up first. */
  readonly lookup: boolean;
  /** The service account to make; null: the role keeps its account. */
  readonly account: NewAccount | null;
  /** The create call was sent; its outcome is unknown until the account is made. */
  readonly creating: boolean;
  readonly unanswered?: number;
  /** The account and rights that this write replaces. */
  readonly replaced: Pick<Role, "service_account_email" | "grants" | "madeAt"> | null;
  /** Whether an access token is still to be tried. */
  readonly trial: boolean;
  /** ms since 1970. */
  readonly began: number;
  readonly warnings: readonly string[];
}

/** For so long the first access token of a new account is tried, from the start of the write. */
const TRIAL_MS = 60_000;
/** Life of that token, seconds. */
const TRIAL_TTL = 300;

const TOKEN_CREATOR = "roles/iam.serviceAccountTokenCreator";

/**
 * Makes what a role needs at Google.
 *
 *     getServiceAccount, or createServiceAccount ──► changePolicy of each resource ──► generateAccessToken ──► done
 *                            │ unanswered ▲
 *                            └────────────┘ the chosen id makes a repeat harmless
 */
export const roleSaga: CloudSaga<RoleWrite> = {
  next({ lookup, account, role, trial }) {
    if (lookup) return step("getServiceAccount", role.service_account_email);
    if (account && role.madeAt === 0) return step("createServiceAccount", account);
    const change = nextGrants(role.grants);
    if (change) return change;
    return trial ? step("generateAccessToken", role.service_account_email, role.token_scopes, TRIAL_TTL) : null;
  },

  beforeCall(state, { call, args }) {
    if (call === "createServiceAccount") return { ...state, creating: true };
    if (call === "changePolicy") return withGrants(state, grantsTried(state.role.grants, args[0]));
    return state;
  },

  onSuccess(state, { call, args }, value, now) {
    switch (call) {
      case "getServiceAccount": {
        const { email, project } = resultOf(call, value);
        return { ...state, lookup: false, role: { ...state.role, service_account_email: email, project } };
      }
      case "createServiceAccount":
        return { ...state, creating: false, role: { ...state.role, madeAt: now } };
      case "changePolicy":
        return withGrants(state, grantsMade(state.role.grants, args[0]));
      default:
        return { ...state, trial: false };
    }
  },

  onError(state, step, failure, now, tries) {
    const done = (next: RoleWrite) => ({ kind: "done", state: next }) as const;
    const age = now - state.role.madeAt;
    if (step.call === "createServiceAccount") {
      // The id was chosen at random, so the account of an unanswered call is this one.
      if (failure.code === "already_exists") return done(roleSaga.onSuccess(state, step, null, now));
      if (failure.outcome === "unknown") return retryUnanswered(state, failure);
      return isWorthRetrying(failure, tries) ? retry(failure) : { kind: "failed" };
    }
    if (step.call === "changePolicy" && onlyRemoves(step) && failure.code === "not_found") {
      return done(roleSaga.onSuccess(state, step, null, now));
    }
    if (step.call === "generateAccessToken") {
      const isEarly = isTransient(failure) || isNotYetThere(step.call, failure, age);
      if (isEarly && now - state.began < TRIAL_MS) return retry(failure);
      return done({
        ...state,
        trial: false,
        warnings: [...state.warnings, `tokens are not issued yet: ${failure.message}`],
      });
    }
    if (isNotYetThere(step.call, failure, age)) return retry(failure);
    const isWorthIt = step.call === "changePolicy" ? isTransient(failure) : isWorthRetrying(failure, tries);
    return isWorthIt ? retry(failure) : { kind: "failed" };
  },
};

const withGrants = (state: RoleWrite, grants: readonly Grant[]): RoleWrite => ({
  ...state,
  role: { ...state.role, grants },
});

/** Begins a write. Absent fields of the body keep their values. */
export function beginRoleWrite(
  name: string,
  before: Role | null,
  body: RoleBody,
  { account }: { readonly account: Result<CloudAccount> },
): Result<RoleWrite> {
  if (!account.ok) return account;
  const drafted = draftRole(kindOfName(name), before, body);
  if (!drafted.ok) return drafted;
  const { role, warnings } = drafted.value;
  const own = account.value.email;
  if (role.secret_type === "service_account_key" && role.service_account_email === own) {
    return refuse("invalid", "service_account_email: is the account that the engine itself acts as");
  }
  if (role.kind === "roleset") {
    return ok(before ? keptRoleset(name, role, own, warnings) : newRoleset(name, role, own, null, warnings));
  }
  return ok(
    write(name, { ...role, grants: plannedGrants(role.grants, boundGrants(role)) }, { lookup: !before, warnings }),
  );
}

/** Begins the replacement of a roleset's account. The keys of a role are leases, so no other credential is its own. */
export function beginRotation(
  name: string,
  role: Role,
  at: string,
  { account }: { readonly account: Result<CloudAccount> },
): Result<RoleWrite> {
  if (!account.ok) return account;
  if (at === "roleset/:name/rotate") {
    const { service_account_email, grants, madeAt } = role;
    return ok(newRoleset(name, role, account.value.email, { service_account_email, grants, madeAt }, []));
  }
  if (role.secret_type === "service_account_key") {
    const kind = role.kind === "roleset" ? "role set" : "static account";
    return refuse("invalid", `cannot rotate key for non-access-token ${kind}`);
  }
  return ok(write(name, role, { warnings: ["the role has no key to rotate: its tokens are made by impersonation"] }));
}

const write = (name: string, role: Role, other: Partial<RoleWrite>): RoleWrite => ({
  name,
  role,
  lookup: false,
  account: null,
  creating: false,
  replaced: null,
  trial: false,
  began: Date.now(),
  warnings: [],
  ...other,
});

/** The member of policies for a service account. */
const memberOf = (email: string): string => `serviceAccount:${email}`;

/** The rights of a role's bindings. */
const boundGrants = ({ bindings, service_account_email: email }: Role): Grant[] =>
  Object.entries(bindings).flatMap(([written, roles]) => {
    const named = resourceNamed(written);
    const resource = "resource" in named ? named.resource : written;
    return roles.map((role) => ({ resource, role, member: memberOf(email), standing: "wanted" }) as const);
  });

/** The rights of a roleset: its bindings, and for tokens the engine's own right to impersonate the account. */
function rolesetGrants(role: Role, own: string): Grant[] {
  if (role.secret_type !== "access_token") return boundGrants(role);
  const resource = `//iam.googleapis.com/projects/${role.project}/serviceAccounts/${role.service_account_email}`;
  return [...boundGrants(role), { resource, role: TOKEN_CREATOR, member: memberOf(own), standing: "wanted" }];
}

function keptRoleset(name: string, role: Role, own: string, warnings: readonly string[]): RoleWrite {
  const grants = plannedGrants(role.grants, rolesetGrants(role, own));
  const isNew = grants.some(({ role: granted, standing }) => granted === TOKEN_CREATOR && standing !== "given");
  return write(name, { ...role, grants }, { trial: isNew, warnings });
}

const ID_CHARS = 30;

function newRoleset(
  name: string,
  draft: Role,
  own: string,
  replaced: RoleWrite["replaced"],
  warnings: readonly string[],
): RoleWrite {
  const suffix = randomText(10)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "0");
  const readable = plainName(name)
    .toLowerCase()
    .replace(/[^a-z0-9-]/g, "-");
  const accountId = `vault${readable.slice(0, ID_CHARS - suffix.length - "vault-".length)}-${suffix}`;
  const [domain, id] = draft.project.includes(":") ? draft.project.split(":") : [null, draft.project];
  const host = domain === null ? `${id}` : `${id}.${domain}`;
  const email = `${accountId}@${host}.iam.gserviceaccount.com`;
  const displayName = `Service account for Vault secrets backend role set ${plainName(name)}`.slice(0, 100);
  const account = { project: draft.project, accountId, displayName, description: DESCRIPTION };
  const role = { ...draft, service_account_email: email, madeAt: 0, grants: [] };
  const grants = rolesetGrants(role, own);
  const trial = role.secret_type === "access_token";
  return write(name, { ...role, grants }, { account, replaced, trial, warnings });
}

const DESCRIPTION = "Made by Sallyport; it is removed with its role.";

/** Whether another write of the role may replace this one, because nothing was made or removed for it. */
export const isReplaceable = ({ creating, account, role }: RoleWrite): boolean =>
  !creating &&
  !(account && role.madeAt > 0) &&
  role.grants.every(({ standing }) => standing === "wanted" || standing === "given");

/** The role of a finished write, with the removal of the account that it replaces. */
export function outcomeOfWrite({ role, replaced, warnings }: RoleWrite) {
  const removal = replaced && removalOf(replaced.grants, replaced.service_account_email, replaced.madeAt);
  return {
    role,
    removals: removal ? [{ of: "replaced", removal, because: "account before a rotation", former: true as const }] : [],
    warnings,
  };
}

/** Undoes a write: removes a new account with its rights, or records on the stored role the rights that may exist. */
export function undoOfWrite({ role, account, creating }: RoleWrite, stored: Role | null, now: number) {
  if (stored && !account)
    return { role: { ...stored, grants: role.grants.filter(({ standing }) => standing !== "wanted") } };
  const made = account && (creating || role.madeAt > 0) ? role.service_account_email : null;
  const removal: Removal | null = removalOf(role.grants, made, now);
  return removal && { removal };
}

/** Removes what belongs to a deleted role. */
export const undoOfRole = ({ kind, grants, service_account_email: email, madeAt }: Role): Removal | null =>
  removalOf(grants, kind === "roleset" ? email : null, madeAt);
