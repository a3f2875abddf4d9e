import * as z from "zod";
import { DEFAULTS } from "../contracts/sync-control.ts";
import { denied } from "../platform/http/errors.ts";
import { flag, integer } from "../platform/http/fields.ts";
import { settings } from "../platform/settings.ts";
import { syncControl } from "../rpc/stubs.ts";
import { envelope } from "./server/respond.ts";
import { type AuthorisedCall, secrets } from "./server/route.ts";
import { slashless } from "./sync-paths.ts";

/** Global sync configuration: pause and capacity. */

/** Null, as in a merge patch, resets to the default. */
const Config = z.object({
  disabled: flag().nullish(),
  queue_capacity: integer().min(1).nullish(),
});

/** @throws RequestError 403 outside the root and the administrative namespace */
function control(call: AuthorisedCall) {
  const { namespace } = call.grant;
  const admin = slashless(settings(call.env).ADMIN_NAMESPACE);
  if (namespace !== "" && namespace !== `${admin}/`) {
    throw denied(`sys/sync/config is reserved to the root namespace and the administrative namespace (${admin})`);
  }
  return syncControl(call.env);
}

export const syncConfigRoutes = [
  secrets("GET /sys/sync/config", async (call) => envelope(call, { data: await control(call).config() })),
  secrets("PATCH /sys/sync/config", { fresh: true, body: Config }, async (call, { disabled, queue_capacity }) => {
    const changes = {
      ...(disabled !== undefined && { disabled: disabled ?? DEFAULTS.disabled }),
      ...(queue_capacity !== undefined && { queue_capacity: queue_capacity ?? DEFAULTS.queue_capacity }),
    };
    const data = await control(call).setConfig(changes);
    return envelope(call, { data });
  }),
  secrets("DELETE /sys/sync/config", { fresh: true }, async (call) =>
    envelope(call, { data: await control(call).resetConfig() }),
  ),
];
