import type { TestProject } from "vitest/node";
import { startMadeUpProvider } from "../made-up/engine/provider.ts";
import { startMadeUp } from "../made-up/stand-ins.ts";
import { startIam } from "./cloud-a/server.ts";
import { defaultKey } from "./cloud-a-sm/server.ts";
import { startAzure } from "./cloud-b/azure.ts";
import { startGoogle } from "./cloud-c/server.ts";
import { startIssuer } from "./issuer.ts";
import { startMessageServices } from "./message-services/server.ts";
import { startOtlpReceiver } from "./otlp-receiver.ts";
import { startPlacesServer } from "./places-server.ts";
import { startProducers } from "./producers/server.ts";
import { settingsOf, startStandIns } from "./stand-ins.ts";
import { startWebhookReceiver } from "./webhook-receiver.ts";

/** Addresses of the doubles. Each test opens a separate account there (`POST /_double/accounts`). */
export type DoubleUrls = {
  /** IAM and STS of the engine of cloud-a. */
  cloudAIam: string;
  /** The token endpoint of cloud-b, for tenants with a vault and for those with a directory. */
  cloudB: string;
  cloudBGraph: string;
  cloudBArm: string;
  /** IAM of the engine of cloud-c. */
  cloudCIam: string;
  cloudC: string;
  /** The token endpoint of cloud-c. */
  cloudCToken: string;
  repoHost: string;
  deployProject: string;
  issuer: string;
  webhooks: string;
  /** Services that take messages of notifications. */
  messages: string;
  /** A collector of OpenTelemetry. */
  otlp: string;
  /** The providers of examples/producers. */
  producers: string;
  /** The provider of test/made-up/engine. */
  madeUp: string;
};

/** The destination types with a stand-in, and the address of their places (`places-server.ts`). */
export type StandInPlaces = { types: string[]; url: string };

declare module "vitest" {
  export interface ProvidedContext {
    cloudA: { url: string; accessKeyId: string; secretAccessKey: string };
    doubles: DoubleUrls;
    standIns: StandInPlaces;
    /** Settings of the Worker that lead its calls to the doubles. */
    providerSettings: Record<string, string>;
  }
}

/** Starts the provider doubles that tests inside the Workers runtime reach over loopback. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const azure = await startAzure();
  const google = await startGoogle();
  const [standIns, madeUp, madeUpEngine, iam, issuer, webhooks, messages, otlp, producers] = await Promise.all([
    startStandIns({ otherTenants: azure.otherTenants, otherAccounts: google.others }),
    startMadeUp(),
    startMadeUpProvider(),
    startIam({ followsCaller: true }),
    startIssuer(),
    startWebhookReceiver(),
    startMessageServices(),
    startOtlpReceiver(),
    startProducers(),
  ]);
  // Suites that open accounts themselves have the doubles' first ones.
  await Promise.all(standIns.map((standIn) => standIn.open()));
  const places = await startPlacesServer([...standIns, ...madeUp]);
  const settings = settingsOf(standIns);
  const at = (setting: string): string => settings[setting] ?? "";
  project.provide("providerSettings", {
    ...settings,
    CLOUD_B_GRAPH_URL: azure.graphUrl,
    CLOUD_B_ARM_URL: azure.armUrl,
    CLOUD_C_API_URL: google.url,
  });
  project.provide("cloudA", { url: at("CLOUD_A_SM_URL"), ...defaultKey });
  project.provide("doubles", {
    cloudAIam: iam.url,
    cloudB: at("CLOUD_B_LOGIN_URL"),
    cloudBGraph: azure.graphUrl,
    cloudBArm: azure.armUrl,
    cloudCIam: google.url,
    cloudC: at("CLOUD_C_SM_URL"),
    cloudCToken: at("CLOUD_C_TOKEN_URL"),
    repoHost: at("REPO_HOST_URL"),
    deployProject: at("DEPLOY_PROJECT_URL"),
    issuer: issuer.url,
    webhooks: webhooks.url,
    messages: messages.url,
    otlp: otlp.url,
    madeUp: madeUpEngine.url,
    producers: producers.url,
  });
  project.provide("standIns", { types: [...standIns, ...madeUp].map(({ type }) => type), url: places.url });
  return async () => {
    const doubles = [
      azure,
      google,
      madeUpEngine,
      iam,
      issuer,
      webhooks,
      messages,
      otlp,
      producers,
      places,
      ...standIns,
      ...madeUp,
    ];
    await Promise.all(doubles.map((double) => double.close()));
  };
}
