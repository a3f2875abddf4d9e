import * as z from "zod";
import {
  type Candidate,
  CONTEXTS,
  type Context,
  FUZZY_CONTEXTS,
  maySearch,
  type SearchScope,
  sources,
} from "../cluster/search.ts";
import { badRequest, denied } from "../platform/http/errors.ts";
import { caseless, echoed } from "../platform/http/fields.ts";
import { eventLog } from "../rpc/stubs.ts";
import { namespaceOf } from "./server/cluster-reads.ts";
import { clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, cluster } from "./server/route.ts";

/** Search over the objects of the cluster API (https://developer.hashicorp.com/nomad/api-docs/search). */

const MAX_TEXT = 512;
const MIN_FUZZY_LENGTH = 2;
/** Upstream's number of results of each context; further ones are `Truncations`. */
const MAX_RESULTS = 20;
/** Candidates that a search reads of one context; beyond them it says that it was truncated. */
const MAX_CANDIDATES = 2_000;

/** Fields of a query that clients send in every such body. Only the URL's count. */
const unread = echoed(
  ...(["AllowStale", "WaitIndex", "WaitTime", "Params", "Headers", "Filter", "PerPage", "NextToken"] as const),
  "Reverse",
);

const contextOf = (names: readonly Context[]) =>
  z
    .string()
    .refine((name) => name === "" || name === "all" || names.some((known) => known === name), {
      error: `must be one of ${names.join(", ")}, or all`,
    })
    .default("all");

const SearchBody = caseless(
  z.object({ Prefix: z.string().max(MAX_TEXT).default(""), Context: contextOf(CONTEXTS), ...unread }),
);
const FuzzyBody = caseless(
  z.object({
    Text: z.string().max(MAX_TEXT).default(""),
    Context: contextOf(FUZZY_CONTEXTS),
    ...unread,
    ...echoed("Prefix"),
  }),
);

const scopeOf = (call: AuthorisedCall): SearchScope => ({
  env: call.env,
  rights: call.grant.cluster,
  namespace: namespaceOf(call),
});

/** The contexts asked for in which the caller may search. @throws RequestError 403 when there are none */
function contextsOf(scope: SearchScope, asked: string, known: readonly Context[]): Context[] {
  const allowed = known
    .filter((name) => asked === "" || asked === "all" || asked === name)
    .filter((name) => maySearch(name, scope));
  if (allowed.length === 0) throw denied();
  return allowed;
}

interface Found {
  readonly matches: readonly Candidate[];
  readonly truncated: boolean;
}

/** The candidates that `wanted` accepts, one more than a search returns. */
async function find(
  pages: AsyncGenerator<readonly Candidate[]>,
  wanted: (candidate: Candidate) => boolean,
): Promise<Found> {
  const matches: Candidate[] = [];
  let read = 0;
  for await (const page of pages) {
    matches.push(...page.filter(wanted));
    read += page.length;
    if (matches.length > MAX_RESULTS || read > MAX_CANDIDATES) return { matches, truncated: true };
  }
  return { matches, truncated: false };
}

async function answer<Match>(
  call: AuthorisedCall,
  contexts: readonly Context[],
  search: (context: Context) => Promise<{ readonly matches: readonly Match[]; readonly truncated: boolean }>,
): Promise<Response> {
  const index = await eventLog(call.env).newest();
  const found = await Promise.all(contexts.map(async (context) => [context, await search(context)] as const));
  const body = {
    Matches: Object.fromEntries(found.map(([context, { matches }]) => [context, matches.slice(0, MAX_RESULTS)])),
    Truncations: Object.fromEntries(found.map(([context, { truncated }]) => [context, truncated])),
    Index: index,
    LastContact: 0,
    KnownLeader: true,
    NextToken: "",
  };
  return clusterJson(call, body, { index });
}

async function searchPrefix(call: AuthorisedCall, { Prefix, Context }: z.output<typeof SearchBody>): Promise<Response> {
  const scope = scopeOf(call);
  return answer(call, contextsOf(scope, Context, CONTEXTS), async (context) => {
    // Ids of nodes and of reported objects are written in lower case; volumes are found by name, too.
    const prefix = GENERATED.has(context) ? Prefix.toLowerCase() : Prefix;
    const begins = ({ id }: Candidate) => context === "host_volumes" || id.startsWith(prefix);
    const { matches, truncated } = await find(sources[context].find(scope, prefix), begins);
    return { matches: matches.map(({ id }) => id), truncated };
  });
}

/** Contexts with generated ids, which a fuzzy search matches by prefix, as upstream. */
const GENERATED: ReadonlySet<Context> = new Set(["evals", "allocs", "deployment", "nodes", "host_volumes"] as const);
const BY_ID: ReadonlySet<Context> = new Set(["evals", "deployment"] as const);

async function searchFuzzy(call: AuthorisedCall, { Text, Context }: z.output<typeof FuzzyBody>): Promise<Response> {
  if (Text.length < MIN_FUZZY_LENGTH)
    throw badRequest(`Text: fuzzy search query must be at least ${MIN_FUZZY_LENGTH} characters, got ${Text.length}`);
  const scope = scopeOf(call);
  const text = Text.toLowerCase();
  return answer(call, contextsOf(scope, Context, FUZZY_CONTEXTS), async (context) => {
    const byId = BY_ID.has(context);
    const at = ({ id, name }: Candidate) => (byId ? (id.startsWith(text) ? 0 : -1) : name.toLowerCase().indexOf(text));
    const { matches, truncated } = await find(sources[context].find(scope, byId ? text : ""), (one) => at(one) >= 0);
    const sorted = [...matches].sort((a, b) => at(a) - at(b) || (a.name < b.name ? -1 : 1));
    const shown = sorted.map(({ id, name, scope: place }) => ({
      ID: byId ? id : name,
      ...(place.length > 0 && { Scope: place }),
    }));
    return { matches: shown, truncated };
  });
}

const maySearchAny = (_rights: unknown, call: AuthorisedCall): boolean =>
  FUZZY_CONTEXTS.some((context) => maySearch(context, scopeOf(call)));

export const searchRoutes = [
  cluster("POST /search", { rights: maySearchAny, body: SearchBody }, searchPrefix),
  cluster("POST /search/fuzzy", { rights: maySearchAny, body: FuzzyBody }, searchFuzzy),
];
