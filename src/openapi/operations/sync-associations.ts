import * as z from "zod";
import { keysOf, time } from "../../wire/shapes.ts";
import { Association, explanation, Planned, status } from "../../wire/sync.ts";
import { data, group, type Operation } from "../operation.ts";

const Associations = z
  .object({
    store_name: z.string(),
    store_type: z.string(),
    associated_secrets: z.record(z.string(), Association).describe("By accessor, secret and key."),
    sync_operation_counters: z.record(z.string(), z.int()).describe("How many are in each status."),
    next: z.string().optional().describe("Behind which the next page begins; empty on the last one."),
  })
  .meta({ id: "Associations" });

const DestinationsOfSecret = z
  .object({
    associated_destinations: z.record(
      z.string(),
      z.object({
        type: z.string(),
        name: z.string(),
        sync_status: status.describe("The worst of its keys."),
        updated_at: time,
        ...explanation,
        external_name: z.string().optional().describe("Absent with granularity `secret-key`."),
        sub_keys: z
          .record(
            z.string(),
            z.object({ sync_status: status, external_name: z.string(), updated_at: time, ...explanation }),
          )
          .optional(),
      }),
    ),
  })
  .meta({ id: "DestinationsOfSecret" });

const NO_PLAN = "Refused: only `set` has a dry run.";

const SELECTOR =
  "Instead of `secret_name`, for up to 1000 secrets at once: `path_prefix`, `path_glob`, `exclude_glob`, `metadata_selector` and `match_all`, as of a rule.";

const Skipped = z
  .array(z.object({ secret_name: z.string(), reason: z.string() }))
  .describe("With `selector`: secrets that match and were not set.");

const fields = {
  mount: "The mount's path.",
  secret_name: "The secret's path in it.",
  dry_run: "Returns a plan without changes.",
};
const ofSecret: Pick<Operation, "answers"> = { answers: data("Destinations, by type and name.", DestinationsOfSecret) };

export const associations = group(
  "Sync",
  { type: "The destination's type.", name: "The destination's name." },
  {
    "GET /sys/sync/destinations/:type/:name/associations": {
      id: "readAssociations",
      summary: "List associations of a destination",
      query: {
        after: "Entries after this one.",
        limit: "Page size; default: all associations.",
      },
      answers: data("The associations.", Associations),
    },
    "POST /sys/sync/destinations/:type/:name/associations/set": {
      id: "setAssociation",
      summary: "Sync a secret",
      description:
        "Also requires read access to the secret; with `selector` to every secret that it can match. Secrets that match later do not follow: use a rule for that.",
      query: {
        dry_run: "Returns a plan without changes.",
        after: "With `selector` and `dry_run`: `next` of the page before.",
      },
      body: { fields: { ...fields, selector: SELECTOR } },
      answers: data(
        "The association, or those of a selector; of a dry run the plan.",
        z.union([
          Associations.extend({ skipped: Skipped.optional() }),
          z.object({
            dry_run: z.literal(true),
            planned: z.array(Planned),
            summary: z
              .record(z.string(), z.int())
              .optional()
              .describe("With `selector`: how many secrets have each action."),
            next: z.string().optional().describe("With `selector`: `after` of the next page; empty on the last one."),
          }),
        ]),
      ),
      errors: [502],
    },
    "POST /sys/sync/destinations/:type/:name/associations/remove": {
      id: "removeAssociation",
      summary: "Remove a secret from a destination",
      description: "A missing association counts as removed.",
      query: { dry_run: NO_PLAN },
      body: { fields: { mount: fields.mount, secret_name: fields.secret_name } },
      answers: data("The final state of the association.", Associations),
    },
    "LIST /sys/sync/associations": {
      id: "listAssociatedSecrets",
      summary: "List associated secrets",
      answers: data(
        "Secrets, with their mounts.",
        keysOf({
          key_info: z.record(z.string(), z.array(z.object({ mount: z.string(), secret_path: z.string() }))),
          total_associations: z.int(),
          total_secrets: z.int(),
        }),
      ),
    },
    "GET /sys/sync/associations/destinations": {
      id: "readDestinationsOfSecret",
      summary: "List destinations of a secret by query",
      query: { mount: "The mount's path.", secret_name: "The secret's path in it." },
      ...ofSecret,
    },
    "GET /sys/sync/associations/:mount/:name": {
      id: "readDestinationsOfSecretByPath",
      summary: "List destinations of a secret",
      path: { mount: "The mount's path, its slashes encoded.", name: "The secret's path, its slashes encoded." },
      ...ofSecret,
    },
    "GET /sys/sync/associations/:path+": {
      id: "readDestinationsOfSecretByWholePath",
      summary: "List destinations of a secret (paths with slashes)",
      path: { path: "The mount's path, and the secret's in it." },
      ...ofSecret,
    },
  },
);
