import * as z from "zod";
import { data, group } from "../../openapi/operation.ts";
import { importExamples } from "./examples.ts";

const Imported = z.object({
  dry_run: z.boolean(),
  objects: z.array(
    z.object({
      external_name: z.string(),
      secret_name: z.string(),
      action: z
        .enum(["import", "adopt", "keep", "refuse"])
        .describe("`import`: written as a secret and adopted; `keep`: adopted already."),
      reason: z.string().optional(),
    }),
  ),
  counters: z.record(z.string(), z.int()).describe("How many objects have each action."),
  next: z.string().describe("The value of `after` for the next page; empty on the last one."),
});

export const syncImport = group(
  "Sync",
  { type: "The destination's type.", name: "The destination's name." },
  {
    "POST /sys/sync/destinations/:type/:name/import": {
      id: "importObjects",
      summary: "Import a provider's objects as secrets",
      description:
        "One page. Also requires `create` on `data/` and `metadata/` of each path that is written; objects of other paths are refused by name. May be repeated: nothing is written twice.",
      query: { dry_run: "Returns what would be done." },
      body: {
        fields: {
          mount: "The path of a KV version 2 mount.",
          path_prefix: "Before the name of each object in the path of its secret, such as `imported/`.",
          name_glob: "Objects with these names: `*` is a part of a segment, `**` any text, `?` one character.",
          exclude_glob: "Objects that are left alone.",
          after: "`next` of the page before.",
          limit: "Objects of a page.",
          dry_run: "Returns what would be done. Reads no value.",
        },
      },
      answers: data("The objects of the page, by name.", Imported),
    },
  },
  importExamples,
);
