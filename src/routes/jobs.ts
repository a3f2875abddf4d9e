import { allowsNamespace } from "../access/cluster-rights.ts";
import { notFound } from "../http/errors.ts";
import { clusterJson } from "../http/respond.ts";
import { cluster } from "../http/route.ts";
import { clusterRegistry } from "../objects/stubs.ts";

export const jobRoutes = [
  cluster({
    verb: "GET",
    path: "/job/:id",
    rights: (rights, call) => allowsNamespace(rights, call.query.get("namespace") || "default", "read-job"),
    handle: async (call) => {
      const namespace = call.query.get("namespace") || "default";
      const found = await clusterRegistry(call.env).readReported("Job", call.params["id"] ?? "", namespace);
      if (!found) throw notFound("job not found");
      return clusterJson(call, JSON.parse(found.body), { index: found.modifyIndex });
    },
  }),
];
