import type { Result } from "../lib/result.ts";
import type { Granularity, SecretRef } from "./sync-tasks.ts";

/** An existing object at the provider, as the object of a secret. */
export interface Adoption {
  readonly secret: SecretRef;
  readonly externalName: string;
  /** `secret-key`: the object is the secret's only key. */
  readonly granularity: Granularity;
  /** The secret's keys, for `secret-key`. */
  readonly keys: readonly string[];
}

/** `free`: it can be adopted. `held`: the secret's association has the object already. */
export type AdoptionState =
  | { readonly state: "free" | "held" }
  | { readonly state: "refused"; readonly reason: string };

/** The adoption of objects that exist at the provider; part of `SyncDestinationApi`. */
export interface SyncAdoptionApi {
  /** Whether the objects can be adopted. Changes nothing. */
  previewAdoptions(adoptions: readonly Adoption[]): Result<readonly AdoptionState[]>;
  /**
   * Sets an association whose object has exactly this name, also when it is set again. An association that has the object
   * already stays as it is.
   */
  adopt(adoption: Adoption): Promise<Result<null>>;
}
