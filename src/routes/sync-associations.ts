import * as z from "zod";
import {
  translateAssociation,
  translateAssociations,
  translateSecretDestinations,
  translateStatus,
  translateType,
} from "../compat/sync-names.ts";
import type { AssociationListing, AssociationsPage, AssociationView } from "../contracts/sync-destination.ts";
import type { Selected } from "../contracts/sync-rules.ts";
import type { SecretRef } from "../contracts/sync-tasks.ts";
import { destinationsOf, listAssociatedSecrets } from "../listings/destinations.ts";
import { badRequest, denied, notFound, refusalError, unwrap } from "../platform/http/errors.ts";
import { flag } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { isVersioned } from "../rights/mount-routes.ts";
import { accessControl, kvStore } from "../rpc/stubs.ts";
import { associationId } from "../sync/associations/associations.ts";
import { previewSet } from "../sync/inspect/inspect.ts";
import { worst } from "../sync/sync-status.ts";
import { secretKeyValues } from "../sync/worker/payload.ts";
import { envelope, keyList, rawStream } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "./server/route.ts";
import { destinationAt, keyOf, mountAt, NO_DRY_REMOVAL, pushBehind, slashless, tryNow } from "./sync-paths.ts";
import { previewSelected, Selector, setSelected } from "./sync-selectors.ts";

/** Associations of secrets with destinations. */

const Association = z.object({
  mount: z.string("mount: required").min(1, "mount: required").max(512),
  secret_name: z.string("secret_name: required").min(1, "secret_name: required").max(2_048),
  dry_run: flag().optional(),
});
type Association = z.infer<typeof Association>;

/** A set has one secret, or a selector of many. */
const Associated = Association.extend({
  secret_name: Association.shape.secret_name.nullish(),
  selector: Selector.nullish(),
});
type Associated = z.infer<typeof Associated>;

type Entries = readonly (readonly [string, AssociationView])[];

const ONE_EACH =
  "secret_name: an association is one secret; list the folder (LIST <mount>/metadata/<folder>) and set each of its secrets";

function checkSecretName(name: string): string {
  if (name.endsWith("/"))
    throw badRequest(`Secret not found. Please provide full path to existing secret. ${ONE_EACH}`);
  if (
    /[\p{Cc}]/u.test(name) ||
    name.split("/").some((segment) => segment === "." || segment === ".." || segment === "")
  ) {
    throw badRequest("secret_name: must not hold control characters nor empty, . or .. segments");
  }
  return name;
}

/** The secret to associate: it exists, and the caller may read it. */
async function source(
  call: AuthorisedCall,
  body: Pick<Association, "mount" | "secret_name">,
): Promise<{ secret: SecretRef; keys: string[] }> {
  const name = checkSecretName(body.secret_name);
  const mount = await mountAt(call, body.mount);
  if (!mount) throw badRequest(`mount: no secret engine mount at ${slashless(body.mount)}/`);
  if (!isVersioned(mount)) {
    const type = mount.type === "kv" ? "KV version 1" : `type ${mount.type}`;
    throw badRequest(`mount: ${mount.path} is of ${type}; only secrets of KV version 2 mounts can be synced`);
  }
  const path = `${mount.path}data/${name}`;
  const { identity, namespace } = call.grant;
  const request = { accessor: identity.accessor, namespace, path, needs: ["read"], given: {} } as const;
  const mayRead = await accessControl(call.env).mayAlso(request);
  if (!mayRead.ok) {
    const secret = `the content of the secret ${name} in mount ${slashless(mount.path)}`;
    throw denied(mayRead.message.replace(/^permission denied/, `permission denied to read ${secret}`));
  }
  const read = await kvStore(call.env, mount.uuid).read(name, 0);
  if (!read.ok && read.reason !== "missing") throw refusalError(read);
  // An older version may be live although the newest one is deleted.
  const newest = read.ok && read.state === "lives" ? read.data : await newestData(call, mount.uuid, name);
  if (newest === null) {
    const advice = name.includes("*") ? `. ${ONE_EACH}; * stands for nothing but itself` : "";
    throw badRequest(`secret not found: ${mount.path}${name}${advice}`);
  }
  const parts = secretKeyValues(newest);
  const secret = { mountUuid: mount.uuid, mountAccessor: mount.accessor, mountPath: mount.path, secretName: name };
  return { secret, keys: parts.ok ? parts.values.map(({ key }) => key) : [] };
}

async function newestData(call: AuthorisedCall, mountUuid: string, name: string): Promise<string | null> {
  return unwrap(await kvStore(call.env, mountUuid).newest(name))?.data ?? null;
}

const MAX_PAGE = 1_000;

const PageQuery = z.object({ after: z.string().optional(), limit: query.limit(MAX_PAGE).optional() });
const SetQuery = z.object({ dry_run: query.flag(), after: query.text() });
const RemovalQuery = SetQuery.pick({ dry_run: true });
const SecretQuery = z.object({
  mount: z.string("mount: required").regex(/[^/]/, "mount: required"),
  secret_name: z.string("secret_name: required").min(1, "secret_name: required"),
});

