/*
 * The events that a subscriber must receive, as a second implementation of docs/guides/events.md: it shares neither code nor mistakes
 * with the service.
 */

export interface SeenEvent {
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Namespace: string;
  readonly FilterKeys: readonly string[] | null;
  readonly Index: number;
  // biome-ignore lint/suspicious/noExplicitAny: payloads of every topic
  readonly Payload: any;
}

export interface SeenLine {
  readonly Index: number;
  readonly Events: readonly SeenEvent[];
}

/** A subscription: `[topic, key]` pairs, and one namespace or `*`. */
export interface Wish {
  readonly topics: readonly (readonly [topic: string, key: string])[];
  readonly namespace: string;
}

export function isWanted(event: Omit<SeenEvent, "Type" | "Index" | "Payload">, { topics, namespace }: Wish): boolean {
  const inNamespace = event.Namespace === "" || namespace === "*" || event.Namespace === namespace;
  const names = [event.Key, ...(event.FilterKeys ?? [])];
  return (
    inNamespace &&
    topics.some(
      ([topic, key]) =>
        (topic === "*" || topic === event.Topic || (topic === "Node" && event.Topic === "NodeDrain")) &&
        (key === "*" || names.includes(key)),
    )
  );
}

/** The rules of a policy, as far as these tests write any. */
export interface Rules {
  /** By name or by a name's beginning and a star. */
  readonly namespaces: Readonly<Record<string, "read" | "list" | "deny">>;
  readonly node: "read" | "write" | "deny";
}

export function hclOf({ namespaces, node }: Rules): string {
  const blocks = Object.entries(namespaces).map(([name, word]) =>
    word === "list"
      ? `namespace "${name}" { capabilities = ["list-jobs"] }`
      : `namespace "${name}" { policy = "${word}" }`,
  );
  return [...blocks, `node { policy = "${node}" }`].join("\n");
}

export interface Token {
  readonly management: boolean;
  readonly policies: readonly string[];
}

/** Rights at one point of the sequence. */
export interface RightsState {
  readonly index: number;
  readonly policies: ReadonlyMap<string, Rules>;
  readonly tokens: ReadonlyMap<string, Token>;
}

const OF_JOBS = new Set(["Job", "Allocation", "Evaluation", "Deployment", "Service"]);

/** One rule applies to a namespace: that of its name, else the longest prefix; a deny in it wins. */
function speaksFor(rules: readonly Rules[], namespace: string): "read" | "list" | "deny" | undefined {
  const patterns = [...new Set(rules.flatMap(({ namespaces }) => Object.keys(namespaces)))];
  const [closest] = patterns
    .filter((name) => name === namespace || (name.endsWith("*") && namespace.startsWith(name.slice(0, -1))))
    .sort((a, b) => Number(b === namespace) - Number(a === namespace) || b.length - a.length);
  const words = rules.flatMap(({ namespaces }) => (closest === undefined ? [] : (namespaces[closest] ?? [])));
  return (["deny", "read", "list"] as const).find((word) => words.includes(word));
}

function mayReadTopic(rules: readonly Rules[], topic: string, namespace: string): boolean {
  if (topic === "Node" || topic === "NodeDrain") {
    return rules.length > 0 && rules.every(({ node }) => node !== "deny");
  }
  return OF_JOBS.has(topic) && speaksFor(rules, namespace) === "read";
}

const rulesOf = ({ policies }: RightsState, token: Token): Rules[] =>
  token.policies.flatMap((name) => policies.get(name) ?? []);

/** Whether a token may have such a stream open. `accessor` null: the first token, which may everything for ever. */
export function mayOpen(state: RightsState, accessor: string | null, wish: Wish, existing: readonly string[]): boolean {
  if (accessor === null) return true;
  const token = state.tokens.get(accessor);
  if (!token) return false;
  if (token.management) return true;
  const rules = rulesOf(state, token);
  const all = wish.namespace === "*";
  if (all && !rules.some(({ namespaces }) => "*" in namespaces)) return false;
  const namespaces = all ? existing : [wish.namespace];
  return wish.topics.every(([topic]) => namespaces.every((namespace) => mayReadTopic(rules, topic, namespace)));
}

/** Whether an event of the topic in the namespace is for a token that may have the stream open. */
export function mayRead(
  state: RightsState,
  accessor: string | null,
  { Topic, Namespace }: Pick<SeenEvent, "Topic" | "Namespace">,
): boolean {
  if (accessor === null) return true;
  const token = state.tokens.get(accessor);
  if (!token) return false;
  return token.management || Namespace === "" || mayReadTopic(rulesOf(state, token), Topic, Namespace);
}
