import { startStandIn as cloudAPs } from "./cloud-a-ps/stand-in.ts";
import { startStandIn as cloudASm } from "./cloud-a-sm/stand-in.ts";
import { startStandIn as cloudBKv } from "./cloud-b-kv/stand-in.ts";
import { startStandIn as cloudCSm } from "./cloud-c-sm/stand-in.ts";
import { startStandIn as deployProject } from "./deploy-project/stand-in.ts";
import { startStandIn as kvV2 } from "./kv-v2/stand-in.ts";
import { startStandIn as repoHost } from "./repo-host/stand-in.ts";
import type { StandIn } from "./stand-in.ts";

/** Starts the double of each destination type, on a port of its own. */
export const standIns: readonly (() => Promise<StandIn>)[] = [
  // One type a line.
  cloudASm,
  cloudAPs,
  cloudBKv,
  cloudCSm,
  repoHost,
  deployProject,
  kvV2,
];
