/** Writes of leases, and what their answers say. */
import { api } from "../../api/client.ts";

/** @returns what has happened, as a sentence */
export async function revokeLease(lease_id: string): Promise<string> {
  const answer = await api("POST /v1/sys/leases/revoke", { body: { lease_id } });
  return answer?.warnings?.join(" ") ?? "The lease is revoked; its credentials are gone.";
}

export interface Renewal {
  readonly seconds: number;
  readonly warnings: readonly string[];
}

export async function renewLease(lease_id: string, increment: string): Promise<Renewal> {
  const answer = await api("POST /v1/sys/leases/renew", {
    body: { lease_id, ...(increment && { increment }) },
  });
  return { seconds: answer.lease_duration, warnings: answer.warnings ?? [] };
}

/** Forgets leases, whether or not their credentials could be removed. */
export const forgetLeases = (prefix: string) => api("POST /v1/sys/leases/revoke-force/{prefix}", { path: { prefix } });
