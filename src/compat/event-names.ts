/** The parts of an event that differ between the two dialects. */
interface NamedEvent {
  readonly Topic: string;
  readonly Type: string;
  readonly Payload: Readonly<Record<string, unknown>>;
}

/** Topics with a node as payload. */
const NODE_TOPICS: ReadonlySet<string> = new Set(["Node", "NodeDrain"]);

/**
 * An event in upstream's form (docs/internals/wire/nomad.md): drains are a type of topic `Node`, node events have
 * another name, and nodes lack the older resource fields.
 * @param json the stored event; returned unchanged where nothing differs
 */
export function upstreamEvent({ Topic, Type }: Omit<NamedEvent, "Payload">, json: string): string {
  if (!NODE_TOPICS.has(Topic) && Type !== "NodeEvent") return json;
  const event = JSON.parse(json) as NamedEvent;
  return JSON.stringify({
    ...event,
    Topic: Topic === "NodeDrain" ? "Node" : Topic,
    Type: Type === "NodeEvent" ? "NodeStreamEvent" : Type,
    Payload: NODE_TOPICS.has(Topic) ? withoutOldResources(event.Payload) : event.Payload,
  });
}

function withoutOldResources(payload: NamedEvent["Payload"]): NamedEvent["Payload"] {
  const { Node: node } = payload;
  if (typeof node !== "object" || node === null) return payload;
  const { Resources, Reserved, ...rest } = node as Record<string, unknown>;
  return { ...payload, Node: rest };
}
