import * as z from "zod";
import type { LockedNames } from "../contracts/approle.ts";
import { unwrap } from "../platform/http/errors.ts";
import * as query from "../platform/http/query-fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, noContent } from "./server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "./server/route.ts";

/** Names that are locked after failed logins (https://developer.hashicorp.com/vault/api-docs/system/user-lockout). */

const counted = ({ accessor, names }: LockedNames) => ({
  mount_accessor: accessor,
  counts: names.length,
  alias_identifiers: names,
});

const sumOf = (mounts: readonly LockedNames[]): number => mounts.reduce((sum, { names }) => sum + names.length, 0);

const LockedQuery = z.object({ mount_accessor: query.text() });

async function locked(call: AuthorisedCall & Asked<typeof LockedQuery>): Promise<Response> {
  const { mount_accessor: accessor } = call.asked;
  const all = await accessControl(call.env).lockedNames(call.grant.namespace);
  const mounts = accessor === "" ? all : all.filter((mount) => mount.accessor === accessor);
  const by_namespace = [...Map.groupBy(mounts, ({ namespaceId }) => namespaceId)].map(([namespace_id, group]) => ({
    namespace_id,
    namespace_path: group[0]?.namespace ?? "",
    counts: sumOf(group),
    mount_accessors: group.map(counted),
  }));
  return envelope(call, { data: { by_namespace, total: sumOf(mounts) }, flat: true });
}

export const lockedUserRoutes = [
  secrets("GET /sys/locked-users", { fresh: true, query: LockedQuery }, locked),
  secrets("POST /sys/locked-users/:accessor/unlock/:alias+", { fresh: true }, async (call) => {
    const { accessor, alias } = call.params;
    unwrap(await accessControl(call.env).unlockName(call.grant.namespace, accessor, alias));
    return noContent();
  }),
];
