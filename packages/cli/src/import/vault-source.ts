import { type Api, ApiError, encoded, type Fields } from "../api.ts";
import { type History, type Mount, NO_SETTINGS, type Settings, settingsIn, valueIn, versionsIn } from "./history.ts";

/** Reads of a server with Vault's API: Vault, OpenBao or Sallyport. Each call concerns one namespace. */

export interface MountAtSource extends Mount {
  readonly description: string;
  readonly accessor: string;
}

interface OtherMount {
  readonly path: string;
  readonly type: string;
  readonly description: string;
  /** TTLs of leases, in seconds; 0 is the server's. Absent for a token that may not list all mounts. */
  readonly ttls: Readonly<Record<string, number>>;
}

interface Mounts {
  readonly kv: readonly MountAtSource[];
  readonly others: readonly OtherMount[];
}

/** Types of engines that issue credentials and are imported. */
const CREDENTIAL_ENGINES = ["aws", "azure", "gcp"] as const;
export type CredentialEngine = (typeof CREDENTIAL_ENGINES)[number];
export const credentialEngine = (type: string): CredentialEngine | undefined =>
  CREDENTIAL_ENGINES.find((each) => each === type);

/** Engines that every namespace has. */
const BUILT_IN: ReadonlySet<string> = new Set([
  "system",
  "ns_system",
  "identity",
  "ns_identity",
  "cubbyhole",
  "ns_cubbyhole",
]);

/** All mounts, or with fewer rights those that the token can use. @throws ApiError */
export async function mountsOf(api: Api): Promise<Mounts> {
  const all = await api.fields("sys/mounts").catch(async (failure: unknown) => {
    if (!(failure instanceof ApiError && failure.status === 403)) throw failure;
    return (await api.fields("sys/internal/ui/mounts"))?.["secret"] as Fields | undefined;
  });
  const mounts = Object.entries(all ?? {}).filter(([, mount]) => mount !== null && typeof mount === "object");
  const isKv = ({ type }: Fields) => type === "kv" || type === "generic";
  return {
    kv: mounts
      .filter(([, mount]) => isKv(mount))
      .map(([path, { options, description, accessor }]) => ({
        path,
        version: String(options?.version ?? "1") === "2" ? (2 as const) : (1 as const),
        description: String(description ?? ""),
        accessor: String(accessor ?? ""),
      })),
    others: mounts
      .filter(([, mount]) => !isKv(mount) && !BUILT_IN.has(String(mount.type)))
      .map(([path, { type, description, config }]) => ({
        path,
        type: String(type),
        description: String(description ?? ""),
        ttls: Object.fromEntries(
          ["default_lease_ttl", "max_lease_ttl"].flatMap((name) => (config?.[name] > 0 ? [[name, config[name]]] : [])),
        ),
      })),
  };
}

/** The settings of a mount of version 2. @throws ApiError */
export async function mountSettings(api: Api, mount: Mount): Promise<Omit<Settings, "custom_metadata">> {
  const fields = mount.version === 2 ? await api.fields(`${encoded(mount.path)}config`) : null;
  const { custom_metadata: _none, ...settings } = settingsIn(fields ?? {});
  return settings;
}

/** Names of children; none where the server has no namespaces. @throws ApiError */
export async function childrenOf(api: Api): Promise<string[]> {
  const names = await api.list("sys/namespaces").catch((failure: unknown) => {
    // Vault without a license answers 400 or 405.
    if (failure instanceof ApiError && (failure.status === 400 || failure.status === 405)) return [];
    throw failure;
  });
  return names.map((name) => name.replace(/\/$/, ""));
}

/** The names of a mount's secrets, folder by folder. Folders that cannot be listed are reported. */
export async function* namesIn(
  api: Api,
  mount: Mount,
  onRefused: (folder: string, failure: ApiError) => void,
): AsyncGenerator<string> {
  const root = mount.version === 2 ? `${mount.path}metadata/` : mount.path;
  const folders = [""];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    let keys: string[];
    try {
      keys = await api.list(encoded(root + folder).replace(/\/$/, ""));
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      onRefused(folder, failure);
      continue;
    }
    for (const key of keys) {
      if (key.endsWith("/")) folders.push(folder + key);
      else yield folder + key;
    }
  }
}

/** Reads metadata now and values when they are asked for; null without the secret. @throws ApiError */
export async function historyOf(api: Api, mount: Mount, name: string): Promise<History | null> {
  if (mount.version === 1) {
    const value = () => api.read(encoded(mount.path + name));
    return { current: 1, states: new Map([[1, "live"]]), settings: NO_SETTINGS, value };
  }
  const fields = await api.fields(encoded(`${mount.path}metadata/${name}`));
  if (fields === null) return null;
  const path = encoded(`${mount.path}data/${name}`);
  const value = async (version: number) => valueIn(await api.read(path, { version: String(version) }));
  return { ...versionsIn(fields), settings: settingsIn(fields), value };
}

/** Policies that a namespace does not have by itself. @throws ApiError */
export async function policyNames(api: Api): Promise<string[]> {
  return (await api.list("sys/policies/acl")).filter((name) => name !== "root");
}

/** Null without the policy. @throws ApiError */
export async function policyText(api: Api, name: string): Promise<string | null> {
  const policy = (await api.fields(`sys/policies/acl/${encodeURIComponent(name)}`))?.["policy"];
  return typeof policy === "string" ? policy : null;
}
