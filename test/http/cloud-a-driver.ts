import type { CloudAConnection } from "../../src/providers/cloud-a-aws/connection.ts";
import { sender } from "../../src/providers/outcome.ts";
import type { CallContext, ExternalObject, ProviderSettings } from "../../src/sync/destinations/destination-type.ts";
import { defaultKey } from "../doubles/cloud-a-sm/server.ts";

/** The inputs of the adapter's tests. */
export const region = "eu-west-1";

export const keys: CloudAConnection = {
  access_key_id: defaultKey.accessKeyId,
  secret_access_key: defaultKey.secretAccessKey,
  region,
};

export const marker = { "hashicorp:vault": "" };

export const contextOf = (settings: ProviderSettings, deadlineMs = 5000): CallContext => ({
  settings,
  send: sender({ deadlineMs }),
});

/** Both services of one double. */
export const contextAt = (url: string, deadlineMs = 5000): CallContext =>
  contextOf({ CLOUD_A_SM_URL: url, CLOUD_A_STS_URL: url }, deadlineMs);

/** A first push of `app/db` that replaces an existing object, with the given changes. */
export const objectOf = (changed: Partial<ExternalObject> = {}): ExternalObject => ({
  name: "app/db",
  reference: null,
  value: "hunter2-hunter2",
  tags: marker,
  idempotencyToken: "intent-1",
  knownToExist: false,
  previousTagKeys: [],
  contentType: "text/plain",
  updatePolicy: "replace",
  ...changed,
});
