import * as z from "zod";
import { data, group } from "../operation.ts";

const Listings = z.object({
  destinations: z.int().describe("Destinations that there are."),
  listed_destinations: z.int(),
  listed_associations: z.int(),
  listed_names: z.int().describe("Names of secrets and roles, for the search."),
  behind: z
    .int()
    .describe("Destinations and mounts that are not complete yet. They continue, and a repeat waits for them."),
});

const Restored = z.object({
  snapshot: z.string(),
  taken: z.string().describe("When the snapshot was taken."),
  objects: z.int(),
  rows: z.int(),
  listings: Listings.nullable().describe("Null when the lists could not be made yet."),
});

const Stored = z.object({
  keys: z.array(z.string()),
  key_info: z.record(z.string(), z.object({ taken: z.string(), bytes: z.int() })),
});

export const backup = group(
  "System",
  {},
  {
    "GET /sys/snapshot": {
      id: "takeSnapshot",
      summary: "Take a snapshot",
      description:
        "A sealed file of one moment (docs/operate/backup.md). Writes may be refused with 503 for seconds as it begins.",
      answers: { 200: { kind: "text", description: "The snapshot file.", type: "application/octet-stream" } },
      errors: [409],
    },
    "LIST /sys/snapshot": {
      id: "listStoredSnapshots",
      summary: "List the scheduled snapshots",
      description: "The objects of the bucket SNAPSHOT_BUCKET, of all deployments that use it, the oldest first.",
      answers: data("Their names, with the time and the size of each.", Stored),
      errors: [400, 404],
    },
    "POST /sys/snapshot": {
      id: "restoreSnapshot",
      summary: "Restore a snapshot into an empty deployment",
      description: "The whole file is checked before anything changes. Requires the same MASTER_KEY.",
      query: { object: "Name of an object of the bucket SNAPSHOT_BUCKET, instead of a body." },
      body: { schema: { type: "string", format: "binary" } },
      answers: data("Numbers of restored objects.", Restored),
      errors: [409],
    },
    "DELETE /sys/snapshot": {
      id: "undoRestore",
      summary: "Roll back an unfinished restore",
      answers: { 204: { kind: "empty", description: "No content. The deployment is empty again." } },
      errors: [409],
    },
    "POST /sys/listings/rebuild": {
      id: "rebuildListings",
      summary: "Rebuild the listings",
      answers: data("Numbers of checked entries.", Listings),
    },
  },
);
