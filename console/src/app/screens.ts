/** All screens: a line each. The code of a group is loaded when one of its screens is opened: together it is smaller. */
import type { ComponentType } from "preact";
import type { IconName } from "../components/icons.tsx";
import Overview from "../screens/overview/index.tsx";

interface Screen {
  /** First segment of the address, and the folder in `screens/`. */
  readonly name: string;
  readonly label: string;
  readonly icon: IconName;
  readonly group: "" | "Secrets" | "Cluster" | "Administration";
  readonly load: () => Promise<ComponentType>;
}

const secrets = () => import("../screens/secrets-group.ts");
const cluster = () => import("../screens/cluster-group.ts");

// biome-ignore format: a line each
export const SCREENS: readonly Screen[] = [
  { name: "", label: "Overview", icon: "overview", group: "", load: async () => Overview },
  { name: "secrets", label: "Secrets", icon: "secrets", group: "Secrets", load: async () => (await secrets()).Secrets },
  { name: "sync", label: "Sync", icon: "sync", group: "Secrets", load: async () => (await secrets()).Sync },
  { name: "credentials", label: "Credentials", icon: "credentials", group: "Secrets", load: async () => (await secrets()).Credentials },
  { name: "events", label: "Events", icon: "events", group: "Cluster", load: async () => (await cluster()).Events },
  { name: "storage", label: "Storage", icon: "storage", group: "Cluster", load: async () => (await cluster()).Storage },
  { name: "nodes", label: "Nodes and jobs", icon: "nodes", group: "Cluster", load: async () => (await cluster()).Nodes },
  { name: "access", label: "Access", icon: "access", group: "Administration", load: async () => (await cluster()).Access },
  { name: "notifications", label: "Notifications", icon: "bell", group: "Administration", load: async () => (await cluster()).Notifications },
  { name: "audit", label: "Audit", icon: "audit", group: "Administration", load: async () => (await cluster()).Audit },
  { name: "guides", label: "Guides", icon: "file", group: "Administration", load: async () => (await cluster()).Guides },
];
