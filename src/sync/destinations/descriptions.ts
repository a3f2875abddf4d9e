import { description as appConfig } from "./app-config/description.ts";
import { description as ciContext } from "./ci-context/description.ts";
import { description as ciVariables } from "./ci-variables/description.ts";
import { description as cloudAPs } from "./cloud-a-ps/description.ts";
import { description as cloudASm } from "./cloud-a-sm/description.ts";
import { description as cloudBAc } from "./cloud-b-ac/description.ts";
import { description as cloudBKv } from "./cloud-b-kv/description.ts";
import { description as cloudCSm } from "./cloud-c-sm/description.ts";
import { description as clusterSecrets } from "./cluster-secrets/description.ts";
import { description as deployEnvironment } from "./deploy-environment/description.ts";
import { description as deployProject } from "./deploy-project/description.ts";
import { description as deployService } from "./deploy-service/description.ts";
import { description as deploySite } from "./deploy-site/description.ts";
import type { DestinationDescription } from "./description.ts";
import { description as edgeStore } from "./edge-store/description.ts";
import { description as edgeWorker } from "./edge-worker/description.ts";
import { description as functionSecrets } from "./function-secrets/description.ts";
import { description as https } from "./https/description.ts";
import { description as iacVariables } from "./iac-variables/description.ts";
import { description as inMem } from "./in-mem/description.ts";
import { description as kvV2 } from "./kv-v2/description.ts";
import { description as machineSecrets } from "./machine-secrets/description.ts";
import { description as pipelineVariables } from "./pipeline-variables/description.ts";
import { description as repoHost } from "./repo-host/description.ts";
import { description as repoHostVariables } from "./repo-host-variables/description.ts";

/** Every destination type, in the order of the console and the guide. */
const all = [
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
  inMem,
] as const;

export const descriptions: readonly DestinationDescription[] = all;

type SettingsOf<Each> = Each extends { readonly settings: readonly (infer Name)[] } ? Name : never;

/** Names of settings that only destination types read. */
export type DestinationSetting = SettingsOf<(typeof all)[number]>;

export const destinationSettings: readonly DestinationSetting[] = all.flatMap((each) =>
  "settings" in each ? [...each.settings] : [],
);
