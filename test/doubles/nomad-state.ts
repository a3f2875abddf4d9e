/**
 * The state of a Nomad stand-in: tables with their indexes, and the lines that its event broker holds. Facts:
 * docs/internals/wire/nomad.md.
 */

export type Fields = Record<string, unknown>;
export const TABLES = ["Job", "Allocation", "Evaluation", "Deployment", "Service", "Node", "NodePool"] as const;
export type Table = (typeof TABLES)[number];

export interface Change {
  readonly topic: string;
  readonly type: string;
  /** Without the modification index, which the commit sets. */
  readonly object: Fields;
  readonly deleted?: boolean;
}

export interface Line {
  readonly index: number;
  readonly events: readonly { readonly topic: string; readonly namespace: string; readonly text: string }[];
}

const KEYED_BY_NAME: ReadonlySet<string> = new Set(["NodePool"]);
const GLOBAL: ReadonlySet<string> = new Set(["Node", "NodePool"]);
const REMOVALS: ReadonlySet<string> = new Set(["ServiceDeregistration", "NodePoolDeleted"]);
export const isTable = (topic: string): topic is Table => TABLES.some((name) => name === topic);
export const idOf = (topic: string, object: Fields): string => String(object[KEYED_BY_NAME.has(topic) ? "Name" : "ID"]);
export const namespaceOf = (topic: string, object: Fields): string =>
  GLOBAL.has(topic) ? "" : String(object["Namespace"] ?? "default");

const rawJson = JSON as unknown as { rawJSON(text: string): unknown };
/** A number beyond 2^53, written with all its digits. */
export const digits = (text: string): unknown => rawJson.rawJSON(text);

export class NomadState {
  index = 10;
  readonly tables = new Map<Table, Map<string, Fields>>(TABLES.map((name) => [name, new Map()]));
  readonly indexes = new Map<string, number>();
  readonly namespaces = new Map<string, number>([["default", 1]]);
  namespaceIndex = 1;
  /** The lines in memory, oldest first. */
  lines: Line[] = [];
  /** Every line ever committed. */
  readonly history: Line[] = [];
  readonly #bufferSize: number;

  constructor(bufferSize: number) {
    this.#bufferSize = bufferSize;
  }

  /** One transaction: one line. @returns its index */
  commit(changes: readonly Change[], index = this.index + 1): number {
    const events = changes.map((change) => {
      const { topic, type, object, deleted } = change;
      const known = isTable(topic) ? this.tables.get(topic)?.get(this.#key(topic, object)) : undefined;
      const stored = { CreateIndex: known?.["CreateIndex"] ?? index, ...object, ModifyIndex: index };
      this.#apply(change, stored, index);
      const payload = { [topic]: stored, ...(deleted && topic === "Job" && { Deleted: true }) };
      const namespace = namespaceOf(topic, object);
      const envelope = { Topic: topic, Type: type, Key: idOf(topic, object), Namespace: namespace, FilterKeys: null };
      return { topic, namespace, text: JSON.stringify({ ...envelope, Index: index, Payload: payload }) };
    });
    this.push({ index, events });
    return index;
  }

  /** A line as it was recorded. */
  replay(text: string): void {
    const { Index, Events } = JSON.parse(text) as { Index?: number; Events?: Fields[] };
    if (!Index || !Events) return;
    const texts = textsOfEvents(text);
    for (const { Topic, Type, Payload } of Events as { Topic: string; Type: string; Payload: Fields }[]) {
      const object = Payload[Topic] as Fields;
      this.#apply({ topic: Topic, type: Type, object, deleted: Payload["Deleted"] === true }, object, Index);
    }
    const events = Events.map(({ Topic, Namespace }, at) => {
      return { topic: String(Topic), namespace: String(Namespace ?? ""), text: texts[at] ?? "" };
    });
    this.push({ index: Index, events });
  }

  push(line: Line): void {
    this.index = Math.max(this.index, line.index);
    this.history.push(line);
    this.lines.push(line);
    if (this.lines.length > this.#bufferSize) this.lines.shift();
  }

  /** Garbage collection: a transaction without events. */
  collect(topic: Table, ids: readonly string[], namespace = "default"): void {
    this.index += 1;
    for (const id of ids) this.tables.get(topic)?.delete(`${GLOBAL.has(topic) ? "" : namespace}\n${id}`);
    this.indexes.set(topic, this.index);
  }

  /** A transaction that changes objects of a topic without events. */
  changeSilently(topic: Table, change: Fields, ids: readonly string[], namespace = "default"): void {
    this.index += 1;
    for (const id of ids) {
      const object = this.read(topic, namespace, id);
      if (object)
        this.#apply({ topic, type: "", object }, { ...object, ...change, ModifyIndex: this.index }, this.index);
    }
  }

  addNamespace(name: string): void {
    this.index += 1;
    this.namespaces.set(name, this.index);
    this.namespaceIndex = this.index;
  }

  removeNamespace(name: string): void {
    this.index += 1;
    this.namespaces.delete(name);
    this.namespaceIndex = this.index;
  }

  read(topic: Table, namespace: string, id: string): Fields | undefined {
    return this.tables.get(topic)?.get(`${GLOBAL.has(topic) ? "" : namespace}\n${id}`);
  }

  list(topic: Table): Fields[] {
    return [...(this.tables.get(topic)?.entries() ?? [])].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  }

  #apply({ topic, type, deleted }: Change, object: Fields, index: number): void {
    if (!isTable(topic)) return;
    const key = this.#key(topic, object);
    if (deleted || REMOVALS.has(type)) this.tables.get(topic)?.delete(key);
    else this.tables.get(topic)?.set(key, object);
    this.indexes.set(topic, index);
  }

  #key(topic: string, object: Fields): string {
    return `${namespaceOf(topic, object)}\n${idOf(topic, object)}`;
  }
}

/** The events of a recorded line with the digits that they were recorded with. */
function textsOfEvents(line: string): string[] {
  const source = JSON as unknown as {
    parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  };
  const exact = source.parse(line, (_key, value, { source: text }) =>
    typeof value === "number" && text !== undefined && String(value) !== text ? digits(text) : value,
  ) as { Events: unknown[] };
  return exact.Events.map((event) => JSON.stringify(event));
}
