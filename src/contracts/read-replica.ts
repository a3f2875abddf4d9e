import type { Refusal } from "../lib/result.ts";
import type { AuthorizeRequest, Grant } from "./access-control.ts";
import type { Invalidation } from "./read-lease.ts";

/** The methods of `ReadReplica` that other objects and Workers call. */
export interface ReadReplicaApi {
  /**
   * Authorizes a request, and reads the secret that it names. The secret is in the grant when the path is one of a KV
   * mount and the caller may read it.
   * @returns `Grant | Refusal` as JSON: to send the values costs more, and the replica keeps the text
   * @param version of the secret, 0 = the newest; null for requests that read none
   * @param changes whether the request may change the secret: the replica gives it back then
   */
  authorizeAsText(ask: AuthorizeRequest, version: number | null, changes: boolean): Promise<string>;
  /** The same as values, for Workers of version 0.2.0, which may call for minutes after a deploy. */
  authorize(ask: AuthorizeRequest, version: number | null, changes?: boolean): Promise<Grant | Refusal>;
  /**
   * Forgets what an owner has changed.
   * @returns the instance that has forgotten: another one under the same name may still serve
   */
  invalidate(owner: string, changes: readonly Invalidation[]): string;
}
