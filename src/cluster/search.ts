import { type ClusterRights, CSI_LIST_RIGHTS, type NamespaceRight } from "../contracts/cluster-rights.ts";
import type { ReportedTopic } from "../contracts/reports.ts";
import { parseLossless } from "../lib/json.ts";
import {
  ANY_CAPABILITY,
  allowsNamespace,
  allowsNamespaceAny,
  allowsNode,
  allowsNodePool,
  allowsPlugin,
} from "../rights/cluster-rights.ts";
import { accessControl, clusterRegistry } from "../rpc/stubs.ts";
import { hexRange } from "./reports/hex-prefix.ts";
import { type Fields, objectOf, textOf } from "./reports/topics/topic.ts";

/**
 * The objects that a search finds, by context. A source yields pages of candidates that the caller may see, in the
 * order of their ids; the search reads as many as it needs, within bounds.
 */

export const CONTEXTS = [
  "jobs",
  "evals",
  "allocs",
  "deployment",
  "nodes",
  "node_pools",
  "plugins",
  "volumes",
  "host_volumes",
  "namespaces",
] as const;
/** Parts of jobs, which only a fuzzy search finds. */
const JOB_PARTS = ["groups", "tasks", "services", "images", "commands", "classes"] as const;
export const FUZZY_CONTEXTS = [...CONTEXTS, ...JOB_PARTS] as const;
export type Context = (typeof FUZZY_CONTEXTS)[number];

export interface SearchScope {
  readonly env: Env;
  readonly rights: ClusterRights;
  /** `*` means all. */
  readonly namespace: string;
}

/** One object or part of it that a search may return. */
export interface Candidate {
  readonly id: string;
  /** The text that a fuzzy search looks into and returns. */
  readonly name: string;
  /** Where the object is, in upstream's order. */
  readonly scope: readonly string[];
}

type Pages = AsyncGenerator<readonly Candidate[]>;

const ALL = "*";
const ROWS = 100;

const inNamespace = ({ rights, namespace }: SearchScope, capabilities: readonly NamespaceRight[]): boolean =>
  namespace === ALL ? allowsNamespaceAny(rights, capabilities) : allowsNamespace(rights, namespace, capabilities);

/** Null for all namespaces. */
const wantedIn = ({ namespace }: SearchScope): string | null => (namespace === ALL ? null : namespace);

/** The whole bytes of an id's prefix; null for what begins no id. */
function bytesOf(prefix: string): string | null {
  const digits = prefix.replaceAll("-", "");
  return hexRange(digits.length % 2 === 0 ? digits : digits.slice(0, -1))?.[0] ?? null;
}

async function* reported(scope: SearchScope, topic: ReportedTopic, prefix: string): AsyncGenerator<readonly Fields[]> {
  for (let from: string | null = ""; from !== null; ) {
    const query = { topic, prefix, from, limit: ROWS, reverse: false, namespace: wantedIn(scope) };
    const page = await clusterRegistry(scope.env).reported(query, false);
    const rows = page.rows.map(({ body }) => parseLossless(body) as Fields);
    yield rows.filter((row) => allowsNamespace(scope.rights, textOf(row, "Namespace"), "read-job"));
    from = page.next;
  }
}

/** Objects with generated ids. @param nameIn the field with a name */
const generated = (topic: ReportedTopic, nameIn: string) =>
  async function* (scope: SearchScope, prefix: string): Pages {
    const bytes = bytesOf(prefix);
    if (bytes === null) return;
    for await (const rows of reported(scope, topic, bytes))
      yield rows.map((row) => {
        const id = textOf(row, "ID");
        return { id, name: textOf(row, nameIn), scope: [textOf(row, "Namespace"), id] };
      });
  };

async function* jobs(scope: SearchScope, prefix: string): Pages {
  for await (const rows of reported(scope, "Job", prefix))
    yield rows.map((row) => {
      const id = textOf(row, "ID");
      return { id, name: textOf(row, "Name") || id, scope: [textOf(row, "Namespace"), id] };
    });
}

const listIn = (fields: Fields, name: string): readonly Fields[] =>
  (fields[name] as readonly Fields[] | null | undefined) ?? [];

type Part = readonly [name: string, ...scope: string[]];

/** Named parts of jobs, each with its place in its job. */
const partsOfJobs = (parts: (group: Fields) => readonly Part[]) =>
  async function* (scope: SearchScope): Pages {
    for await (const rows of reported(scope, "Job", ""))
      yield rows.flatMap((job) =>
        listIn(job, "TaskGroups").flatMap((group) =>
          parts(group).map(([name, ...place]) => ({
            id: name,
            name,
            scope: [textOf(job, "Namespace"), textOf(job, "ID"), ...place],
          })),
        ),
      );
  };

const tasksOf = (group: Fields, part: (task: Fields) => string): Part[] =>
  listIn(group, "Tasks").map((task) => [part(task), textOf(group, "Name"), textOf(task, "Name")] as const);

/** A parameter of the configuration of tasks, for tasks of some drivers. */
const configured = (parameter: string, ...drivers: readonly string[]) =>
  partsOfJobs((group) =>
    tasksOf(group, (task) =>
      drivers.includes(textOf(task, "Driver")) ? textOf(objectOf(task, "Config") ?? {}, parameter) : "",
    ).filter(([name]) => name !== ""),
  );

