import * as z from "zod";
import { may } from "../access/authorize.ts";
import { authorize } from "../access/authorizer.ts";
import type { Mount } from "../access/mounts.ts";
import { badRequest, denied, notFound, refusalError, unwrap } from "../http/errors.ts";
import { envelope, keyList, noContent } from "../http/respond.ts";
import { type AuthorisedCall, secrets } from "../http/route.ts";
import { listDestinations } from "../listings/destinations.ts";
import { accessControl, destinationName, kvStore, syncDestination } from "../objects/stubs.ts";
import type { AssociationsView, DestinationKey } from "../objects/sync-destination.ts";
import { associationId } from "../sync/association.ts";
import { typeOf } from "../sync/definition.ts";
import { performWork } from "../sync/perform.ts";

/** Destinations and associations of area B. */

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
/** How long a request that states a wish also performs it before it answers. */
const INLINE_MS = 2_000;

function key(call: AuthorisedCall): DestinationKey {
  const { type = "", name = "" } = call.params;
  if (!typeOf(type)) throw notFound(`unsupported path: no destination type ${JSON.stringify(type.slice(0, 64))}`);
  if (!NAME.test(name))
    throw badRequest("name: must be 1 to 128 letters, digits, _ . - and begin with a letter or digit");
  return { namespace: call.grant.namespace, type, name };
}

const destination = (call: AuthorisedCall, { namespace, type, name }: DestinationKey) =>
  syncDestination(call.env, destinationName({ namespace, type, name }));

const Association = z.object({
  mount: z.string("mount: required").min(1, "mount: required").max(512),
  secret_name: z.string("secret_name: required").min(1, "secret_name: required").max(2_048),
});
type Association = z.infer<typeof Association>;

const slashless = (mount: string): string => mount.replace(/^\/+|\/+$/g, "");

function checkSecretName(name: string): string {
  if (name.endsWith("/")) throw badRequest("Secret not found. Please provide full path to existing secret");
  if (
    /[\p{Cc}]/u.test(name) ||
    name.split("/").some((segment) => segment === "." || segment === ".." || segment === "")
  ) {
    throw badRequest("secret_name: must not hold control characters nor empty, . or .. segments");
  }
  return name;
}

async function findMount(call: AuthorisedCall, path: string): Promise<Mount | null> {
  const mount = await accessControl(call.env).findMount(call.grant.namespace, slashless(path));
  return mount && slashless(mount.path) === slashless(path) ? mount : null;
}

/** Performs the work of one association for as long as an answer may wait; what is left goes on behind it. */
async function tryNow(call: AuthorisedCall, where: DestinationKey, id: string): Promise<void> {
  const run = performWork(call.env, destinationName(where), { budgetMs: INLINE_MS, only: id }).catch(() => undefined);
  call.exec.waitUntil(run);
  await Promise.race([run, scheduler.wait(INLINE_MS)]);
}

async function set(call: AuthorisedCall, body: Association): Promise<Response> {
  const where = key(call);
  const name = checkSecretName(body.secret_name);
  const mount = await findMount(call, body.mount);
  if (!mount) throw badRequest(`mount: no secret engine mount at ${slashless(body.mount)}/`);
  const path = `${mount.path}data/${name}`;
  const reader = await authorize(call.env, { token: call.token, namespace: call.grant.namespace, path }, true);
  if (!reader.ok) throw refusalError(reader);
  if (!may(reader, "read")) {
    throw denied(`permission denied to read the content of the secret ${name} in mount ${slashless(mount.path)}`);
  }
  unwrap(await destination(call, where).read());
  const source = await kvStore(call.env, mount.uuid).read(name, 0);
  if (!source.ok && source.reason !== "missing") throw refusalError(source);
  if (!source.ok || source.state === "gone") throw badRequest(`secret not found: ${mount.path}${name}`);
  const secret = { mountUuid: mount.uuid, mountAccessor: mount.accessor, mountPath: mount.path, secretName: name };
  unwrap(await destination(call, where).set(secret));
  const id = associationId(secret);
  await tryNow(call, where, id);
  return envelope(call, { data: unwrap(await destination(call, where).associations([id])) });
}

