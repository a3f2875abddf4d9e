/** Reads of the credentials engine and of leases. */
import { ApiError, api, apiFull, type Schemas } from "../../api/client.ts";
import type { Tone } from "../../components/status.tsx";
import { timeOf } from "../../lib/time.ts";

export type EngineConfig = Schemas["EngineConfig"];
export type EngineRole = Schemas["EngineRole"];
export type Lease = Schemas["Lease"];

export interface Engine {
  /** Without the slash at the end. */
  readonly path: string;
  readonly description: string;
  /** Null for callers who may only see that the mount exists. */
  readonly mount: Schemas["Mount"] | null;
}

/** Reads at a time, where each row of a list needs one. */
export const MAX_CONCURRENT = 6;

export const isMissing = (failure: unknown): boolean => failure instanceof ApiError && failure.isMissing;
export const isDenied = (failure: unknown): boolean => failure instanceof ApiError && failure.isDenied;

export async function readEngines(signal: AbortSignal): Promise<Engine[]> {
  const { data } = await api("GET /v1/sys/internal/ui/mounts", { signal });
  return Object.entries(data.secret)
    .filter(([, { type }]) => type === "cloud-b")
    .map(([path, mount]) => ({
      path: path.replace(/\/$/, ""),
      description: mount.description,
      mount: "accessor" in mount ? mount : null,
    }));
}

export async function readConfig(mount: string, signal: AbortSignal): Promise<EngineConfig> {
  return (await api("GET /v1/cloud-b/config", { mount, signal })).data;
}

/** An engine that was never configured reads as one of empty texts. */
export const isConfigured = ({ subscription_id, client_id }: EngineConfig): boolean =>
  subscription_id !== "" || client_id !== "";

export async function readRoleNames(mount: string, signal: AbortSignal): Promise<string[]> {
  const { status, body } = await apiFull("LIST /v1/cloud-b/roles", { mount, signal, accept: [404] });
  return status === 404 ? [] : body.data.keys;
}

export async function readRole(mount: string, name: string, signal?: AbortSignal): Promise<EngineRole> {
  return (await api("GET /v1/cloud-b/roles/{name}", { mount, path: { name }, signal })).data;
}

/** Leases of all mounts, those that are irrevocable apart. Null for callers who may not count them. */
export interface LeaseCounts {
  readonly all: Readonly<Record<string, number>>;
  readonly irrevocable: Readonly<Record<string, number>>;
}

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

/** The role in a lease's id: the folder of its name. */
export const roleOf = (id: string): string => leaseName(id.slice(0, id.lastIndexOf("/")));
