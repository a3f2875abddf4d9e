import { envelope } from "./server/respond.ts";
import { type Call, open, secrets } from "./server/route.ts";

/** Features that upstream clients activate explicitly. Here they are always active. */

const flags = async (call: Call): Promise<Response> =>
  envelope(call, { data: { activated: ["secrets-sync"], unactivated: [] } });

export const activationRoutes = [
  open("GET /sys/activation-flags", flags),
  secrets("POST /sys/activation-flags/secrets-sync/activate", { access: "sudo" }, flags),
];
