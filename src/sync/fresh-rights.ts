import type { Trouble } from "../contracts/sync-tasks.ts";

/**
 * Rights that a provider may not apply yet. AWS refuses a new access key for seconds, Azure a new role for minutes, and
 * some providers answer 404 for a target that the credentials may not see. For a quarter of an hour after a destination
 * was created or its connection changed, such refusals are retried like transient failures, except in a purge. Pure.
 */

const FRESH_MS = 15 * 60_000;
/** The longest wait between two attempts. */
export const FRESH_CAP_MS = 30_000;

const REFUSALS: ReadonlySet<string> = new Set([
  "auth_failed",
  "permission_denied",
  "not_found",
  "project_not_found",
  "environment_not_found",
  "installation_not_found",
  "account_disabled",
  "api_disabled",
]);

/** Whether a failure may end by itself once new rights are in effect. */
export const isRefusalOfRights = ({ outcome, code }: Pick<Trouble, "outcome" | "code">): boolean =>
  outcome === "client" && REFUSALS.has(code);

/** Until when refusals of rights are retried (ms since 1970). */
export const freshUntil = ({ rights_changed }: { readonly rights_changed: number }): number =>
  rights_changed + FRESH_MS;

/** A refusal of fresh rights as responses show it. */
export const notYetEffective = (message: string, until: number) => ({
  message: `${message} New rights may not yet be effective at the provider, so the refusal is retried until ${isoOf(until)}.`,
  retried_until: isoOf(until),
});

const isoOf = (at: number): string => new Date(at).toISOString();
