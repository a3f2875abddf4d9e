import type { Mount, MountType } from "../contracts/mount.ts";
import { engineDescriptions } from "../credentials/engines/descriptions.ts";

/** Types of secrets engines that can be mounted. */
export const mountTypes = (): MountType[] => ["kv", ...engineDescriptions.map(({ type }) => type)];

/** Whether a mount is a KV engine with versions: only a mount that names version 2 is one. */
export const isVersioned = ({ type, options }: Pick<Mount, "type" | "options">): boolean =>
  type === "kv" && options["version"] === "2";

/** The name of the route table of a mount: its type, or `kv-v1`. */
export const routesOf = (mount: Mount): string => (mount.type === "kv" && !isVersioned(mount) ? "kv-v1" : mount.type);
