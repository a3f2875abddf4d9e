import * as z from "zod";
import { may } from "../access/authorize.ts";
import { badRequest, notFound, refusalError, unwrap } from "../http/errors.ts";
import { duration, flag, integer, signedDuration, stringMap } from "../http/fields.ts";
import { isPlainObject, withoutUndefined } from "../http/json.ts";
import { envelope, keyList, noContent, rawEnvelope } from "../http/respond.ts";
import { type AuthorisedCall, type Call, secrets } from "../http/route.ts";
import { goDuration, timestamp } from "../kv/version.ts";
import type { ReadVersion, Written } from "../objects/kv-store.ts";
import { kvStore } from "../objects/stubs.ts";
import type { Refusal, Result } from "../result.ts";
import { performWork } from "../sync/perform.ts";

/** Routes of a KV version 2 mount, relative to it (contract: clients, section 3). */

const store = (call: AuthorisedCall) => kvStore(call.env, call.grant.mount?.uuid ?? "");
const path = (call: AuthorisedCall): string => {
  const text = call.params["path"] ?? "";
  if (text === "") throw notFound();
  if (text.endsWith("/")) throw badRequest("path: a secret's path must not end with a slash");
  return text;
};
const rights = (call: AuthorisedCall) => ({ create: may(call.grant, "create"), update: may(call.grant, "update") });

/** After a write the pushes it causes are tried at once, behind the answer. */
function push(call: AuthorisedCall, watchers: readonly string[]): void {
  if (watchers.length === 0) return;
  const run = async () => {
    await store(call).flush();
    await Promise.all(watchers.map((destination) => performWork(call.env, destination, { budgetMs: 2_000 })));
  };
  // A failure loses nothing: the doorbell and the alarm come back to it.
  call.exec.waitUntil(run().catch(() => undefined));
}

const written = (call: AuthorisedCall, result: Result<Written>): Response => {
  const { metadata, watchers } = unwrap(result);
  push(call, watchers);
  return envelope(call, { data: metadata, mountType: "kv" });
};

const changed = (call: AuthorisedCall, result: Result<Written["watchers"]>): Response => {
  push(call, unwrap(result));
  return noContent();
};

/** A deleted or destroyed version: 404, yet with a body that says what was there. */
const gone = (call: Call, metadata: object): Response =>
  envelope(call, { data: { data: null, metadata }, mountType: "kv", status: 404 });

const DataBody = z.looseObject({
  data: z.unknown().optional(),
  options: z.object({ cas: integer().min(0).optional() }).nullish(),
});

/** The secret's data as JSON text, numbers as written. */
function dataText(body: z.infer<typeof DataBody>): string {
  if (body.data === undefined || body.data === null) throw badRequest("no data provided");
  if (!isPlainObject(body.data)) throw badRequest("data: must be an object");
  return JSON.stringify(body.data);
}

const Versions = z.object({
  versions: z.preprocess(
    (value) => (typeof value === "string" ? value.split(",") : typeof value === "number" ? [value] : value),
    z.array(integer().min(1), "No version number provided").min(1, "No version number provided").max(10_000),
  ),
});

const Config = z.object({
  max_versions: integer().min(0).optional(),
  cas_required: flag().optional(),
  delete_version_after: signedDuration().optional(),
});

const Metadata = z.object({
  max_versions: integer().min(0).nullish(),
  cas_required: flag().nullish(),
  delete_version_after: duration().nullish(),
  custom_metadata: stringMap().nullish(),
});

const MetadataPatch = Metadata.extend({ custom_metadata: z.record(z.string(), z.string().nullable()).nullish() });

function versionParameter(call: AuthorisedCall): number {
  const text = call.query.get("version") ?? "0";
  if (!/^\d{1,15}$/.test(text)) throw badRequest("version: must be a number, 0 or more");
  return Number(text);
}

async function readVersion(call: AuthorisedCall): Promise<Exclude<ReadVersion | Refusal, Refusal>> {
  const read = await store(call).read(path(call), versionParameter(call));
  if (!read.ok) throw refusalError(read);
  return read;
}

