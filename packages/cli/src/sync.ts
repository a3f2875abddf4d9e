import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { type Api, ApiError, encoded } from "./api.ts";
import { command, durationMsOf, Failure, InvalidUsage, table, text } from "./command.ts";
import { connect, SERVICE_OPTIONS } from "./connect.ts";
import { ENVIRONMENT } from "./environment.ts";
import { isFolder, Kv, type Place, shown } from "./kv/store.ts";
import { FolderRule, writeAt } from "./sync-folder.ts";

/** Copies of secrets at destinations. */

const PATH = { name: "PATH", help: "the secret, such as secret/app/db" };
const PATH_OR_FOLDER = { name: "PATH", help: "the secret, such as secret/app/db, or a folder, such as secret/app/" };
const DESTINATION = { name: "DESTINATION", help: "type and name, such as aws-sm/prod" };

const objectSchema = z.object({
  external_name: z.string().optional(),
  sync_status: z.string().optional(),
  updated_at: z.string().optional(),
  synced_version: z.number().optional(),
  error_code: z.string().optional(),
  error_message: z.string().optional(),
  next_attempt_at: z.string().optional(),
});
const entrySchema = objectSchema.extend({
  accessor: z.string().default(""),
  secret_name: z.string().default(""),
  sub_key: z.string().default(""),
  sub_keys: z.record(z.string(), objectSchema).optional(),
});
type Entry = z.infer<typeof entrySchema>;

const ofSecretSchema = z.object({ associated_destinations: z.record(z.string(), entrySchema).default({}) });
const ofDestinationSchema = z.object({
  associated_secrets: z.record(z.string(), entrySchema).default({}),
  next: z.string().optional(),
});
const plannedSchema = z.object({
  planned: z.array(
    z
      .object({
        association: z.string(),
        external_name: z.string().optional(),
        action: z.string(),
        reason: z.string().optional(),
        outside: z.string().optional(),
      })
      .loose(),
  ),
});

/** @throws InvalidUsage */
function checkDestination(given: string): void {
  if (!/^[^/]+\/[^/]+$/.test(given)) throw new InvalidUsage("DESTINATION: must be TYPE/NAME, such as aws-sm/prod");
}

/** @throws InvalidUsage */
function destinationPath(given: string): string {
  checkDestination(given);
  return `sys/sync/destinations/${encoded(given)}`;
}

export const syncStatus = command({
  words: ["sync", "status"],
  summary: "show where secrets are copied to, and what fails",
  about: `Without PATH it lists all destinations with the numbers of their objects by status; with PATH the copies of one
secret; with --destination the objects of one destination. Ends with 1 when an object has an error.`,
  args: [{ ...PATH, isOptional: true }],
  options: { destination: text("TYPE/NAME", "the objects of this destination"), ...SERVICE_OPTIONS },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path] }, io) => {
    if (path !== undefined && values.destination !== undefined)
      throw new InvalidUsage("PATH: is left out with --destination");
    const api = connect(values, io);
    if (path === undefined && values.destination === undefined) {
      const rows = await overview(api);
      if (values.json) io.out(JSON.stringify(rows, null, 2));
      else
        for (const line of table([
          ["destination", "objects"],
          ...rows.map(({ destination, counts }) => [destination, countsText(counts)]),
        ]))
          io.out(line);
      if (rows.length === 0) io.note("No destination.");
      return rows.some(({ counts }) => Object.keys(counts).some(isError)) ? 1 : 0;
    }
    const kv = new Kv(api);
    const entries =
      path === undefined
        ? await objectsOf(api, destinationPath(values.destination ?? ""))
        : await copiesOf(api, await kv.secretAt(path));
    const mounts = path === undefined ? await kv.mountsByAccessor() : {};
    const rows = flat(entries, mounts);
    if (rows.length === 0 && path !== undefined) await kv.mustExist(await kv.at(path));
    if (values.json) io.out(JSON.stringify(rows, null, 2));
    else
      for (const line of table([
        [path === undefined ? "secret" : "destination", "object", "status", "version", "error"],
        ...rows.map((row) => [
          row.of,
          row.external_name ?? "",
          row.sync_status ?? "",
          String(row.synced_version ?? ""),
          row.error_message ?? "",
        ]),
      ]))
        io.out(line);
    if (rows.length === 0) io.note(path === undefined ? "No secret is copied there." : `${path} is copied nowhere.`);
    return rows.some(({ sync_status = "" }) => isError(sync_status)) ? 1 : 0;
  },
});

