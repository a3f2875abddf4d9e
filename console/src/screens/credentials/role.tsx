import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
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
import { engineHref } from "./engines.tsx";
import { Grants } from "./grants.tsx";
import { IssueDialog } from "./issue.tsx";
import { Leases } from "./leases.tsx";
import { type EngineRole, isMissing, readRole } from "./reads.ts";
import { RoleForm } from "./role-form.tsx";

/** One role: what it gives, and its leases. */
export function RolePage({ mount, name }: { readonly mount: string; readonly name: string }) {
  const role = useResource(["role", mount, name], (signal) => readRole(mount, name, signal));
  const [dialog, setDialog] = useState<"issue" | "edit" | null>(null);
  const [round, setRound] = useState(0);
  const crumbs = [
    { label: "Credentials", href: href("credentials") },
    { label: mount, href: engineHref(mount) },
  ];
  if (isMissing(role.error))
    return (
      <Page title={name} crumbs={crumbs}>
        <Empty title="There is no such role" actions={<a href={engineHref(mount)}>Go to the roles of {mount}</a>} />
      </Page>
    );
  const remove = async (): Promise<void> => {
    const target = ["DELETE /v1/cloud-b/roles/{name}", { mount, path: { name } }] as const;
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
      about={`Role of ${mount}`}
      actions={
        <>
          {role.value && (
            <Button icon="edit" onClick={() => setDialog("edit")}>
              Edit
            </Button>
          )}
          <Button icon="key" kind="primary" onClick={() => setDialog("issue")}>
            Issue credentials
          </Button>
          <Menu
            label="More actions"
            items={[{ label: "Delete role", icon: "trash", isDangerous: true, onSelect: () => void remove() }]}
          />
        </>
      }
    >
      <Loaded resource={role} label="The role">
        {(settings) => (
          <>
            <Settings role={settings} />
            {dialog === "edit" && (
              <RoleForm
                mount={mount}
                role={{ name, settings }}
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
      <h2 class="credentials-heading">Leases</h2>
      <Leases key={round} prefix={`${mount}/creds/${name}`} irrevocable={null} />
      {dialog === "issue" && (
        <IssueDialog
          mount={mount}
          role={name}
          onClose={() => {
            setDialog(null);
            setRound((n) => n + 1);
          }}
        />
      )}
    </Page>
  );
}

const life = (seconds: number, none: string): string => (seconds > 0 ? durationText(seconds * 1000) : none);

const poolText = ({ pool_size: size = 0, pool_ready: ready = 0, pool_ttl: ttl = 0 }: EngineRole): string =>
  size > 0 ? `${ready} of ${size} principals are ready; each is replaced after ${life(ttl, "a day")}` : "none";

function Settings({ role }: { readonly role: EngineRole }) {
  const { tags } = role;
  return (
    <div class="grid">
      <Card title="What its principals may do">
        <Grants role={role} />
      </Card>
      <Card title="Leases and applications">
        <Properties
          items={[
            ["Life", life(role.ttl, "the engine's")],
            ["With renewals", life(role.max_ttl, "the engine's")],
            ["Hard end", life(role.explicit_max_ttl, "none")],
            [
              "Application",
              role.application_object_id
                ? "an existing one"
                : role.persist_app
                  ? "one for the life of the role"
                  : "a new one for each lease",
            ],
            ["Deleted ones", role.permanently_delete ? "beyond recovery" : "lie in the recycle bin for 30 days"],
            ["Sign-in audience", role.sign_in_audience],
            ["Pool", poolText(role)],
            ["Tags", tags?.length ? tags.map((tag) => <Tag key={tag}>{tag}</Tag>) : null],
          ]}
        />
      </Card>
    </div>
  );
}
