import { useLayoutEffect, useState } from "preact/hooks";
import { recorded } from "../api/request-log.ts";
import { CommandText, ToolChoice } from "../components/as-command.tsx";
import { Button, IconButton } from "../components/button.tsx";
import { Ago } from "../components/moments.tsx";
import { Empty } from "../components/states.tsx";
import { signal } from "../lib/signal.ts";

export const isDockOpen = signal(false);

type Recorded = (typeof recorded.value)[number];

/** A list without entries is answered with 404. */
const isEmptyList = ({ verb, status }: Recorded): boolean => verb === "LIST" && status === 404;
const isFailure = (entry: Recorded): boolean => (entry.status >= 400 || entry.status === 0) && !isEmptyList(entry);

/** The last requests of this tab as commands, the newest first. Values of secrets are left out. */
export function CommandDock() {
  const [isWritesOnly, setWritesOnly] = useState(false);
  // Before the dock is painted: Escape works as soon as it is seen.
  useLayoutEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      const isElsewhere = document.querySelector("dialog[open]") ?? document.activeElement?.closest("main input");
      if (event.key === "Escape" && !event.defaultPrevented && !isElsewhere) isDockOpen.value = false;
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
  const seen = new Set<string>();
  const entries = recorded.value.filter(({ verb, target, namespace, body }) => {
    const isRead = verb === "GET" || verb === "LIST";
    if (isWritesOnly && isRead) return false;
    const key = JSON.stringify([verb, target, namespace, body]);
    return !seen.has(key) && seen.add(key);
  });
  return (
    <aside class="dock" aria-label="Commands">
      <header class="dock-head">
        <h2>As commands</h2>
        <IconButton icon="close" label="Close the commands" onClick={() => (isDockOpen.value = false)} />
      </header>
      <p class="muted small">
        What the console has sent, newest first. The environment is that of npm start; values of secrets are left out.
      </p>
      <ToolChoice />
      <div class="dock-tools">
        <label class="inline-check">
          <input
            type="checkbox"
            checked={isWritesOnly}
            onChange={(event) => setWritesOnly(event.currentTarget.checked)}
          />{" "}
          Changes only
        </label>
        <Button kind="quiet" onClick={() => (recorded.value = [])}>
          Clear
        </Button>
      </div>
      {entries.length === 0 && <Empty title="Nothing sent yet" />}
      <ol class="dock-list">
        {entries.slice(0, 40).map((entry) => (
          <li key={entry.id} class="dock-entry">
            <p class="dock-request">
              <code>
                {entry.verb} {entry.target.split("?", 1)[0]}
              </code>
              <span class={isFailure(entry) ? "bad small" : "muted small"}>
                {isEmptyList(entry) ? "empty list" : entry.status || "no answer"}, {entry.ms} ms,{" "}
                <Ago at={entry.time} />
              </span>
            </p>
            <CommandText request={entry} />
          </li>
        ))}
      </ol>
    </aside>
  );
}
