import type { Report } from "@sallyport/agent-protocol";
import type { Csi } from "../csi/index.ts";
import type { HostVolumes } from "../dhv/index.ts";
import type { Handlers } from "./handler.ts";

/** The handlers of all methods. @param inspect inspects the whole node */
export function handlersOf(hostVolumes: HostVolumes, csi: Csi, inspect: () => Promise<Report>): Handlers {
  return {
    ...csi.handlers,
    "dhv.create": (volume) => hostVolumes.create(volume),
    "dhv.register": async (volume) => {
      const registered = await hostVolumes.register(volume);
      return registered.ok ? { ok: true } : registered;
    },
    "dhv.delete": (volume) => hostVolumes.delete(volume),
    "agent.fingerprint": async () => ({ ok: true, ...(await inspect()) }),
  };
}
