import { csiSegments } from "@sallyport/agent-protocol";
import * as z from "zod";

/** Letters, digits, dot, dash, underscore: ids are part of paths. */
const PLUGIN_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

const ROLES = ["controller", "node"] as const;
export type Role = (typeof ROLES)[number];

/** @param path schema of an absolute path */
export const csiConfig = (path: z.ZodType<string, string>) =>
  z.strictObject({
    /** Directory for staged and published volumes. */
    mountsDir: path.default("/var/lib/sallyport-agent/csi"),
    plugins: z
      .array(
        z.strictObject({
          id: z.string().regex(PLUGIN_ID, "must be letters, digits, dot, dash, underscore"),
          socket: path,
          roles: z
            .array(z.enum(ROLES))
            .min(1)
            .default([...ROLES]),
          /** Topology segments of the node, for a plugin that reports none. */
          topology: csiSegments.optional(),
        }),
      )
      .max(64)
      .refine((plugins) => new Set(plugins.map(({ id }) => id)).size === plugins.length, "names a plugin twice")
      .default([]),
  });

export type CsiConfig = Readonly<z.infer<ReturnType<typeof csiConfig>>>;
export type CsiPluginConfig = CsiConfig["plugins"][number];
