/** Entries of "Go to": screens, forms, appearance, and objects by name. */
import { engineDescriptions, isEngine } from "../../../src/credentials/engines/descriptions.ts";
import { api, apiFull } from "../api/client.ts";
import { secretsNamespace } from "../api/namespaces.ts";
import { endSession } from "../api/session.ts";
import type { IconName } from "../components/icons.tsx";
import { useSettled } from "../lib/live.ts";
import { useResource } from "../lib/resource.ts";
import { csiVolumeHref, hostVolumeHref, jobHref, nodeHref, pluginHref } from "./cluster-links.ts";
import { isDockOpen } from "./command-dock.tsx";
import { forgetVisited, type Visited, visit, visited } from "./recent.ts";
import { go, href } from "./router.ts";
import { SCREENS } from "./screens.ts";
import { theme } from "./theme.ts";

export interface Entry {
  readonly label: string;
  /** Other words for it; the first one is shown for objects. */
  readonly words: string;
  readonly icon: IconName;
  readonly isObject?: boolean;
  /** The record of an object that the browser keeps. */
  readonly visited?: Visited;
  readonly run: () => void;
}

/** Words of people for screens. */
const WORDS: Readonly<Record<string, string>> = {
  secrets: "kv key value engine",
  sync: "destination queue drift",
  credentials: "azure lease role engine",
  storage: "volume snapshot plugin csi claim",
  nodes: "agent drain allocation join",
  access: "policy token auth method user identity quota rights check",
  notifications: "alert rule channel slack teams pagerduty e-mail",
  audit: "log who",
};

/** Tabs of screens, besides the first of each. */
// biome-ignore format: a line each
const TABS: readonly (readonly [screen: string, icon: IconName, tabs: Readonly<Record<string, string>>])[] = [
  ["sync", "sync", { matrix: "Secrets by destination", queue: "Queue", apps: "GitHub apps" }],
  ["credentials", "credentials", { issuer: "Identity issuer" }],
  ["events", "events", { subscribe: "Subscription", webhooks: "Webhooks", service: "Events of secrets and sync" }],
  ["storage", "storage", { csi: "CSI volumes", plugins: "Plugins", claims: "Sticky claims" }],
  ["nodes", "nodes", { jobs: "Jobs", agents: "Agents", "join-tokens": "Join tokens" }],
  ["access", "access", { tokens: "Tokens", "token-roles": "Token roles", methods: "Auth methods", identities: "Identities", limits: "Limits", namespaces: "Namespaces", check: "What may a token do?" }],
  ["notifications", "bell", { rules: "Notification rules", channels: "Channels" }],
];

const link = (label: string, icon: IconName, address: string, words = ""): Entry => ({
  label,
  icon,
  words,
  run: () => go(address),
});

const fixedEntries = (): Entry[] => [
  ...SCREENS.map(({ name, label, icon }) => link(label, icon, href(name), WORDS[name])),
  ...TABS.flatMap(([screen, icon, tabs]) =>
    Object.entries(tabs).map(([tab, label]) => link(label, icon, href(screen, [], { tab }), WORDS[screen])),
  ),
  link("New secret", "plus", href("secrets", [], { new: "secret" }), "write"),
  link("Create destination", "plus", href("sync", ["new"]), "sync"),
  link("Sync a secret", "sync", href("sync", [], { new: "secret" }), "push"),
  link("Create host volume", "plus", href("storage", [], { new: "host" })),
  link("Create CSI volume", "plus", href("storage", [], { tab: "csi", new: "csi" })),
  link("Join a node", "plus", href("nodes", [], { new: "node" }), "agent"),
  link("Issue credentials", "key", href("credentials", [], { new: "credentials" }), "azure lease"),
  {
    label: "Show the commands of this screen",
    words: "curl vault nomad",
    icon: "terminal",
    run: () => void (isDockOpen.value = true),
  },
  { label: "Light appearance", words: "theme", icon: "light", run: () => void (theme.value = "light") },
  { label: "Dark appearance", words: "theme", icon: "dark", run: () => void (theme.value = "dark") },
  { label: "Forget recent objects and favourites", words: "clear history", icon: "close", run: forgetVisited },
  {
    label: "Lock this tab",
    words: "log out",
    icon: "lock",
    run: () => endSession("Locked. Log in again to continue where you were."),
  },
];

function object(label: string, kind: string, icon: IconName, address: string): Entry {
  const visited = { label, kind, icon, address };
  const run = (): void => {
    visit(visited);
    go(address);
  };
  return { ...link(label, icon, address, kind), isObject: true, visited, run };
}

