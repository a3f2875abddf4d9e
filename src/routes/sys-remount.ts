import * as z from "zod";
import { badRequest, notFound, unwrap } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";

/** Moves of mounts (https://developer.hashicorp.com/vault/api-docs/system/remount). */

const RemountBody = z.object({ from: z.string().max(1024).default(""), to: z.string().max(1024).default("") });

/** @throws RequestError 400 for a path that is missing or surrounded by spaces */
function checkPaths(body: z.infer<typeof RemountBody>): void {
  if (body.from === "" || body.to === "") throw badRequest("both 'from' and 'to' path must be specified as a string");
  for (const name of ["from", "to"] as const) {
    if (/^ | $/.test(body[name])) throw badRequest(`'${name}' path cannot contain trailing whitespace`);
  }
}

async function remount(call: AuthorisedCall, body: z.infer<typeof RemountBody>): Promise<Response> {
  checkPaths(body);
  const { namespace, identity } = call.grant;
  const access = accessControl(call.env);
  const [from, to] = [body.from, body.to].map((path) => path.replace(/^\/+/, "")) as [string, string];
  const source = unwrap(await access.locate(namespace, from));
  const target = unwrap(await access.locate(namespace, to));
  for (const place of [source, target]) {
    if (place.namespace === namespace) continue;
    // A path into a child namespace needs the right there.
    const path = `${place.namespace.slice(namespace.length)}sys/remount`;
    const check = {
      accessor: identity.accessor,
      namespace,
      path,
      needs: ["update", "sudo"],
      given: { ...body },
    } as const;
    unwrap(await access.mayAlso(check));
  }
  return envelope(call, { data: { migration_id: unwrap(await access.remount(source, target)) }, flat: true });
}

export const remountRoutes = [
  secrets("POST /sys/remount", { access: "sudo", fresh: true, body: RemountBody }, remount),
  secrets("GET /sys/remount/status/:migration", { fresh: true }, async (call) => {
    const id = call.params.migration;
    const found = await accessControl(call.env).remountStatus(call.grant.namespace, id);
    if (!found) throw notFound();
    return envelope(call, { data: { migration_id: id, migration_info: found }, flat: true });
  }),
];
