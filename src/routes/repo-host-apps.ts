import * as z from "zod";
import type { AppView } from "../contracts/sync-control.ts";
import { unwrap } from "../platform/http/errors.ts";
import { integer } from "../platform/http/fields.ts";
import { syncControl } from "../rpc/stubs.ts";
import { MASK } from "../sync/configuration/definition.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";
import { writeRights } from "./server/write-rights.ts";
import { checkedName } from "./sync-paths.ts";

/** Custom applications of the repository host. */

const appId = integer().min(1);

const App = z.object({
  app_id: z
    .unknown()
    .refine((given) => appId.safeParse(given).success, "is required, a whole number of at least 1")
    .pipe(appId),
  private_key: z.string("private_key: required").min(1, "private_key: required").max(16_384),
});

const at = (call: AuthorisedCall<"name">): [namespace: string, name: string] => [
  call.grant.namespace,
  checkedName(call.params.name),
];

const shown = (call: AuthorisedCall, app: AppView): Response => envelope(call, { data: { ...app, private_key: MASK } });

export const repoHostAppRoutes = [
  secrets("LIST /sys/sync/repo-host-apps", async (call) =>
    keyList(call, await syncControl(call.env).appNames(call.grant.namespace)),
  ),
  secrets(
    "POST /sys/sync/repo-host-apps/:name",
    { creates: true, body: App },
    async (call, { app_id, private_key }) => {
      const [namespace, name] = at(call);
      const { namespaceId } = call.grant;
      const given = [namespaceId, namespace, name, app_id, private_key, writeRights(call)] as const;
      const app = unwrap(await syncControl(call.env).putApp(...given));
      return shown(call, app);
    },
  ),
  secrets("GET /sys/sync/repo-host-apps/:name", async (call) =>
    shown(call, unwrap(await syncControl(call.env).app(...at(call)))),
  ),
  secrets("DELETE /sys/sync/repo-host-apps/:name", async (call) => {
    unwrap(await syncControl(call.env).deleteApp(...at(call)));
    return noContent();
  }),
];
