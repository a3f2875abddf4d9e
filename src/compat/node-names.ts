import type { Dialect } from "./dialect.ts";
import { ORCHESTRATOR_VERSION } from "./orchestrator.ts";

/**
 * The version that lists show of a node. Upstream's clients hold it against versions of the orchestrator and warn of ancient
 * nodes, so they do not get that of our own agent.
 */
export function nodeVersion(attributes: Readonly<Record<string, string>>, dialect: Dialect): string {
  const reported = attributes["nomad.version"];
  if (dialect === "upstream") return reported || ORCHESTRATOR_VERSION;
  return attributes["agent.version"] || reported || "";
}

/** Fields of a neutral Node that the upstream Node no longer has (docs/reference/compatibility.md). */
export const LEGACY_NODE_FIELDS = ["Resources", "Reserved"] as const;
