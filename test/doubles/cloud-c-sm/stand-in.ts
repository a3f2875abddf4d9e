import { crc32c } from "../../../src/lib/crc32c.ts";
import { byName, type Fault, type Place, type StandIn } from "../stand-in.ts";
import type { Shared } from "../stand-ins.ts";
import type { Fault as ApiFault } from "./account.ts";
import { type CloudCDouble, type OpenedAccount, startCloudC } from "./server.ts";

const marker = "hashicorp-vault";
const writes = ["CreateSecret", "UpdateSecret", "DeleteSecret", "AddSecretVersion", "DestroySecretVersion"];

const faults: Record<Fault, ApiFault> = {
  throttled: { fault: "error", status: "RESOURCE_EXHAUSTED", headers: { "retry-after": "1" } },
  unavailable: { fault: "error", status: "UNAVAILABLE" },
  lost: { fault: "apply-then-drop" },
  cut: { fault: "drop" },
  forbidden: { fault: "error", status: "PERMISSION_DENIED" },
};

/** Google Secret Manager, with the project and service account of an account. */
export async function startStandIn({ otherAccounts: others }: Pick<Shared, "otherAccounts">): Promise<StandIn> {
  const double = await startCloudC(others ? { others } : {});
  // Accounts share a few keys.
  const foreign = [await double.openAccount(), await double.openAccount()].map(
    ({ credentials }) => credentials.private_key,
  );
  let first: OpenedAccount | null = double;
  return {
    type: "cloud-c-sm",
    settings: {
      CLOUD_C_SM_URL: double.url,
      CLOUD_C_TOKEN_URL: double.tokenUrl,
      CLOUD_C_STS_URL: double.url,
      CLOUD_C_IAM_URL: double.url,
    },
    shell: { CLOUD_C: `${double.url}/_double` },
    async open() {
      const { account, credentials } = first ?? (await double.openAccount());
      first = null;
      const wrong = { ...credentials, private_key: foreign.find((key) => key !== credentials.private_key) };
      return placeOf(double, account, { credentials: JSON.stringify(credentials), wrong: JSON.stringify(wrong) });
    },
    close: () => double.close(),
  };
}

/** @param keys key files: the account's own, and one that its service account does not know */
function placeOf(
  double: CloudCDouble,
  account: string,
  { credentials, wrong }: Record<"credentials" | "wrong", string>,
): Place {
  const body = { credentials };
  const call = (operation: string, secretId: string, given: Record<string, unknown> = {}, query = {}) =>
    double.call({ operation, secretId, body: given, query }, account);
  return {
    body,
    wrongCredentials: { credentials: wrong },
    missing: { ...body, project_id: "acme-missing" },
    objects: () =>
      byName(
        double.secrets(account).map(({ name, value, labels }) => ({
          name,
          value: value ?? "",
          owned: Object.hasOwn(labels, marker),
          tags: labels,
        })),
      ),
    write(name, value) {
      if (double.secrets(account).some((secret) => secret.name === name)) {
        call("UpdateSecret", name, { labels: {} }, { updateMask: "labels" });
      } else call("CreateSecret", name, { replication: { automatic: {} } }, { secretId: name });
      const data = Buffer.from(value);
      call("AddSecretVersion", name, { payload: { data: data.toString("base64"), dataCrc32c: String(crc32c(data)) } });
    },
    remove: (name) => void call("DeleteSecret", name),
    fail: (fault, count) => double.fault({ ...faults[fault], count, operation: writes }, account),
    writes: () => double.requests(account).filter(({ operation }) => writes.includes(operation ?? "")).length,
  };
}
