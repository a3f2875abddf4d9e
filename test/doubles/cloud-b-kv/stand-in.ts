import { byName, type Fault, type Place, type StandIn } from "../stand-in.ts";
import type { Fault as ApiFault, CloudBAccount, CloudBDouble } from "./server.ts";
import type { SharedCloudB } from "./shared.ts";

const marker = "hashicorp:vault";
export const vaultWrites = ["SetSecret", "UpdateSecret", "DeleteSecret", "RecoverDeletedSecret", "PurgeDeletedSecret"];

export const vaultFaults: Record<Fault, ApiFault> = {
  throttled: { fault: "error", type: "Throttled", status: 429, headers: { "retry-after": "1" } },
  unavailable: { fault: "error", type: "ServiceUnavailable", status: 503 },
  lost: { fault: "apply-then-drop" },
  cut: { fault: "drop" },
  forbidden: { fault: "error", type: "Forbidden", inner: "ForbiddenByPolicy", status: 403 },
};

/** Azure Key Vault, with the vault and application of a tenant. */
export async function startStandIn(shared: { cloudB(): Promise<SharedCloudB> }): Promise<StandIn> {
  const { double, nextSecond } = await shared.cloudB();
  const foreign = await double.newAccount();
  let first: CloudBAccount | null = double.account;
  return {
    type: "cloud-b-kv",
    settings: { CLOUD_B_LOGIN_URL: double.url },
    shell: { CLOUD_B: `${double.url}/_double` },
    async open() {
      const account = first ?? (await double.newAccount());
      first = null;
      return placeOf(double, account, { foreignVault: foreign.key_vault_uri, nextSecond });
    },
    close: () => double.close(),
  };
}

interface Surroundings {
  /** A vault of another tenant. */
  readonly foreignVault: string;
  readonly nextSecond: () => void;
}

function placeOf(double: CloudBDouble, account: CloudBAccount, { foreignVault, nextSecond }: Surroundings): Place {
  const { tenant_id: tenant } = account;
  const body = { ...account };
  const change = (operation: string, name: string, given: Record<string, unknown> = {}) =>
    double.call(operation, { name, body: given }, tenant);
  return {
    body,
    wrongCredentials: { ...body, client_secret: "wrong" },
    missing: { ...body, key_vault_uri: foreignVault },
    objects: () =>
      byName(
        double
          .secrets(tenant)
          .filter(({ state }) => state === "active")
          .map(({ name, value, tags }) => ({ name, value, owned: Object.hasOwn(tags, marker), tags })),
      ),
    write(name, value) {
      nextSecond();
      change("SetSecret", name, { value });
      nextSecond();
    },
    remove: (name) => void change("DeleteSecret", name),
    fail: (fault, count) => double.fault({ ...vaultFaults[fault], count, operation: vaultWrites }, tenant),
    writes: () => double.requests(tenant).filter(({ operation }) => vaultWrites.includes(operation)).length,
  };
}
