import type { Caller } from "../../../providers/cloud-c-gcp/access-token.ts";
import { callCloudC } from "../../../providers/cloud-c-gcp/client.ts";
import { type CloudCConnection, projectOf } from "../../../providers/cloud-c-gcp/connection.ts";
import type { CloudCAnswer } from "../../../providers/cloud-c-gcp/errors.ts";
import type { RestMethod } from "../../../providers/rest.ts";

/** A client of Google Secret Manager (REST v1) for one operation of an adapter, as the connection's service account. */
export function secretManager(connection: CloudCConnection, caller: Caller) {
  const base = (caller.settings.CLOUD_C_SM_URL || "https://secretmanager.googleapis.com").replace(/\/+$/, "");
  const root = `${base}/v1/projects/${encodeURIComponent(projectOf(connection))}`;
  return {
    /**
     * Sends one request, once; the caller retries.
     * @param operation the RPC's name, for messages
     * @param path below the project, beginning with `secrets`
     */
    call: (
      operation: string,
      method: RestMethod,
      path: string,
      body?: Record<string, unknown>,
    ): Promise<CloudCAnswer> => callCloudC(connection, caller, { operation, method, url: `${root}/${path}`, body }),
  };
}
