import * as z from "zod";
import { bytes } from "./shapes.ts";

/** One instance of a CSI plugin, on one node. */
export const Instance = z
  .object({
    AllocID: z.string(),
    AvailableCapacity: bytes.optional().describe("Bytes for new volumes, of a controller that reports them."),
    ControllerInfo: z.record(z.string(), z.boolean()).optional(),
    HealthDescription: z.string(),
    Healthy: z.boolean(),
    NodeInfo: z.record(z.string(), z.unknown()).optional(),
    PluginID: z.string(),
    Provider: z.string(),
    ProviderVersion: z.string(),
    RequiresControllerPlugin: z.boolean(),
    RequiresTopologies: z.boolean(),
    UpdateTime: z.string().nullable(),
    VolumeProblems: z
      .array(z.object({ AllocID: z.string(), ExternalID: z.string(), Reason: z.string() }))
      .optional()
      .describe("Published volumes that cannot be used as they should."),
  })
  .meta({ id: "CsiPluginInstance" });
