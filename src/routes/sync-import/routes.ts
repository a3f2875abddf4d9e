import * as z from "zod";
import { badRequest, unwrap } from "../../platform/http/errors.ts";
import { flag } from "../../platform/http/fields.ts";
import * as query from "../../platform/http/query-fields.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { IMPORTED, importObjects, type MayDo } from "../../sync/inspect/import.ts";
import { globs } from "../../sync/rules/rule.ts";
import { envelope } from "../server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "../server/route.ts";
import { keyOf, pushBehind, versionedMountAt } from "../sync-paths.ts";

/** Import of a destination's objects as secrets (docs/guides/sync.md). */

const ImportBody = z.object({
  mount: z.string("mount: required").min(1, "mount: required").max(512),
  path_prefix: z.string("must be a text").max(512).nullish(),
  name_glob: globs(),
  exclude_glob: globs(),
  after: z.string("must be a text").max(8_192).nullish(),
  limit: z.coerce
    .number(`must be 1 to ${IMPORTED}`)
    .int()
    .min(1, `must be 1 to ${IMPORTED}`)
    .max(IMPORTED, `must be 1 to ${IMPORTED}`)
    .nullish(),
  dry_run: flag().optional(),
});
type ImportBody = z.infer<typeof ImportBody>;

const ImportQuery = z.object({ dry_run: query.flag() });

async function importPage(
  call: AuthorisedCall<"name" | "type"> & Asked<typeof ImportQuery>,
  body: ImportBody,
): Promise<Response> {
  const key = keyOf(call);
  const nameGlob = body.name_glob ?? [];
  if (nameGlob.length === 0) throw badRequest("name_glob: required; ** stands for every name");
  const pathPrefix = body.path_prefix ?? "";
  if (pathPrefix.startsWith("/")) throw badRequest("path_prefix: must not begin with a slash");
  const mount = await versionedMountAt(call, body.mount);
  const dryRun = body.dry_run === true || call.asked.dry_run;
  const request = {
    mount: { uuid: mount.uuid, accessor: mount.accessor, path: mount.path },
    pathPrefix,
    nameGlob,
    excludeGlob: body.exclude_glob ?? [],
    after: body.after ?? "",
    limit: body.limit ?? IMPORTED,
    dryRun,
  };
  const { objects, next } = unwrap(await importObjects(call.env, key, request, rightsOf(call, mount.path)));
  if (!dryRun) pushBehind(call, key);
  const counters = Object.fromEntries(
    [...Map.groupBy(objects, ({ action }) => action)].map(([action, some]) => [action, some.length]),
  );
  return envelope(call, { data: { dry_run: dryRun, objects, counters, next: next ?? "" } });
}

/** An import writes the data and the metadata of a new secret; an adoption reads an existing one. */
function rightsOf(call: AuthorisedCall, mountPath: string): MayDo {
  const { identity, namespace } = call.grant;
  const access = accessControl(call.env);
  return async (needed, secretName) => {
    const caller = { accessor: identity.accessor, namespace, given: {} } as const;
    const folders = needed === "write" ? (["data", "metadata"] as const) : (["data"] as const);
    const needs = needed === "write" ? (["create"] as const) : (["read"] as const);
    for (const folder of folders) {
      const path = `${mountPath}${folder}/${secretName}`;
      const checked = await access.mayAlso({ ...caller, path, needs });
      if (!checked.ok) return `permission denied: ${needs[0]} on ${path}`;
    }
    return null;
  };
}

export const importRoutes = [
  secrets("POST /sys/sync/destinations/:type/:name/import", { body: ImportBody, query: ImportQuery }, importPage),
];
