import type { TestProject } from "vitest/node";
import { defaultKey, startCloudA } from "./cloud-a-sm/server.ts";
import { startAzure } from "./cloud-b/azure.ts";
import { startCloudB } from "./cloud-b-kv/server.ts";
import { startCloudC } from "./cloud-c-sm/server.ts";
import { startDeployProject } from "./deploy-project/api.ts";
import { startIssuer } from "./issuer.ts";
import { startOtlpReceiver } from "./otlp-receiver.ts";
import { startRepoHost } from "./repo-host/server.ts";
import { startWebhookReceiver } from "./webhook-receiver.ts";

/** Addresses of the doubles. Each test opens a separate account there (`POST /_double/accounts`). */
export type DoubleUrls = {
  /** The token endpoint of cloud-b, for tenants with a vault and for those with a directory. */
  cloudB: string;
  cloudBGraph: string;
  cloudBArm: string;
  cloudC: string;
  /** The token endpoint of cloud-c. */
  cloudCToken: string;
  repoHost: string;
  deployProject: string;
  issuer: string;
  webhooks: string;
  /** A collector of OpenTelemetry. */
  otlp: string;
};

declare module "vitest" {
  export interface ProvidedContext {
    cloudA: { url: string; accessKeyId: string; secretAccessKey: string };
    doubles: DoubleUrls;
  }
}

/** Starts the provider doubles that tests inside the Workers runtime reach over loopback. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const azure = await startAzure();
  const [cloudA, cloudB, cloudC, repoHost, deployProject, issuer, webhooks, otlp] = await Promise.all([
    startCloudA({ regions: ["eu-west-1"] }),
    startCloudB({ otherTenants: azure.otherTenants }),
    startCloudC(),
    startRepoHost(),
    startDeployProject(),
    startIssuer(),
    startWebhookReceiver(),
    startOtlpReceiver(),
  ]);
  project.provide("cloudA", { url: cloudA.url, ...defaultKey });
  project.provide("doubles", {
    cloudB: cloudB.url,
    cloudBGraph: azure.graphUrl,
    cloudBArm: azure.armUrl,
    cloudC: cloudC.url,
    cloudCToken: cloudC.tokenUrl,
    repoHost: repoHost.url,
    deployProject: deployProject.url,
    issuer: issuer.url,
    webhooks: webhooks.url,
    otlp: otlp.url,
  });
  return async () => {
    await Promise.all(
      [cloudA, azure, cloudB, cloudC, repoHost, deployProject, issuer, webhooks, otlp].map((double) => double.close()),
    );
  };
}