async function remove(call: AuthorisedCall, body: Association): Promise<Response> {
  const where = key(call);
  const name = checkSecretName(body.secret_name);
  const mount = await findMount(call, body.mount);
  // The mount may be gone; its associations are still found by the path they were made with.
  const accessor = mount?.accessor ?? (await destination(call, where).accessorOf(`${slashless(body.mount)}/`, name));
  const target = { mountAccessor: accessor ?? "", secretName: name };
  const before = unwrap(await destination(call, where).remove(target));
  const id = associationId(target);
  await tryNow(call, where, id);
  const after = unwrap(await destination(call, where).associations([id]));
  const entry = before.associated_secrets[id];
  if (!entry || after.associated_secrets[id]) return envelope(call, { data: after });
  // Shown once more, as what it has become; later reads no longer list it.
  const gone = { ...entry, sync_status: "UNSYNCED", updated_at: new Date().toISOString() };
  return envelope(call, {
    data: { ...after, associated_secrets: { [id]: gone }, sync_operation_counters: { UNSYNCED: 1 } },
  });
}

async function allAssociations(call: AuthorisedCall): Promise<AssociationsView> {
  const where = key(call);
  const all: Record<string, AssociationsView["associated_secrets"][string]> = {};
  const counters: Record<string, number> = {};
  for (let after = ""; ; ) {
    const page = unwrap(await destination(call, where).associations(null, after));
    Object.assign(all, page.associated_secrets);
    for (const [status, count] of Object.entries(page.sync_operation_counters))
      counters[status] = (counters[status] ?? 0) + count;
    const last = Object.keys(page.associated_secrets).sort().at(-1);
    if (last === undefined) return { ...page, associated_secrets: all, sync_operation_counters: counters };
    after = last;
  }
}

export const destinationRoutes = [
  secrets({
    verb: "LIST",
    path: "/sys/sync/destinations",
    handle: async (call) => {
      const rows = await listDestinations(call.env.LISTINGS, call.grant.namespace);
      const types = Map.groupBy(rows, (row) => `${row.type}/`);
      const info = [...types].map(([type, members]): [string, string[]] => [
        type,
        members.map((member) => member.name),
      ]);
      return keyList(call, [...types.keys()], { key_info: Object.fromEntries(info), total_destinations: rows.length });
    },
  }),
  secrets({
    verb: "LIST",
    path: "/sys/sync/destinations/:type",
    handle: async (call) => {
      const rows = await listDestinations(call.env.LISTINGS, call.grant.namespace);
      const names = rows.filter((row) => row.type === call.params["type"]).map((row) => row.name);
      return keyList(call, names, { total_destinations: names.length });
    },
  }),
  secrets({
    verb: "GET",
    path: "/sys/sync/destinations/:type/:name",
    handle: async (call) => envelope(call, { data: unwrap(await destination(call, key(call)).read()) }),
  }),
  secrets({
    verb: "POST",
    path: "/sys/sync/destinations/:type/:name",
    creates: true,
    body: z.record(z.string(), z.unknown()),
    handle: async (call, body) => {
      const where = key(call);
      const configured = await destination(call, where).configure(where, body);
      return envelope(call, { data: unwrap(configured) });
    },
  }),
  secrets({
    verb: "DELETE",
    path: "/sys/sync/destinations/:type/:name",
    handle: async (call) => {
      const purge = call.query.get("purge") ?? "false";
      if (!/^(0|f|false)$/i.test(purge)) {
        throw badRequest("purge: is not available yet; remove the associations first, then delete without it");
      }
      unwrap(await destination(call, key(call)).delete());
      return noContent();
    },
  }),
  secrets({
    verb: "GET",
    path: "/sys/sync/destinations/:type/:name/associations",
    handle: async (call) => envelope(call, { data: await allAssociations(call) }),
  }),
  secrets({
    verb: "POST",
    path: "/sys/sync/destinations/:type/:name/associations/set",
    body: Association,
    handle: set,
  }),
  secrets({
    verb: "POST",
    path: "/sys/sync/destinations/:type/:name/associations/remove",
    body: Association,
    handle: remove,
  }),
  secrets({
    verb: "GET",
    path: "/sys/sync/destinations/in-mem/:name/objects",
    fresh: true,
    handle: async (call) => {
      const where = key({ ...call, params: { ...call.params, type: "in-mem" } });
      const objects: Record<string, { value: string; tags: Record<string, string>; updated_at: string }> = {};
      for (let after = ""; ; ) {
        const page = unwrap(await destination(call, where).storedObjects(after));
        for (const { name, ...object } of page) objects[name] = object;
        const last = page.at(-1);
        if (!last) return envelope(call, { data: { objects } });
        after = last.name;
      }
    },
  }),
];
