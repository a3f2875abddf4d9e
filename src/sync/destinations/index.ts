import { appConfig } from "./app-config/adapter.ts";
import { ciContext } from "./ci-context/adapter.ts";
import { ciVariables } from "./ci-variables/adapter.ts";
import { cloudAPs } from "./cloud-a-ps/adapter.ts";
import { cloudASm } from "./cloud-a-sm/adapter.ts";
import { cloudBAc } from "./cloud-b-ac/adapter.ts";
import { cloudBKv } from "./cloud-b-kv/adapter.ts";
import { cloudCSm } from "./cloud-c-sm/adapter.ts";
import { clusterSecretsDestination } from "./cluster-secrets/adapter.ts";
import { deployEnvironment } from "./deploy-environment/adapter.ts";
import { deployProject } from "./deploy-project/adapter.ts";
import { deployService } from "./deploy-service/adapter.ts";
import { deploySite } from "./deploy-site/adapter.ts";
import type { DestinationType } from "./destination-type.ts";
import { edgeStore } from "./edge-store/adapter.ts";
import { edgeWorker } from "./edge-worker/adapter.ts";
import { functionSecrets } from "./function-secrets/adapter.ts";
import { https } from "./https/adapter.ts";
import { iacVariables } from "./iac-variables/adapter.ts";
import { inMem } from "./in-mem/adapter.ts";
import { kvV2Destination } from "./kv-v2/adapter.ts";
import { machineSecrets } from "./machine-secrets/adapter.ts";
import { pipelineVariables } from "./pipeline-variables/adapter.ts";
import { repoHost } from "./repo-host/adapter.ts";
import { repoHostVariables } from "./repo-host-variables/adapter.ts";

export type { Granularity } from "../../contracts/sync-tasks.ts";
export type { DestinationType } from "./destination-type.ts";

/**
 * Every destination type by its name in paths. A `connection` passed to a type must be the output of that type's own
 * schema, which the types of this map cannot express.
 */
export const destinationTypes: ReadonlyMap<string, DestinationType<unknown>> = new Map(
  [
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
    clusterSecretsDestination,
    edgeWorker,
    edgeStore,
    https,
    kvV2Destination,
    inMem,
  ].map((type) => [type.type, type as DestinationType<unknown>]),
);
