import * as z from "zod";
import { Lease } from "../../wire/auth.ts";
import { keys } from "../../wire/shapes.ts";
import { data, group, noContent, type Operation, warned, word } from "../operation.ts";

/** One operation at several paths: with the lease's id in the body or in the path, and under its legacy path. */
const under = (paths: readonly string[], id: string, operation: Omit<Operation, "id">) =>
  Object.fromEntries(
    paths.map((path): [string, Operation] => {
      const old = path.startsWith("/sys/leases/") ? "" : "Old";
      const byId = path.endsWith("/:id+") ? "ById" : "";
      return [`POST ${path}`, { ...operation, id: `${id}${byId}${old}` }];
    }),
  );
const both = (name: string): string[] => [`/sys/leases/${name}`, `/sys/${name}`];
const byId = (name: string): string[] => [...both(name), ...both(`${name}/:id+`)];

const ID = "The lease's id, unless the path has it.";
const SYNC = "Answers when it is done; otherwise at once, with 202.";

const accepted = warned("Accepted; continues in the background.", 202);

const behind = warned(
  "Resources may remain, because the provider does not list recently created ones yet. The check is repeated.",
);

export const leases = group(
  "Leases",
  {
    id: "The lease's id, such as `cloud-b/creds/app/hLNrXPdZ…`.",
    prefix: "What the leases' ids begin with, by whole segments, such as `cloud-b/creds/app`.",
  },
  {
    "GET /sys/leases": {
      id: "listIrrevocableLeases",
      summary: "List leases that could not be revoked",
      query: {
        type: word("Required.", "irrevocable"),
        limit: "Maximum number of leases, or `none`; 10000 without it.",
      },
      answers: data(
        "The leases with the accessors of their mounts and their last failures. `lease_count` counts all of them.",
        z.object({
          lease_count: z.int(),
          leases: z.array(z.object({ lease_id: z.string(), mount_id: z.string(), error: z.string() })),
        }),
      ),
    },
    "GET /sys/leases/count": {
      id: "countLeases",
      summary: "Count leases by mount",
      query: { type: word("Which ones; all without it.", "irrevocable") },
      answers: data(
        "Counts, by the mounts' paths; of irrevocable leases, by their accessors.",
        z.object({ lease_count: z.int(), counts: z.record(z.string(), z.int()) }),
      ),
    },
    ...under(["/sys/leases/lookup", "/sys/leases/lookup/:id+"], "lookupLease", {
      summary: "Look up a lease",
      body: { fields: { lease_id: ID } },
      answers: data("The lease.", Lease),
    }),
    "LIST /sys/leases/lookup": {
      id: "listLeaseMounts",
      summary: "List mounts with leases",
      answers: data("Mount paths.", keys),
    },
    "LIST /sys/leases/lookup/:prefix+": {
      id: "listLeases",
      summary: "List lease names below a prefix",
      answers: data("Segments of lease ids.", keys),
    },
    ...under(byId("renew"), "renewLease", {
      summary: "Renew a lease",
      body: { fields: { lease_id: ID, increment: "How long it shall last from now; 0 is the role's own time." } },
      answers: warned("Renewed; the envelope contains the lease."),
    }),
    ...under(byId("revoke"), "revokeLease", {
      summary: "Revoke a lease",
      body: { fields: { lease_id: ID, sync: SYNC } },
      answers: { ...noContent, ...accepted, ...behind },
      errors: [502, 504],
    }),
    ...under(both("revoke-prefix/:prefix+"), "revokeLeases", {
      summary: "Revoke all leases under a prefix",
      body: { fields: { sync: SYNC } },
      answers: { ...noContent, ...accepted, ...behind },
      errors: [504],
    }),
    ...under(both("revoke-force/:prefix+"), "forgetLeases", { summary: "Force-revoke all leases under a prefix" }),
    "POST /sys/leases/tidy": {
      id: "tidyLeases",
      summary: "Tidy leases (no-op)",
      answers: accepted,
    },
  },
);