/** Entries and their counts; `next` on pages. */
function answer(
  call: AuthorisedCall,
  page: AssociationsPage,
  entries: Entries,
  { warnings = [], ...more }: { next?: string; warnings?: string[]; skipped?: Selected["skipped"] } = {},
): Response {
  const counters: Record<string, number> = {};
  for (const [, { sync_status }] of entries) counters[sync_status] = (counters[sync_status] ?? 0) + 1;
  const data = translateAssociations(call.dialect, {
    store_name: page.store_name,
    store_type: page.store_type,
    associated_secrets: Object.fromEntries(entries),
    sync_operation_counters: counters,
  });
  return envelope(call, { data: { ...data, ...more }, warnings });
}

async function set(
  call: AuthorisedCall<"name" | "type"> & Asked<typeof SetQuery>,
  body: Associated,
): Promise<Response> {
  const key = keyOf(call);
  unwrap(await destinationAt(call, key).read());
  const { mount, secret_name, selector } = body;
  if (selector) {
    if (secret_name) throw badRequest("selector: cannot be set together with secret_name");
    return setMany(call, { mount, selector }, body.dry_run || call.asked.dry_run);
  }
  if (!secret_name) throw badRequest("secret_name: required");
  const { secret, keys } = await source(call, { mount, secret_name });
  if (body.dry_run || call.asked.dry_run) {
    const planned = unwrap(await previewSet(call.env, key, secret, keys));
    return envelope(call, { data: { dry_run: true, planned } });
  }
  unwrap(await destinationAt(call, key).set(secret, keys));
  const id = associationId(secret);
  await tryNow(call, key, id);
  const page = unwrap(await destinationAt(call, key).associations([id]));
  return answer(call, page, page.associated_secrets);
}

/** Sets the associations of all secrets that match now. Their pushes follow the answer. */
async function setMany(
  call: AuthorisedCall<"name" | "type"> & Asked<typeof SetQuery>,
  given: Parameters<typeof setSelected>[1],
  isDry: boolean,
): Promise<Response> {
  const key = keyOf(call);
  if (isDry)
    return envelope(call, { data: { dry_run: true, ...(await previewSelected(call, given, call.asked.after)) } });
  const { set: ids, skipped } = await setSelected(call, given);
  pushBehind(call, key);
  const page = unwrap(await destinationAt(call, key).associations(ids));
  return answer(call, page, page.associated_secrets, { skipped });
}

async function remove(
  call: AuthorisedCall<"name" | "type"> & Asked<typeof RemovalQuery>,
  body: Association,
): Promise<Response> {
  const key = keyOf(call);
  if (body.dry_run || call.asked.dry_run) throw badRequest(NO_DRY_REMOVAL);
  const name = checkSecretName(body.secret_name);
  const object = destinationAt(call, key);
  const mount = await mountAt(call, body.mount);
  const current = { mountAccessor: mount?.accessor ?? "", secretName: name };
  const isSet = unwrap(await object.associations([associationId(current)])).associated_secrets.length > 0;
  // The mount may be deleted or replaced; its associations are found by the original path.
  const former = isSet ? null : await object.accessorOf(`${slashless(body.mount)}/`, name);
  const target = former === null ? current : { ...current, mountAccessor: former };
  const before = unwrap(await object.remove(target));
  const id = associationId(target);
  await tryNow(call, key, id);
  const after = unwrap(await object.associations([id]));
  if (after.associated_secrets.length > 0 || before.associated_secrets.length === 0) {
    return answer(call, after, after.associated_secrets);
  }
  // Included once with its final state; later reads omit it.
  const now = new Date().toISOString();
  const gone = before.associated_secrets.map(([entry, view]): Entries[number] => [
    entry,
    { ...view, sync_status: "UNSYNCED", updated_at: now },
  ]);
  return answer(call, after, gone);
}

/** All associations of a destination. Streamed page by page: there may be a million. */
async function allAssociations(call: AuthorisedCall<"name" | "type"> & Asked<typeof PageQuery>): Promise<Response> {
  const key = keyOf(call);
  const object = destinationAt(call, key);
  const { after, limit } = call.asked;
  const first = unwrap(await object.associations(null, after ?? "", limit ?? MAX_PAGE));
  if (after !== undefined || limit !== undefined)
    return answer(call, first, first.associated_secrets, { next: first.next ?? "" });
  if (first.next === null) return answer(call, first, first.associated_secrets);
  const counters: Record<string, number> = {};
  return rawStream(call, async function* () {
    const store = { store_name: first.store_name, store_type: translateType(call.dialect, first.store_type) };
    yield `${JSON.stringify(store).slice(0, -1)},"associated_secrets":{`;
    for (let page = first, comma = ""; ; ) {
      for (const [id, view] of page.associated_secrets) {
        const entry = translateAssociation(call.dialect, view);
        counters[entry.sync_status] = (counters[entry.sync_status] ?? 0) + 1;
        yield `${comma}${JSON.stringify(id)}:${JSON.stringify(entry)}`;
        comma = ",";
      }
      if (page.next === null) break;
      page = unwrap(await object.associations(null, page.next));
    }
    yield `},"sync_operation_counters":${JSON.stringify(counters)}}`;
  });
}