const servicesOf = (group: Fields): Part[] => [
  ...listIn(group, "Services").map((service) => [textOf(service, "Name"), textOf(group, "Name")] as const),
  ...listIn(group, "Tasks").flatMap((task) =>
    listIn(task, "Services").map(
      (service) => [textOf(service, "Name"), textOf(group, "Name"), textOf(task, "Name")] as const,
    ),
  ),
];

async function* nodes({ env }: SearchScope, prefix: string): Pages {
  const bytes = bytesOf(prefix);
  const range = bytes === null ? null : hexRange(bytes);
  for (let from: string | null = range && ""; from !== null && range; ) {
    const page = await clusterRegistry(env).nodes({ from, limit: ROWS, reverse: false, range });
    yield page.rows.map(({ id, body }) => ({ id, name: textOf(parseLossless(body) as Fields, "Name"), scope: [id] }));
    from = page.next;
  }
}

async function* nodePools({ env, rights }: SearchScope, prefix: string): Pages {
  for (let from: string | null = ""; from !== null; ) {
    const page = await clusterRegistry(env).nodePools({ from, limit: ROWS, prefix });
    const names = page.rows.map((text) => textOf(parseLossless(text) as Fields, "Name"));
    yield names.filter((name) => allowsNodePool(rights, name, "read")).map((name) => ({ id: name, name, scope: [] }));
    from = page.next;
  }
}

async function* plugins({ env }: SearchScope, prefix: string): Pages {
  for (let from: string | null = ""; from !== null; ) {
    const page = await clusterRegistry(env).csiPlugins(prefix, from);
    yield page.plugins.map(({ id }) => ({ id, name: id, scope: [] }));
    from = page.next;
  }
}

async function* csiVolumes(scope: SearchScope, prefix: string): Pages {
  for (let from: readonly [string, string] | null = ["", ""]; from !== null; ) {
    const query = { namespace: wantedIn(scope), prefix, from, limit: ROWS, reverse: false };
    const page = await clusterRegistry(scope.env).csiVolumes(query);
    yield page.rows
      .filter(({ volume }) => allowsNamespace(scope.rights, volume.namespace, CSI_LIST_RIGHTS))
      .map(({ volume: { namespace, id, name } }) => ({ id, name: name || id, scope: [namespace, id] }));
    from = page.next;
  }
}

async function* hostVolumes(scope: SearchScope, prefix: string): Pages {
  for (let from: readonly [string, string] | null = ["", ""]; from !== null; ) {
    const query = { namespace: wantedIn(scope), prefix, from, limit: ROWS, reverse: false };
    const page = await clusterRegistry(scope.env).hostVolumes(query);
    yield page.rows
      .filter(({ namespace }) => allowsNamespace(scope.rights, namespace, "host-volume-read"))
      .map(({ namespace, id, name }) => ({ id, name, scope: [namespace, id] }));
    from = page.next;
  }
}

async function* namespaces({ env, rights }: SearchScope, prefix: string): Pages {
  const all = await accessControl(env).listClusterNamespaces(prefix);
  yield all
    .filter(({ Name }) => allowsNamespace(rights, Name, ANY_CAPABILITY))
    .map(({ Name }) => ({ id: Name, name: Name, scope: [] }));
}

/** The candidates of each context whose ids may begin with a prefix; all for the empty one. */
export const sources: Readonly<Record<Context, (scope: SearchScope, prefix: string) => Pages>> = {
  jobs,
  evals: generated("Evaluation", "ID"),
  allocs: generated("Allocation", "Name"),
  deployment: generated("Deployment", "ID"),
  nodes,
  node_pools: nodePools,
  plugins,
  volumes: csiVolumes,
  host_volumes: hostVolumes,
  namespaces,
  groups: partsOfJobs((group) => [[textOf(group, "Name")]]),
  tasks: partsOfJobs((group) => listIn(group, "Tasks").map((task) => [textOf(task, "Name"), textOf(group, "Name")])),
  services: partsOfJobs(servicesOf),
  images: configured("image", "docker"),
  commands: configured("command", "exec", "raw_exec"),
  classes: configured("class", "java"),
};

const readsJobs = (scope: SearchScope): boolean => inNamespace(scope, ["read-job"]);

const rightTo: Readonly<Record<Context, (scope: SearchScope) => boolean>> = {
  jobs: readsJobs,
  evals: readsJobs,
  allocs: readsJobs,
  deployment: readsJobs,
  groups: readsJobs,
  tasks: readsJobs,
  services: readsJobs,
  images: readsJobs,
  commands: readsJobs,
  classes: readsJobs,
  nodes: ({ rights }) => allowsNode(rights, "read"),
  node_pools: ({ rights }) => rights.management || rights.nodePools.length > 0,
  plugins: ({ rights }) => allowsPlugin(rights, "list"),
  volumes: (scope) => inNamespace(scope, CSI_LIST_RIGHTS),
  host_volumes: (scope) => inNamespace(scope, ["host-volume-read"]),
  namespaces: ({ rights }) => allowsNamespaceAny(rights, ANY_CAPABILITY),
};

/** Whether a caller may search in a context. */
export const maySearch = (context: Context, scope: SearchScope): boolean => rightTo[context](scope);
