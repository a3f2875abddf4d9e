import * as z from "zod";
import { evaluationStub } from "../cluster/reports/list-views.ts";
import { type Fields, textOf } from "../cluster/reports/topics/topic.ts";
import { parseLossless } from "../lib/json.ts";
import { badRequest } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { readQuery } from "../platform/http/read-query.ts";
import { allowsNamespaceAny } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { listReported, mayList, namespaceOf, readOne } from "./server/cluster-reads.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Evaluations as reported by schedulers. */

const ListQuery = z.object({ job: query.text(), status: query.text(), prefix: query.text() });

async function list(call: AuthorisedCall & Asked<typeof ListQuery>): Promise<Response> {
  const { job, status, prefix } = call.asked;
  if ((job !== "" || status !== "") && readQuery(call.query).filter !== "") {
    throw badRequest("Filter expression cannot be used with other filter parameters");
  }
  const fits = (object: Fields, field: string, value: string) => value === "" || textOf(object, field) === value;
  // Within one namespace, an index finds a job's evaluations.
  const found = job !== "" && namespaceOf(call) !== "*" && prefix === "" ? { job } : {};
  return listReported(call, {
    topic: "Evaluation",
    right: "read-job",
    hexPrefix: true,
    ...found,
    wanted: (object) => fits(object, "JobID", job) && fits(object, "Status", status),
  });
}

const LINKS = ["PreviousEval", "NextEval", "BlockedEval"] as const;
const MAX_RELATED = 100;

const linksOf = (evaluation: Fields): string[] => LINKS.map((link) => textOf(evaluation, link)).filter(Boolean);

/** The evaluations that are linked with this one, directly or by others; nearest first. */
async function related(call: AuthorisedCall, evaluation: Fields): Promise<Fields[]> {
  const registry = clusterRegistry(call.env);
  const namespace = textOf(evaluation, "Namespace");
  const seen = new Set([textOf(evaluation, "ID")]);
  const found: Fields[] = [];
  let next = linksOf(evaluation);
  while (next.length > 0 && found.length < MAX_RELATED) {
    const ids = [...new Set(next)].filter((id) => !seen.has(id)).slice(0, MAX_RELATED - found.length);
    for (const id of ids) seen.add(id);
    const read = await Promise.all(ids.map((id) => registry.readReported("Evaluation", id, namespace, true)));
    const level = read.flatMap(({ object }) => (object ? [parseLossless(object.body) as Fields] : []));
    found.push(...level);
    next = level.flatMap(linksOf);
  }
  return found;
}

async function withRelated(call: AuthorisedCall, evaluation: Fields): Promise<Fields> {
  return { ...evaluation, RelatedEvals: (await related(call, evaluation)).map(evaluationStub) };
}

export const evaluationRoutes = [
  cluster("GET /evaluations", { rights: mayList("read-job"), query: ListQuery }, list),
  cluster(
    "GET /evaluation/:id",
    {
      rights: (rights) => allowsNamespaceAny(rights, ["read-job"]),
      query: z.object({ related: query.goFlag(undefined, { bare: true }) }),
    },
    async (call) => {
      const extend = call.asked.related && ((evaluation: Fields) => withRelated(call, evaluation));
      return readOne(call, {
        topic: "Evaluation",
        id: call.params.id,
        right: "read-job",
        missing: "eval not found",
        ...(extend && { extend }),
      });
    },
  ),
];
