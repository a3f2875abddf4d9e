import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { plainName, type RoleKind } from "../../../../src/credentials/engines/description.ts";
import { api, isMissing, wireRequest } from "../../api/client.ts";
import { go, href } from "../../app/router.ts";
import { Button } from "../../components/button.tsx";
import { confirm } from "../../components/confirm.tsx";
import { Menu } from "../../components/menu.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Tag } from "../../components/status.tsx";
import { toast } from "../../components/toasts.tsx";
import { useResource } from "../../lib/resource.ts";
import { durationText } from "../../lib/time.ts";
import { kindLabel, leasePaths, type RoleAddress, roleAddress } from "./engine-types.ts";
import { engineHref } from "./engines.tsx";
import { Grants } from "./grants.tsx";
import { IssueDialog } from "./issue.tsx";
import { Leases } from "./leases.tsx";
import { type Engine, type EngineRole, issueNeeds, operations, readEngines, readRole } from "./reads.ts";
import { RoleForm } from "./role-form.tsx";

/** One role: what it gives, and its leases. @param stored name, which the beginning of its kind precedes */
export function RolePage({ mount, stored }: { readonly mount: string; readonly stored: string }) {
  const engines = useResource(["engines"], readEngines);
  const engine = engines.value?.find(({ path }) => path === mount);
  const crumbs = [
    { label: "Credentials", href: href("credentials") },
    { label: mount, href: engineHref(mount) },
  ];
  if (engine) return <Role engine={engine} address={roleAddress(engine.type, stored)} crumbs={crumbs} />;
  return (
    <Page title={plainName(stored)} crumbs={crumbs}>
      <Loaded resource={engines} label="The engine">
        {() => (
          <Empty
            title="There is no such engine that your token may see"
            actions={<a href={href("credentials")}>Go to the engines</a>}
          />
        )}
      </Loaded>
    </Page>
  );
}

interface RoleProps {
  readonly engine: Engine;
  readonly address: RoleAddress;
  readonly crumbs: readonly { readonly label: string; readonly href: string }[];
}

function Role({ engine, address, crumbs }: RoleProps) {
  const { path: mount, type } = engine;
  const { name, kind } = address;
  // Credentials that are kept for a role have no leases.
  const prefixes = leasePaths(address).map((path) => `${mount}${path}`);
  const role = useResource(["role", mount, address.stored], (signal) => readRole(engine, address, signal));
  const [dialog, setDialog] = useState<"issue" | "edit" | null>(null);
  const [round, setRound] = useState(0);
  if (isMissing(role.error))
    return (
      <Page title={name} crumbs={crumbs}>
        <Empty title="There is no such role" actions={<a href={engineHref(mount)}>Go to the roles of {mount}</a>} />
      </Page>
    );
  const remove = async (): Promise<void> => {
    const target = [operations.deleteRole(type, kind), { mount, path: { name } }] as const;
    const done = await confirm({
      title: `Delete the role ${name}`,
      text: <p>No more credentials are issued for it. Leases that are out live on until they end or are revoked.</p>,
      verb: "Delete role",
      isDangerous: true,
      request: wireRequest(...target),
      perform: async () => {
        const answer = await api(...target);
        if (answer?.warnings) toast(answer.warnings.join(" "), "warn");
      },
    });
    if (done) go(engineHref(mount));
  };
  return (
    <Page
      title={name}
      crumbs={crumbs}
      about={type.kinds ? `${kindLabel(kind)} of ${mount}` : `Role of ${mount}`}
      actions={
        <>
          {role.value && (
            <Button
              icon="edit"
              needs={wireRequest(operations.writeRole(type, kind), { mount, path: { name } })}
              onClick={() => setDialog("edit")}
            >
              Edit
            </Button>
          )}
          <Button
            icon="key"
            kind="primary"
            needs={issueNeeds(engine, address, role.value)}
            onClick={() => setDialog("issue")}
          >
            Issue credentials
          </Button>
          <Menu
            label="More actions"
            items={[
              {
                label: "Delete role",
                icon: "trash",
                isDangerous: true,
                needs: wireRequest(operations.deleteRole(type, kind), { mount, path: { name } }),
                onSelect: () => void remove(),
              },
            ]}
          />
        </>
      }
    >
      <Loaded resource={role} label="The role">
        {(settings) => (
          <>
            <Settings kind={kind} role={settings} />
            {dialog === "edit" && (
              <RoleForm
                engine={engine}
                role={{ address, settings }}
                onClose={() => setDialog(null)}
                onDone={() => {
                  setDialog(null);
                  role.reload();
                }}
              />
            )}
          </>
        )}
      </Loaded>
      {prefixes.length > 0 && (
        <>
          <h2 class="credentials-heading">Leases</h2>
          <Leases key={round} prefixes={prefixes} irrevocable={null} />
        </>
      )}
      {dialog === "issue" && (
        <IssueDialog
          engine={engine}
          role={address}
          onClose={() => {
            setDialog(null);
            setRound((n) => n + 1);
          }}
        />
      )}
    </Page>
  );
}

/** Settings of a role by the labels of its kind; those that are empty are left out. */
function Settings({ kind, role }: { readonly kind: RoleKind; readonly role: EngineRole }) {
  const hasGrants = "cloud_roles" in role;
  const fields = Object.entries(kind.fields).filter(([name]) => !hasGrants || !/^cloud_(roles|groups)$/.test(name));
  return (
    <div class="grid">
      {hasGrants && (
        <Card title="What its principals may do">
          <Grants role={role} />
        </Card>
      )}
      <Card title="Settings">
        <Properties
          items={[...fields, ...POOL].flatMap(([name, { label }]): [string, ComponentChildren][] => {
            const value = role[name];
            const isLeftOut = name === "pool_ready" ? !role["pool_size"] : isEmpty(value);
            return isLeftOut ? [] : [[label, shownValue(name, value)]];
          })}
        />
      </Card>
    </div>
  );
}

/** Members of an answer beside those of the description. */
const POOL = [["pool_ready", { label: "Ready in the pool" }]] as const;

const isEmpty = (value: unknown): boolean => !value || (typeof value === "object" && Object.keys(value).length === 0);

function shownValue(name: string, value: unknown): ComponentChildren {
  if (typeof value === "number" && /ttl$/.test(name)) return durationText(value * 1000);
  if (value === true) return "yes";
  if (Array.isArray(value) && value.every((each) => typeof each === "string"))
    return value.map((each) => <Tag key={each}>{each}</Tag>);
  return typeof value === "object" ? <code>{JSON.stringify(value)}</code> : <code>{String(value)}</code>;
}
