import * as z from "zod";
import { ok, type Result, refuse } from "../../../lib/result.ts";
import { duration } from "../../../platform/http/fields.ts";
import { sharePercent, storedShare } from "../../leases/share-lease.ts";
import { isTransient, isWorthRetrying, retry } from "../../runner/saga.ts";
import { type ProducerSaga, resultOf, step } from "./calls.ts";
import type { Account, Vars } from "./cloud.ts";
import { refusedIdentifier, variables } from "./config.ts";
import { callsOfRoles, variablesOf } from "./document.ts";

/** A stored role. Durations in seconds, 0 = not set. */
export interface Role {
  /** Values of the definition's variables, before those of the configuration. */
  readonly vars: Vars;
  readonly ttl: number;
  readonly max_ttl: number;
  /** See `sharePercent`. Absent when it is 0, as in older roles. */
  readonly share_until?: number | undefined;
}

export const ROLE_NAME = /^\w(?:[\w.-]{0,254}\w)?$/;

/** Body of `POST roles/:name`. Absent fields keep their values. */
export const RoleBody = z.object({
  vars: variables().optional(),
  ttl: duration().optional(),
  max_ttl: duration().optional(),
  share_until: sharePercent().optional(),
});
type RoleBody = z.infer<typeof RoleBody>;

/** A role being written. Persisted in the job. */
export interface RoleWrite {
  readonly name: string;
  readonly role: Role;
  /** All variables of its calls. */
  readonly vars: Vars;
  /** A marker that no object has. */
  readonly marker: string;
  readonly searched: boolean;
  readonly problem: string | null;
}

export const newMarker = (): string => `sp-${crypto.randomUUID().replaceAll("-", "")}`;

/** The variables of a role's calls, or the refusal of a role that lacks one. */
export function varsOf({ vars }: Role, account: Account & { readonly vars: Vars }): Result<Vars> {
  const all = { ...account.vars, ...vars };
  const calls = callsOfRoles(account.definition);
  const missing = variablesOf(calls).find((name) => !(name in all));
  if (missing !== undefined) return refuse("invalid", `vars: the producer needs ${missing}`);
  return refusedIdentifier(calls, all) ?? ok(all);
}

/**
 * Searches once by a marker that nothing has: a role whose definition cannot find what a lost answer leaves is refused.
 *
 *     find ──none──► done
 *       └──refused, or something was found──► problem
 */
export const roleSaga: ProducerSaga<RoleWrite> = {
  next: ({ searched, problem, marker, vars }) => (searched || problem !== null ? null : step("find", { marker, vars })),

  onSuccess(state, { call }, value) {
    if (call !== "find") return state;
    const isEmpty = resultOf(call, value).length === 0;
    return isEmpty ? { ...state, searched: true } : { ...state, problem: "find: finds objects of another marker" };
  },

  onError(_state, _step, failure, _now, tries) {
    return isTransient(failure) && isWorthRetrying(failure, tries) ? retry(failure) : { kind: "failed" };
  },
};

interface Context {
  readonly account: Result<Account & { readonly vars: Vars }>;
}

/** Begins a write. */
export function beginRoleWrite(
  name: string,
  before: Role | null,
  body: object,
  { account }: Context,
): Result<RoleWrite> {
  if (!account.ok) return account;
  const given = body as RoleBody;
  const role: Role = {
    vars: given.vars ?? before?.vars ?? {},
    ttl: given.ttl ?? before?.ttl ?? 0,
    max_ttl: given.max_ttl ?? before?.max_ttl ?? 0,
    share_until: storedShare(given.share_until, before?.share_until),
  };
  if (role.max_ttl > 0 && role.ttl > role.max_ttl) return refuse("invalid", "ttl: must not be greater than max_ttl");
  const vars = varsOf(role, account.value);
  if (!vars.ok) return vars;
  const searched = !account.value.definition.find;
  return ok({ name, role, vars: vars.value, marker: newMarker(), searched, problem: null });
}

export const outcomeOfWrite = ({ role, problem }: RoleWrite) =>
  problem === null ? { role, removals: [] } : { problem };
