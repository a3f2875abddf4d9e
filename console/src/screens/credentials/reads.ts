/** Reads of the credentials engine and of leases. */
import {
  type EngineDescription,
  kindsOf,
  prefixOf,
  type RoleKind,
} from "../../../../src/credentials/engines/description.ts";
import { api, apiFull, isDenied, type Schemas, wireRequest } from "../../api/client.ts";
import type { Tone } from "../../components/status.tsx";
import type { FormValue } from "../../lib/settings.ts";
import { timeOf } from "../../lib/time.ts";
import { ENGINE_TYPES, issuePaths, type RoleAddress } from "./engine-types.ts";

/** Settings of an engine of any type: those of its description, and members that only some types have. */
export type EngineConfig = FormValue & Partial<Schemas["EngineConfig"]>;
export type EngineRole = FormValue & Partial<Schemas["EngineRole"]>;
export type Lease = Schemas["Lease"];

export interface Engine {
  /** Without the slash at the end. */
  readonly path: string;
  readonly type: EngineDescription;
  readonly description: string;
  /** Null for callers who may only see that the mount exists. */
  readonly mount: Schemas["Mount"] | null;
}

/** Reads at a time, where each row of a list needs one. */
export const MAX_CONCURRENT = 6;

export async function readEngines(signal: AbortSignal): Promise<Engine[]> {
  const { data } = await api("GET /v1/sys/internal/ui/mounts", { signal });
  return Object.entries(data.secret).flatMap(([path, mount]) => {
    const type = ENGINE_TYPES.find((each) => each.type === mount.type);
    if (!type) return [];
    return [
      {
        path: path.replace(/\/$/, ""),
        type,
        description: mount.description,
        mount: "accessor" in mount ? mount : null,
      },
    ];
  });
}

/** The operations of one type stand for those of all: the paths are those of its description. */
export const operations = {
  readConfig: ({ type }: EngineDescription, path: string) => `GET /v1/${type}${path}` as "GET /v1/cloud-b/config",
  writeConfig: ({ type }: EngineDescription, path: string) => `POST /v1/${type}${path}` as "POST /v1/cloud-b/config",
  deleteConfig: ({ type, paths }: EngineDescription) =>
    `DELETE /v1/${type}${paths.config}` as "DELETE /v1/cloud-b/config",
  rotate: ({ type, paths }: EngineDescription) => `POST /v1/${type}${paths.rotate}` as "POST /v1/cloud-b/rotate-root",
  roles: ({ type }: EngineDescription, { path, lists }: RoleKind) =>
    `LIST /v1/${type}${lists?.[0] ?? path}` as "LIST /v1/cloud-b/roles",
  readRole: ({ type }: EngineDescription, { path }: RoleKind) =>
    `GET /v1/${type}${path}/{name}` as "GET /v1/cloud-b/roles/{name}",
  writeRole: ({ type }: EngineDescription, { path }: RoleKind) =>
    `POST /v1/${type}${path}/{name}` as "POST /v1/cloud-b/roles/{name}",
  deleteRole: ({ type }: EngineDescription, { path }: RoleKind) =>
    `DELETE /v1/${type}${path}/{name}` as "DELETE /v1/cloud-b/roles/{name}",
  issue: ({ type }: EngineDescription, path: string) => `GET /v1/${type}${path}` as "GET /v1/cloud-b/creds/{name}",
};

/** The request that issues credentials of a role by one of its paths. */
export const issueRequest = ({ path: mount, type }: Engine, { name }: RoleAddress, path: string) =>
  wireRequest(operations.issue(type, path), { mount, path: { name } });

/** The requests that issue credentials of a role, as a button needs them: any one. */
export const issueNeeds = (engine: Engine, role: RoleAddress, settings: FormValue | null = null) => [
  issuePaths(role, settings).map((path) => issueRequest(engine, role, path)),
];

