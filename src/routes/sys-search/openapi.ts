import * as z from "zod";
import { data, group } from "../../openapi/operation.ts";
import { sysSearchExamples } from "./examples.ts";
import { TYPES } from "./search.ts";

const Hit = z.object({
  type: z.enum(TYPES),
  name: z.string().describe("A secret's path in its mount, else the name."),
  namespace: z.string().describe("With a trailing slash; for volumes and jobs that of the cluster."),
  mount: z.string().describe("With a trailing slash; empty for objects that are in no mount."),
  path: z.string().describe("The path of the API that reads the object, inside its namespace."),
});

const Found = z.object({
  hits: z.array(Hit),
  next: z.string().describe("For `after`; empty at the end. A page may have fewer hits than its limit, or none."),
  not_searched: z
    .array(z.object({ type: z.enum(TYPES), needs: z.string() }))
    .describe("Types that the token may not list, with the right that it lacks."),
});

export const sysSearch = group(
  "System",
  {},
  {
    "GET /sys/search": {
      id: "searchNames",
      summary: "Find objects by name",
      description:
        "In the namespace of the request and those below it, with the rights of the token: a secret is found with `list` " +
        "on its folder or `read` on its path. Names of secrets and roles appear a moment after the change.",
      query: {
        q: "Words that the name has, in any case; for secrets and policies anywhere in the path.",
        type: `Some of ${TYPES.join(", ")}, separated by commas; default: all.`,
        namespace: "A namespace below that of the request.",
        mount: "Secrets and roles of this mount of the namespace alone.",
        limit: "Hits of the page.",
        after: "`next` of the page before.",
      },
      answers: data("What was found: secrets first, by mount.", Found),
      errors: [503],
    },
  },
  sysSearchExamples,
);
