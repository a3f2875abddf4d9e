import { useState } from "preact/hooks";
import { isDenied } from "../../api/client.ts";
import { go, href, useAsked } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Icon } from "../../components/icons.tsx";
import { Menu } from "../../components/menu.tsx";
import { Page } from "../../components/page.tsx";
import { RemountDialog } from "../../components/remount.tsx";
import { Empty } from "../../components/states.tsx";
import { VirtualList } from "../../components/virtual-list.tsx";
import { useSettled } from "../../lib/live.ts";
import { useResource } from "../../lib/resource.ts";
import { plural } from "../../lib/text.ts";
import { compareHref, type KvMount, manyHref, mountHref, newNeed, secretHref } from "./addresses.ts";
import { ExpiringSecrets } from "./expiring-list.tsx";
import { disableMount, MountSettings } from "./mount-settings.tsx";
import { OpenByName } from "./open-by-name.tsx";
import { findSecrets } from "./search.ts";
import { Secret } from "./secret.tsx";
import { SecretEditor } from "./secret-editor.tsx";
import { PlainSecret } from "./secret-v1.tsx";
import { SyncTo } from "./sync-to.tsx";
import { TreeView } from "./tree.tsx";
import { type Tree, useTree } from "./tree-state.ts";

interface BrowserProps {
  readonly mount: KvMount;
  readonly secret: string | null;
  readonly onMountChange: () => void;
}

/** The tree of a mount beside the selected secret. On narrow screens one of the two is shown. */
export function Browser({ mount, secret, onMountChange }: BrowserProps) {
  const tree = useTree(mount, secret);
  const [dialog, setDialog] = useState<"new" | "settings" | "move" | "sync" | null>(null);
  useAsked("new", () => setDialog("new"));
  const close = (): void => setDialog(null);
  const disable = (): void => {
    void disableMount(mount).then((isDone) => {
      if (!isDone) return;
      onMountChange();
      go(href("secrets"));
    });
  };
  const actions = (
    <>
      <Button kind="primary" icon="plus" needs={newNeed(mount)} onClick={() => setDialog("new")}>
        New secret
      </Button>
      <Menu
        label="More about the engine"
        items={[
          { label: "Settings of the engine", icon: "edit", onSelect: () => setDialog("settings") },
          {
            label: "Select many secrets",
            icon: "check",
            onSelect: () => go(manyHref(mount.path, tree.folder)),
          },
          ...(mount.version === 2
            ? [
                {
                  label: `Sync ${tree.folder || "the whole engine"} by a rule`,
                  icon: "sync" as const,
                  needs: "POST sys/sync/destinations/*/rules/*" as const,
                  onSelect: () => setDialog("sync"),
                },
                {
                  label: "Compare with others",
                  icon: "sync" as const,
                  onSelect: () => go(compareHref(mount.path, secret ?? tree.folder)),
                },
              ]
            : []),
          { label: "Read the tree again", icon: "refresh", onSelect: tree.reload },
          {
            label: "Move to another path",
            icon: "right",
            needs: "POST sys/remount",
            onSelect: () => setDialog("move"),
          },
          {
            label: "Disable the engine",
            icon: "trash",
            needs: `DELETE sys/mounts/${mount.path}`,
            onSelect: disable,
            isDangerous: true,
          },
        ]}
      />
    </>
  );
  const changed = (path: string | null): void => {
    tree.reload();
    if (path === null) go(href("secrets", [mount.path]));
  };
  return (
    <Page
      title={`${mount.path}/`}
      crumbs={[{ label: "Secrets", href: href("secrets") }]}
      about={mount.description}
      actions={actions}
    >
      <div class={secret === null ? "secrets-split" : "secrets-split secrets-chosen"}>
        <Sidebar mount={mount} tree={tree} selected={secret} onNew={() => setDialog("new")} />
        <div class="secrets-detail">
          {secret === null ? (
            <div class="card">
              <Empty title={tree.isEmpty ? "No secret yet" : "Select a secret"}>
                {tree.isEmpty
                  ? "Write the first one with New secret."
                  : "Its versions, metadata and destinations are shown here. Values stay hidden until you reveal them."}
              </Empty>
            </div>
          ) : mount.version === 2 ? (
            <Secret key={secret} mount={mount} path={secret} onChange={changed} />
          ) : (
            <PlainSecret key={secret} mount={mount} path={secret} onChange={changed} />
          )}
        </div>
      </div>
      {dialog === "move" && (
        <RemountDialog
          path={mount.path}
          onClose={close}
          onDone={(path) => {
            onMountChange();
            go(mountHref(path));
          }}
        />
      )}
      {dialog === "new" && (
        <SecretEditor
          mount={mount}
          path={null}
          folder={tree.folder}
          onClose={close}
          onDone={(path) => {
            tree.reload();
            go(secretHref(mount.path, path));
          }}
        />
      )}
      {dialog === "sync" && <SyncTo mount={mount.path} path={tree.folder} onClose={close} onDone={() => undefined} />}
      {dialog === "settings" && <MountSettings mount={mount} onClose={close} onDone={onMountChange} />}
    </Page>
  );
}

