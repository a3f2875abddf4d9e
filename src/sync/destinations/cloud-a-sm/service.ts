import { type CloudAClient, cloudAClient } from "../../../providers/cloud-a-aws/client.ts";
import type { CloudAConnection } from "../../../providers/cloud-a-aws/connection.ts";
import type { CallContext } from "../destination-type.ts";

/** A client of AWS Secrets Manager (API version 2017-10-17). */
export const secretsManager = (connection: CloudAConnection, context: CallContext): CloudAClient =>
  cloudAClient(connection, context, {
    name: "secretsmanager",
    target: "secretsmanager",
    url: "CLOUD_A_SM_URL",
    reads: new Set(["DescribeSecret", "GetSecretValue", "ListSecrets"]),
  });