/** @param path of a further document; @returns null when it was never written */
export async function readConfig(
  { path: mount, type }: Engine,
  signal: AbortSignal,
  path: string = type.paths.config,
  quiet = false,
): Promise<EngineConfig | null> {
  const { status, body } = await apiFull(operations.readConfig(type, path), { mount, signal, quiet, accept: [404] });
  return status === 404 ? null : body.data;
}

/** An engine that was never configured reads as nothing, or as one of empty texts. */
export const isConfigured = ({ type }: Engine, config: EngineConfig | null): boolean =>
  config !== null &&
  (type.keepsConfig === true || Object.values(config).some((value) => value && typeof value === "string"));

/** Stored names of the roles of every kind. */
export async function readRoleNames({ path: mount, type }: Engine, signal: AbortSignal): Promise<string[]> {
  const lists = await Promise.all(
    kindsOf(type).map(async (kind) => {
      const { status, body } = await apiFull(operations.roles(type, kind), { mount, signal, accept: [404] });
      return status === 404 ? [] : body.data.keys.map((name) => `${prefixOf(type, kind)}${name}`);
    }),
  );
  return lists.flat();
}

export async function readRole(
  { path: mount, type }: Engine,
  { kind, name }: RoleAddress,
  signal?: AbortSignal,
): Promise<EngineRole> {
  return (await api(operations.readRole(type, kind), { mount, path: { name }, signal })).data;
}

/** Leases of all mounts, those that are irrevocable apart. Null for callers who may not count them. */
interface LeaseCounts {
  /** By the path of the mount. */
  readonly all: Readonly<Record<string, number>>;
  /** By its accessor. */
  readonly irrevocable: Readonly<Record<string, number>>;
}

/** The leases of an engine. */
export const countsOf = ({ all, irrevocable }: LeaseCounts, { path, mount }: Pick<Engine, "path" | "mount">) => ({
  leases: all[`${path}/`] ?? 0,
  irrevocable: irrevocable[mount?.accessor ?? ""] ?? 0,
});

export async function readLeaseCounts(signal: AbortSignal): Promise<LeaseCounts | null> {
  try {
    const [all, irrevocable] = await Promise.all([
      api("GET /v1/sys/leases/count", { signal, quiet: true }),
      api("GET /v1/sys/leases/count", { query: { type: "irrevocable" }, signal, quiet: true }),
    ]);
    return { all: all.data.counts, irrevocable: irrevocable.data.counts };
  } catch (failure) {
    if (isDenied(failure)) return null;
    throw failure;
  }
}

async function leaseNames(prefix: string, signal: AbortSignal, quiet: boolean): Promise<string[]> {
  const options = { path: { prefix }, signal, quiet, accept: [404] } as const;
  const { status, body } = await apiFull("LIST /v1/sys/leases/lookup/{prefix}", options);
  return status === 404 ? [] : body.data.keys;
}

/** Ids of all leases below a prefix, in order. */
export async function readLeaseIds(prefix: string, signal: AbortSignal, quiet = false): Promise<string[]> {
  const names = await leaseNames(prefix, signal, quiet);
  const found: string[] = [];
  for (const name of names) {
    const path = `${prefix}/${name}`;
    if (name.endsWith("/")) found.push(...(await readLeaseIds(path.slice(0, -1), signal, true)));
    else found.push(path);
  }
  return found;
}

export async function readLease(lease_id: string, quiet = true): Promise<Lease> {
  return (await api("POST /v1/sys/leases/lookup", { body: { lease_id }, quiet })).data;
}

interface LeaseState {
  readonly tone: Tone;
  readonly word: string;
}

const SOON_MS = 5 * 60_000;

export function leaseState(lease: Lease, at: number): LeaseState {
  if (lease.revoke_error) return { tone: "bad", word: "Not revoked" };
  const left = (timeOf(lease.expire_time) ?? 0) - at;
  if (left <= 0) return { tone: "wait", word: "Ending" };
  return left < SOON_MS ? { tone: "warn", word: "Ends soon" } : { tone: "ok", word: "Active" };
}

/** Name of a lease in its folder. */
export const leaseName = (id: string): string => id.slice(id.lastIndexOf("/") + 1);
