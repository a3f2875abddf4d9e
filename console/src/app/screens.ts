/** All screens: a line each. Their code is loaded when they are opened. */
import type { ComponentType } from "preact";
import type { IconName } from "../components/icons.tsx";

export interface Screen {
  /** First segment of the address, and the folder in `screens/`. */
  readonly name: string;
  readonly label: string;
  readonly icon: IconName;
  readonly group: "" | "Secrets" | "Cluster" | "Administration";
  readonly load: () => Promise<{ readonly default: ComponentType }>;
}

// biome-ignore format: a line each
export const SCREENS: readonly Screen[] = [
  { name: "", label: "Overview", icon: "overview", group: "", load: () => import("../screens/overview/index.tsx") },
  { name: "secrets", label: "Secrets", icon: "secrets", group: "Secrets", load: () => import("../screens/secrets/index.tsx") },
  { name: "sync", label: "Sync", icon: "sync", group: "Secrets", load: () => import("../screens/sync/index.tsx") },
  { name: "credentials", label: "Credentials", icon: "credentials", group: "Secrets", load: () => import("../screens/credentials/index.tsx") },
  { name: "events", label: "Events", icon: "events", group: "Cluster", load: () => import("../screens/events/index.tsx") },
  { name: "storage", label: "Storage", icon: "storage", group: "Cluster", load: () => import("../screens/storage/index.tsx") },
  { name: "nodes", label: "Nodes and jobs", icon: "nodes", group: "Cluster", load: () => import("../screens/nodes/index.tsx") },
  { name: "access", label: "Access", icon: "access", group: "Administration", load: () => import("../screens/access/index.tsx") },
];
