import type { KnownKey } from "../cloud-a-sts/signature.ts";
import { byName, type Fault, type Place, type StandIn } from "../stand-in.ts";
import { type Fault as ApiFault, type CloudADouble, defaultKey, startCloudA } from "./server.ts";

const region = "eu-west-1";
const marker = "hashicorp:vault";
const writes = [
  "CreateSecret",
  "UpdateSecret",
  "PutSecretValue",
  "DeleteSecret",
  "RestoreSecret",
  "TagResource",
  "UntagResource",
];

const faults: Record<Fault, ApiFault> = {
  throttled: { fault: "error", type: "ThrottlingException" },
  unavailable: { fault: "error", type: "ServiceUnavailable", status: 503 },
  lost: { fault: "apply-then-drop" },
  cut: { fault: "drop" },
  forbidden: { fault: "error", type: "AccessDeniedException" },
};

/** AWS Secrets Manager, with a key of an account. */
export async function startStandIn({ awsKeys }: { readonly awsKeys: KnownKey[] }): Promise<StandIn> {
  awsKeys.push(defaultKey);
  const double = await startCloudA({ regions: [region], keys: awsKeys });
  let first: KnownKey | null = defaultKey;
  return {
    type: "cloud-a-sm",
    settings: { CLOUD_A_SM_URL: double.url, CLOUD_A_STS_URL: double.url },
    shell: { CLOUD_A: `${double.url}/_double` },
    open() {
      const key = first ?? double.openAccount();
      first = null;
      return placeOf(double, key);
    },
    close: () => double.close(),
  };
}

function placeOf(double: CloudADouble, { accessKeyId, secretAccessKey }: KnownKey): Place {
  const body = { access_key_id: accessKeyId, secret_access_key: secretAccessKey, region };
  const present = () => double.secrets(accessKeyId).filter(({ scheduledForDeletion }) => !scheduledForDeletion);
  return {
    body,
    wrongCredentials: { ...body, secret_access_key: "wrong" },
    missing: { ...body, region: "eu-north-1" },
    objects: () =>
      byName(
        present().map(({ name, value, tags }) => ({
          name,
          value: value ?? "",
          owned: Object.hasOwn(tags, marker),
          tags,
        })),
      ),
    write(name, value) {
      const content = { SecretString: value, ClientRequestToken: crypto.randomUUID() };
      const change = (operation: string, given: Record<string, unknown>) => double.call(operation, given, accessKeyId);
      if (present().every((secret) => secret.name !== name)) change("CreateSecret", { Name: name, ...content });
      else {
        change("UpdateSecret", { SecretId: name, ...content });
        change("UntagResource", { SecretId: name, TagKeys: [marker] });
      }
    },
    remove(name) {
      double.call("DeleteSecret", { SecretId: name, ForceDeleteWithoutRecovery: true }, accessKeyId);
    },
    fail: (fault, count) => double.fault({ ...faults[fault], count, operation: writes }, accessKeyId),
    writes: () => double.requests(accessKeyId).filter(({ operation }) => writes.includes(operation)).length,
  };
}