interface Found {
  readonly entries: readonly Entry[];
  /** Kinds of objects that could not be searched, such as `destinations`, with the right that the token lacks. */
  readonly unseen: readonly string[];
}

/** Engines, namespaces, limits, notification rules and channels: lists that are short. */
async function readNames(signal: AbortSignal): Promise<Found> {
  const options = { signal, quiet: true, accept: [403, 404] } as const;
  const [mounts, namespaces, rates, leases, rules, channels] = await Promise.all([
    apiFull("GET /v1/sys/internal/ui/mounts", options),
    apiFull("GET /v1/sys/internal/ui/namespaces", options),
    apiFull("LIST /v1/sys/quotas/rate-limit", options),
    apiFull("LIST /v1/sys/quotas/lease-count", options),
    apiFull("LIST /v1/sys/notifications/rules", { ...options, namespace: "" }),
    apiFull("LIST /v1/sys/notifications/channels", { ...options, namespace: "" }),
  ]);
  const engines = mounts.status === 200 ? Object.entries(mounts.body.data.secret) : [];
  const keysOf = ({ status, body }: { status: number; body: { data: { keys: readonly string[] } } }) =>
    status === 200 ? body.data.keys.map((name) => name.replace(/\/$/, "")) : [];
  const here = secretsNamespace.value;
  const limits = href("access", [], { tab: "limits" });
  const notifications = (tab: string) => href("notifications", [], { tab });
  const denied = {
    engines: mounts,
    namespaces,
    "rate limits": rates,
    "lease limits": leases,
    "notification rules": rules,
    channels,
  };
  return {
    entries: [
      ...engines.flatMap(([path, { type }]) => {
        const screen = type === "kv" ? "secrets" : isEngine({ type }) ? "credentials" : null;
        return screen ? [object(path, "engine", "key", href(screen, [path.replace(/\/$/, "")]))] : [];
      }),
      ...keysOf(namespaces).map((name) => {
        const ns = here ? `${here}/${name}` : name;
        return object(ns, "namespace", "namespaces", href("", [], { ns }));
      }),
      ...keysOf(rates).map((name) => object(name, "rate limit", "access", limits)),
      ...keysOf(leases).map((name) => object(name, "lease limit", "access", limits)),
      ...keysOf(rules).map((name) => object(name, "notification rule", "bell", notifications("rules"))),
      ...keysOf(channels).map((name) => object(name, "channel", "bell", notifications("channels"))),
    ],
    unseen: Object.entries(denied).flatMap(([name, { status }]) => (status === 403 ? [name] : [])),
  };
}

type Search = Awaited<ReturnType<typeof api<"GET /v1/sys/search">>>["data"];
type Hit = Search["hits"][number];

const PLURALS: Readonly<Record<Hit["type"], string>> = {
  secret: "secrets",
  role: "roles",
  policy: "policies",
  destination: "destinations",
  node: "nodes",
  volume: "volumes",
  job: "jobs",
};
/** Shorter than the time between two keys: one search for a word that is typed. */
const SETTLED_MS = 90;

/** Hits of each request: secrets are many, so that they have one of their own. */
const SEARCHES: readonly (readonly [types: string, limit: number])[] = [
  ["secret", 12],
  ["role,policy,destination,node,volume,job", 24],
];

const IN_CLUSTER: ReadonlySet<Hit["type"]> = new Set(["node", "volume", "job"] as const);

/** A hit as an entry; one of another namespace than the selected one says so. */
function entryOf({ type, name, namespace, mount, path }: Hit): Entry {
  const of = namespace.replace(/\/$/, "");
  const at = { ns: of || null };
  const engine = mount.replace(/\/$/, "");
  const [, second = "", third = ""] = path.split("/");
  // Roles of the usual kind are stored without its path.
  const stored = path.slice(mount.length);
  const isUsual = engineDescriptions.some(({ paths }) => stored.startsWith(`${paths.roles.slice(1)}/`));
  const addresses: Readonly<Record<Hit["type"], () => readonly [IconName, string]>> = {
    secret: () => ["key", href("secrets", [engine, "at", ...name.split("/")], at)],
    role: () => ["key", href("credentials", [engine, isUsual ? name : stored], at)],
    policy: () => ["access", href("access", [], { ...at, tab: "policies", policy: name })],
    destination: () => ["sync", href("sync", [path.split("/").at(-2) ?? "", name], at)],
    node: () => ["nodes", nodeHref(second)],
    // Ids that callers choose are encoded.
    volume: () => [
      "storage",
      second === "csi" ? csiVolumeHref(decodeURIComponent(third), namespace) : hostVolumeHref(third, namespace),
    ],
    job: () => ["nodes", jobHref(decodeURIComponent(second), namespace)],
  };
  const [icon, address] = addresses[type]();
  const what = type === "volume" ? (second === "csi" ? "CSI volume" : "host volume") : type;
  const isElsewhere = !IN_CLUSTER.has(type) && of !== secretsNamespace.value.replace(/\/$/, "");
  const place = [engine && `in ${engine}`, isElsewhere && `of ${of || "root"}`];
  return object(name, [what, ...place.filter(Boolean)].join(" "), icon, address);
}

