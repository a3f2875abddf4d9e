import * as z from "zod";
import { translateDestination, translateDestinationList, translateType } from "../compat/sync-names.ts";
import { rawAsText } from "../lib/json.ts";
import { listDestinations } from "../listings/destinations.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { flag } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { resolveFile } from "../sync/configuration/files.ts";
import { drift, identityOf, previewConfiguration, verify } from "../sync/inspect/inspect.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "./server/route.ts";
import { writeRights } from "./server/write-rights.ts";
import { checkedType, destinationAt, keyOf, NO_DRY_REMOVAL } from "./sync-paths.ts";

/** Sync destinations. */

type AnyFields = Readonly<Record<string, unknown>>;

const Write = z.looseObject({ dry_run: flag().optional() });
type Write = z.infer<typeof Write>;

const Deletion = z.object({
  purge: flag().optional(),
  force_delete: flag().optional(),
  dry_run: flag().optional(),
});

/** Objects per page of `drift`: each is a provider call. */
const DRIFT_PAGE = 100;

/** Fields that may reference a file of the deployment instead of containing its content. */
const FILE_FIELDS = ["credentials"];

async function withFiles(call: AuthorisedCall, body: AnyFields): Promise<AnyFields> {
  const read = rawAsText(body) as Record<string, unknown>;
  for (const field of FILE_FIELDS) {
    const value = body[field];
    if (typeof value === "string" && value.startsWith("@")) {
      read[field] = unwrap(await resolveFile(call.env, call.grant.namespace, value));
    }
  }
  return read;
}

const PlanQuery = z.object({ dry_run: query.flag(), after: query.text() });
const DeletionQuery = z.object({ purge: query.flag(), force_delete: query.flag(), dry_run: query.flag() });
const DriftQuery = z.object({ after: query.text(), limit: query.limit(DRIFT_PAGE).default(DRIFT_PAGE) });

async function configure(
  call: AuthorisedCall<"name" | "type"> & Asked<typeof PlanQuery>,
  given: Write,
  mode: "write" | "patch",
): Promise<Response> {
  const key = keyOf(call);
  const { origin } = new URL(call.request.url);
  const { dry_run, ...fields } = given;
  const body = await withFiles(call, fields);
  const { after } = call.asked;
  if (dry_run || call.asked.dry_run) {
    const preview = unwrap(await previewConfiguration(call.env, key, body, { mode, after, origin }));
    const { planned, warnings, next } = preview;
    return envelope(call, { data: { dry_run: true, planned, next: next ?? "" }, warnings });
  }
  const word = writtenType(call, key.type);
  const rights = writeRights(call);
  const options = { word, mode, origin, rights };
  const { state, warnings } = unwrap(await destinationAt(call, key).configure(key, body, options));
  return envelope(call, { data: translateDestination(call.dialect, state), warnings });
}

/**
 * The type as the path spells it, which is part of names and of the subject of identity tokens. Headers do not decide: the
 * same path has the same subject for every client.
 */
function writtenType({ request }: AuthorisedCall, type: string): string {
  const { pathname } = new URL(request.url);
  return pathname.includes(`/destinations/${type}/`) ? type : translateType("upstream", type);
}

/** A read also shows the identity of a destination without stored credentials, which its provider must trust. */
async function read(call: AuthorisedCall<"name" | "type">): Promise<Response> {
  const key = keyOf(call);
  const state = unwrap(await destinationAt(call, key).read());
  const isFederated = state.connection_details["identity_token_audience"] !== undefined;
  const identity = isFederated ? await identityOf(call.env, key) : null;
  const data = translateDestination(call.dialect, state);
  return envelope(call, { data: identity ? { ...data, identity_token: identity } : data });
}

/** Counts of states by origin; null without rules. An object of several origins counts for each. */
function countsByOrigin(
  found: readonly { readonly state: string; readonly origins?: readonly string[] }[],
): Record<string, Record<string, number>> | null {
  if (found.every(({ origins }) => origins === undefined)) return null;
  const counts: Record<string, Record<string, number>> = {};
  for (const { state, origins = ["manual"] } of found) {
    for (const origin of origins) {
      counts[origin] ??= {};
      counts[origin][state] = (counts[origin][state] ?? 0) + 1;
    }
  }
  return counts;
}

export const destinationRoutes = [
  secrets("LIST /sys/sync/destinations", async (call) => {
    const rows = unwrap(await listDestinations(call.env.LISTINGS, call.grant.namespace));
    const types = Map.groupBy(rows, (row) => `${row.type}/`);
    const info = [...types].map(([type, members]): [string, string[]] => [type, members.map((member) => member.name)]);
    const { keys, ...more } = translateDestinationList(call.dialect, {
      keys: [...types.keys()],
      key_info: Object.fromEntries(info),
      total_destinations: rows.length,
    });
    return keyList(call, keys, more);
  }),
  secrets("LIST /sys/sync/destinations/:type", async (call) => {
    const type = checkedType(call);
    const rows = unwrap(await listDestinations(call.env.LISTINGS, call.grant.namespace));
    const names = rows.filter((row) => row.type === type).map((row) => row.name);
    return keyList(call, names, { total_destinations: names.length });
  }),
  secrets("GET /sys/sync/destinations/:type/:name", read),
  secrets(
    "POST /sys/sync/destinations/:type/:name",
    { creates: true, body: Write, query: PlanQuery, exact: true },
    (call, body) => configure(call, body, "write"),
  ),
  secrets("PATCH /sys/sync/destinations/:type/:name", { body: Write, query: PlanQuery, exact: true }, (call, body) =>
    configure(call, body, "patch"),
  ),
  secrets("DELETE /sys/sync/destinations/:type/:name", { body: Deletion, query: DeletionQuery }, async (call, body) => {
    const { asked } = call;
    if (body.dry_run || asked.dry_run) throw badRequest(NO_DRY_REMOVAL);
    const options = { purge: body.purge || asked.purge, force: body.force_delete || asked.force_delete };
    unwrap(await destinationAt(call, keyOf(call)).delete(options));
    return noContent();
  }),
  secrets("POST /sys/sync/destinations/:type/:name/verify", async (call) =>
    envelope(call, { data: unwrap(await verify(call.env, keyOf(call))) }),
  ),
  secrets("GET /sys/sync/destinations/:type/:name/drift", { query: DriftQuery }, async (call) => {
    const key = keyOf(call);
    const page = unwrap(await destinationAt(call, key).copyRecords(call.asked.after, call.asked.limit));
    const objects = unwrap(await drift(call.env, key, page.records));
    const isLast = page.isLast && objects.length === page.records.length;
    const next = isLast ? "" : (page.records[objects.length - 1]?.cursor ?? "");
    const states = objects.map(([, { state }]) => state);
    const counters = Object.fromEntries(
      [...Map.groupBy(states, (state) => state)].map(([state, all]) => [state, all.length]),
    );
    const origins = countsByOrigin(objects.map(([, found]) => found));
    return envelope(call, {
      data: { objects: Object.fromEntries(objects), counters, ...(origins && { origins }), next },
    });
  }),
  secrets("GET /sys/sync/destinations/in-mem/:name/objects", { fresh: true }, async (call) => {
    const key = keyOf({ ...call, params: { ...call.params, type: "in-mem" } });
    const objects: [name: string, object: object][] = [];
    for (let after = ""; ; ) {
      const page = unwrap(await destinationAt(call, key).storedObjects(after));
      for (const { name, ...object } of page) objects.push([name, object]);
      const last = page.at(-1);
      if (!last) return envelope(call, { data: { objects: Object.fromEntries(objects) } });
      after = last.name;
    }
  }),
];
