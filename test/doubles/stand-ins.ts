import { memo } from "../../src/lib/memo.ts";
import { startStandIn as appConfig } from "./app-config/stand-in.ts";
import { startStandIn as ciContext } from "./ci-context/stand-in.ts";
import { startStandIn as ciVariables } from "./ci-variables/stand-in.ts";
import { startStandIn as cloudAPs } from "./cloud-a-ps/stand-in.ts";
import { startStandIn as cloudASm } from "./cloud-a-sm/stand-in.ts";
import type { KnownKey } from "./cloud-a-sts/signature.ts";
import { startStandIn as cloudBAc } from "./cloud-b-ac/stand-in.ts";
import type { CloudBOptions } from "./cloud-b-kv/server.ts";
import { type SharedCloudB, startSharedCloudB } from "./cloud-b-kv/shared.ts";
import { startStandIn as cloudBKv } from "./cloud-b-kv/stand-in.ts";
import type { OtherAccounts } from "./cloud-c/server.ts";
import { startStandIn as cloudCSm } from "./cloud-c-sm/stand-in.ts";
import { startStandIn as clusterSecrets } from "./cluster-secrets/stand-in.ts";
import { startStandIn as deployEnvironment } from "./deploy-environment/stand-in.ts";
import { startStandIn as deployProject } from "./deploy-project/stand-in.ts";
import { startStandIn as deployService } from "./deploy-service/stand-in.ts";
import { startStandIn as deploySite } from "./deploy-site/stand-in.ts";
import { startStandIn as edgeStore } from "./edge-store/stand-in.ts";
import { startStandIn as edgeWorker } from "./edge-worker/stand-in.ts";
import { startStandIn as functionSecrets } from "./function-secrets/stand-in.ts";
import { startStandIn as https } from "./https/stand-in.ts";
import { startStandIn as iacVariables } from "./iac-variables/stand-in.ts";
import { startStandIn as kvV2 } from "./kv-v2/stand-in.ts";
import { startStandIn as machineSecrets } from "./machine-secrets/stand-in.ts";
import { startStandIn as pipelineVariables } from "./pipeline-variables/stand-in.ts";
import { type RepoHostDouble, startRepoHost } from "./repo-host/server.ts";
import { startStandIn as repoHost } from "./repo-host/stand-in.ts";
import { startStandIn as repoHostVariables } from "./repo-host-variables/stand-in.ts";
import type { StandIn } from "./stand-in.ts";

/**
 * Parts of doubles that several types share, because a Worker has one setting for each address. The double of the first
 * stand-in with the setting answers for all.
 */
export interface Shared extends Pick<CloudBOptions, "otherTenants"> {
  /** Service accounts that the token endpoint of cloud-c serves beside its own. */
  readonly otherAccounts?: OtherAccounts;
  /** Access keys that the first double with STS knows; a double adds its own. */
  readonly awsKeys: KnownKey[];
  /** The doubles of all types of one provider, started once. */
  readonly repoHost: () => Promise<RepoHostDouble>;
  readonly cloudB: () => Promise<SharedCloudB>;
}

/** Starts the double of each destination type, on a port of its own. */
const starts: readonly ((shared: Shared) => Promise<StandIn>)[] = [
  // One type a line.
  cloudASm,
  cloudAPs,
  cloudBKv,
  cloudBAc,
  cloudCSm,
  repoHost,
  repoHostVariables,
  iacVariables,
  ciVariables,
  ciContext,
  pipelineVariables,
  deployProject,
  deploySite,
  appConfig,
  deployService,
  functionSecrets,
  machineSecrets,
  deployEnvironment,
  clusterSecrets,
  edgeWorker,
  edgeStore,
  https,
  kvV2,
];

export function startStandIns(shared: Pick<Shared, "otherTenants" | "otherAccounts"> = {}): Promise<StandIn[]> {
  const parts: Shared = {
    ...shared,
    awsKeys: [],
    repoHost: memo(() => startRepoHost()),
    cloudB: memo(() => startSharedCloudB(shared)),
  };
  return Promise.all(starts.map((start) => start(parts)));
}

/** Settings of a Worker that calls the stand-ins. */
export const settingsOf = (standIns: readonly StandIn[]): Record<string, string> =>
  Object.assign({ SYNC_ALLOWED_HOSTS: "127.0.0.1" }, ...standIns.map(({ settings }) => settings).toReversed());
