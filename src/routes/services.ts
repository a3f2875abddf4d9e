import * as z from "zod";
import { type Choice, choiceOf, firstOf, MAX_CHOSEN, type Ranked, rankOf } from "../cluster/reports/chosen-services.ts";
import { type Fields, textOf } from "../cluster/reports/topics/topic.ts";
import { parseLossless } from "../lib/json.ts";
import { badRequest } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { readQuery } from "../platform/http/read-query.ts";
import { allowsNamespace } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import type { Reading } from "./server/blocking.ts";
import { ALL, blockingRead, inNamespace, listReported, mayList, namespaceOf } from "./server/cluster-reads.ts";
import { everyPage } from "./server/listing.ts";
import { clusterJson } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Service registrations as reported by schedulers. */

const ROWS_PER_READ = 1_000;
const ChoiceQuery = z.object({ choose: query.text(), prefix: query.text() });

const tagsOf = (service: Fields): readonly string[] => (service["Tags"] as readonly string[] | null | undefined) ?? [];

/** Visits each registration that the caller may see. Costs a walk over all of them. @returns the index of the table */
async function eachRegistration(
  call: AuthorisedCall,
  visit: (service: Fields, namespace: string) => void,
): Promise<number> {
  const registry = clusterRegistry(call.env);
  const namespace = namespaceOf(call) === ALL ? null : namespaceOf(call);
  let index = 0;
  const read = (from: string) => registry.reported({ topic: "Service", namespace, from, limit: ROWS_PER_READ });
  for await (const page of everyPage(read)) {
    for (const { namespace: held, body } of page.rows) {
      if (allowsNamespace(call.grant.cluster, held, "read-job")) visit(parseLossless(body) as Fields, held);
    }
    index = Math.max(index, page.index);
  }
  return index;
}

/** The names of services with their distinct tags, by namespace. */
async function readNames(call: AuthorisedCall): Promise<Reading> {
  const namespaces = new Map<string, Map<string, Set<string>>>();
  const index = await eachRegistration(call, (service, held) => {
    const names = namespaces.get(held) ?? new Map<string, Set<string>>();
    const name = textOf(service, "ServiceName");
    namespaces.set(held, names.set(name, new Set([...(names.get(name) ?? []), ...tagsOf(service)])));
  });
  const sorted = <Value>(map: Map<string, Value>) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));
  const found = sorted(namespaces).map(([Namespace, names]) => ({
    Namespace,
    Services: sorted(names).map(([ServiceName, tags]) => ({ ServiceName, Tags: [...tags].sort() })),
  }));
  return { index, respond: () => clusterJson(call, found, { index }) };
}

/** The registrations of a service that the caller's key chooses. */
async function readChosen(call: AuthorisedCall<"name">, choice: Choice): Promise<Reading> {
  let chosen: Ranked[] = [];
  const index = await eachRegistration(call, (service) => {
    if (textOf(service, "ServiceName") !== call.params.name) return;
    chosen.push({ rank: rankOf(service, choice.key), service });
    if (chosen.length > 2 * MAX_CHOSEN) chosen = firstOf(chosen, choice);
  });
  const found = firstOf(chosen, choice).map(({ service }) => service);
  return { index, respond: () => clusterJson(call, found, { index }) };
}

function registrationsOf(call: AuthorisedCall<"name"> & Asked<typeof ChoiceQuery>): Promise<Response> {
  const { choose, prefix } = call.asked;
  if (choose === "") {
    return listReported(call, {
      topic: "Service",
      right: "read-job",
      wanted: (service) => textOf(service, "ServiceName") === call.params.name,
    });
  }
  const { perPage, nextToken, filter, reverse } = readQuery(call.query);
  if (perPage > 0 || nextToken !== "" || filter !== "" || reverse || prefix !== "")
    throw badRequest("choose: cannot be given together with a page, a filter or a prefix");
  const choice = choiceOf(choose);
  return blockingRead(["Service"], () => readChosen(call, choice))(call);
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

const mayReadJobs = inNamespace("read-job");

export const serviceRoutes = [
  cluster("GET /services", { rights: mayList("read-job") }, blockingRead(["Service"], readNames)),
  cluster("GET /service/:name", { query: ChoiceQuery, rights: mayReadJobs }, registrationsOf),
  cluster("GET /allocation/:id/services", { rights: mayReadJobs }, listOfAllocation),
];
