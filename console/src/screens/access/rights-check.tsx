import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { place } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Card } from "../../components/page.tsx";
import { Tag } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { useAction } from "../../lib/resource.ts";

/** Capabilities of the own token, or of another one by its accessor, on some paths. */
export function RightsCheck() {
  const [accessor, setAccessor] = useState(place.value.query.get("accessor") ?? "");
  const [text, setText] = useState(place.value.query.get("path") ?? "");
  const [found, setFound] = useState<readonly (readonly [string, readonly string[]])[]>([]);
  const paths = text
    .split("\n")
    .map((path) => path.trim())
    .filter(Boolean);
  const request = accessor
    ? wireRequest("POST /v1/sys/capabilities-accessor", { body: { accessor, paths } })
    : wireRequest("POST /v1/sys/capabilities-self", { body: { paths } });
  const ask = useAction(async () => {
    const { data } = accessor
      ? await api("POST /v1/sys/capabilities-accessor", { body: { accessor, paths } })
      : await api("POST /v1/sys/capabilities-self", { body: { paths } });
    setFound(paths.map((path) => [path, data[path] ?? []] as const));
  });
  return (
    <Card title="What may a token do on this path?">
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (paths.length > 0) void ask.run();
        }}
      >
        <TextField
          label="Accessor of the token"
          mono
          value={accessor}
          onChange={setAccessor}
          hint="Empty: your own token."
        />
        <TextField
          label="Paths"
          required
          mono
          rows={3}
          value={text}
          onChange={setText}
          hint="One per line, as in a policy, such as secret/data/app/db or azure/creds/reader."
        />
        <div>
          <Button kind="primary" type="submit" isBusy={ask.isBusy} disabled={paths.length === 0}>
            Check
          </Button>
        </div>
      </form>
      {ask.error !== null && <ErrorPanel error={ask.error} />}
      {found.length > 0 && (
        <DataTable
          label="Rights on the paths"
          rows={found}
          keyOf={([path]) => path}
          columns={[
            { key: "path", label: "Path", render: ([path]) => <span class="mono">{path}</span> },
            {
              key: "capabilities",
              label: "Capabilities",
              render: ([, capabilities]) => capabilities.map((name) => <Tag key={name}>{name}</Tag>),
            },
          ]}
        />
      )}
      <AsCommand request={request} />
    </Card>
  );
}