export const kvRoutes = [
  secrets({
    verb: "GET",
    path: "/config",
    handle: async (call) => {
      const config = await store(call).config();
      return envelope(call, {
        data: { ...config, delete_version_after: goDuration(config.delete_version_after) },
        mountType: "kv",
      });
    },
  }),
  secrets({
    verb: "POST",
    path: "/config",
    body: Config,
    handle: async (call, body) => {
      unwrap(await store(call).setConfig(withoutUndefined(body)));
      return noContent();
    },
  }),
  secrets({
    verb: "GET",
    path: "/data/:path+",
    handle: async (call) => {
      const read = await readVersion(call);
      if (read.state === "gone") return gone(call, read.metadata);
      return rawEnvelope(call, `{"data":${read.data},"metadata":${JSON.stringify(read.metadata)}}`, "kv");
    },
  }),
  secrets({
    verb: "POST",
    path: "/data/:path+",
    creates: true,
    body: DataBody,
    handle: async (call, body) =>
      written(call, await store(call).put(path(call), dataText(body), body.options?.cas ?? null, rights(call))),
  }),
  secrets({
    verb: "PATCH",
    path: "/data/:path+",
    body: DataBody,
    handle: async (call, body) => {
      const result = await store(call).patch(path(call), dataText(body), body.options?.cas ?? null);
      return "state" in result ? gone(call, result.metadata) : written(call, result);
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/data/:path+",
    handle: async (call) => changed(call, await store(call).deleteNewest(path(call))),
  }),
  secrets({
    verb: "POST",
    path: "/delete/:path+",
    body: Versions,
    handle: async (call, { versions }) => changed(call, await store(call).deleteVersions(path(call), versions)),
  }),
  secrets({
    verb: "POST",
    path: "/undelete/:path+",
    body: Versions,
    handle: async (call, { versions }) => changed(call, await store(call).undelete(path(call), versions)),
  }),
  secrets({
    verb: "POST",
    path: "/destroy/:path+",
    body: Versions,
    handle: async (call, { versions }) => changed(call, await store(call).destroyVersions(path(call), versions)),
  }),
  secrets({
    verb: "LIST",
    path: "/metadata/:path+",
    handle: (call) => list(call),
  }),
  secrets({
    verb: "GET",
    path: "/metadata/:path+",
    handle: async (call) => {
      const { row, versions } = unwrap(await store(call).metadata(path(call)));
      const shown = versions.map((version): [string, object] => [
        String(version.version),
        {
          created_time: timestamp(version.created),
          deletion_time: timestamp(version.deletion),
          destroyed: version.destroyed,
        },
      ]);
      return envelope(call, {
        data: {
          versions: Object.fromEntries(shown),
          current_version: row.current_version,
          oldest_version: row.oldest_version,
          created_time: timestamp(row.created),
          updated_time: timestamp(row.updated),
          max_versions: row.max_versions,
          cas_required: row.cas_required === 1,
          delete_version_after: goDuration(row.delete_version_after),
          custom_metadata: row.custom_metadata === null ? null : JSON.parse(row.custom_metadata),
        },
        mountType: "kv",
      });
    },
  }),
  secrets({
    verb: "POST",
    path: "/metadata/:path+",
    creates: true,
    body: Metadata,
    handle: async (call, body) => {
      const result = await store(call).setMetadata(path(call), body, false, rights(call));
      const warnings = unwrap(result);
      return warnings.length > 0 ? envelope(call, { warnings, mountType: "kv" }) : noContent();
    },
  }),
  secrets({
    verb: "PATCH",
    path: "/metadata/:path+",
    body: MetadataPatch,
    handle: async (call, body) => {
      unwrap(await store(call).setMetadata(path(call), body, true, null));
      return noContent();
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/metadata/:path+",
    handle: async (call) => changed(call, await store(call).deleteMetadata(path(call))),
  }),
  secrets({
    verb: "GET",
    path: "/subkeys/:path+",
    handle: async (call) => {
      const depth = call.query.get("depth") ?? "0";
      if (!/^\d{1,9}$/.test(depth)) throw badRequest("depth: must be a number, 0 or more");
      const read = await readVersion(call);
      if (read.state === "gone") {
        return envelope(call, { data: { subkeys: null, metadata: read.metadata }, mountType: "kv", status: 404 });
      }
      return envelope(call, {
        data: { subkeys: subkeys(JSON.parse(read.data), Number(depth)), metadata: read.metadata },
        mountType: "kv",
      });
    },
  }),
  // Everything else under a version 2 mount: usually a path written as for version 1.
  ...(["GET", "LIST", "POST", "PATCH", "DELETE"] as const).map((verb) =>
    secrets({
      verb,
      path: "/:path+",
      handle: async (call) => {
        const root = /^(metadata|data)\/?$/.test(call.params["path"] ?? "");
        if (root && verb === "LIST" && call.params["path"]?.startsWith("metadata"))
          return list({ ...call, params: {} });
        const warning = root
          ? "Non-listing operations on the root of a K/V v2 mount are not supported."
          : `Invalid path for a versioned K/V secrets engine. See the API docs for the appropriate API endpoints to use. If using the Vault CLI, use 'vault kv ${cli[verb]}' for this operation.`;
        return envelope(call, { warnings: [warning], mountType: "kv", status: 404 });
      },
    }),
  ),
];

const cli = { GET: "get", LIST: "list", POST: "put", PATCH: "patch", DELETE: "delete" } as const;
const LIST_PAGE = 1_000;

/** All names of a folder; `after` and `limit` ask for a part of them. */
async function list(call: AuthorisedCall): Promise<Response> {
  const text = call.params["path"] ?? "";
  const folder = text === "" || text.endsWith("/") ? text : `${text}/`;
  const wanted = call.query.get("limit") ?? "0";
  if (!/^\d{1,9}$/.test(wanted)) throw badRequest("limit: must be a number, 0 or more");
  const limit = Number(wanted) || Number.POSITIVE_INFINITY;
  const keys: string[] = [];
  let after = call.query.get("after") ?? "";
  for (let more = true; more && keys.length < limit; ) {
    const page = await store(call).list(folder, after, Math.min(LIST_PAGE, limit - keys.length));
    keys.push(...page.keys);
    after = page.keys.at(-1) ?? after;
    more = page.more;
  }
  return keyList(call, keys);
}

/** The shape of a secret without its values. `depth` 0 = all of it. */
function subkeys(value: unknown, depth: number): unknown {
  if (!isPlainObject(value) || Object.keys(value).length === 0) return null;
  if (depth === 1) return Object.fromEntries(Object.keys(value).map((key) => [key, null]));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, subkeys(inner, depth === 0 ? 0 : depth - 1)]),
  );
}
