import * as z from "zod";
import { authorize } from "../../access/authorize/authorize-cached.ts";
import { type ClusterRights, CSI_LIST_RIGHTS } from "../../contracts/cluster-rights.ts";
import { badRequest } from "../../platform/http/errors.ts";
import * as query from "../../platform/http/query-fields.ts";
import { allowsNamespaceAny, allowsNode, mergeClusterRules } from "../../rights/cluster-rights.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { envelope } from "../server/respond.ts";
import { type Asked, type AuthorisedCall, secrets } from "../server/route.ts";
import { openCursor, sealCursor } from "./cursor.ts";
import { type Hit, Search, TYPES, type Type } from "./search.ts";
import { destinationList, policyList, sourcesFor } from "./sources.ts";

/** Search for objects by name, in a namespace and those below it, by the rights of the caller. */

const MAX_TEXT = 256;
const MAX_WORDS = 8;
const LIMIT = 20;
const MAX_LIMIT = 100;

const Position = z.object({ type: z.enum(TYPES), position: z.unknown() });

const SearchQuery = z.object({
  q: z
    .string("is required")
    .max(MAX_TEXT, `at most ${MAX_TEXT} characters`)
    .transform((text) => text.toLowerCase().split(/\s+/u).filter(Boolean))
    .pipe(z.array(z.string()).min(1, "is required").max(MAX_WORDS, `at most ${MAX_WORDS} words`)),
  type: query.text().transform((text, { addIssue }): readonly Type[] => {
    if (text === "") return TYPES;
    const wanted = text.split(",").map((name) => name.trim());
    if (!wanted.every((name) => TYPES.some((type) => type === name)))
      addIssue(`must be some of ${TYPES.join(", ")}, separated by commas`);
    return TYPES.filter((type) => wanted.includes(type));
  }),
  namespace: query.text(),
  mount: query.text().transform((path) => (path === "" ? "" : `${path.replace(/\/+$/, "")}/`)),
  limit: z.preprocess(
    (given) => given || undefined,
    query.limit(MAX_LIMIT, `must be a number from 1 to ${MAX_LIMIT}`).default(LIMIT),
  ),
  after: query.text(),
});
type SearchCall = AuthorisedCall & Asked<typeof SearchQuery>;

/** The namespace of the request, or one below it. */
async function namespaceIn({ env, asked, grant }: SearchCall): Promise<string> {
  const segments = asked.namespace.split("/").filter(Boolean);
  if (segments.length === 0) return grant.namespace;
  const path = `${grant.namespace}${segments.join("/")}/`;
  const found = await accessControl(env).readNamespace(path);
  if (!found.ok) throw badRequest("namespace: there is none of this name below the namespace of the request");
  return path;
}

/** The rights of the caller in the cluster; none for a token without any. */
async function clusterRights({ env, token, request }: AuthorisedCall): Promise<ClusterRights> {
  const address = request.headers.get("CF-Connecting-IP");
  const ask = { token, namespace: "", path: null, address, again: true };
  const grant = await authorize(env, { ask, fresh: true, location: request.cf, version: null });
  return grant.ok ? grant.cluster : mergeClusterRules([]);
}

/** Types whose objects the caller may not list, with the missing right as a policy names it. */
async function lacking(search: Search, rights: ClusterRights, types: readonly Type[]) {
  const { namespace } = search;
  const list = async (path: string): Promise<boolean> => {
    const [may = false] = await search.visible([{ namespace, lists: [`${path}/`], reads: [] }]);
    return may;
  };
  const needs: Partial<Record<Type, () => Promise<string | null>>> = {
    policy: async () => ((await list(policyList)) ? null : `${policyList}: list`),
    destination: async () => ((await list(destinationList)) ? null : `${destinationList}: list`),
    node: async () => (allowsNode(rights, "read") ? null : "node: read"),
    volume: async () =>
      allowsNamespaceAny(rights, ["host-volume-read"]) && allowsNamespaceAny(rights, CSI_LIST_RIGHTS)
        ? null
        : "namespace: host-volume-read, csi-list-volume",
    job: async () => (allowsNamespaceAny(rights, ["list-jobs"]) ? null : "namespace: list-jobs"),
  };
  const all = await Promise.all(types.map(async (type) => ({ type, needs: (await needs[type]?.()) ?? null })));
  return all.filter((each): each is { type: Type; needs: string } => each.needs !== null);
}

async function find(call: SearchCall): Promise<Response> {
  const { env, asked, grant } = call;
  const { q: words, mount, limit, after } = asked;
  const types = asked.type.filter((type) => mount === "" || IN_MOUNTS.has(type));
  const caller = `search ${grant.identity.accessor} ${grant.namespace}`;
  const begun = after === "" ? null : Position.parse(openCursor(env, caller, after));
  const search = new Search(call, words, await namespaceIn(call), mount);
  const rights = types.some((type) => CLUSTER.has(type)) ? await clusterRights(call) : mergeClusterRules([]);
  const sources = sourcesFor(rights);
  const hits: Hit[] = [];
  let next: z.infer<typeof Position> | null = null;
  const first = begun === null ? 0 : TYPES.indexOf(begun.type);
  for (const type of types.filter((each) => TYPES.indexOf(each) >= first)) {
    const position = begun?.type === type ? begun.position : null;
    if (hits.length === limit || !search.goesOn) {
      next = { type, position };
      break;
    }
    const part = await sources[type](search, position, limit - hits.length);
    hits.push(...part.hits);
    if (part.next === null) continue;
    next = { type, position: part.next };
    break;
  }
  const not_searched = await lacking(search, rights, types);
  return envelope(call, { data: { hits, next: next === null ? "" : sealCursor(env, caller, next), not_searched } });
}

const IN_MOUNTS: ReadonlySet<Type> = new Set(["secret", "role"] as const);
const CLUSTER: ReadonlySet<Type> = new Set(["node", "volume", "job"] as const);

export const sysSearchRoutes = [secrets("GET /sys/search", { access: "token", fresh: true, query: SearchQuery }, find)];
