import * as z from "zod";
import { type Fields, textOf } from "../../cluster/reports/topics/topic.ts";
import { type ClusterRights, CSI_LIST_RIGHTS } from "../../contracts/cluster-rights.ts";
import { parseLossless } from "../../lib/json.ts";
import { findDestinations } from "../../listings/destinations.ts";
import { unwrap } from "../../platform/http/errors.ts";
import { allowsNamespace, allowsNode } from "../../rights/cluster-rights.ts";
import { accessControl, clusterRegistry } from "../../rpc/stubs.ts";
import { roleNames, secretNames } from "./names.ts";
import type { Evidence, Hit, Part, Search, Source, Type } from "./search.ts";

/** The sources of a search by type. Secrets and roles are in `names.ts`; all others are searched where they are listed. */

const PAGE = 200;

export const policyList = "sys/policies/acl";
export const destinationList = "sys/sync/destinations";

/** The visible ones of some objects, as many as there is room for. @param positionOf where a search goes on behind one */
async function shown<T>(
  search: Search,
  objects: readonly T[],
  of: (object: T) => { readonly hit: Hit; readonly evidence: Evidence },
  room: number,
): Promise<{ hits: Hit[]; last: T | null; isCut: boolean }> {
  const all = objects.map(of);
  const visible = await search.visible(all.map(({ evidence }) => evidence));
  const hits: Hit[] = [];
  let last: T | null = null;
  for (const [index, { hit }] of all.entries()) {
    if (visible[index]) {
      if (hits.length === room) return { hits, last, isCut: true };
      hits.push(hit);
    }
    last = objects[index] ?? null;
  }
  return { hits, last, isCut: false };
}

const PolicyPosition = z.object({ namespace: z.string(), name: z.string() });

const policy: Source = async (search, position, room): Promise<Part> => {
  const access = accessControl(search.env);
  const below = await access.listNamespaces(search.namespace, true);
  search.step();
  let { namespace, name } = position === null ? { namespace: "", name: "" } : PolicyPosition.parse(position);
  const hits: Hit[] = [];
  for (const at of [search.namespace, ...below.map(({ path }) => path)].filter((path) => path >= namespace)) {
    if (!search.goesOn || hits.length >= room) return { hits, next: { namespace, name } };
    if (at !== namespace) [namespace, name] = [at, ""];
    search.step();
    const names = (await access.policyNames(at)).filter((each) => each > name && search.matches(each)).sort();
    const part = await shown(
      search,
      names,
      (each) => ({
        hit: { type: "policy", name: each, namespace: at, mount: "", path: `${policyList}/${each}` },
        evidence: { namespace: at, lists: [`${policyList}/`], reads: [`${policyList}/${each}`] },
      }),
      room - hits.length,
    );
    hits.push(...part.hits);
    if (part.isCut) return { hits, next: { namespace, name: part.last ?? name } };
    // No name of a policy is greater: a search that ends here goes on with the next namespace.
    name = "\u{10FFFF}";
  }
  return { hits, next: null };
};

const DestinationPosition = z.object({ namespace: z.string(), type: z.string(), name: z.string() });

const destination: Source = async (search, position, room): Promise<Part> => {
  let at = position === null ? { namespace: "", type: "", name: "" } : DestinationPosition.parse(position);
  const hits: Hit[] = [];
  while (search.goesOn && hits.length < room) {
    search.step();
    const found = unwrap(await findDestinations(search.env.LISTINGS, search.namespace, search.words, at, PAGE));
    const part = await shown(
      search,
      found,
      ({ namespace, type, name }) => {
        const path = `${destinationList}/${type}/${name}`;
        const lists = [`${destinationList}/`, `${destinationList}/${type}/`];
        return {
          hit: { type: "destination", name, namespace, mount: "", path },
          evidence: { namespace, lists, reads: [path] },
        };
      },
      room - hits.length,
    );
    hits.push(...part.hits);
    at = part.last ?? at;
    if (!part.isCut && found.length < PAGE) return { hits, next: null };
  }
  return { hits, next: at };
};

/** A page of objects of the cluster: those that match and that the caller may see, and where the next page begins. */
type ClusterPage<P> = (from: P, limit: number) => Promise<{ readonly hits: readonly Hit[]; readonly next: P | null }>;

const CLUSTER_PAGE = 100;

