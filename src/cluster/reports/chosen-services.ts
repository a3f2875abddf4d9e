import { createHash } from "node:crypto";
import { badRequest } from "../../platform/http/errors.ts";
import { type Fields, textOf } from "./topics/topic.ts";

/**
 * The choice of a few registrations of a service by rendezvous hashing, so that a caller with the same key keeps its
 * instances (https://developer.hashicorp.com/nomad/api-docs/services#choose; `HashWith` in
 * nomad/structs/service_registration.go).
 */

export interface Choice {
  readonly count: number;
  readonly key: string;
}

export interface Ranked {
  readonly rank: string;
  readonly service: Fields;
}

/** Registrations of one choice. */
export const MAX_CHOSEN = 1_000;
const FORM = /^(\d{1,9})\|(.+)$/s;

/** @param given `<number>|<key>` @throws RequestError 400 */
export function choiceOf(given: string): Choice {
  const [, count, key] = FORM.exec(given) ?? [];
  if (count === undefined || key === undefined) {
    throw badRequest("failed to choose services: Parameter for choose must be in form '<number>|<key>'");
  }
  if (Number(count) > MAX_CHOSEN) throw badRequest(`failed to choose services: at most ${MAX_CHOSEN}`);
  return { count: Number(count), key };
}

/** The rank of a registration for a key: the least are chosen. */
export function rankOf(service: Fields, key: string): string {
  const port = Buffer.alloc(8);
  port.writeBigInt64BE(BigInt(Math.trunc(Number(JSON.stringify(service["Port"] ?? 0)))));
  const hash = createHash("md5").update(port);
  for (const field of ["AllocID", "ID", "Namespace", "Address", "ServiceName"]) hash.update(textOf(service, field));
  for (const tag of (service["Tags"] as readonly string[] | null | undefined) ?? []) hash.update(tag);
  return hash.update(key).digest("hex");
}

/** The chosen registrations, in the order of their ranks. */
export const firstOf = (ranked: readonly Ranked[], { count }: Choice): Ranked[] =>
  ranked.toSorted((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0)).slice(0, count);
