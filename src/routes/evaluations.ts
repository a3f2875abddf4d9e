import { type Fields, textOf } from "../cluster/reports/topics/topic.ts";
import { allowsNamespaceAny } from "../contracts/cluster-rights.ts";
import { badRequest } from "../platform/http/errors.ts";
import { listReported, mayList, namespaceOf, readOne } from "./server/cluster-reads.ts";
import { type AuthorisedCall, cluster } from "./server/route.ts";

/** Evaluations as reported by schedulers. */

async function list(call: AuthorisedCall): Promise<Response> {
  const job = call.query.get("job") ?? "";
  const status = call.query.get("status") ?? "";
  if ((job !== "" || status !== "") && (call.query.get("filter") ?? "") !== "") {
    throw badRequest("Filter expression cannot be used with other filter parameters");
  }
  const fits = (object: Fields, field: string, value: string) => value === "" || textOf(object, field) === value;
  // Within one namespace, an index finds a job's evaluations.
  const found = job !== "" && namespaceOf(call) !== "*" && !call.query.get("prefix") ? { job } : {};
  return listReported(call, {
    ...{ topic: "Evaluation", right: "read-job", hexPrefix: true, ...found },
    wanted: (object) => fits(object, "JobID", job) && fits(object, "Status", status),
  });
}

export const evaluationRoutes = [
  cluster({ verb: "GET", path: "/evaluations", rights: mayList("read-job"), handle: list }),
  cluster({
    verb: "GET",
    path: "/evaluation/:id",
    rights: (rights) => allowsNamespaceAny(rights, ["read-job"]),
    handle: (call) =>
      readOne(call, {
        ...{ topic: "Evaluation", id: call.params["id"] ?? "" },
        ...{ right: "read-job", missing: "eval not found" },
      }),
  }),
];
