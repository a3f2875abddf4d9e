import { translateMountType } from "../compat/engine-names.ts";
import type { DryRun } from "../credentials/engines/engine-type.ts";
import { refusalError, unwrap } from "../platform/http/errors.ts";
import { credentialEngine } from "../rpc/stubs.ts";
import { envelope } from "./server/respond.ts";
import { inMount, type SecretsRoute } from "./server/route.ts";

/** The route of a path that shows the calls of a configuration. It reads what the views of configuration and role show. */
export const dryRunRoute = ({ body, run }: DryRun, path: string): SecretsRoute =>
  inMount({
    verb: "POST",
    path,
    body,
    handle: async (call, given) => {
      const { env, mount, dialect } = call;
      const engine = credentialEngine(env, mount.uuid);
      const stored = await engine.config(mount.type);
      if (!stored.ok && stored.reason !== "missing") throw refusalError(stored);
      const role = given.role === undefined ? null : unwrap(await engine.role(given.role));
      const data = unwrap(run(stored.ok ? stored.value : {}, given, role));
      return envelope(call, { data, mountType: translateMountType(dialect, mount.type) });
    },
  });
