/** Filters of the stream: what the service is asked for. They are part of the address. */
import { useState } from "preact/hooks";
import { Button, IconButton } from "../../components/button.tsx";
import { Select } from "../../components/field.tsx";
import type { Filters } from "./stream.ts";
import { TOPICS } from "./topics.ts";

/** `Topic:key,Topic` with encoded parts, as in the address. */
export const topicsOf = (text: string | null): string[] =>
  (text ?? "")
    .split(",")
    .filter(Boolean)
    .map((part) => part.split(":", 2).map(decoded).join(":"));

export const topicsText = (topics: readonly string[]): string =>
  topics
    .map((topic) => {
      const at = topic.indexOf(":");
      return at < 0
        ? encodeURIComponent(topic)
        : `${encodeURIComponent(topic.slice(0, at))}:${encodeURIComponent(topic.slice(at + 1))}`;
    })
    .join(",");

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

interface FilterBarProps {
  readonly filters: Filters;
  /** The selected namespace, besides which only all of them can be chosen. */
  readonly namespace: string;
  readonly onChange: (filters: Filters) => void;
}

export function FilterBar({ filters, namespace, onChange }: FilterBarProps) {
  const [topic, setTopic] = useState("");
  const [key, setKey] = useState("");
  const { topics } = filters;
  const add = (): void => {
    if (topic === "") return;
    const filter = key.trim() === "" ? topic : `${topic}:${key.trim()}`;
    if (!topics.includes(filter)) onChange({ ...filters, topics: [...topics, filter] });
    setKey("");
  };
  return (
    <form
      class="events-filters"
      aria-label="Filters of the stream"
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
    >
      <Select
        label="Topic"
        value={topic}
        onChange={setTopic}
        options={[["", "Choose a topic"], ...TOPICS.map(([name]) => [name, name] as const)]}
      />
      <input
        class="input mono"
        aria-label="Key of the object"
        placeholder="Key, or empty for all"
        value={key}
        spellcheck={false}
        autocomplete="off"
        onInput={(event) => setKey(event.currentTarget.value)}
      />
      <Button type="submit" icon="plus" disabled={topic === ""}>
        Add filter
      </Button>
      <Select
        label="Namespace of the events"
        value={filters.namespace}
        onChange={(chosen) => onChange({ ...filters, namespace: chosen })}
        options={[
          ...(namespace === "*" ? [] : [[namespace, `Namespace ${namespace}`] as const]),
          ["*", "All namespaces"],
        ]}
      />
      <Select
        label="Where the stream begins"
        value={filters.from}
        onChange={(chosen) => onChange({ ...filters, from: chosen as Filters["from"] })}
        options={[
          ["backlog", "With the backlog"],
          ["now", "From now on"],
        ]}
      />
      <ul class="events-chips" aria-label="Topics that are followed">
        {topics.length === 0 && <li class="muted">All topics</li>}
        {topics.map((filter) => (
          <li key={filter} class="events-chip">
            <span class="mono">{filter}</span>
            <IconButton
              icon="close"
              label={`Remove the filter ${filter}`}
              onClick={() => onChange({ ...filters, topics: topics.filter((other) => other !== filter) })}
            />
          </li>
        ))}
      </ul>
    </form>
  );
}
