import * as z from "zod";
import { wordDestination, wordDestinationList, wordType } from "../compat/sync-names.ts";
import { unwrap } from "../http/errors.ts";
import { envelope, keyList, noContent } from "../http/respond.ts";
import { type AuthorisedCall, secrets } from "../http/route.ts";
import { listDestinations } from "../listings/destinations.ts";
import { resolveFile } from "../sync/files.ts";
import { drift, verify } from "../sync/look.ts";
import { destinationAt, flagIn, keyOf, limitIn } from "./sync-paths.ts";

/** Destinations of area B. */

const AnyFields = z.record(z.string(), z.unknown());
type AnyFields = z.infer<typeof AnyFields>;

/** Fields that may name a file of the deployment instead of holding its content. */
const FILE_FIELDS = ["credentials"];

async function withFiles(call: AuthorisedCall, body: AnyFields): Promise<AnyFields> {
  const read = { ...body };
  for (const field of FILE_FIELDS) {
    const value = body[field];
    if (typeof value === "string" && value.startsWith("@")) {
      read[field] = unwrap(await resolveFile(call.env, call.grant.namespace, value));
    }
  }
  return read;
}

async function configure(call: AuthorisedCall, given: AnyFields, mode: "write" | "patch"): Promise<Response> {
  const key = keyOf(call);
  const body = await withFiles(call, given);
  const object = destinationAt(call, key);
  if (flagIn(call.query, "dry_run")) {
    const after = call.query.get("after") ?? "";
    const { planned, warnings, next } = unwrap(await object.previewConfigure(key, body, mode, after));
    return envelope(call, { data: { dry_run: true, planned, next: next ?? "" }, warnings });
  }
  const word = wordType(call.dialect, key.type);
  const { state, warnings } = unwrap(await object.configure(key, body, { word, mode }));
  return envelope(call, { data: wordDestination(call.dialect, state), warnings });
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
      const { keys, ...more } = wordDestinationList(call.dialect, {
        keys: [...types.keys()],
        key_info: Object.fromEntries(info),
        total_destinations: rows.length,
      });
      return keyList(call, keys, more);
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
    handle: async (call) => {
      const state = unwrap(await destinationAt(call, keyOf(call)).read());
      return envelope(call, { data: wordDestination(call.dialect, state) });
    },
  }),
  secrets({
    verb: "POST",
    path: "/sys/sync/destinations/:type/:name",
    creates: true,
    body: AnyFields,
    handle: (call, body) => configure(call, body, "write"),
  }),
  secrets({
    verb: "PATCH",
    path: "/sys/sync/destinations/:type/:name",
    body: AnyFields,
    handle: (call, body) => configure(call, body, "patch"),
  }),
  secrets({
    verb: "DELETE",
    path: "/sys/sync/destinations/:type/:name",
    handle: async (call) => {
      const options = { purge: flagIn(call.query, "purge"), force: flagIn(call.query, "force_delete") };
      unwrap(await destinationAt(call, keyOf(call)).delete(options));
      return noContent();
    },
  }),
  secrets({
    verb: "POST",
    path: "/sys/sync/destinations/:type/:name/verify",
    handle: async (call) => envelope(call, { data: unwrap(await verify(call.env, keyOf(call))) }),
  }),
  secrets({
    verb: "GET",
    path: "/sys/sync/destinations/:type/:name/drift",
    handle: async (call) => {
      const key = keyOf(call);
      const limit = limitIn(call.query, 100);
      const page = unwrap(await destinationAt(call, key).copyRecords(call.query.get("after") ?? "", limit));
      const objects = unwrap(await drift(call.env, key, page.records));
      const states = objects.map(([, { state }]) => state);
      const counters = Object.fromEntries(
        [...Map.groupBy(states, (state) => state)].map(([state, all]) => [state, all.length]),
      );
      return envelope(call, { data: { objects: Object.fromEntries(objects), counters, next: page.next ?? "" } });
    },
  }),
  secrets({
    verb: "GET",
    path: "/sys/sync/destinations/in-mem/:name/objects",
    fresh: true,
    handle: async (call) => {
      const key = keyOf({ ...call, params: { ...call.params, type: "in-mem" } });
      const objects: Record<string, { value: string; tags: Record<string, string>; updated_at: string }> = {};
      for (let after = ""; ; ) {
        const page = unwrap(await destinationAt(call, key).storedObjects(after));
        for (const { name, ...object } of page) objects[name] = object;
        const last = page.at(-1);
        if (!last) return envelope(call, { data: { objects } });
        after = last.name;
      }
    },
  }),
];
