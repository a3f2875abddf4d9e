import * as z from "zod";
import { CommonFields } from "../../sync/configuration/definition.ts";
import { destinationTypes } from "../../sync/destinations/index.ts";
import { keysOf, texts, time } from "../../wire/shapes.ts";
import { Config, Planned } from "../../wire/sync.ts";
import { type JsonSchema, SchemaWriter } from "../json-schema.ts";
import { data, group } from "../operation.ts";

const TYPES = [...destinationTypes.keys()];

const config = data("The configuration in force.", Config);
const ADMIN = "Only in the root namespace and in the administrative one (`ADMIN_NAMESPACE`).";

const Destination = z
  .object({
    name: z.string(),
    type: z.enum(TYPES),
    connection_details: z.record(z.string(), z.unknown()).describe("Sensitive ones read `*****`."),
    identity_token: z
      .object({ issuer: z.string(), subject: z.string(), audience: z.string() })
      .optional()
      .describe("The claims that the provider must trust; in reads of a destination without stored credentials."),
    options: z.object({
      granularity_level: z.enum(["secret-path", "secret-key"]),
      secret_name_template: z.string().describe("The template in use, also a default of the type."),
      custom_tags: texts,
      update_policy: z.enum(["replace", "if-not-exists", "owned-only"]),
      deletion_policy: z.enum(["delete", "retain"]),
      credentials_expire_at: time.optional().describe("End of the login at the provider; absent while not known."),
      allowed_ipv4_addresses: z.array(z.string()).optional(),
      allowed_ipv6_addresses: z.array(z.string()).optional(),
      allowed_ports: z.array(z.int()).optional(),
      disable_strict_networking: z.boolean().optional(),
    }),
    purge_initiated_at: time.optional(),
    purge_error: z.string().optional(),
    circuit_breaker: z.object({ failures: z.int(), next_attempt_at: time }).optional(),
  })
  .meta({ id: "Destination" });

const Plan = z.object({
  dry_run: z.literal(true),
  planned: z.array(Planned),
  next: z.string().describe("The value of `after` for the next page; empty on the last one."),
});

const Verdict = z.object({
  ok: z.boolean(),
  error_code: z.string().optional(),
  message: z.string(),
  retried_until: time.optional().describe("Until when a refusal of fresh rights is retried."),
});

const Drift = z.object({
  objects: z.record(
    z.string(),
    z.object({
      external_name: z.string(),
      state: z.enum([
        "in_sync",
        "changed",
        "missing",
        "unexpected",
        "pending",
        "present",
        "unreadable",
        "clean_up_owed",
      ]),
      owned: z.boolean().optional(),
      origins: z.array(z.string()).optional().describe("`manual` and `rule:<name>`; absent without a rule."),
      error_code: z.string().optional(),
      error_message: z.string().optional(),
    }),
  ),
  counters: z.record(z.string(), z.int()).describe("How many objects are in each state."),
  origins: z
    .record(z.string(), z.record(z.string(), z.int()))
    .optional()
    .describe("The same by origin; absent without rules. An object of several origins counts for each."),
  next: z.string().describe("The value of `after` for the next page; empty on the last one."),
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
        dry_run: { type: "boolean", description: "Returns a plan without changes." },
      },
      ...(!patch && required.length > 0 && { required: [...new Set(required)] }),
    };
  });
  return { description: "Fields depend on the type in the path.", anyOf: schemas };
}

const dryRun = {
  dry_run: "Returns a plan without changes.",
  after: "Of a dry run: entries after this one.",
};
const written = data("The destination; for a dry run, the plan.", z.union([Destination, Plan]));

export const sync = group(
  "Sync",
  {
    type: `The destination's type: ${TYPES.map((type) => `\`${type}\``).join(", ")}.`,
    name: "The destination's name.",
  },
  {
    "GET /sys/sync/config": {
      id: "readSyncConfig",
      summary: "Read the sync configuration",
      description: ADMIN,
      answers: config,
    },
    "PATCH /sys/sync/config": {
      id: "patchSyncConfig",
      summary: "Update the sync configuration (pause, queue capacity)",
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
      summary: "Reset the sync configuration",
      description: ADMIN,
      answers: config,
    },
    "LIST /sys/sync/destinations": {
      id: "listDestinations",
      summary: "List destinations by type",
      answers: data(
        "Types, each with a slash, and the names of each.",
        keysOf({ key_info: z.record(z.string(), z.array(z.string())), total_destinations: z.int() }),
      ),
    },
    "LIST /sys/sync/destinations/:type": {
      id: "listDestinationsOfType",
      summary: "List destinations of one type",
      answers: data("Their names.", keysOf({ total_destinations: z.int() })),
    },
    "GET /sys/sync/destinations/:type/:name": {
      id: "readDestination",
      summary: "Read a destination",
      answers: data("The destination.", Destination),
    },
    "POST /sys/sync/destinations/:type/:name": {
      id: "writeDestination",
      summary: "Create or update a destination",
      description: "Omitted fields and `*****` keep their value.",
      query: dryRun,
      body: { schema: bodies(false) },
      answers: written,
      errors: [409, 502],
    },
    "PATCH /sys/sync/destinations/:type/:name": {
      id: "patchDestination",
      summary: "Patch a destination",
      description: "A JSON merge patch (RFC 7396): null clears a field.",
      query: dryRun,
      body: { schema: bodies(true) },
      answers: written,
      errors: [409, 502],
    },
    "DELETE /sys/sync/destinations/:type/:name": {
      id: "deleteDestination",
      summary: "Delete a destination",
      description:
        "Refused while it has associations, unless `purge` removes them first, which continues after the response.",
      query: {
        purge: "Removes the secrets there, then the associations, then the destination.",
        force_delete: "Deletes it without removing anything there.",
        dry_run: "Refused: only writes have a dry run.",
      },
    },
    "POST /sys/sync/destinations/:type/:name/verify": {
      id: "verifyDestination",
      summary: "Verify a destination's credentials and target",
      answers: data("The result of the check, with the reason of a failure.", Verdict),
    },
    "GET /sys/sync/destinations/:type/:name/drift": {
      id: "readDrift",
      summary: "Detect drift at a destination",
      query: {
        after: "Entries after this one.",
        limit: "Objects to a page.",
      },
      answers: data("Objects by association.", Drift),
    },
    "GET /sys/sync/destinations/in-mem/:name/objects": {
      id: "readStoredObjects",
      summary: "Read the objects of an `in-mem` destination",
      answers: data("Objects by name.", Stored),
    },
    "LIST /sys/sync/repo-host-apps": { id: "listRepoHostApps", summary: "List repository host apps" },
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
      summary: "Configure a repository host app",
      path,
      body: {
        fields: {
          app_id: { type: "integer", minimum: 1, description: "The id issued by the repository host." },
          private_key: "PEM.",
        },
      },
      answers,
    },
    "GET /sys/sync/repo-host-apps/:name": {
      id: "readRepoHostApp",
      summary: "Read a repository host app",
      path,
      answers,
    },
    "DELETE /sys/sync/repo-host-apps/:name": {
      id: "deleteRepoHostApp",
      summary: "Delete an unused repository host app",
      path,
    },
  };
}
