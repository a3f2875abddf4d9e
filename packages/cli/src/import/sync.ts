import { type Api, ApiError, encoded, type Fields } from "../api.ts";
import { forEachLimit } from "../limit.ts";
import { attempt, type Choices } from "./importer.ts";
import type { Report } from "./report.ts";
import { mountsOf } from "./vault-source.ts";

/**
 * Sync destinations with their associations, and applications of the repository host. The source masks credentials, so
 * they come from the operator's file.
 */

/** Fields by `namespace/type/name`, such as `team/aws-sm/prod`, and by `namespace/github-apps/name`. */
export type Credentials = ReadonlyMap<string, Fields>;

/** @throws SyntaxError */
export function readCredentials(text: string): Credentials {
  const parsed: unknown = JSON.parse(text);
  const isObject = (value: unknown): value is Fields =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject(parsed) || !Object.values(parsed).every(isObject))
    throw new SyntaxError("must be an object of objects, by type and name");
  return new Map(Object.entries(parsed));
}

/** As the source shows a field that it does not reveal. */
const isMasked = (value: unknown): boolean => typeof value === "string" && /^\*+$/.test(value);

/** @throws ApiError */
export async function importSync(source: Api, target: Api, report: Report, choices: Choices, credentials: Credentials) {
  const inside = (name: string) => [source.namespace, name].filter((part) => part !== "").join("/");
  const types = await source.list("sys/sync/destinations").catch((failure: unknown) => {
    // Not activated, or not in this edition.
    if (failure instanceof ApiError && [400, 403, 405].includes(failure.status)) {
      report.addSource(inside("sys/sync"), "skipped", failure.message);
      return [];
    }
    throw failure;
  });
  if (types.length === 0) return;
  for (const name of await source.list("sys/sync/github-apps"))
    await attempt(report, "app", inside(name), () => importApp(source, target, name, report, credentials));
  const paths = await mountPaths(source, target);
  for (const type of types.map((each) => each.replace(/\/$/, "")))
    for (const name of await source.list(`sys/sync/destinations/${encodeURIComponent(type)}`)) {
      const at = `${type}/${name}`;
      let isThere = false;
      await attempt(report, "destination", inside(at), async () => {
        isThere = await importDestination(source, target, at, report, credentials);
      });
      await attempt(report, "association", inside(at), () =>
        importAssociations(source, isThere ? target : null, at, report, choices, paths),
      );
    }
}

async function importApp(source: Api, target: Api, name: string, report: Report, credentials: Credentials) {
  const path = `sys/sync/github-apps/${encodeURIComponent(name)}`;
  const shown = [source.namespace, "github-apps", name].filter((part) => part !== "").join("/");
  const given = credentials.get(shown);
  if ((await target.fields(path)) !== null) return report.add("app", shown, "unchanged");
  if (given?.["private_key"] === undefined)
    return report.add("app", shown, "incomplete", "private_key: give it in the file of --credentials");
  const { app_id } = (await source.fields(path)) ?? {};
  if (!report.isPlan) await target.write(path, { app_id, ...given });
  report.add("app", shown, "written");
}

/** @returns whether the destination is here, or would be */
async function importDestination(source: Api, target: Api, at: string, report: Report, credentials: Credentials) {
  const path = `sys/sync/destinations/${encoded(at)}`;
  const shown = [source.namespace, at].filter((part) => part !== "").join("/");
  const fields = await source.fields(path);
  const here = await target.fields(path);
  const details = Object.entries((fields?.["connection_details"] ?? {}) as Fields);
  const open = Object.fromEntries(details.filter(([, value]) => !isMasked(value)));
  if (here !== null) {
    const other = Object.keys(open).filter(
      (name) => JSON.stringify(here["connection_details"]?.[name]) !== JSON.stringify(open[name]),
    );
    if (other.length > 0)
      report.add("destination", shown, "differs", `has another ${other.join(", ")} here, which is kept`);
    else report.add("destination", shown, "unchanged");
    return true;
  }
  const given = credentials.get(shown) ?? {};
  const missing = details.filter(([name, value]) => isMasked(value) && given[name] === undefined).map(([name]) => name);
  if (missing.length > 0) {
    report.add("destination", shown, "incomplete", `${missing.join(", ")}: give them in the file of --credentials`);
    return false;
  }
  const { granularity_level, ...options } = (fields?.["options"] ?? {}) as Fields;
  const body = { ...open, ...options, ...(granularity_level && { granularity: granularity_level }), ...given };
  if (!report.isPlan) await target.write(path, body);
  const { secret_name_template: template } = options;
  const hint = /MountAccessor/.test(String(template))
    ? "its template has the accessor: names at the provider change"
    : "";
  report.add("destination", shown, "written", hint);
  return true;
}

/** Paths of mounts without the final slash by accessor, of the source and of the service. */
async function mountPaths(source: Api, target: Api): Promise<ReadonlyMap<string, string>> {
  const mounts = [...(await mountsOf(source)).kv, ...(await mountsOf(target)).kv];
  return new Map(mounts.map(({ accessor, path }) => [accessor, path.replace(/\/$/, "")]));
}

/** The associations of a destination: mount and name of secret. */
async function associationsOf(api: Api, at: string, paths: ReadonlyMap<string, string>) {
  const { associated_secrets } = (await api.fields(`sys/sync/destinations/${encoded(at)}/associations`)) ?? {};
  const secrets = Object.values((associated_secrets ?? {}) as Record<string, Fields>);
  // One entry for each key with the granularity `secret-key`.
  return new Map(
    secrets.map(({ accessor, secret_name }) => {
      const mount = paths.get(String(accessor));
      return [`${mount ?? accessor}/${secret_name}`, { mount, secret_name: String(secret_name) }] as const;
    }),
  );
}

async function importAssociations(
  source: Api,
  target: Api | null,
  at: string,
  report: Report,
  { parallel, mounts }: Choices,
  paths: ReadonlyMap<string, string>,
): Promise<void> {
  const wanted = await associationsOf(source, at, paths);
  const here = target ? await associationsOf(target, at, paths) : new Map();
  await forEachLimit(wanted, parallel, async ([name, { mount, secret_name }]) => {
    const shown = [source.namespace, at, name].filter((part) => part !== "").join("/");
    if (mounts !== null && mount !== undefined && !mounts.has(`${mount}/`)) return;
    if (here.has(name)) return report.add("association", shown, "unchanged");
    if (target === null) return report.add("association", shown, "incomplete", "its destination is missing");
    if (mount === undefined) return report.add("association", shown, "failed", "its mount is unknown at the source");
    await attempt(report, "association", shown, async () => {
      if (!report.isPlan)
        await target.write(`sys/sync/destinations/${encoded(at)}/associations/set`, { mount, secret_name });
      report.add("association", shown, "written");
    });
  });
}
