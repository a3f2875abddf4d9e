import * as z from "zod";
import type { Namespace } from "../contracts/namespaces.ts";
import { unwrap } from "../platform/http/errors.ts";
import { stringMap } from "../platform/http/fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";

/** Namespaces of the secrets API: a tree; each request belongs to one namespace. */

const NamespaceBody = z.object({ custom_metadata: stringMap().nullish() });
const NamespaceChange = z.object({ custom_metadata: z.record(z.string(), z.string().nullable()).nullish() });

const below = (call: AuthorisedCall<"name">): string =>
  `${call.grant.namespace}${call.params.name.replace(/\/$/, "")}/`;

const put = async (call: AuthorisedCall<"name">, { custom_metadata }: z.infer<typeof NamespaceBody>) => {
  const made = await accessControl(call.env).putNamespace(
    call.grant.namespace,
    call.params.name,
    custom_metadata ?? {},
  );
  return envelope(call, { data: unwrap(made) });
};

const MISSING = "requested namespace does not exist";

/** Clients of upstream read a body, which says whether there was such a namespace. */
async function remove(call: AuthorisedCall<"name">): Promise<Response> {
  const access = accessControl(call.env);
  const found = call.dialect === "upstream" ? await access.readNamespace(below(call)) : null;
  unwrap(await access.deleteNamespace(below(call)));
  if (found === null) return noContent();
  return found.ok
    ? envelope(call, { data: { status: "deleted" } })
    : envelope(call, { data: null, warnings: [MISSING] });
}

export const namespaceRoutes = [
  secrets("LIST /sys/namespaces", { fresh: true, scans: true }, async (call) => {
    const parent = call.grant.namespace;
    const children = await accessControl(call.env).listNamespaces(parent, call.scan === true);
    const info = children.map((child): [string, Namespace] => [child.path.slice(parent.length), child]);
    return keyList(
      call,
      info.map(([name]) => name),
      { key_info: Object.fromEntries(info) },
    );
  }),
  secrets("GET /sys/namespaces/:name", { fresh: true }, async (call) =>
    envelope(call, { data: unwrap(await accessControl(call.env).readNamespace(below(call))) }),
  ),
  secrets("POST /sys/namespaces/:name", { fresh: "owner", body: NamespaceBody }, put),
  secrets(
    "PATCH /sys/namespaces/:name",
    { fresh: "owner", body: NamespaceChange },
    async (call, { custom_metadata }) => {
      const changed = await accessControl(call.env).patchNamespace(below(call), custom_metadata ?? {});
      return envelope(call, { data: unwrap(changed) });
    },
  ),
  secrets("DELETE /sys/namespaces/:name", { fresh: "owner" }, remove),
];
