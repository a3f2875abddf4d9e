import schema from "schema:POST /v1/secret/config";
import { useState } from "preact/hooks";
import { ApiError, api, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Properties } from "../../components/page.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { Loaded } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { fieldProblems } from "../../lib/schema.ts";
import type { FormValue } from "../../lib/settings.ts";
import type { KvMount } from "./addresses.ts";

/** Resolves with whether the engine was disabled. */
export function disableMount({ path }: KvMount): Promise<boolean> {
  const options = { path: { path } };
  return confirmed(
    {
      title: `Disable ${path}/?`,
      text: "All its secrets are deleted for good, also at the destinations that they are synced to. This cannot be undone.",
      verb: "Disable the engine",
      isDangerous: true,
      typed: path,
    },
    "DELETE /v1/sys/mounts/{path}",
    options,
  );
}

/** How many versions an engine keeps, and its upgrade from version 1. */
export function MountSettings({
  mount,
  onClose,
  onDone,
}: {
  readonly mount: KvMount;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  return (
    <Dialog title={`Settings of ${mount.path}/`} onClose={onClose} shape="side">
      <Properties
        items={[
          ["Engine", `Key/value, version ${mount.version}`],
          ["Accessor", mount.details && <code>{mount.details.accessor}</code>],
          ["Description", mount.description],
        ]}
      />
      {mount.version === 2 ? (
        <Config mount={mount} onClose={onClose} />
      ) : (
        <Upgrade mount={mount} onClose={onClose} onDone={onDone} />
      )}
    </Dialog>
  );
}

function Config({ mount, onClose }: { readonly mount: KvMount; readonly onClose: () => void }) {
  const [changed, setChanged] = useState<FormValue | null>(null);
  const found = useResource(
    ["config", mount.path],
    async (signal) => (await api("GET /v1/secret/config", { mount: mount.path, signal })).data,
  );
  const { value: present } = found;
  const value: FormValue = changed ?? {
    ...(present && present.max_versions > 0 ? { max_versions: present.max_versions } : {}),
    ...(present?.cas_required ? { cas_required: true } : {}),
    ...(present && present.delete_version_after !== "0s" ? { delete_version_after: present.delete_version_after } : {}),
  };
  const options = {
    mount: mount.path,
    body: { max_versions: 0, cas_required: false, delete_version_after: "0s", ...value },
  };
  const save = useAction(async () => {
    await api("POST /v1/secret/config", options);
    toast("The settings are written.");
    onClose();
  });
  return (
    <Loaded resource={found} label="The settings">
      {() => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void save.run();
          }}
        >
          <SchemaForm
            schema={schema}
            value={value}
            onChange={setChanged}
            problems={save.error instanceof ApiError ? fieldProblems(save.error.messages) : {}}
            texts={{
              cas_required: {
                label: "Check-and-set required",
                hint: "Every write names the version that it replaces.",
              },
              delete_version_after: { label: "Delete version after", placeholder: "720h" },
            }}
          />
          {save.error !== null && <ErrorPanel error={save.error} />}
          <Button kind="primary" type="submit" isBusy={save.isBusy} needs={`POST ${mount.path}/config`}>
            Write the settings
          </Button>
          <AsCommand request={wireRequest("POST /v1/secret/config", options)} />
        </form>
      )}
    </Loaded>
  );
}

function Upgrade({
  mount,
  onClose,
  onDone,
}: {
  readonly mount: KvMount;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const options = { path: { path: mount.path }, body: { options: { version: "2" } } };
  const upgrade = (): void => {
    void confirmed(
      {
        title: `Upgrade ${mount.path}/ to version 2?`,
        text: "Every secret becomes version 1 of a versioned secret at once. Policies must name the paths of version 2 from then on. There is no way back.",
        verb: "Upgrade the engine",
      },
      "POST /v1/sys/mounts/{path}/tune",
      options,
    ).then((isDone) => {
      if (!isDone) return;
      onDone();
      onClose();
    });
  };
  return (
    <>
      <p>Version 1 keeps one value a path, without versions, and cannot be synced.</p>
      <Button needs={`POST sys/mounts/${mount.path}/tune`} onClick={upgrade}>
        Upgrade to version 2
      </Button>
    </>
  );
}