interface SidebarProps {
  readonly mount: KvMount;
  readonly tree: Tree;
  readonly selected: string | null;
  readonly onNew: () => void;
}

function Sidebar({ mount, tree, selected }: SidebarProps) {
  const [words, setWords] = useState("");
  const [isByExpiry, setByExpiry] = useState(false);
  const isSearching = words.trim() !== "";
  const isListable = !isDenied(tree.error);
  return (
    <section class="secrets-side card" aria-label="Secrets of the engine">
      {isListable && !tree.isPartial && (
        <div class="secrets-search">
          <SearchInput label="Search all secrets by name" placeholder="Search" value={words} onChange={setWords} />
          {mount.version === 2 && (
            <label class="inline-check small">
              <input
                type="checkbox"
                checked={isByExpiry}
                onChange={(event) => setByExpiry(event.currentTarget.checked)}
              />{" "}
              Only those that expire
            </label>
          )}
        </div>
      )}
      {tree.isPartial && (
        <p class="secrets-side-note muted small">Folders that your policies name. Ctrl K finds more by name.</p>
      )}
      {!isListable ? (
        <OpenByName mount={mount.path} />
      ) : isByExpiry && !isSearching ? (
        <ExpiringSecrets key={mount.path} mount={mount} selected={selected} />
      ) : isSearching ? (
        <SearchResults mount={mount} words={words} selected={selected} />
      ) : tree.error !== null ? (
        <ErrorPanel error={tree.error} onRetry={tree.reload} />
      ) : tree.isEmpty ? (
        <p class="secrets-side-note muted">No secret yet.</p>
      ) : (
        <TreeView tree={tree} mount={mount.path} selected={selected} />
      )}
    </section>
  );
}

const SHOWN = 500;

function SearchResults({
  mount,
  words,
  selected,
}: {
  readonly mount: KvMount;
  readonly words: string;
  readonly selected: string | null;
}) {
  const q = useSettled(words.trim());
  const found = useResource(["search", mount.path, q], (signal) => findSecrets(mount.path, q, SHOWN, signal));
  const { paths = [], hasMore = false } = found.value ?? {};
  return (
    <>
      <p class="secrets-side-note muted small" role="status">
        {found.isLoading ? "Searching …" : `${hasMore ? "The first " : ""}${plural(paths.length, "secret")}`}
      </p>
      {found.error !== null && <ErrorPanel error={found.error} onRetry={found.reload} />}
      <VirtualList
        rows={paths}
        rowPx={30}
        keyOf={(path) => path}
        role="list"
        label="Secrets found"
        className="secrets-tree"
        render={(path) => (
          <div role="listitem">
            <a
              class="secrets-tree-row"
              href={secretHref(mount.path, path)}
              aria-current={path === selected ? "true" : undefined}
              title={path}
            >
              <Icon name="key" size={12} />
              <span class="secrets-tree-name">{path}</span>
            </a>
          </div>
        )}
      />
    </>
  );
}
