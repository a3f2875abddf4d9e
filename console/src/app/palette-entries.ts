/** Entries of "Go to": screens, forms, appearance, and objects by name. */
import { isEngine } from "../../../src/credentials/engines/descriptions.ts";
import { api, apiFull } from "../api/client.ts";
import { endSession } from "../api/session.ts";
import type { IconName } from "../components/icons.tsx";
import { useSettled } from "../lib/live.ts";
import { useResource } from "../lib/resource.ts";
import { csiVolumeHref, hostVolumeHref, jobHref, nodeHref, pluginHref } from "./cluster-links.ts";
import { isDockOpen } from "./command-dock.tsx";
import { go, href } from "./router.ts";
import { SCREENS } from "./screens.ts";
import { theme } from "./theme.ts";

export interface Entry {
  readonly label: string;
  /** Other words for it; the first one is shown for objects. */
  readonly words: string;
  readonly icon: IconName;
  readonly isObject?: boolean;
  readonly run: () => void;
}

/** Words of people for screens. */
const WORDS: Readonly<Record<string, string>> = {
  secrets: "kv key value engine",
  sync: "destination queue drift",
  credentials: "azure lease role engine",
  storage: "volume snapshot plugin csi claim",
  nodes: "agent drain allocation join",
  access: "policy token auth method user identity",
  audit: "log who",
};

const link = (label: string, icon: IconName, address: string, words = ""): Entry => ({
  label,
  icon,
  words,
  run: () => go(address),
});

const fixedEntries = (): Entry[] => [
  ...SCREENS.map(({ name, label, icon }) => link(label, icon, href(name), WORDS[name])),
  link("New secret", "plus", href("secrets", [], { new: "secret" }), "write"),
  link("Create destination", "plus", href("sync", ["new"]), "sync"),
  link("Sync a secret", "sync", href("sync", [], { new: "secret" }), "push"),
  link("Create host volume", "plus", href("storage", [], { new: "host" })),
  link("Create CSI volume", "plus", href("storage", [], { tab: "csi", new: "csi" })),
  link("Join a node", "plus", href("nodes", [], { new: "node" }), "agent"),
  link("Issue credentials", "key", href("credentials", [], { new: "credentials" }), "azure lease"),
  link("What may a token do?", "access", href("access", [], { tab: "check" }), "rights policy check"),
  {
    label: "Show the commands of this screen",
    words: "curl vault nomad",
    icon: "terminal",
    run: () => void (isDockOpen.value = true),
  },
  { label: "Light appearance", words: "theme", icon: "light", run: () => void (theme.value = "light") },
  { label: "Dark appearance", words: "theme", icon: "dark", run: () => void (theme.value = "dark") },
  {
    label: "Lock this tab",
    words: "log out",
    icon: "lock",
    run: () => endSession("Locked. Log in again to continue where you were."),
  },
];

const object = (label: string, kind: string, icon: IconName, address: string): Entry => ({
  ...link(label, icon, address, kind),
  isObject: true,
});

interface Found {
  readonly entries: readonly Entry[];
  /** Kinds of objects that could not be searched, such as `destinations`. */
  readonly unseen: readonly string[];
}

/** Engines and destinations of the namespace. */
async function readNamed(signal: AbortSignal): Promise<Found> {
  const options = { signal, quiet: true, accept: [403, 404] } as const;
  const [mounts, destinations] = await Promise.all([
    apiFull("GET /v1/sys/internal/ui/mounts", options),
    apiFull("LIST /v1/sys/sync/destinations", options),
  ]);
  const engines = mounts.status === 200 ? Object.entries(mounts.body.data.secret) : [];
  const types = destinations.status === 200 ? Object.entries(destinations.body.data.key_info) : [];
  const entries = [
    ...engines.flatMap(([path, { type }]) => {
      const screen = type === "kv" ? "secrets" : isEngine({ type }) ? "credentials" : null;
      return screen ? [object(path, "engine", "key", href(screen, [path.replace(/\/$/, "")]))] : [];
    }),
    ...types.flatMap(([type, names]) =>
      names.map((name) => object(name, "destination", "sync", href("sync", [type.replace(/\/$/, ""), name]))),
    ),
  ];
  const unseen = [mounts.status === 403 ? "engines" : "", destinations.status === 403 ? "destinations" : ""];
  return { entries, unseen: unseen.filter(Boolean) };
}

/** Nodes, jobs, volumes and plugins whose names have this text. */
async function search(Text: string, signal: AbortSignal): Promise<Entry[]> {
  const { Matches } = await api("POST /v1/search/fuzzy", { body: { Text }, signal, quiet: true });
  const of = (context: keyof typeof Matches, kind: string, icon: IconName, address: (...ids: string[]) => string) =>
    (Matches[context] ?? []).map(({ ID, Scope = [] }) => object(ID, kind, icon, address(ID, ...Scope)));
  return [
    ...of("nodes", "node", "nodes", (_, id = "") => nodeHref(id)),
    ...of("jobs", "job", "nodes", (id, namespace) => jobHref(id, namespace)),
    ...of("host_volumes", "host volume", "storage", (_, namespace, id = "") => hostVolumeHref(id, namespace)),
    ...of("volumes", "CSI volume", "storage", (name, namespace, id) => csiVolumeHref(id ?? name, namespace)),
    ...of("plugins", "plugin", "storage", (id) => pluginHref(id)),
  ];
}

interface Entries extends Found {
  /** More may come. */
  readonly isSearching: boolean;
}

/** Entries that have all the words. */
export function useEntries(words: string): Entries {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const text = useSettled(words.trim(), 200);
  const named = useResource(["palette"], readNamed);
  const found = useResource(["palette", text], (signal) => search(text, signal), { skip: text.length < 2 });
  const has = ({ label, words: others }: Entry): boolean =>
    wanted.every((word) => `${label} ${others}`.toLowerCase().includes(word));
  const entries = [
    ...fixedEntries().filter(has),
    ...(wanted.length > 0 ? (named.value?.entries ?? []).filter(has) : []),
    ...(found.value ?? []),
  ];
  const unseen = [
    ...(named.error === null ? (named.value?.unseen ?? []) : ["engines", "destinations"]),
    ...(found.error === null ? [] : ["nodes", "jobs", "volumes", "plugins"]),
  ];
  return { entries, unseen, isSearching: named.isLoading || found.isLoading || text !== words.trim() };
}
