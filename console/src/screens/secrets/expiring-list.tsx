import { ErrorPanel } from "../../components/error-panel.tsx";
import { Status } from "../../components/status.tsx";
import { VirtualList } from "../../components/virtual-list.tsx";
import { plural } from "../../lib/text.ts";
import { minute } from "../../lib/time.ts";
import { type KvMount, secretHref } from "./addresses.ts";
import { expiryStatus, useExpiring } from "./expiry.ts";

/** Secrets of a mount whose metadata has an end, the earliest first. */
export function ExpiringSecrets({ mount, selected }: { readonly mount: KvMount; readonly selected: string | null }) {
  const { found, isReading, unread, failure, readAgain } = useExpiring(mount);
  return (
    <>
      <p class="secrets-side-note muted small" role="status">
        {isReading ? "Reading the metadata …" : `${plural(found.length, "secret")} with expires_at`}
        {unread > 0 && `; ${plural(unread, "folder")} not read`}
      </p>
      {failure !== null && <ErrorPanel error={failure} onRetry={readAgain} />}
      <VirtualList
        rows={found}
        rowPx={30}
        keyOf={({ path }) => path}
        role="list"
        label="Secrets that expire"
        className="secrets-tree"
        render={({ path, at }) => (
          <div role="listitem">
            <a
              class="secrets-tree-row"
              href={secretHref(mount.path, path)}
              aria-current={path === selected ? "true" : undefined}
              title={path}
            >
              <span class="secrets-tree-name">{path}</span>
              <Status tone={expiryStatus(at, minute.value).tone}>{expiryStatus(at, minute.value).text}</Status>
            </a>
          </div>
        )}
      />
    </>
  );
}
