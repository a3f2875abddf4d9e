import { type Fields, textOf } from "../cluster/reports/topics/topic.ts";
import { parseLossless } from "../lib/json.ts";
import { allowsNamespace } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { blocking, type Reading } from "./server/blocking.ts";
import { ALL, listReported, mayList, namespaceOf } from "./server/cluster-reads.ts";
import { clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, cluster } from "./server/route.ts";

/** Service registrations as reported by schedulers. */

const ROWS_PER_READ = 1_000;

const tagsOf = (service: Fields): readonly string[] => (service["Tags"] as readonly string[] | null | undefined) ?? [];

/** The names of services with their distinct tags, by namespace. Costs a walk over all registrations. */
async function readNames(call: AuthorisedCall): Promise<Reading> {
  const registry = clusterRegistry(call.env);
  const namespace = namespaceOf(call) === ALL ? null : namespaceOf(call);
  const namespaces = new Map<string, Map<string, Set<string>>>();
  let index = 0;
  for (let from: string | null = ""; from !== null; ) {
    const page = await registry.reported({ topic: "Service", namespace, from, limit: ROWS_PER_READ });
    for (const { namespace: held, body } of page.rows) {
      if (!allowsNamespace(call.grant.cluster, held, "read-job")) continue;
      const service = parseLossless(body) as Fields;
      const names = namespaces.get(held) ?? new Map<string, Set<string>>();
      const name = textOf(service, "ServiceName");
      namespaces.set(held, names.set(name, new Set([...(names.get(name) ?? []), ...tagsOf(service)])));
    }
    index = Math.max(index, page.index);
    from = page.next;
  }
  const sorted = <Value>(map: Map<string, Value>) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));
  const found = sorted(namespaces).map(([Namespace, names]) => ({
    Namespace,
    Services: sorted(names).map(([ServiceName, tags]) => ({ ServiceName, Tags: [...tags].sort() })),
  }));
  return { index, respond: () => clusterJson(call, found, { index }) };
}

/** The registrations of an allocation in the requested namespace; empty when it is unknown. */
async function listOfAllocation(call: AuthorisedCall<"id">): Promise<Response> {
  const id = call.params.id;
  const { object } = await clusterRegistry(call.env).readReported("Allocation", id, namespaceOf(call), true);
  return listReported(call, {
    topic: "Service",
    job: object?.jobId ?? "",
    right: "read-job",
    wanted: (service) => textOf(service, "AllocID") === id,
  });
}

const mayReadJobs = (rights: AuthorisedCall["grant"]["cluster"], call: AuthorisedCall): boolean =>
  allowsNamespace(rights, namespaceOf(call), "read-job");

export const serviceRoutes = [
  cluster({
    verb: "GET",
    path: "/services",
    rights: mayList("read-job"),
    handle: (call) =>
      blocking(
        call,
        () => readNames(call),
        (since, waitMs) => clusterRegistry(call.env).changed(["Service"], since, waitMs),
      ),
  }),
  cluster({
    verb: "GET",
    path: "/service/:name",
    rights: mayReadJobs,
    handle: (call) =>
      listReported(call, {
        topic: "Service",
        right: "read-job",
        wanted: (service) => textOf(service, "ServiceName") === call.params.name,
      }),
  }),
  cluster({ verb: "GET", path: "/allocation/:id/services", rights: mayReadJobs, handle: listOfAllocation }),
];
