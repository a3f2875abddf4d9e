/** A bulk action under way: progress, stop, continue, and the outcome of each item. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Status, type Tone } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { plural } from "../../lib/text.ts";
import { type BulkItem, type BulkJob, runJob, storeJob, targetOf } from "./bulk-job.ts";

const STATES: Readonly<Record<BulkItem["state"], readonly [Tone, string]>> = {
  left: ["off", "Left"],
  done: ["ok", "Done"],
  refused: ["bad", "Refused"],
};

function titleOf({ action, items, mount }: BulkJob): string {
  const what = plural(items.length, "secret");
  if (action.kind === "delete") return `Delete ${what} of ${mount}/${action.isForever ? " for good" : ""}`;
  if (action.kind === "sync") return `Sync ${what} of ${mount}/ to ${action.name}`;
  return `${action.kind === "copy" ? "Copy" : "Move"} ${what} of ${mount}/ to ${action.mount}/${action.folder}`;
}

/** The page and the storage of the tab get outcomes at most this often. */
const FLUSH_MS = 150;

interface ProgressProps {
  readonly begun: BulkJob;
  /** A job that a reload has found waits for the person. */
  readonly isNew: boolean;
  readonly onClose: () => void;
}

export function BulkProgress({ begun, isNew, onClose }: ProgressProps) {
  const [job, setJob] = useState(begun);
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const current = useRef(begun);
  const aborting = useRef<AbortController | null>(null);
  const set = (changed: BulkJob): void => {
    current.current = changed;
    storeJob(changed);
    setJob(changed);
  };
  const run = async (): Promise<void> => {
    const { signal } = (aborting.current = new AbortController());
    setRunning(true);
    setError(null);
    const outcomes = new Map<string, BulkItem>();
    const flush = (): void => {
      if (outcomes.size === 0) return;
      const items = current.current.items.map((item) => outcomes.get(item.path) ?? item);
      outcomes.clear();
      set({ ...current.current, items });
    };
    const timer = setInterval(flush, FLUSH_MS);
    addEventListener("pagehide", flush);
    try {
      await runJob(current.current, signal, (item) => outcomes.set(item.path, item));
    } catch (failure) {
      setError(failure);
    }
    clearInterval(timer);
    removeEventListener("pagehide", flush);
    flush();
    setRunning(false);
  };
  useEffect(() => {
    if (isNew) void run();
    return () => aborting.current?.abort();
  }, []);
  const of = (state: BulkItem["state"]): number => job.items.filter((item) => item.state === state).length;
  const [done, refused, left] = [of("done"), of("refused"), of("left")];
  const isTransfer = job.action.kind === "copy" || job.action.kind === "move";
  return (
    <div class="stack">
      <h2>{titleOf(job)}</h2>
      <div class="progress">
        <progress max={job.items.length} value={done + refused} aria-label="Secrets" />
        <span class="progress-text" role="status">
          {isRunning ? "Under way" : left > 0 ? "Stopped" : "Ended"}: {done} done, {refused} refused, {left} left
        </span>
      </div>
      {error !== null && <ErrorPanel error={error} title="The action was interrupted" />}
      <Toolbar>
        {isRunning ? (
          <Button icon="pause" onClick={() => aborting.current?.abort()}>
            Stop
          </Button>
        ) : (
          <>
            {left > 0 && (
              <Button kind="primary" icon="play" onClick={() => void run()}>
                Continue with {left} left
              </Button>
            )}
            {refused > 0 && (
              <Button
                icon="refresh"
                onClick={() => {
                  const items = job.items.map(({ path, state, ...rest }) =>
                    state === "refused" ? { path, state: "left" as const } : { path, state, ...rest },
                  );
                  set({ ...job, items });
                  void run();
                }}
              >
                Try the refused again
              </Button>
            )}
            <Button
              onClick={() => {
                storeJob(null);
                onClose();
              }}
            >
              {left > 0 ? "Give up the rest" : "Close"}
            </Button>
          </>
        )}
      </Toolbar>
      <DataTable
        label="Outcomes"
        rows={job.items}
        keyOf={({ path }) => path}
        columns={[
          {
            key: "state",
            label: "State",
            width: "8rem",
            render: ({ state }) => <Status tone={STATES[state][0]}>{STATES[state][1]}</Status>,
          },
          { key: "path", label: "Path", render: ({ path }) => <span class="mono">{path}</span> },
          ...(isTransfer
            ? [
                {
                  key: "target",
                  label: "Target",
                  isMinor: true,
                  render: ({ path }: BulkItem) => <span class="mono">{targetOf(job, path)}</span>,
                },
              ]
            : []),
          { key: "note", label: "Note", render: ({ note }) => <span title={note}>{note}</span> },
        ]}
      />
    </div>
  );
}
