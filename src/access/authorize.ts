import type { Grant } from "../contracts/access-control.ts";
import type { Capability } from "../contracts/policies.ts";

/** Whether a grant includes a capability; root includes all. */
export const may = (grant: Grant, capability: Capability): boolean =>
  grant.capabilities.includes("root") || grant.capabilities.includes(capability);
