import { type CloudBDouble, type CloudBOptions, startCloudB } from "./server.ts";

/** The directory and vaults of all destination types of Azure: a Worker has one setting for the login endpoint. */
export interface SharedCloudB {
  readonly double: CloudBDouble;
  /** Times of versions are whole seconds. */
  nextSecond(): void;
}

export async function startSharedCloudB(options: Pick<CloudBOptions, "otherTenants"> = {}): Promise<SharedCloudB> {
  let aheadMs = 0;
  const double = await startCloudB({ ...options, now: () => Date.now() + aheadMs });
  return {
    double,
    nextSecond() {
      aheadMs += 1000;
    },
  };
}
