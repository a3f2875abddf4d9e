import type { Dialect } from "./dialect.ts";
import { ORCHESTRATOR_VERSION } from "./orchestrator.ts";

/**
 * The version in node lists. Upstream clients compare it with orchestrator versions and warn about old nodes, so the
 * version of our agent is not shown to them.
 */
export function nodeVersion(attributes: Readonly<Record<string, string>>, dialect: Dialect): string {
  const reported = attributes["nomad.version"];
  if (dialect === "upstream") return reported || ORCHESTRATOR_VERSION;
  return attributes["agent.version"] || reported || "";
}

/** Fields of a neutral Node that the upstream Node no longer has (docs/reference/compatibility.md). */
export const LEGACY_NODE_FIELDS = ["Resources", "Reserved"] as const;
