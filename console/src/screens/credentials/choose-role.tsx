import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { SelectField } from "../../components/field.tsx";
import { Loaded } from "../../components/states.tsx";
import { useResource } from "../../lib/resource.ts";
import { roleAddress } from "./engine-types.ts";
import { IssueDialog } from "./issue.tsx";
import { type Engine, readRoleNames } from "./reads.ts";

/** Engine and role first, then their credentials. */
export function ChooseRole({
  engines,
  onClose,
}: {
  readonly engines: readonly Engine[];
  readonly onClose: () => void;
}) {
  const [mount, setMount] = useState(engines[0]?.path ?? "");
  const [chosen, setChosen] = useState("");
  const [issues, setIssues] = useState(false);
  const engine = engines.find(({ path }) => path === mount);
  const roles = useResource(["roles", mount], async (signal) => (engine ? readRoleNames(engine, signal) : []));
  const role = chosen || (roles.value?.length === 1 ? (roles.value[0] ?? "") : "");
  if (issues && engine) return <IssueDialog engine={engine} role={roleAddress(engine.type, role)} onClose={onClose} />;
  return (
    <Dialog
      title="Issue credentials"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" disabled={role === ""} onClick={() => setIssues(true)}>
            Continue
          </Button>
        </>
      }
    >
      {engines.length === 0 && <p class="notice">Your token may issue credentials of no engine.</p>}
      <div class="form" hidden={engines.length === 0}>
        <SelectField
          label="Engine"
          value={mount}
          onChange={(path) => {
            setMount(path);
            setChosen("");
          }}
          options={engines.map(({ path }) => ({ value: path, label: path }))}
        />
        <Loaded resource={roles} label="Roles">
          {(names) => (
            <SelectField
              label="Role"
              value={role}
              onChange={setChosen}
              options={[
                { value: "", label: names.length > 0 ? "Choose a role" : "The engine has no role yet" },
                ...names.map((name) => ({ value: name, label: name })),
              ]}
            />
          )}
        </Loaded>
      </div>
    </Dialog>
  );
}