const isError = (status: string): boolean => /ERROR$/.test(status);

const countsText = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([status, count]) => `${count} ${status}`)
    .join(", ") || "none";

async function overview(api: Api) {
  const fields = (await api.fields("sys/sync/destinations", { list: "true" })) ?? {};
  const types = z.record(z.string(), z.array(z.string())).catch({}).parse(fields["key_info"]);
  const names = Object.entries(types).flatMap(([type, each]) => each.map((name) => `${type}${name}`));
  return Promise.all(
    names.map(async (destination) => {
      const counts: Record<string, number> = {};
      for (const { sync_status = "UNKNOWN" } of flat(await objectsOf(api, destinationPath(destination))))
        counts[sync_status] = (counts[sync_status] ?? 0) + 1;
      return { destination, counts };
    }),
  );
}

const PAGE = "1000";

/** By secret; all pages. */
async function objectsOf(api: Api, path: string): Promise<Record<string, Entry>> {
  const all: Record<string, Entry> = {};
  for (let after = ""; ; ) {
    const fields = await api.fields(`${path}/associations`, { limit: PAGE, ...(after !== "" && { after }) });
    if (fields === null) throw new Failure(`${path.replace("sys/sync/destinations/", "")}: no such destination`);
    const { associated_secrets, next = "" } = ofDestinationSchema.parse(fields);
    Object.assign(all, associated_secrets);
    if (next === "" || next === after) return all;
    after = next;
  }
}

/** By destination. */
async function copiesOf(api: Api, { mount, name }: Place): Promise<Record<string, Entry>> {
  const query = { mount: mount.replace(/\/$/, ""), secret_name: name };
  return ofSecretSchema.parse((await api.fields("sys/sync/associations/destinations", query)) ?? {})
    .associated_destinations;
}

/**
 * One row for each object: a destination by keys has several of one secret.
 * @param mounts paths by accessor, for the names of secrets
 */
const flat = (entries: Readonly<Record<string, Entry>>, mounts: Readonly<Record<string, string>> = {}) =>
  Object.entries(entries).flatMap(([id, { sub_keys, accessor, secret_name, sub_key, ...entry }]) => {
    const mount = mounts[accessor];
    const of = mount === undefined ? id : `${mount}${secret_name}${sub_key === "" ? "" : ` ${sub_key}`}`;
    return sub_keys === undefined
      ? [{ of, ...entry }]
      : Object.entries(sub_keys).map(([key, object]) => ({ of: `${of} ${key}`, ...object }));
  });

const folderRule = async (api: Api, path: string, destination: string): Promise<FolderRule> =>
  new FolderRule(api, await new Kv(api).at(path), destination);

const associationOf = ({ mount, name }: Place) => ({ mount: mount.replace(/\/$/, ""), secret_name: name });

/** @throws Failure without the secret or the destination, ApiError */
async function associate(
  api: Api,
  destination: string,
  place: Place,
  query: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  return writeAt(api, destination, "associations/set", associationOf(place), query).catch(async (failure: unknown) => {
    if (!(failure instanceof ApiError && /^secret not found/i.test(failure.reason))) throw failure;
    throw new Failure(`${shown(place)}: ${await new Kv(api).whyNot(place)}`);
  });
}

export const syncPlan = command({
  words: ["sync", "plan"],
  summary: "show what copying a secret would do, and change nothing",
  about: `Prints the objects that \`sallyport sync set\` would create, change or refuse, with their names there; for a
folder those that differ from now.`,
  args: [PATH_OR_FOLDER, DESTINATION],
  options: SERVICE_OPTIONS,
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = "", destination = ""] }, io) => {
    const api = connect(values, io);
    checkDestination(destination);
    if (isFolder(path)) return (await folderRule(api, path, destination)).plan(values.json, io);
    const place = await new Kv(api).secretAt(path);
    const answer = await associate(api, destination, place, { dry_run: "true" });
    const { planned } = plannedSchema.parse(answer);
    if (values.json) io.out(JSON.stringify(planned, null, 2));
    else
      for (const { action, external_name = "", reason = "" } of planned)
        io.out(`${action} ${external_name} ${reason}`.trimEnd());
    return planned.some(({ action }) => action === "refuse" || action === "refused") ? 1 : 0;
  },
});

