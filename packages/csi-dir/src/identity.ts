import { PLUGIN_SERVICE, VOLUME_EXPANSION } from "@sallyport/csi-wire";
import type { Calls } from "./calls.ts";
import type { Driver } from "./driver.ts";
import { VERSION } from "./version.ts";

export const DRIVER_NAME = "csi-dir.sallyport";

export const identityCalls = ({ settings, faults }: Driver): Calls<"Identity"> => ({
  GetPluginInfo: async () => ({ name: DRIVER_NAME, vendorVersion: VERSION, manifest: {} }),

  GetPluginCapabilities: async () => {
    const services = [
      ...(settings.roles.includes("controller") ? [PLUGIN_SERVICE.controllerService] : []),
      ...(isConstrained(settings.topology) ? [PLUGIN_SERVICE.volumeAccessibilityConstraints] : []),
    ];
    return {
      capabilities: [
        ...services.map((type) => ({ service: { type } })),
        { volumeExpansion: { type: VOLUME_EXPANSION.online } },
      ],
    };
  },

  Probe: async () => (faults.now.unready ? { ready: { value: false } } : {}),
});

export const isConstrained = (topology: Readonly<Record<string, string>>): boolean => Object.keys(topology).length > 0;
