import * as z from "zod";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { allowsNamespace } from "../rights/cluster-rights.ts";
import { clusterRegistry } from "../rpc/stubs.ts";
import { claimFields, type ShownClaim, shownClaim } from "../volumes/host-claims/record.ts";
import { VOLUME_CLAIM } from "../volumes/host-claims/store.ts";
import type { Reading } from "./server/blocking.ts";
import {
  ALL,
  blockingRead,
  byNamespace,
  inNamespace,
  mayList,
  namespaceGiven,
  namespaceOf,
} from "./server/cluster-reads.ts";
import { readList } from "./server/listing.ts";
import { clusterEmpty } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, cluster } from "./server/route.ts";

/** Claims of task groups on sticky host volumes (docs/guides/sticky-claims.md). */

/** Our own dialect requires the namespace; upstream's defaults to `default`. */
const lacksNamespace = (call: AuthorisedCall): boolean => call.dialect === "neutral" && namespaceGiven(call) === "";

const ClaimsQuery = z.object({
  claim_id: query.text(),
  prefix: query.text(),
  job_id: query.text(),
  task_group: query.text(),
  volume_name: query.text(),
});

function readClaims(call: AuthorisedCall & Asked<typeof ClaimsQuery>): Promise<Reading> {
  const { asked, dialect } = call;
  if (lacksNamespace(call)) throw badRequest("namespace: is required; * is all of them");
  const namespace = namespaceOf(call);
  const { job_id: jobId, task_group: taskGroup, volume_name: volumeName } = asked;
  const wanted = {
    namespace: namespace === ALL ? null : namespace,
    ...(jobId && { jobId }),
    ...(taskGroup && { taskGroup }),
    ...(volumeName && { volumeName }),
    prefix: (asked.claim_id || asked.prefix).toLowerCase(),
  };
  return readList<ShownClaim>(call, {
    ...byNamespace((cut) => clusterRegistry(call.env).volumeClaims({ ...wanted, ...cut }), shownClaim),
    stub: (claim) => claim,
    fields: claimFields,
    visible: ({ Namespace }) => allowsNamespace(call.grant.cluster, Namespace, "host-volume-read"),
    wrap: dialect === "neutral" ? "Claims" : undefined,
    paged: dialect === "neutral",
  });
}

async function remove(call: AuthorisedCall<"id">): Promise<Response> {
  const id = call.params.id.toLowerCase();
  return clusterEmpty(unwrap(await clusterRegistry(call.env).deleteVolumeClaim(id, namespaceOf(call))));
}

const deletes = (path: "/volumes/claim/:id" | "/volume/claim/:id") =>
  // Implied by `host-volume-write`.
  cluster(`DELETE ${path}`, { rights: inNamespace("host-volume-delete"), fresh: true }, remove);

export const claimRoutes = [
  cluster(
    "GET /volumes/claims",
    {
      query: ClaimsQuery,
      // A missing namespace is reported as such.
      rights: (rights, call) => lacksNamespace(call) || mayList("host-volume-read")(rights, call),
    },
    blockingRead([VOLUME_CLAIM], readClaims),
  ),
  deletes("/volumes/claim/:id"),
  // The form in upstream's documentation.
  deletes("/volume/claim/:id"),
];
