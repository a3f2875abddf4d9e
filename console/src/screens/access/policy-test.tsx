/** A policy judged before it is saved, for a token or alone. */
import { useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { TextField } from "../../components/field.tsx";
import { Tag } from "../../components/status.tsx";
import { DataTable } from "../../components/table.tsx";
import { useAction } from "../../lib/resource.ts";

const TEST = "POST /v1/sys/policies/test";

type Tried = Schemas["TriedCapabilities"];

/** @param name of the stored policy that the text replaces; empty for a new one */
export function PolicyTest({ name, policy }: { readonly name: string; readonly policy: string }) {
  const [accessor, setAccessor] = useState("");
  const [text, setText] = useState("");
  const [found, setFound] = useState<readonly (readonly [path: string, tried: Tried])[]>([]);
  const paths = text
    .split("\n")
    .map((path) => path.trim())
    .filter(Boolean);
  const body = { policy, paths, ...(name && { name }), ...(accessor.trim() && { accessor: accessor.trim() }) };
  const test = useAction(async () => {
    setFound([]);
    setFound(Object.entries((await api(TEST, { body, quiet: true })).data.capabilities));
  });
  return (
    <details>
      <summary>Test it before you save</summary>
      <div class="form">
        <TextField
          label="Paths"
          mono
          rows={2}
          value={text}
          onChange={setText}
          hint="One per line, as in a policy, such as secret/data/app/db or azure/creds/reader."
        />
        <TextField
          label="Accessor of the token that has it"
          mono
          value={accessor}
          onChange={setAccessor}
          hint="Empty: this policy alone."
        />
        <div>
          <Button needs={wireRequest(TEST, { body })} isBusy={test.isBusy} onClick={() => void test.run()}>
            Test
          </Button>
        </div>
        {test.error !== null && <ErrorPanel error={test.error} />}
        {found.length > 0 && (
          <DataTable
            label="Rights with this policy"
            rows={found}
            keyOf={([path]) => path}
            columns={[
              { key: "path", label: "Path", render: ([path]) => <span class="mono">{path}</span> },
              {
                key: "before",
                label: "Now",
                render: ([, { before }]) => before.map((one) => <Tag key={one}>{one}</Tag>),
              },
              {
                key: "after",
                label: "With it",
                render: ([, { after }]) => after.map((one) => <Tag key={one}>{one}</Tag>),
              },
            ]}
          />
        )}
        <AsCommand request={wireRequest(TEST, { body })} />
      </div>
    </details>
  );
}
