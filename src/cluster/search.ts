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

/** The pages of a list, one after another. @param first where the first page begins */
async function* pagesOf<From, Page extends { readonly next: From | null }>(
  first: From,
  read: (from: From) => Promise<Page>,
): AsyncGenerator<Page> {
  for (let from: From | null = first; from !== null; ) {
    const page: Page = await read(from);
    yield page;
    from = page.next;
  }
}

async function* reported(scope: SearchScope, topic: ReportedTopic, prefix: string): AsyncGenerator<readonly Fields[]> {
  const query = { topic, prefix, limit: ROWS, reverse: false, namespace: wantedIn(scope) };
  for await (const page of pagesOf("", (from) => clusterRegistry(scope.env).reported({ ...query, from }, false))) {
    const rows = page.rows.map(({ body }) => parseLossless(body) as Fields);
    yield rows.filter((row) => allowsNamespace(scope.rights, textOf(row, "Namespace"), "read-job"));
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
  if (!range) return;
  for await (const { rows } of pagesOf("", (from) =>
    clusterRegistry(env).nodes({ from, limit: ROWS, reverse: false, range }),
  ))
    yield rows.map(({ id, body }) => ({ id, name: textOf(parseLossless(body) as Fields, "Name"), scope: [id] }));
}

async function* nodePools({ env, rights }: SearchScope, prefix: string): Pages {
  for await (const { rows } of pagesOf("", (from) => clusterRegistry(env).nodePools({ from, limit: ROWS, prefix }))) {
    const names = rows.map((text) => textOf(parseLossless(text) as Fields, "Name"));
    yield names.filter((name) => allowsNodePool(rights, name, "read")).map((name) => ({ id: name, name, scope: [] }));
  }
}

async function* plugins({ env }: SearchScope, prefix: string): Pages {
  for await (const page of pagesOf("", (from) => clusterRegistry(env).csiPlugins(prefix, from)))
    yield page.plugins.map(({ id }) => ({ id, name: id, scope: [] }));
}

type Name = readonly [namespace: string, id: string];
const FIRST: Name = ["", ""];

async function* csiVolumes(scope: SearchScope, prefix: string): Pages {
  const query = { namespace: wantedIn(scope), prefix, limit: ROWS, reverse: false };
  for await (const { rows } of pagesOf(FIRST, (from) => clusterRegistry(scope.env).csiVolumes({ ...query, from })))
    yield rows
      .filter(({ volume }) => allowsNamespace(scope.rights, volume.namespace, CSI_LIST_RIGHTS))
      .map(({ volume: { namespace, id, name } }) => ({ id, name: name || id, scope: [namespace, id] }));
}

async function* hostVolumes(scope: SearchScope, prefix: string): Pages {
  const query = { namespace: wantedIn(scope), prefix, limit: ROWS, reverse: false };
  for await (const { rows } of pagesOf(FIRST, (from) => clusterRegistry(scope.env).hostVolumes({ ...query, from })))
    yield rows
      .filter(({ namespace }) => allowsNamespace(scope.rights, namespace, "host-volume-read"))
      .map(({ namespace, id, name }) => ({ id, name, scope: [namespace, id] }));
}

async function* namespaces({ env, rights }: SearchScope, prefix: string): Pages {
  const all = await accessControl(env).listClusterNamespaces(prefix);
  yield all
    .filter(({ Name }) => allowsNamespace(rights, Name, ANY_CAPABILITY))
    .map(({ Name }) => ({ id: Name, name: Name, scope: [] }));
}

/** A context: its candidates, and the right to search in it. */
interface Source {
  /** The candidates whose ids may begin with a prefix; all for the empty one. */
  readonly find: (scope: SearchScope, prefix: string) => Pages;
  readonly may: (scope: SearchScope) => boolean;
}

const ofJobs = (find: Source["find"]): Source => ({ find, may: (scope) => inNamespace(scope, ["read-job"]) });

export const sources: Readonly<Record<Context, Source>> = {
  jobs: ofJobs(jobs),
  evals: ofJobs(generated("Evaluation", "ID")),
  allocs: ofJobs(generated("Allocation", "Name")),
  deployment: ofJobs(generated("Deployment", "ID")),
  nodes: { find: nodes, may: ({ rights }) => allowsNode(rights, "read") },
  node_pools: { find: nodePools, may: ({ rights }) => rights.management || rights.nodePools.length > 0 },
  plugins: { find: plugins, may: ({ rights }) => allowsPlugin(rights, "list") },
  volumes: { find: csiVolumes, may: (scope) => inNamespace(scope, CSI_LIST_RIGHTS) },
  host_volumes: { find: hostVolumes, may: (scope) => inNamespace(scope, ["host-volume-read"]) },
  namespaces: { find: namespaces, may: ({ rights }) => allowsNamespaceAny(rights, ANY_CAPABILITY) },
  groups: ofJobs(partsOfJobs((group) => [[textOf(group, "Name")]])),
  tasks: ofJobs(
    partsOfJobs((group) => listIn(group, "Tasks").map((task) => [textOf(task, "Name"), textOf(group, "Name")])),
  ),
  services: ofJobs(partsOfJobs(servicesOf)),
  images: ofJobs(configured("image", "docker")),
  commands: ofJobs(configured("command", "exec", "raw_exec")),
  classes: ofJobs(configured("class", "java")),
};

/** Whether a caller may search in a context. */
export const maySearch = (context: Context, scope: SearchScope): boolean => sources[context].may(scope);