export const syncSet = command({
  words: ["sync", "set"],
  summary: "copy a secret to a destination, now and after each change",
  about: `Sets the desired state: the secret is copied to the destination, and again after each change. With --wait the
command ends when the copy is there, or with 1 and the reason when it fails. A folder is copied by a rule of the
destination, together with the secrets that are written to it later.`,
  args: [PATH_OR_FOLDER, DESTINATION],
  options: { wait: text("TIME", "wait at most so long, such as 30s"), ...SERVICE_OPTIONS },
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = "", destination = ""] }, io) => {
    const waitMs = values.wait === undefined ? 0 : durationMsOf("wait", values.wait);
    const api = connect(values, io);
    checkDestination(destination);
    if (isFolder(path)) return (await folderRule(api, path, destination)).set(waitMs, values.json, io);
    const place = await new Kv(api).secretAt(path);
    const answer = await associate(api, destination, place);
    const { store_type, store_name } = z.object({ store_type: z.string(), store_name: z.string() }).parse(answer);
    // The service has two names for each type.
    const rows = await settled(api, place, `${store_type}/${store_name}`, waitMs);
    if (values.json) io.out(JSON.stringify(rows, null, 2));
    else
      for (const { external_name = "", sync_status = "PENDING", error_message = "" } of rows)
        io.out(`${shown(place)} ${sync_status} ${external_name} ${error_message}`.trimEnd());
    const isDone = rows.every(({ sync_status = "" }) => sync_status === "SYNCED");
    return rows.some(({ sync_status = "" }) => isError(sync_status)) || (waitMs > 0 && !isDone) ? 1 : 0;
  },
});

const INTERVAL_MS = 500;

/** The objects of a secret at one destination: at once, or when none of them is pending any more. */
async function settled(api: Api, place: Place, destination: string, waitMs: number) {
  const end = Date.now() + waitMs;
  for (;;) {
    const copies = await copiesOf(api, place);
    const rows = flat(Object.fromEntries(Object.entries(copies).filter(([of]) => of === destination)));
    const isPending = rows.length === 0 || rows.some(({ sync_status = "PENDING" }) => sync_status === "PENDING");
    if (!isPending || Date.now() >= end) return rows;
    await sleep(INTERVAL_MS);
  }
}

export const syncRemove = command({
  words: ["sync", "remove"],
  summary: "end the copies of a secret at a destination, and remove them",
  about: `Ends the association of a secret with a destination, and removes the objects there; for a folder those of its
rule.`,
  args: [PATH_OR_FOLDER, DESTINATION],
  options: SERVICE_OPTIONS,
  notes: ENVIRONMENT,
  run: async ({ values, args: [path = "", destination = ""] }, io) => {
    const api = connect(values, io);
    checkDestination(destination);
    const kv = new Kv(api);
    const place = isFolder(path) ? await kv.at(path) : await kv.secretAt(path);
    if (isFolder(path)) await new FolderRule(api, place, destination).remove();
    else {
      await mustBeCopied(api, place, destination);
      await writeAt(api, destination, "associations/remove", associationOf(place));
    }
    if (values.json) io.out(JSON.stringify({ path: shown(place), destination, removed: true }));
    else io.out(`${shown(place)}: no longer copied to ${destination}`);
    return 0;
  },
});

/** The removal of an association that never was is answered alike. @throws Failure */
async function mustBeCopied(api: Api, place: Place, destination: string): Promise<void> {
  // A token may remove associations that it may not read.
  const unlessDenied = (failure: unknown) => {
    if (failure instanceof ApiError && failure.status === 403) return null;
    throw failure;
  };
  const stored = await api.fields(destinationPath(destination)).catch(unlessDenied);
  const copies = await copiesOf(api, place).catch(unlessDenied);
  // The service has two names for each type.
  if (stored !== null && copies !== null && !(`${stored["type"]}/${stored["name"]}` in copies))
    throw new Failure(`${shown(place)}: is not copied to ${destination}`);
}
