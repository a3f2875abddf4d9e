import { allowsOperator } from "../access/cluster-rights.ts";
import { parseReports } from "../cluster/report-body.ts";
import { unwrap } from "../http/errors.ts";
import { clusterJson } from "../http/respond.ts";
import { cluster } from "../http/route.ts";
import { clusterRegistry } from "../objects/stubs.ts";

/** Where a scheduler outside reports what it does. */
export const clusterObjectRoutes = [
  cluster<string>({
    verb: "POST",
    path: "/cluster/objects",
    rights: (rights) => allowsOperator(rights, "write"),
    fresh: true,
    raw: true,
    handle: async (call, text) => {
      const source = call.query.get("source");
      const index = Number(call.query.get("source_index"));
      const taken = unwrap(
        await clusterRegistry(call.env).ingest(source ? { name: source, index } : null, parseReports(text)),
      );
      return clusterJson(call, { Index: taken.index, Applied: taken.applied }, { index: taken.index });
    },
  }),
];
