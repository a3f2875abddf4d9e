import { may } from "../../access/authorize/authorize-cached.ts";
import type { WriteRights } from "../../contracts/kv-store.ts";
import { denied } from "../../platform/http/errors.ts";
import type { AuthorisedCall } from "./route.ts";

/** The caller's rights to write at the request's path, for a route with `creates`. */
export const writeRights = ({ grant }: Pick<AuthorisedCall, "grant">): WriteRights => ({
  create: may(grant, "create"),
  update: may(grant, "update"),
});

/**
 * Whether the caller may write: something new needs `create`, a change `update`.
 * @throws RequestError 403
 */
export function checkWrite(call: Pick<AuthorisedCall, "grant">, exists: boolean): void {
  const { create, update } = writeRights(call);
  if (!(exists ? update : create)) throw denied();
}