/** A page may end before the names do: a request reads a bounded number of them. */
const MAX_PAGES = 5;

/** Hits up to the limit, of as many pages as they need. */
async function searchPages(query: { q: string; type: string; limit: number }, signal: AbortSignal): Promise<Search> {
  let { data } = await api("GET /v1/sys/search", { query, signal, quiet: true });
  for (let page = 1; page < MAX_PAGES && data.next !== "" && data.hits.length < query.limit; page++) {
    const { hits } = data;
    const after = { ...query, limit: query.limit - hits.length, after: data.next };
    const answer = await api("GET /v1/sys/search", { query: after, signal, quiet: true });
    data = { ...answer.data, hits: [...hits, ...answer.data.hits] };
  }
  return data;
}

/** Objects by name, and plugins, which only the cluster API finds. */
async function search(q: string, signal: AbortSignal): Promise<Found> {
  const options = { signal, quiet: true } as const;
  const [plugins, ...parts] = await Promise.all([
    // Refused for one character.
    q.length < 2
      ? null
      : apiFull("POST /v1/search/fuzzy", { ...options, body: { Text: q, Context: "plugins" }, accept: [403] }),
    ...SEARCHES.map(([type, limit]) => searchPages({ q, type, limit }, signal)),
  ]);
  const found = plugins?.status === 200 ? (plugins.body.Matches.plugins ?? []) : [];
  return {
    entries: [
      ...parts.flatMap(({ hits }) => hits.map(entryOf)),
      ...found.map(({ ID }) => object(ID, "plugin", "storage", pluginHref(ID))),
    ],
    unseen: [
      ...parts.flatMap((part) => part.not_searched.map(({ type, needs }) => `${PLURALS[type]} (${needs})`)),
      ...(plugins?.status === 403 ? ["plugins"] : []),
    ],
  };
}

interface Entries extends Found {
  /** More may come. */
  readonly isSearching: boolean;
  /** Why the search failed. */
  readonly failure: unknown;
}

/** Entries that have all the words; without words the favourites and the recent objects come first. */
export function useEntries(words: string): Entries {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const text = useSettled(words.trim(), SETTLED_MS);
  const names = useResource(["palette", secretsNamespace.value], readNames, { skip: wanted.length === 0 });
  const found = useResource(["palette", text], (signal) => search(text, signal), { skip: text === "" });
  const has = ({ label, words: others }: Entry): boolean =>
    wanted.every((word) => `${label} ${others}`.toLowerCase().includes(word));
  // A label that begins with the word is first, one that only has it among its other words last.
  const rank = ({ label }: Entry): number => label.toLowerCase().indexOf(wanted[0] ?? "") >>> 0;
  const recent = visited().map((one): Entry => {
    const kept = object(one.label, one.isFavourite ? `${one.kind}, favourite` : one.kind, one.icon, one.address);
    return { ...kept, visited: one };
  });
  const isKnown = ({ visited: one }: Entry): boolean =>
    recent.some(({ visited: kept }) => kept?.address === one?.address);
  const entries = [
    ...recent.filter(has),
    ...fixedEntries()
      .filter(has)
      .sort((a, b) => rank(a) - rank(b)),
    ...(wanted.length > 0 ? (names.value?.entries ?? []).filter(has) : []),
    ...(found.value?.entries ?? []).filter((entry) => !isKnown(entry)),
  ];
  const unseen = [
    ...(names.error === null ? (names.value?.unseen ?? []) : ["engines"]),
    ...(found.value?.unseen ?? []),
  ];
  const isSearching = names.isLoading || found.isLoading || text !== words.trim();
  return { entries, unseen, isSearching, failure: found.error };
}
