import { api } from "../../api/client.ts";
import { caller } from "../../api/session.ts";
import { Actor } from "../../components/actor.tsx";
import { useResource } from "../../lib/resource.ts";

const LINES = "sys/audit/lines";

/**
 * The token that a lease was issued to, from the audit log, for callers who may read that. Empty where no line is left.
 */
async function readOwner(id: string, signal: AbortSignal): Promise<string> {
  const shared = { namespace: "", quiet: true, signal } as const;
  const rights = await api("POST /v1/sys/capabilities-self", { ...shared, body: { paths: [LINES] } });
  if (!rights.data[LINES]?.some((right) => right === "root" || right === "sudo")) return "";
  // The log names leases below their engine.
  const text = id.split("/").slice(-3).join("/");
  const { data } = await api("GET /v1/sys/audit/lines", { ...shared, query: { text, kind: "action", limit: 20 } });
  const lines: readonly Readonly<Record<string, unknown>>[] = data.lines;
  return String(lines.find((line) => line["event"] === "lease-issued")?.["token"] ?? "");
}

export function LeaseOwner({ id }: { readonly id: string }) {
  const owner = useResource(["owner", id], (signal) => readOwner(id, signal), {
    skip: caller.value?.namespace !== "",
  });
  return owner.value ? <Actor accessor={owner.value} /> : <span class="muted">the audit log does not say</span>;
}
