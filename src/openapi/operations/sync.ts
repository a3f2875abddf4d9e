import * as z from "zod";
import { CommonFields } from "../../sync/definition.ts";
import { destinationTypes } from "../../sync/destinations/index.ts";
import type { JsonSchema } from "../json-schema.ts";
import { SchemaWriter } from "../json-schema.ts";
import { count, data, flag, group, noContent, text } from "../operation.ts";
import { keys, keysOf, texts, time } from "../shapes.ts";

export const STATUSES = [
  ...["PENDING", "SYNCED", "UNSYNCED", "CLIENT_SIDE_ERROR", "EXTERNAL_SERVICE_ERROR", "UNKNOWN", "INTERNAL_ERROR"],
] as const;
const TYPES = [...destinationTypes.keys()];

const Config = z.object({ disabled: z.boolean(), queue_capacity: z.int() }).meta({ id: "SyncConfig" });
const config = data("The configuration in force.", Config);
const ADMIN = "Only in the root namespace and in the administrative one (`ADMIN_NAMESPACE`).";

const Destination = z
  .object({
    name: z.string(),
    type: z.enum(TYPES),
    connection_details: z.record(z.string(), z.unknown()).describe("Sensitive ones read `*****`."),
    options: z.object({
      granularity_level: z.enum(["secret-path", "secret-key"]),
      secret_name_template: z.string().describe("The one in force."),
      custom_tags: texts,
      update_policy: z.enum(["replace", "if-not-exists", "owned-only"]),
      deletion_policy: z.enum(["delete", "retain"]),
    }),
    purge_initiated_at: time.optional(),
    purge_error: z.string().optional(),
    circuit_breaker: z.object({ failures: z.int(), next_attempt_at: time }).optional(),
  })
  .meta({ id: "Destination" });

/** Preview of a change to one remote object. */
export const Planned = z
  .object({
    association: z.string(),
    sub_key: z.string().optional(),
    external_name: z.string(),
    action: z.enum(["create", "update", "delete", "retain", "refuse"]),
    reason: z.string().optional(),
    outside: z.enum(["absent", "ours", "foreign", "present", "unreadable"]).optional().describe("What is there now."),
  })
  .meta({ id: "PlannedObject" });

const Plan = z.object({
  dry_run: z.literal(true),
  planned: z.array(Planned),
  next: z.string().describe("Behind what the next page begins, for `after`; empty on the last one."),
});

const Verdict = z.object({ ok: z.boolean(), error_code: z.string().optional(), message: z.string() });

const Drift = z.object({
  objects: z.record(
    z.string(),
    z.object({
      external_name: z.string(),
      state: z.enum(["in_sync", "changed", "missing", "unexpected", "pending", "present", "unreadable"]),
      owned: z.boolean().optional(),
      error_code: z.string().optional(),
      error_message: z.string().optional(),
    }),
  ),
  counters: z.record(z.string(), z.int()).describe("How many objects are in each state."),
  next: z.string().describe("Behind what the next page begins; empty on the last one."),
});

const Stored = z.object({
  objects: z.record(z.string(), z.object({ value: z.string(), tags: texts, updated_at: time })),
});

/** Fields required by a type that its schema checks only while parsing. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  "cloud-b-kv": ["key_vault_uri", "client_id", "client_secret", "tenant_id"],
  "cloud-c-sm": ["credentials"],
};

/** The body of a destination, one schema per type: common fields, and the type's own. */
function bodies(patch: boolean): JsonSchema {
  const writer = new SchemaWriter();
  const common = writer.input(CommonFields)["properties"] as Record<string, JsonSchema>;
  const schemas = [...destinationTypes.values()].map(({ type, connection }): JsonSchema => {
    const own = writer.input(connection);
    const required = [...((own["required"] as string[] | undefined) ?? []), ...(REQUIRED[type] ?? [])];
    return {
      type: "object",
      title: type,
      properties: {
        ...(own["properties"] as Record<string, JsonSchema>),
        ...common,
        ...(patch && { tags_to_remove: { type: "array", items: { type: "string" } } }),
        dry_run: { type: "boolean", description: "Answers a plan, and changes nothing." },
      },
      ...(!patch && required.length > 0 && { required: [...new Set(required)] }),
    };
  });
  return { description: "By the type in the path.", anyOf: schemas };
}

const dryRun = {
  dry_run: flag("Answers a plan, and changes nothing."),
  after: text("Of a plan: only what comes behind this."),
};
const written = data("The destination; of a dry run its plan.", z.union([Destination, Plan]));

