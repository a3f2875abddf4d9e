/**
 * Rights of the token, asked for once for all buttons on a screen: `sys/capabilities-self`, and the capabilities of
 * the cluster API. The service judges each request again; an answer here only names the missing right in advance.
 */
import { steps } from "../app/router.ts";
import { effect, signal } from "../lib/signal.ts";
import { capabilityOfVerb, isCluster, pathOf, type Verb, type WireRequest } from "../lib/wire.ts";
import { api } from "./client.ts";
import { clusterNamespace, secretsNamespace } from "./namespaces.ts";
import { caller, session } from "./session.ts";

/** A request as `VERB path` without `/v1/`, such as `DELETE sys/mounts/kv`; `*` stands for any name. */
export type Need = `${Verb} ${string}` | WireRequest;
/** All of the list are needed; of a list in it, any one. */
export type Needs = Need | readonly (Need | readonly Need[])[] | undefined;

/** A request of which a right is needed, in its namespace. */
interface Asked {
  readonly verb: Verb;
  readonly path: string;
  readonly namespace: string;
}

/** The names of a request may not have been entered yet. */
function askedOf(need: Need): Asked {
  if (typeof need === "string") {
    const at = need.indexOf(" ");
    return { verb: need.slice(0, at) as Verb, path: need.slice(at + 1), namespace: secretsNamespace.value };
  }
  const path = pathOf(need.target).replace(/\/(?=\/|$)/g, "/*");
  return { verb: need.verb, path, namespace: need.namespace };
}

/** Capabilities of requests of the cluster API: the first pattern that fits. */
const IN_CLUSTER: readonly (readonly [path: RegExp, capability: string])[] = [
  [/^event\//, "management"],
  [/^(node|agent)\//, "node:write"],
  [/^volume\/host\/.*delete$|^volumes\/claim/, "namespace:host-volume-delete"],
  [/^volume\/host\/register/, "namespace:host-volume-register"],
  [/^volume\/host/, "namespace:host-volume-create"],
  [/^volume/, "namespace:csi-write-volume"],
];

/** Whether the token has each right, by namespaces and request; undefined where that is unknown. */
const known = signal<ReadonlyMap<string, boolean | undefined>>(new Map());
/** Requests whose answers count on this screen; others are asked for again, and kept meanwhile. */
const current = new Set<string>();
let waiting = new Map<string, Asked>();

/** The rights may have changed: each button asks again when it is drawn. */
export const forgetRights = (): void => current.clear();

/** The same, and draws the buttons that are shown. */
export function askAgain(): void {
  forgetRights();
  known.value = new Map(known.peek());
}

effect(() => {
  void steps.value;
  forgetRights();
});
effect(() => {
  void session.value;
  forgetRights();
  known.value = new Map();
});

/** Names the first right that the token lacks; null while that is not known. */
export function lackingOf(needs: Needs): string | null {
  const who = caller.value;
  if (needs === undefined || !who || who.isRoot || clusterNamespace.value === "*") return null;
  for (const need of (Array.isArray(needs) ? needs : [needs]) as (Need | readonly Need[])[]) {
    const lacking = ([need].flat() as Need[]).map(lackingOne);
    if (!lacking.includes(null)) return lacking[0] ?? null;
  }
  return null;
}

function lackingOne(need: Need): string | null {
  const asked = askedOf(need);
  const key = [clusterNamespace.value, ...Object.values(asked)].join(" ");
  if (!current.has(key)) {
    current.add(key);
    if (waiting.size === 0) queueMicrotask(() => void askForAll());
    waiting.set(key, asked);
  }
  return known.value.get(key) === false ? `Your token may not do this (${asked.path}: ${capabilityOf(asked)}).` : null;
}

const inCluster = ({ path }: Asked): boolean => isCluster(`/v1/${path}`);

const capabilityOf = (asked: Asked): string =>
  inCluster(asked)
    ? (IN_CLUSTER.find(([pattern]) => pattern.test(asked.path))?.[1] ?? "")
    : capabilityOfVerb(asked.verb);

async function askForAll(): Promise<void> {
  const all = [...waiting];
  waiting = new Map();
  const asking = session.peek();
  const groups = Map.groupBy(all, ([, asked]) => (inCluster(asked) ? null : asked.namespace));
  // A token that may not ask keeps its buttons, and gets the refusal.
  await Promise.allSettled(
    [...groups].map(async ([namespace, group]) => {
      const asked = group.map(([, each]) => each);
      const answers = await (namespace === null ? inTheCluster(asked) : onPaths(namespace, asked));
      if (session.peek() !== asking) return;
      known.value = new Map([...known.peek(), ...group.map(([key], at) => [key, answers[at]] as const)]);
    }),
  );
}

async function inTheCluster(asked: readonly Asked[]): Promise<boolean[]> {
  const { Capabilities } = await api("GET /v1/acl/capabilities/self", { quiet: true });
  return asked.map((each) => Capabilities.includes(capabilityOf(each)));
}

/** A name that no rule is likely to have. */
const ANY_NAME = "any-name";

async function onPaths(namespace: string, asked: readonly Asked[]): Promise<boolean[]> {
  const options = { namespace, quiet: true };
  const pathOf = ({ path }: Asked): string => path.replaceAll("*", ANY_NAME);
  const paths = [...new Set(asked.map(pathOf))];
  const { data } = await api("POST /v1/sys/capabilities-self", { ...options, body: { paths } });
  const isMet = asked.map((each) => has(data[pathOf(each)], each));
  if (!asked.some(({ path }, at) => path.includes("*") && !isMet[at])) return isMet;
  // A rule may be about some names only.
  const rules = (await api("GET /v1/sys/internal/ui/resultant-acl", options)).data;
  const own = Object.entries({ ...rules.exact_paths, ...rules.glob_paths });
  return asked.map((each, at) => {
    const [start = "", ...names] = (namespace && `${namespace}/`).concat(each.path).split("*");
    return (
      isMet[at] === true ||
      (names.length > 0 && own.some(([path, rule]) => path.startsWith(start) && has(rule.capabilities, each)))
    );
  });
}

/** Most writes need either of two capabilities. */
function has(capabilities: unknown, asked: Asked): boolean {
  const wanted = capabilityOf(asked);
  const enough = ["root", wanted, ...(wanted === "update" ? ["create"] : [])];
  return Array.isArray(capabilities) && enough.some((one) => capabilities.includes(one));
}
