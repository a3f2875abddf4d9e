import { isTransient, retry } from "../../runner/saga.ts";
import { type CloudSaga, step } from "./calls.ts";
import type { LeaseResources } from "./removal.ts";

/** A renewal in progress: the key must still be there. Persisted in the job. */
export interface Renewal {
  readonly email: string;
  readonly id: string;
  readonly seen: boolean;
}

export const beginRenewal = (resources: LeaseResources): Renewal =>
  resources.kind === "key"
    ? { email: resources.email, id: resources.id, seen: false }
    : { email: "", id: "", seen: true };

/** Confirms that the key of a lease still exists. */
export const renewalSaga: CloudSaga<Renewal> = {
  next: ({ email, id, seen }) => (seen ? null : step("getKey", email, id)),
  onSuccess: (state) => ({ ...state, seen: true }),
  onError: (_state, _step, failure) => (isTransient(failure) ? retry(failure) : { kind: "failed" }),
};