export const sync = group(
  "Sync",
  {
    type: `The destination's type: ${TYPES.map((type) => `\`${type}\``).join(", ")}.`,
    name: "The destination's name.",
  },
  {
    "GET /sys/sync/config": {
      id: "readSyncConfig",
      summary: "Reads the global configuration of sync",
      description: ADMIN,
      answers: config,
    },
    "PATCH /sys/sync/config": {
      id: "patchSyncConfig",
      summary: "Pauses sync, or bounds its queue",
      description: `${ADMIN} Once a pause has answered, no call to a provider starts.`,
      body: {
        fields: {
          disabled: "Operations wait as PENDING; null is the default, false.",
          queue_capacity: "Null is the default, 1000000.",
        },
      },
      answers: config,
    },
    "DELETE /sys/sync/config": {
      id: "resetSyncConfig",
      summary: "Sets the global configuration to its defaults",
      description: ADMIN,
      answers: config,
    },
    "LIST /sys/sync/destinations": {
      id: "listDestinations",
      summary: "Lists the destinations by type",
      answers: data(
        "Types, each with a slash, and the names of each.",
        keysOf({ key_info: z.record(z.string(), z.array(z.string())), total_destinations: z.int() }),
      ),
    },
    "LIST /sys/sync/destinations/:type": {
      id: "listDestinationsOfType",
      summary: "Lists the destinations of one type",
      answers: data("Their names.", keysOf({ total_destinations: z.int() })),
    },
    "GET /sys/sync/destinations/:type/:name": {
      id: "readDestination",
      summary: "Reads a destination",
      answers: data("The destination.", Destination),
    },
    "POST /sys/sync/destinations/:type/:name": {
      id: "writeDestination",
      summary: "Creates or changes a destination",
      description: "Fields that are left out, or that read `*****`, stay as they are.",
      query: dryRun,
      body: { schema: bodies(false) },
      answers: written,
      errors: [409, 502],
    },
    "PATCH /sys/sync/destinations/:type/:name": {
      id: "patchDestination",
      summary: "Changes parts of a destination",
      description: "A JSON merge patch (RFC 7396): null clears a field.",
      query: dryRun,
      body: { schema: bodies(true) },
      answers: written,
      errors: [409, 502],
    },
    "DELETE /sys/sync/destinations/:type/:name": {
      id: "deleteDestination",
      summary: "Deletes a destination",
      description:
        "Refused while it has associations, unless `purge` unsyncs them first; that goes on behind the answer.",
      query: {
        purge: flag("Removes the secrets there, then the associations, then the destination."),
        force_delete: flag("Deletes it without removing anything there."),
        dry_run: flag("Is refused: only what is written can be looked at ahead."),
      },
      answers: noContent,
    },
    "POST /sys/sync/destinations/:type/:name/verify": {
      id: "verifyDestination",
      summary: "Tries the credentials and the target of a destination",
      answers: data("Whether it works, and if not, why.", Verdict),
    },
    "GET /sys/sync/destinations/:type/:name/drift": {
      id: "readDrift",
      summary: "Compares what was pushed with what is there",
      query: {
        after: text("Only what comes behind this."),
        limit: { ...count("Objects to a page.", 1), schema: { type: "integer", minimum: 1, maximum: 100 } },
      },
      answers: data("Objects by association.", Drift),
    },
    "GET /sys/sync/destinations/in-mem/:name/objects": {
      id: "readStoredObjects",
      summary: "Reads what a destination of type `in-mem` holds",
      answers: data("Objects by name.", Stored),
    },
    "LIST /sys/sync/repo-host-apps": {
      id: "listRepoHostApps",
      summary: "Lists the custom applications of the repository host",
      answers: data("Their names.", keys),
    },
    ...apps(),
  },
);

function apps() {
  const App = z
    .object({ name: z.string(), app_id: z.int(), fingerprint: z.string(), private_key: z.literal("*****") })
    .meta({ id: "RepoHostApp" });
  const path = { name: "The application's name." };
  const answers = data("The application.", App);
  return {
    "POST /sys/sync/repo-host-apps/:name": {
      id: "writeRepoHostApp",
      summary: "Configures a custom application of the repository host",
      path,
      body: {
        fields: {
          app_id: { type: "integer", minimum: 1, description: "As the repository host issued it." },
          private_key: "PEM.",
        },
      },
      answers,
    },
    "GET /sys/sync/repo-host-apps/:name": {
      id: "readRepoHostApp",
      summary: "Reads a custom application",
      path,
      answers,
    },
    "DELETE /sys/sync/repo-host-apps/:name": {
      id: "deleteRepoHostApp",
      summary: "Forgets a custom application; refused while a destination names it",
      path,
      answers: noContent,
    },
  };
}
