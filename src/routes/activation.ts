import { envelope } from "./server/respond.ts";
import { type Call, open, secrets } from "./server/route.ts";

/** Features that upstream must be told to switch on (contract: secret-sync 1.2). Here they are on from the start. */

const flags = async (call: Call): Promise<Response> =>
  envelope(call, { data: { activated: ["secrets-sync"], unactivated: [] } });

export const activationRoutes = [
  open({ verb: "GET", path: "/sys/activation-flags", handle: flags }),
  secrets({ verb: "POST", path: "/sys/activation-flags/secrets-sync/activate", access: "sudo", handle: flags }),
];
