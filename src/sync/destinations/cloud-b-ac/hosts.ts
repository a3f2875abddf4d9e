import { clouds } from "../../../providers/cloud-b-azure/login.ts";
import { cloudOf, refuseCloudHost } from "../cloud-b-kv/client.ts";

/** The host suffix of stores by cloud, without the leading dot. Tokens are for `https://<suffix>`. */
export const configSuffixes: ReadonlyMap<string, string> = new Map([
  ["AzurePublicCloud", "azconfig.io"],
  ["AzureUSGovernmentCloud", "azconfig.azure.us"],
  ["AzureChinaCloud", "azconfig.azure.cn"],
]);

interface StoreAddress {
  readonly endpoint: string;
  readonly cloud?: string | undefined;
}

const nameOf = (address: StoreAddress): string => (cloudOf(address) ?? clouds[0]).name;

export const suffixOf = (address: StoreAddress): string => configSuffixes.get(nameOf(address)) ?? "azconfig.io";

/** "Naming rules for Azure resources", Microsoft.AppConfiguration: 5 to 50 letters, digits and single hyphens. */
const storeName = /^(?!.*--)[a-z0-9][a-z0-9-]{3,48}[a-z0-9]$/;

/**
 * The refusal of a store's host, to which credentials would be sent; null when it is allowed. One sentence without a
 * full stop. Allowed are stores of the connection's cloud and hosts in `SYNC_ALLOWED_HOSTS`; http for listed loopback
 * hosts.
 */
export function refuseStoreHost(
  address: StoreAddress,
  settings: { SYNC_ALLOWED_HOSTS?: string | undefined },
): string | null {
  const suffix = suffixOf(address);
  const isStore = (store: string, rest: string) => rest === suffix && storeName.test(store);
  const example = `a store of ${nameOf(address)}, such as my-store.${suffix}`;
  return refuseCloudHost("endpoint", new URL(address.endpoint), isStore, example, settings);
}
