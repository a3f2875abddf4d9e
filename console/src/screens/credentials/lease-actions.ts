/** Writes of leases, and what their answers say. */
import { api, wireRequest } from "../../api/client.ts";
import { confirm } from "../../components/confirm.tsx";
import { toast } from "../../components/toasts.tsx";
import { roleOf } from "./engine-types.ts";
import { leaseName } from "./reads.ts";

/** @returns what has happened, as a sentence */
export async function revokeLease(lease_id: string): Promise<string> {
  const answer = await api("POST /v1/sys/leases/revoke", { body: { lease_id } });
  return answer?.warnings?.join(" ") ?? "The lease is revoked; its credentials are gone.";
}

/** Asks first. Resolves with whether it was revoked. */
export function confirmRevoke(lease_id: string): Promise<boolean> {
  return confirm({
    title: "Revoke the lease",
    text: `Credentials of the role ${roleOf(lease_id)}, lease ${leaseName(lease_id)}, stop working and are removed at the provider. This cannot be undone.`,
    verb: "Revoke lease",
    isDangerous: true,
    request: wireRequest("POST /v1/sys/leases/revoke", { body: { lease_id } }),
    perform: async () => toast(await revokeLease(lease_id)),
  });
}

interface Renewal {
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
