import { ApiError } from "../api.ts";

/** The result of one check. */
export interface Finding {
  readonly check: string;
  /** `unknown`: the check could not be made, such as without a right. */
  readonly status: "ok" | "warning" | "problem" | "unknown";
  readonly message: string;
  /** A step for the operator; empty without one. */
  readonly action: string;
}

type Make = (message: string, action?: string) => Finding;

/** Makes the findings of one check. */
export const findings = (check: string): Record<Finding["status"], Make> => {
  const make =
    (status: Finding["status"]): Make =>
    (message, action = "") => ({ check, status, message, action });
  return { ok: make("ok"), warning: make("warning"), problem: make("problem"), unknown: make("unknown") };
};

/** Runs a check; a refusal names the right that it needs. */
export async function guarded(check: string, right: string, work: () => Promise<Finding[]>): Promise<Finding[]> {
  const { unknown } = findings(check);
  try {
    return await work();
  } catch (failure) {
    if (!(failure instanceof ApiError)) throw failure;
    if (failure.status === 403) return [unknown(`the token lacks ${right}`)];
    return [unknown(failure.message)];
  }
}

/** Up to five names, and the number of the others. */
export function few(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(", ");
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown;
}
