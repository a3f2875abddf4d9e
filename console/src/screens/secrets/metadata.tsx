import schema from "schema:POST /v1/secret/metadata/{path}";
import { useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { Button } from "../../components/button.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { Ago } from "../../components/moments.tsx";
import { Card, Properties } from "../../components/page.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import type { Resource } from "../../lib/resource.ts";
import type { FormValue } from "../../lib/settings.ts";
import type { At } from "./secret.tsx";

type Found = Schemas["SecretMetadata"];

/** Settings of the secret and its custom metadata. */
export function Metadata({ at, metadata }: { readonly at: At; readonly metadata: Resource<Found | null> }) {
  const [isEditing, setEditing] = useState(false);
  return (
    <Loaded resource={metadata} label="The metadata">
      {(found) => {
        if (found === null) return <Empty title="No metadata" />;
        const custom = Object.entries(found.custom_metadata ?? {});
        return (
          <>
            <Card
              title="Settings"
              actions={
                <Button
                  icon="edit"
                  needs={wireRequest("POST /v1/secret/metadata/{path}", at)}
                  onClick={() => setEditing(true)}
                >
                  Change the metadata
                </Button>
              }
            >
              <Properties
                items={[
                  ["First written", <Ago key="created" at={found.created_time} />],
                  ["Last change", <Ago key="updated" at={found.updated_time} />],
                  ["Newest version", found.current_version],
                  ["Versions kept", found.max_versions === 0 ? "as the engine says" : found.max_versions],
                  ["Check-and-set", found.cas_required ? "required" : "not required"],
                  ["Delete version after", found.delete_version_after === "0s" ? "never" : found.delete_version_after],
                ]}
              />
            </Card>
            <Card title="Custom metadata">
              {custom.length === 0 ? (
                <p class="muted">
                  None. Pairs such as an owner, a ticket or expires_at belong here; they are not secret.
                </p>
              ) : (
                <Properties items={custom.map(([name, value]) => [name, value] as const)} />
              )}
            </Card>
            {isEditing && (
              <MetadataEditor at={at} found={found} onClose={() => setEditing(false)} onDone={metadata.reload} />
            )}
          </>
        );
      }}
    </Loaded>
  );
}

function MetadataEditor({
  at,
  found,
  onClose,
  onDone,
}: {
  readonly at: At;
  readonly found: Found;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const [value, setValue] = useState<FormValue>({
    ...(found.max_versions > 0 ? { max_versions: found.max_versions } : {}),
    ...(found.cas_required ? { cas_required: true } : {}),
    ...(found.delete_version_after === "0s" ? {} : { delete_version_after: found.delete_version_after }),
    ...(found.custom_metadata ? { custom_metadata: found.custom_metadata } : {}),
  });
  // Fields that were cleared in the form are cleared at the service.
  const body = { max_versions: 0, cas_required: false, delete_version_after: "0s", custom_metadata: {}, ...value };
  const save = async (): Promise<void> => {
    await api("POST /v1/secret/metadata/{path}", { ...at, body });
    toast("The metadata is written.");
    onDone();
    onClose();
  };
  return (
    <FormDialog
      title="Change the metadata"
      verb="Write the metadata"
      onClose={onClose}
      perform={save}
      request={wireRequest("POST /v1/secret/metadata/{path}", { ...at, body })}
    >
      {({ problems }) => (
        <>
          <SchemaForm
            schema={schema}
            value={value}
            onChange={setValue}
            first={["custom_metadata"]}
            problems={problems}
            texts={{
              cas_required: { label: "Every write names the version that it replaces", hint: "" },
              delete_version_after: { placeholder: "720h" },
            }}
          />
        </>
      )}
    </FormDialog>
  );
}
