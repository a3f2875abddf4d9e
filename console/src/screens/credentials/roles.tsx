import { useState } from "preact/hooks";
import { kindsOf } from "../../../../src/credentials/engines/description.ts";
import { wireRequest } from "../../api/client.ts";
import { href, place, setQuery } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { SearchInput } from "../../components/field.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { type Column, DataTable } from "../../components/table.tsx";
import { useResource } from "../../lib/resource.ts";
import { kindLabel, roleAddress } from "./engine-types.ts";
import { engineHref } from "./engines.tsx";
import { IssueDialog } from "./issue.tsx";
import { type Engine, issueNeeds, operations, readRoleNames } from "./reads.ts";
import { RoleForm } from "./role-form.tsx";

const roleHref = (mount: string, role: string): string => href("credentials", [mount, role]);

/** Roles of an engine: each says what issued principals may do. */
export function Roles({
  engine,
  isReady,
  onChanged,
}: {
  readonly engine: Engine;
  readonly isReady: boolean;
  /** There may be another number of leases. */
  readonly onChanged: () => void;
}) {
  const { path: mount, type } = engine;
  const roles = useResource(["roles", mount], (signal) => readRoleNames(engine, signal));
  const [isNew, setNew] = useState(false);
  const [issuing, setIssuing] = useState<string | null>(null);
  const search = place.value.query.get("q") ?? "";
  const create = (
    <Button
      icon="plus"
      kind={isReady ? "primary" : "normal"}
      needs={[kindsOf(type).map((kind) => wireRequest(operations.writeRole(type, kind), { mount }))]}
      onClick={() => setNew(true)}
    >
      Create role
    </Button>
  );
  const columns: readonly Column<string>[] = [
    { key: "name", label: "Role", render: (stored) => roleAddress(type, stored).name },
    ...(type.kinds
      ? [
          {
            key: "kind",
            label: "Kind",
            width: "12rem",
            render: (stored: string) => kindLabel(roleAddress(type, stored).kind),
          },
        ]
      : []),
    {
      key: "issue",
      label: "Actions",
      isLabelHidden: true,
      width: "11rem",
      align: "end",
      render: (name) => (
        <Button
          kind="quiet"
          icon="key"
          needs={issueNeeds(engine, roleAddress(type, name))}
          onClick={() => setIssuing(name)}
        >
          Issue credentials
        </Button>
      ),
    },
  ];
  return (
    <Loaded resource={roles} label="Roles">
      {(names) => (
        <>
          {names.length === 0 ? (
            isReady ? (
              <Empty title="No roles yet" actions={create}>
                A role names what its credentials may do at {type.label}.
              </Empty>
            ) : (
              <Empty
                title="Configure the engine first"
                actions={<a href={engineHref(mount, { tab: "config" })}>Configure</a>}
              >
                It has to know the identity at {type.label} that it acts as.
              </Empty>
            )
          ) : (
            <>
              <Toolbar>
                <SearchInput label="Filter roles" value={search} onChange={(q) => setQuery({ q })} />
                {create}
              </Toolbar>
              <DataTable
                label="Roles"
                rows={names.filter((name) => name.toLowerCase().includes(search.toLowerCase()))}
                columns={columns}
                keyOf={(name) => name}
                hrefOf={(name) => roleHref(mount, name)}
                empty={<Empty title="No role matches the filter" />}
              />
            </>
          )}
          {isNew && (
            <RoleForm
              engine={engine}
              onClose={() => setNew(false)}
              onDone={() => {
                setNew(false);
                roles.reload();
              }}
            />
          )}
          {issuing !== null && (
            <IssueDialog
              engine={engine}
              role={roleAddress(type, issuing)}
              onClose={() => {
                setIssuing(null);
                onChanged();
              }}
            />
          )}
        </>
      )}
    </Loaded>
  );
}
