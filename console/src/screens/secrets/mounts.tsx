import { useState } from "preact/hooks";
import { href } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Page, Toolbar } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Tag } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import type { Resource } from "../../lib/resource.ts";
import { byName, providerName } from "../../lib/text.ts";
import { mountHref } from "./addresses.ts";
import { EnableMount } from "./enable-mount.tsx";
import type { Mounts } from "./reads.ts";

interface Row {
  readonly path: string;
  readonly kind: string;
  readonly description: string;
  readonly accessor: string;
  readonly href: string;
}

const COLUMNS: readonly Column<Row>[] = [
  { key: "path", label: "Path", render: ({ path }) => <span class="mono">{path}/</span>, sort: ({ path }) => path },
  { key: "kind", label: "Engine", width: "11rem", render: ({ kind }) => <Tag>{kind}</Tag>, sort: ({ kind }) => kind },
  { key: "description", label: "Description", render: ({ description }) => description, isMinor: true },
  {
    key: "accessor",
    label: "Accessor",
    width: "11rem",
    render: ({ accessor }) => <code>{accessor}</code>,
    isMinor: true,
  },
];

const rowsOf = ({ kv, others }: Mounts): Row[] => [
  ...kv.map(({ path, version, description, details }) => ({
    ...{ path, kind: `Key/value, version ${version}`, description },
    ...{ accessor: details?.accessor ?? "", href: mountHref(path) },
  })),
  ...others.map(({ path, type, description }) => ({
    ...{ path, kind: providerName(type), description, accessor: "" },
    href: href("credentials", [path]),
  })),
];

/** All secrets engines of the namespace that the caller may see. */
export function MountList({ mounts }: { readonly mounts: Resource<Mounts> }) {
  const [words, setWords] = useState("");
  const [isEnabling, setEnabling] = useState(false);
  const enable = (
    <Button kind="primary" icon="plus" onClick={() => setEnabling(true)}>
      Enable an engine
    </Button>
  );
  return (
    <Page
      title="Secrets"
      about="Secrets engines of this namespace. Key/value engines keep your secrets; others issue credentials."
      actions={enable}
    >
      <Loaded resource={mounts} label="Reading the mounts">
        {(found) => {
          const all = rowsOf(found).sort((a, b) => byName(a.path, b.path));
          const rows = all.filter(({ path, description }) =>
            `${path} ${description}`.toLowerCase().includes(words.toLowerCase()),
          );
          if (all.length === 0)
            return (
              <Empty title="No secrets engine here" actions={enable}>
                Enable a key/value engine to keep secrets with their versions. If there should be one, your token may
                have no right below it, or it is in another namespace.
              </Empty>
            );
          return (
            <>
              {all.length > 8 && (
                <Toolbar>
                  <SearchInput label="Filter the engines" value={words} onChange={setWords} />
                </Toolbar>
              )}
              <DataTable
                label="Secrets engines"
                rows={rows}
                columns={COLUMNS}
                keyOf={({ path }) => path}
                hrefOf={(row) => row.href}
                empty={<Empty title="Nothing fits" />}
              />
            </>
          );
        }}
      </Loaded>
      {isEnabling && <EnableMount onClose={() => setEnabling(false)} onDone={mounts.reload} />}
    </Page>
  );
}
