/** One auth method: its users or roles, and its configuration. */
import { useState } from "preact/hooks";
import { api, isMissing, wireRequest } from "../../api/client.ts";
import { go, href } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Masked } from "../../components/masked.tsx";
import { Menu } from "../../components/menu.tsx";
import { Card, Page, Properties } from "../../components/page.tsx";
import { RemountDialog } from "../../components/remount.tsx";
import { ShownOnce } from "../../components/shown-once.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import type { JsonSchema } from "../../lib/schema.ts";
import type { FormValue } from "../../lib/settings.ts";
import { METHODS } from "./kinds.ts";
import { hasSecrets, SettingsForm, SettingsList } from "./settings.tsx";

export function MethodPage({ path }: { readonly path: string }) {
  const method = useResource(
    ["method", path],
    async (signal) => (await api("GET /v1/sys/auth/{path}", { path: { path }, signal })).data,
  );
  const [isConfiguring, setConfiguring] = useState(false);
  const [moves, setMoves] = useState(false);
  const mount = `auth/${path}`;
  const type = METHODS[method.value?.type ?? ""];
  const disable = async (): Promise<void> => {
    const options = { path: { path } };
    const done = await confirmed(
      {
        title: `Disable ${mount}/`,
        text: "Its users or roles are deleted, and the tokens that it issued end at once. This cannot be undone.",
        verb: "Disable the auth method",
        isDangerous: true,
        typed: path,
      },
      "DELETE /v1/sys/auth/{path}",
      options,
    );
    if (!done) return;
    toast(`The auth method ${path} is disabled.`);
    go(href("access", [], { tab: "methods" }));
  };
  return (
    <Page
      title={`${mount}/`}
      crumbs={[{ label: "Access", href: href("access", [], { tab: "methods" }) }]}
      about={type?.label}
      actions={
        type && (
          <>
            {type.config && (
              <Button needs={`POST ${mount}/config`} onClick={() => setConfiguring(true)}>
                Configure
              </Button>
            )}
            <Menu
              label="More actions"
              items={[
                {
                  label: "Move to another path",
                  icon: "right",
                  needs: "POST sys/remount",
                  onSelect: () => setMoves(true),
                },
                {
                  label: "Disable this method",
                  icon: "trash",
                  isDangerous: true,
                  needs: `DELETE sys/auth/${path}`,
                  onSelect: () => void disable(),
                },
              ]}
            />
          </>
        )
      }
    >
      <Loaded resource={method} label="The auth method">
        {({ description, accessor, type: name }) => (
          <>
            <Card>
              <Properties
                items={[
                  ["Type", name],
                  ["Description", description],
                  ["Accessor", <span class="mono">{accessor}</span>],
                ]}
              />
            </Card>
            {type ? (
              <SettingsList
                kind={type.kind}
                mount={mount}
                {...(name === "approle" ? { more: (role: string) => <SecretIds mount={mount} role={role} /> } : {})}
              />
            ) : (
              <Empty title="Tokens have no users or roles here">They are on the tab Tokens.</Empty>
            )}
          </>
        )}
      </Loaded>
      {moves && (
        <RemountDialog
          path={mount}
          onClose={() => setMoves(false)}
          onDone={(to) => go(href("access", ["method", to.replace(/^auth\//, "")]))}
        />
      )}
      {isConfiguring && type?.config && (
        <ConfigDialog mount={mount} schema={type.config} onClose={() => setConfiguring(false)} />
      )}
    </Page>
  );
}

/** All types have the same path for it. */
const CONFIG = "/v1/auth/jwt/config";

/** Names of the secrets of a configuration, which no read returns. */
const storedSecrets = ({ token_reviewer_jwt_set, oidc_client_id }: FormValue): string[] => [
  ...(token_reviewer_jwt_set ? ["token_reviewer_jwt"] : []),
  ...(oidc_client_id ? ["oidc_client_secret"] : []),
];

function ConfigDialog({
  mount,
  schema,
  onClose,
}: {
  readonly mount: string;
  readonly schema: JsonSchema;
  readonly onClose: () => void;
}) {
  const stored = useResource(["config", mount], async (signal): Promise<FormValue> => {
    try {
      return (await api(`GET ${CONFIG}`, { mount, signal })).data;
    } catch (failure) {
      if (isMissing(failure)) return {};
      throw failure;
    }
  });
  return (
    <Dialog
      title={`Configure ${mount}/`}
      shape="side"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form="settings">
            Save configuration
          </Button>
        </>
      }
    >
      <Loaded resource={stored} label="The configuration">
        {(before) => (
          <SettingsForm
            schema={schema}
            first={["oidc_discovery_url", "oidc_client_id", "oidc_client_secret", "default_role", "kubernetes_host"]}
            replaces
            secrets={storedSecrets(before)}
            before={before}
            requestOf={(body) => wireRequest(`POST ${CONFIG}`, { mount, body })}
            save={async (body) => {
              await api(`POST ${CONFIG}`, { mount, body, sensitive: hasSecrets(body) });
              toast(`${mount}/ is configured.`);
              onClose();
            }}
          />
        )}
      </Loaded>
    </Dialog>
  );
}

/** Role ID and secret ID, with which a program logs in. */
function SecretIds({ mount, role }: { readonly mount: string; readonly role: string }) {
  const options = { mount, path: { name: role } };
  const id = useResource(
    ["role-id", mount, role],
    async (signal) => (await api("GET /v1/auth/approle/role/{name}/role-id", { ...options, signal })).data.role_id,
  );
  const [made, setMade] = useState<string | null>(null);
  const request = { ...options, body: {}, sensitive: true } as const;
  const create = useAction(async () => {
    setMade((await api("POST /v1/auth/approle/role/{name}/secret-id", request)).data.secret_id);
  });
  return (
    <>
      <Properties
        items={[
          [
            "Role ID",
            id.value && (
              <span class="with-copy">
                <code>{id.value}</code>
                <CopyButton text={id.value} label="the role ID" />
              </span>
            ),
          ],
          [
            "Secret ID, shown here only",
            made && (
              <ShownOnce key={made} what="the secret ID">
                <Masked value={made} label="the secret ID" />
              </ShownOnce>
            ),
          ],
        ]}
      />
      <div class="button-row">
        <Button
          icon="key"
          isBusy={create.isBusy}
          needs={`POST ${mount}/role/${role}/secret-id`}
          onClick={() => void create.run()}
        >
          Create secret ID
        </Button>
      </div>
      {create.error !== null && <ErrorPanel error={create.error} />}
      <AsCommand request={wireRequest("POST /v1/auth/approle/role/{name}/secret-id", request)} />
    </>
  );
}
