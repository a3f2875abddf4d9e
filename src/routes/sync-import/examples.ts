import type { Examples } from "../../openapi/example.ts";

const TAKES = "sync-import › writes what it finds as secrets, and adopts it";

export const importExamples: Examples = {
  "POST /sys/sync/destinations/:type/:name/import": {
    right: "update",
    body: { mount: "kv", name_glob: ["**"] },
    effects: {
      mount: TAKES,
      name_glob: TAKES,
      path_prefix: TAKES,
      exclude_glob: TAKES,
      dry_run: "sync-import › says in a dry run what it would do, and does nothing",
      after: "sync-import › goes on page by page",
      limit: "sync-import › goes on page by page",
    },
  },
};
