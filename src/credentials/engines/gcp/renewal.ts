import { isTransient, retry } from "../../runner/saga.ts";
import { type CloudSaga, step } from "./calls.ts";
import { isNotYetThere } from "./lag.ts";
import type { LeaseResources } from "./removal.ts";

/** A renewal in progress: the key must still be there. Persisted in the job. */
export interface Renewal {
  readonly email: string;
  readonly id: string;
  readonly seen: boolean;
  /** Time at which the key was made, ms since 1970; absent in older rows. */
  readonly madeAt?: number;
}

export const beginRenewal = (resources: LeaseResources, _endsAt: number, issued: number): Renewal =>
  resources.kind === "key"
    ? { email: resources.email, id: resources.id, seen: false, madeAt: issued }
    : { email: "", id: "", seen: true };

/** Confirms that the key of a lease still exists. */
export const renewalSaga: CloudSaga<Renewal> = {
  next: ({ email, id, seen }) => (seen ? null : step("getKey", email, id)),
  onSuccess: (state) => ({ ...state, seen: true }),
  onError: ({ madeAt = 0 }, { call }, failure, now) =>
    isTransient(failure) || isNotYetThere(call, failure, now - madeAt) ? retry(failure) : { kind: "failed" },
};
