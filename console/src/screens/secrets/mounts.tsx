import { useState } from "preact/hooks";
import { go, href, useAsked } from "../../app/router.ts";
import { Button, LinkButton } from "../../components/button.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Menu } from "../../components/menu.tsx";
import { Page, Toolbar } from "../../components/page.tsx";
import { Empty, Loaded, noneOf } from "../../components/states.tsx";
import { Tag } from "../../components/status.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import type { Resource } from "../../lib/resource.ts";
import { byName } from "../../lib/text.ts";
import { mountHref, newNeed } from "./addresses.ts";
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
  { key: "kind", label: "Kind", width: "11rem", render: ({ kind }) => <Tag>{kind}</Tag>, sort: ({ kind }) => kind },
  { key: "description", label: "Description", render: ({ description }) => description, isMinor: true },
  {
    key: "accessor",
    label: "Accessor",
    width: "11rem",
    render: ({ accessor }) => <code>{accessor}</code>,
    isMinor: true,
  },
];

const rowsOf = ({ kv }: Mounts): Row[] =>
  kv.map(({ path, version, description, details }) => ({
    path,
    kind: `Version ${version}`,
    description,
    accessor: details?.accessor ?? "",
    href: mountHref(path),
  }));

const MAX_ITEMS = 15;

/** Opens the form of a new secret in an engine. */
const newHref = (path: string): string => href("secrets", [path], { new: "secret" });

/** All secrets engines of the namespace that the caller may see. */
export function MountList({ mounts }: { readonly mounts: Resource<Mounts> }) {
  const [words, setWords] = useState("");
  const [isEnabling, setEnabling] = useState(false);
  const kv = mounts.value?.kv ?? [];
  const [only] = kv;
  useAsked("new", () => only && go(newHref(only.path), { replace: true }), only !== undefined);
  const enable = (
    <Button icon="plus" needs="POST sys/mounts/*" onClick={() => setEnabling(true)}>
      Enable engine
    </Button>
  );
  return (
    <Page
      title="Secrets"
      about="Key/value engines of this namespace: each keeps a tree of secrets. Engines that issue credentials are under Credentials."
      actions={
        <>
          {enable}
          {kv.length > 1 ? (
            <Menu
              label="New secret in an engine"
              items={kv.slice(0, MAX_ITEMS).map((mount) => ({
                label: `In ${mount.path}/`,
                needs: newNeed(mount),
                onSelect: () => go(newHref(mount.path)),
              }))}
            >
              New secret
            </Menu>
          ) : (
            only && (
              <LinkButton kind="primary" icon="plus" href={newHref(only.path)} needs={newNeed(only)}>
                New secret
              </LinkButton>
            )
          )}
        </>
      }
    >
      <Loaded resource={mounts} label="The mounts">
        {(found) => {
          const all = rowsOf(found).sort((a, b) => byName(a.path, b.path));
          const rows = all.filter(({ path, description }) =>
            `${path} ${description}`.toLowerCase().includes(words.toLowerCase()),
          );
          if (all.length === 0)
            return (
              <Empty title={noneOf("secrets engine")} actions={enable}>
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
