import * as z from "zod";
import type { IdentityQuery } from "../contracts/identity.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { flag, stringList } from "../platform/http/fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { shownIdentity } from "./identity-entities.ts";
import { envelope, noContent } from "./server/respond.ts";
import { secrets } from "./server/route.ts";

/**
 * Lookups of entities and groups (https://openbao.org/api-docs/secret/identity/lookup/), and changes of several entities
 * (https://openbao.org/api-docs/secret/identity/entity/#merge-entities).
 */

const MAX_IDS = 1_000;

const text = () => z.string().max(512).default("");
const LookupBody = z.object({
  id: text(),
  name: text(),
  alias_id: text(),
  alias_name: text(),
  alias_mount_accessor: text(),
});

const ids = (missing: string) => stringList().pipe(z.array(z.string().min(1).max(128)).min(1, missing).max(MAX_IDS));
const MergeBody = z.object({
  to_entity_id: z.string("missing entity id to merge to").min(1, "missing entity id to merge to").max(128),
  from_entity_ids: ids("missing entity ids to merge from"),
  conflicting_alias_ids_to_keep: stringList()
    .pipe(z.array(z.string().max(128)).max(MAX_IDS))
    .default([]),
  force: flag().optional(),
});
const BatchBody = z.object({ entity_ids: ids("missing entity ids to delete") });

/** The query of a lookup. @throws RequestError 400 unless the parameters name exactly one thing, as upstream */
function queryOf({ id, name, alias_id: alias, ...factors }: z.infer<typeof LookupBody>): IdentityQuery {
  const { alias_name: aliasName, alias_mount_accessor: accessor } = factors;
  const given = [id, name, alias, aliasName, accessor].filter((value) => value !== "").length;
  if (given === 0) throw badRequest("query parameter not supplied");
  if (given === 2 && aliasName !== "" && accessor !== "") return { by: "alias name", value: aliasName, accessor };
  if (given > 1) throw badRequest("query parameter conflict; please supply distinct set of query parameters");
  if (id !== "") return { by: "id", value: id };
  if (name !== "") return { by: "name", value: name };
  if (alias !== "") return { by: "alias", value: alias };
  throw badRequest("both 'alias_name' and 'alias_mount_accessor' needs to be set");
}

const NO_FORCE = "force: has no effect, because entities hold no MFA secrets here";

export const identityLookupRoutes = [
  ...(["entity", "group"] as const).map((kind) =>
    secrets(
      `POST /identity/lookup/${kind}`,
      { fresh: true, body: LookupBody },
      async (call, body) => (await shownIdentity(call, kind, queryOf(body))) ?? noContent(),
    ),
  ),
  secrets("POST /identity/entity/merge", { fresh: true, body: MergeBody }, async (call, { force, ...merge }) => {
    unwrap(await accessControl(call.env).mergeEntities(call.grant.namespace, merge));
    return force ? envelope(call, { warnings: [NO_FORCE], mountType: "identity" }) : noContent();
  }),
  secrets(
    "POST /identity/entity/batch-delete",
    { fresh: true, body: BatchBody },
    async (call, { entity_ids: entities }) => {
      unwrap(await accessControl(call.env).deleteEntities(call.grant.namespace, entities));
      return noContent();
    },
  ),
];