/** Reads pages, each of which is used whole: one with more hits than there is room for is read again, shorter. */
async function pages<P>(search: Search, from: P, room: number, read: ClusterPage<P>): Promise<Part> {
  const hits: Hit[] = [];
  for (let at: P | null = from; at !== null; ) {
    if (!search.goesOn || hits.length >= room) return { hits, next: at };
    search.step();
    const left = room - hits.length;
    const whole = await read(at, CLUSTER_PAGE);
    const page: typeof whole = whole.hits.length > left ? await read(at, left) : whole;
    hits.push(...page.hits);
    at = page.next;
  }
  return { hits, next: null };
}

const inCluster = (type: Type, namespace: string, name: string, path: string): Hit => ({
  type,
  name,
  namespace,
  mount: "",
  path,
});

const Text = z.string();
const Pair = z.tuple([z.string(), z.string()]);

const node =
  (rights: ClusterRights): Source =>
  (search, position, room) => {
    if (!allowsNode(rights, "read")) return Promise.resolve({ hits: [], next: null });
    return pages(search, position === null ? "" : Text.parse(position), room, async (from, limit) => {
      const { rows, next } = await clusterRegistry(search.env).nodes({ from, limit });
      const named = rows.map(({ id, body }) => ({ id, name: textOf(parseLossless(body) as Fields, "Name") }));
      const found = named.filter(({ id, name }) => search.matches(`${name} ${id}`));
      return { hits: found.map(({ id, name }) => inCluster("node", "", name || id, `node/${id}`)), next };
    });
  };

const VolumePosition = z.object({ kind: z.enum(["host", "csi"]), from: Pair });

const volume =
  (rights: ClusterRights): Source =>
  (search, position, room) => {
    type At = z.infer<typeof VolumePosition>;
    const csi: At = { kind: "csi", from: ["", ""] };
    const start: At = position === null ? { kind: "host", from: ["", ""] } : VolumePosition.parse(position);
    return pages(search, start, room, async ({ kind, from }: At, limit) => {
      const registry = clusterRegistry(search.env);
      const query = { namespace: null, from, limit, reverse: false };
      if (kind === "host") {
        const { rows, next } = await registry.hostVolumes(query);
        const hits = rows
          .filter(({ namespace }) => allowsNamespace(rights, namespace, "host-volume-read"))
          .filter(({ id, name }) => search.matches(`${name} ${id}`))
          .map(({ id, name, namespace }) => inCluster("volume", namespace, name, `volume/host/${id}`));
        return { hits, next: next === null ? csi : { kind, from: [next[0], next[1]] as [string, string] } };
      }
      const { rows, next } = await registry.csiVolumes(query);
      const hits = rows
        .filter(({ volume: { namespace } }) => allowsNamespace(rights, namespace, CSI_LIST_RIGHTS))
        .filter(({ volume: { id, name } }) => search.matches(`${name} ${id}`))
        .map(({ volume: { id, name, namespace } }) =>
          inCluster("volume", namespace, name || id, `volume/csi/${encodeURIComponent(id)}`),
        );
      return { hits, next: next === null ? null : { kind, from: [next[0], next[1]] as [string, string] } };
    });
  };

const job =
  (rights: ClusterRights): Source =>
  (search, position, room) =>
    pages(search, position === null ? "" : Text.parse(position), room, async (from, limit) => {
      const query = { topic: "Job", namespace: null, prefix: "", from, limit, reverse: false } as const;
      const { rows, next } = await clusterRegistry(search.env).reported(query, false);
      const hits = rows
        .map(({ body }) => parseLossless(body) as Fields)
        .map((fields) => ({ id: textOf(fields, "ID"), name: textOf(fields, "Name"), at: textOf(fields, "Namespace") }))
        .filter(({ at }) => allowsNamespace(rights, at, "list-jobs"))
        .filter(({ id, name }) => search.matches(`${name} ${id}`))
        .map(({ id, name, at }) => inCluster("job", at, name || id, `job/${encodeURIComponent(id)}`));
      return { hits, next };
    });

/** The source of each type. @param rights of the caller in the cluster */
export const sourcesFor = (rights: ClusterRights): Readonly<Record<Type, Source>> => ({
  secret: secretNames,
  role: roleNames,
  policy,
  destination,
  node: node(rights),
  volume: volume(rights),
  job: job(rights),
});
