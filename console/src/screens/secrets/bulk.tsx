/** Selects many secrets of a folder, and deletes, copies, moves, syncs or exports them. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { href } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Page, Toolbar } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { count, plural } from "../../lib/text.ts";
import { type KvMount, mountHref, secretHref } from "./addresses.ts";
import { BulkDialog } from "./bulk-dialog.tsx";
import { type BulkAction, type BulkJob, MAX_ITEMS, owner, storedJob } from "./bulk-job.ts";
import { BulkProgress } from "./bulk-progress.tsx";
import { ExportDialog } from "./export-dialog.tsx";
import { matching, useNameIndex } from "./search.ts";

interface BulkProps {
  readonly mount: KvMount;
  /** Empty, or with a slash at its end. */
  readonly folder: string;
}

export function Bulk({ mount, folder }: BulkProps) {
  const [job, setJob] = useState<BulkJob | null>(null);
  const [isNew, setNew] = useState(false);
  const caller = owner();
  useEffect(() => {
    const found = storedJob();
    if (found?.mount === mount.path) setJob((before) => before ?? found);
  }, [caller]);
  return (
    <Page
      title={job ? `Secrets of ${mount.path}/` : `Select secrets of ${mount.path}/${folder}`}
      crumbs={[
        { label: "Secrets", href: href("secrets") },
        { label: `${mount.path}/`, href: mountHref(mount.path) },
      ]}
    >
      {job ? (
        <BulkProgress begun={job} isNew={isNew} onClose={() => setJob(null)} />
      ) : (
        <Selection
          mount={mount}
          folder={folder}
          onStart={(begun) => {
            setNew(true);
            setJob(begun);
          }}
        />
      )}
    </Page>
  );
}

function Selection({ mount, folder, onStart }: BulkProps & { readonly onStart: (job: BulkJob) => void }) {
  const index = useNameIndex(mount, folder);
  const [words, setWords] = useState("");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [kind, setKind] = useState<BulkAction["kind"] | "export" | null>(null);
  const shown = useMemo(
    () => (words.trim() === "" ? index.paths.slice() : matching(index.paths, words, Number.POSITIVE_INFINITY)).sort(),
    [index.paths.length, words],
  );
  const toggle = (path: string): void => setChosen((before) => before.symmetricDifference(new Set([path])));
  const isAll = shown.length > 0 && shown.every((path) => chosen.has(path));
  const actions: readonly (readonly [BulkAction["kind"] | "export", string])[] = [
    ["copy", "Copy"],
    ["move", "Move"],
    ...(mount.version === 2 ? [["sync", "Sync"] as const] : []),
    ["export", "Export"],
    ["delete", "Delete"],
  ];
  const about = kind && { mount, folder, paths: [...chosen].sort(), onClose: () => setKind(null) };
  return (
    <>
      <Toolbar>
        <SearchInput label="Secrets by name" placeholder="Name" value={words} onChange={setWords} />
        <Button
          onClick={() =>
            setChosen((before) => (isAll ? before.difference(new Set(shown)) : before.union(new Set(shown))))
          }
          disabled={shown.length === 0}
        >
          {isAll ? "Select none" : `Select all ${count(shown.length)}`}
        </Button>
        {actions.map(([name, label]) => (
          <Button
            key={name}
            kind={name === "delete" ? "danger" : "normal"}
            disabled={chosen.size === 0 || chosen.size > MAX_ITEMS}
            onClick={() => setKind(name)}
          >
            {label}
          </Button>
        ))}
      </Toolbar>
      <p class="muted small" role="status">
        {index.isReading
          ? `${plural(index.foldersRead, "folder")} read, ${index.foldersLeft} left …`
          : `${plural(index.paths.length, "secret")} in ${plural(index.foldersRead, "folder")}`}
        {index.foldersRefused > 0 && `; ${plural(index.foldersRefused, "folder")} may not be listed`}
        {`; ${count(chosen.size)} selected`}
        {chosen.size > MAX_ITEMS && `, at most ${count(MAX_ITEMS)} at a time`}
        {!index.isReading && index.failure === null && index.foldersLeft > 0 && (
          <Button kind="quiet" onClick={index.readOn}>
            Read {index.foldersLeft} more
          </Button>
        )}
      </p>
      {index.failure !== null && (
        <ErrorPanel error={index.failure} title="Not all names could be read" onRetry={index.readOn}>
          {plural(index.foldersLeft, "folder")} left, whose secrets are not in the list.
        </ErrorPanel>
      )}
      <DataTable
        label="Secrets"
        rows={shown}
        keyOf={(path) => path}
        onOpen={toggle}
        columns={[
          {
            key: "chosen",
            label: "Selected",
            isLabelHidden: true,
            width: "3rem",
            render: (path) => (
              <input
                type="checkbox"
                aria-label={`Select ${path}`}
                checked={chosen.has(path)}
                onChange={() => toggle(path)}
              />
            ),
          },
          { key: "path", label: "Path", render: (path) => <a href={secretHref(mount.path, path)}>{path}</a> },
        ]}
        empty={
          <div class="card">
            <Empty title={index.isReading ? "Reading the names" : "No secret that your token may list"} />
          </div>
        }
      />
      {about && kind === "export" && <ExportDialog {...about} />}
      {about && kind !== "export" && <BulkDialog {...about} kind={kind} onStart={onStart} />}
    </>
  );
}