/** Every split of a path into mount and secret name: both may contain slashes. */
function splits(path: string): AssociationListing[] {
  const segments = path.split("/").filter((segment) => segment !== "");
  return segments
    .slice(1, 32)
    .map((_, i) => ({ mount: `${segments.slice(0, i + 1).join("/")}/`, secret: segments.slice(i + 1).join("/") }));
}

/** Destinations of a secret, each with the worst status of its objects there. */
async function destinationsOfSecret(
  call: AuthorisedCall,
  candidates: readonly AssociationListing[],
): Promise<Response> {
  const { namespace } = call.grant;
  for (const listing of candidates) {
    const holders = unwrap(await destinationsOf(call.env.LISTINGS, namespace, listing));
    const found = await Promise.all(
      holders.map(async ({ type, name }) => {
        const entries = await destinationAt(call, { namespace, type, name }).ofSecret(listing.mount, listing.secret);
        return { type, name, entries };
      }),
    );
    const lively = found.filter(({ entries }) => entries.length > 0);
    if (lively.length === 0) continue;
    const associated = lively.map(({ type, name, entries }) => [`${type}/${name}`, summary(call, type, name, entries)]);
    return envelope(call, {
      data: translateSecretDestinations(call.dialect, { associated_destinations: Object.fromEntries(associated) }),
    });
  }
  throw notFound();
}

/** Fields that explain a status: error, retries, the version that was pushed last, and its name. */
const details = ({ accessor: _, secret_name: __, sub_key: ___, ...view }: AssociationView) => view;

function summary(call: AuthorisedCall, type: string, name: string, entries: Entries) {
  const views = entries.map(([, view]) => view);
  const status = worst(views.map((view) => view.sync_status)) ?? "UNKNOWN";
  const explaining = views.find((view) => view.sync_status === status);
  const keys = views.flatMap((view) => (view.sub_key === undefined ? [] : [[view.sub_key, view] as const]));
  return {
    type,
    name,
    ...(explaining && keys.length === 0 && details(explaining)),
    ...(explaining?.error_code !== undefined && { error_code: explaining.error_code }),
    ...(explaining?.error_message !== undefined && { error_message: explaining.error_message }),
    sync_status: status,
    updated_at:
      views
        .map((view) => view.updated_at)
        .sort()
        .at(-1) ?? "",
    ...(keys.length > 0 && {
      sub_keys: Object.fromEntries(
        keys.map(([key, view]) => [
          key,
          { ...details(view), sync_status: translateStatus(call.dialect, view.sync_status) },
        ]),
      ),
    }),
  };
}

export const associationRoutes = [
  secrets("GET /sys/sync/destinations/:type/:name/associations", { query: PageQuery }, allAssociations),
  secrets("POST /sys/sync/destinations/:type/:name/associations/set", { body: Associated, query: SetQuery }, set),
  secrets(
    "POST /sys/sync/destinations/:type/:name/associations/remove",
    { body: Association, query: RemovalQuery },
    remove,
  ),
  secrets("LIST /sys/sync/associations", async (call) => {
    const rows = unwrap(await listAssociatedSecrets(call.env.LISTINGS, call.grant.namespace));
    const keyed = Map.groupBy(rows, ({ mount, secret }) => `${mount}${secret}`);
    const info = [...keyed].map(([key, members]): [string, { mount: string; secret_path: string }[]] => [
      key,
      members.map(({ mount, secret }) => ({ mount, secret_path: secret })),
    ]);
    return keyList(call, [...keyed.keys()], {
      key_info: Object.fromEntries(info),
      total_associations: rows.reduce((sum, row) => sum + row.associations, 0),
      total_secrets: rows.length,
    });
  }),
  secrets("GET /sys/sync/associations/destinations", { query: SecretQuery }, async (call) => {
    const { mount, secret_name: secret } = call.asked;
    return destinationsOfSecret(call, [{ mount: `${slashless(mount)}/`, secret }]);
  }),
  secrets("GET /sys/sync/associations/:mount/:name", async (call) => {
    const { mount, name } = call.params;
    // Encoded slashes mark the end of the mount; but some clients decode all slashes.
    const exact = { mount: `${slashless(mount)}/`, secret: name };
    return destinationsOfSecret(call, [exact, ...splits(`${mount}/${name}`)]);
  }),
  secrets("GET /sys/sync/associations/:path+", async (call) => {
    const candidates = splits(call.params.path);
    if (candidates.length === 0) throw badRequest("secret_name: required");
    return destinationsOfSecret(call, candidates);
  }),
];
