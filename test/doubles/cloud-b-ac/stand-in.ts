import type { CloudBAccount, Fault as VaultFault } from "../cloud-b-kv/server.ts";
import type { SharedCloudB } from "../cloud-b-kv/shared.ts";
import { vaultFaults, vaultWrites } from "../cloud-b-kv/stand-in.ts";
import { byName, type Fault, type Place, type StandIn } from "../stand-in.ts";
import { type ConfigDouble, type StoreAccount, startConfigStore } from "./server.ts";

const marker = "hashicorp:vault";

interface Parts {
  readonly cloudB: SharedCloudB;
  readonly store: ConfigDouble;
  readonly vault: CloudBAccount;
  readonly faults: SharedFaults;
}

/** Faults that the next calls of either double take, in one order. */
class SharedFaults {
  /** As the vault's double reads them. */
  readonly vault: VaultFault[] = [];
  readonly #names = new Map<VaultFault, Fault>();

  add(fault: Fault, count: number): void {
    const given: VaultFault = { ...vaultFaults[fault], count, operation: vaultWrites };
    this.#names.set(given, fault);
    this.vault.push(given);
  }

  next(): Fault | null {
    const [given] = this.vault;
    if (given === undefined) return null;
    given.count = (given.count ?? 1) - 1;
    if (given.count <= 0) this.vault.shift();
    return this.#names.get(given) ?? null;
  }
}

export interface ConfigPlace extends Place {
  readonly account: StoreAccount;
}

export interface ConfigStandIn extends StandIn {
  open(): Promise<ConfigPlace>;
}

/** Azure App Configuration, with a store, its key vault and an application of a tenant. */
export async function startStandIn(shared: { cloudB(): Promise<SharedCloudB> }): Promise<ConfigStandIn> {
  const cloudB = await shared.cloudB();
  const stores: ConfigDouble[] = [];
  async function openStore(faults: SharedFaults): Promise<Parts> {
    const vault = await cloudB.double.newAccount({ faults: faults.vault });
    const store = await startConfigStore({
      verify: (token) => cloudB.double.verify(token),
      tenantId: vault.tenant_id,
      owners: [vault.client_id],
    });
    store.account.sharedFault = () => faults.next();
    stores.push(store);
    return { cloudB, store, vault, faults };
  }
  const foreign = await openStore(new SharedFaults());
  return {
    type: "cloud-b-ac",
    settings: { CLOUD_B_LOGIN_URL: cloudB.double.url },
    open: async () => placeOf(await openStore(new SharedFaults()), foreign.store.url),
    close: async () => {
      await Promise.all([cloudB.double.close(), ...stores.map((store) => store.close())]);
    },
  };
}

/** @param foreignStore a store of another tenant */
function placeOf(parts: Parts, foreignStore: string): ConfigPlace {
  const { store, vault, cloudB, faults } = parts;
  const { key_vault_uri, tenant_id, client_id, client_secret } = vault;
  const body = { endpoint: store.url, key_vault_uri, tenant_id, client_id, client_secret };
  const { account } = store;
  return {
    account,
    body,
    wrongCredentials: { ...body, client_secret: "wrong" },
    missing: { ...body, endpoint: foreignStore },
    objects: () =>
      byName(
        [...account.items.values()].map(({ key, value, tags }) => ({
          name: key,
          value: readValue(parts, value),
          owned: Object.hasOwn(tags, marker),
          tags,
        })),
      ),
    write(name, value) {
      cloudB.nextSecond();
      account.set(name, null, { value });
      cloudB.nextSecond();
    },
    remove: (name) => void account.items.delete(JSON.stringify([name, null])),
    fail: (fault, count) => faults.add(fault, count),
    writes: () =>
      account.writes +
      cloudB.double.requests(tenant_id).filter(({ operation }) => vaultWrites.includes(operation)).length,
  };
}

/** The value that a reader of the key-value gets, behind its reference. Throws when there is no such secret. */
function readValue({ cloudB, vault }: Parts, value: string | null): string {
  if (!value?.startsWith('{"uri":')) return value ?? "";
  const uri = new URL((JSON.parse(value) as { uri: string }).uri);
  const [, , name] = uri.pathname.split("/");
  const found = cloudB.double.secrets(vault.tenant_id).find((secret) => secret.name === name);
  if (uri.origin !== vault.key_vault_uri || found?.state !== "active") throw new Error(`${uri} refers to no secret`);
  return found.value;
}
