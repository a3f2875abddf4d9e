import { useState } from "preact/hooks";
import { ApiError, api, isDenied, isMissing, wireRequest } from "../../api/client.ts";
import { place, setQuery, useAsked } from "../../app/router.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Checkbox, SearchInput, TextField } from "../../components/field.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty, Loaded, Loading } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { toast } from "../../components/toasts.tsx";
import { useAction, useResource } from "../../lib/resource.ts";
import { PolicyTest } from "./policy-test.tsx";
import { PolicyText } from "./policy-text.tsx";
import { RuleGenerator } from "./rule-generator.tsx";

/** Cannot be changed, or not be deleted. */
const FIXED = ["root"];
const KEPT = ["root", "default"];

export function Policies() {
  const policies = useResource(
    ["policies"],
    async (signal) => (await api("LIST /v1/sys/policies/acl", { signal })).data.keys,
  );
  const [edited, setEdited] = useState<string | null>(null);
  useAsked("policy", setEdited);
  const search = place.value.query.get("q") ?? "";
  return (
    <>
      <Toolbar>
        <SearchInput label="Filter policies" value={search} onChange={(q) => setQuery({ q })} />
        <Button icon="plus" kind="primary" needs="POST sys/policies/acl/*" onClick={() => setEdited("")}>
          Write a policy
        </Button>
      </Toolbar>
      <Loaded resource={policies} label="Policies">
        {(names) => (
          <DataTable
            label="Policies"
            rows={names.filter((name) => name.includes(search.toLowerCase()))}
            columns={[{ key: "name", label: "Policy", render: (name) => name }]}
            keyOf={(name) => name}
            onOpen={setEdited}
            empty={<Empty title="No policy matches the filter" />}
          />
        )}
      </Loaded>
      {edited !== null && (
        <PolicyDialog
          key={edited}
          name={edited}
          onClose={() => setEdited(null)}
          onChanged={() => {
            setEdited(null);
            policies.reload();
          }}
        />
      )}
    </>
  );
}

interface PolicyDialogProps {
  /** Empty for a new one. */
  readonly name: string;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

/** The text of a policy. The service judges it when it is saved. */
function PolicyDialog({ name, onClose, onChanged }: PolicyDialogProps) {
  const [entered, setEntered] = useState(name);
  const [text, setText] = useState<string | null>(null);
  /** Rules of a path that is entered and not added yet. */
  const [draft, setDraft] = useState("");
  const stored = useResource(
    ["policy", name],
    async (signal) => (await api("GET /v1/sys/policies/acl/{name}", { path: { name }, signal })).data.policy,
    { skip: name === "" },
  );
  /** The name of a policy that may exist, and that the token cannot read. */
  const [unread, setUnread] = useState<string | null>(null);
  const [replaces, setReplaces] = useState(false);
  const isReading = name !== "" && stored.value === undefined && stored.error === null;
  const isRefused = name !== "" && stored.value === undefined && !isReading && !isMissing(stored.error);
  const isUnseen = isRefused || (unread !== null && unread === entered);
  const policy = text ?? stored.value ?? draft;
  const isFixed = FIXED.includes(name);
  const options = { path: { name: entered }, body: { policy } };
  const save = useAction(async () => {
    if (name === "" && !(isUnseen && replaces)) {
      const found = await exists(entered);
      if (found === true) throw new Error(`A policy ${entered} exists already: open it to change it.`);
      if (found === null) {
        setUnread(entered);
        setReplaces(false);
        throw new Error(`Your token may not see whether there is a policy ${entered}.`);
      }
    }
    if (!policy.includes(draft)) throw new Error("Add the rules of the path, or clear it.");
    await api("POST /v1/sys/policies/acl/{name}", options);
    toast(`The policy ${entered} is saved.`);
    onChanged();
  });
  const refusals = save.error instanceof ApiError && save.error.status === 400 ? save.error.messages : [];
  const [ofName, ofRules] = [true, false].map((is) => refusals.filter((text) => text.startsWith("name: ") === is));
  const remove = async (): Promise<void> => {
    const done = await confirmed(
      {
        title: `Delete the policy ${name}`,
        text: "Tokens with this policy lose its rights at once.",
        verb: "Delete the policy",
        isDangerous: true,
      },
      "DELETE /v1/sys/policies/acl/{name}",
      { path: { name } },
    );
    if (!done) return;
    toast(`The policy ${name} is deleted.`);
    onChanged();
  };
  return (
    <Dialog
      title={name === "" ? "Write a policy" : `Policy ${name}`}
      shape="wide"
      onClose={onClose}
      footer={
        isFixed ? (
          <Button onClick={onClose}>Close</Button>
        ) : (
          <>
            {name !== "" && !KEPT.includes(name) && (
              <Button
                kind="danger"
                icon="trash"
                needs={`DELETE sys/policies/acl/${name}`}
                onClick={() => void remove()}
              >
                Delete
              </Button>
            )}
            <Button onClick={onClose}>Cancel</Button>
            <Button
              kind="primary"
              type="submit"
              form="policy"
              isBusy={save.isBusy}
              disabled={entered === "" || isReading || (isUnseen && !replaces)}
              needs={`POST sys/policies/acl/${entered || "*"}`}
            >
              Save policy
            </Button>
          </>
        )
      }
    >
      {!isFixed && stored.error !== null && !isMissing(stored.error) && (
        <ErrorPanel error={stored.error} onRetry={stored.reload} />
      )}
      {isUnseen && !isFixed && (
        <Checkbox
          label="Replace the policy without having read it"
          hint="Rules that it has now are lost."
          checked={replaces}
          onChange={setReplaces}
        />
      )}
      {isFixed ? (
        <p>The policy root allows everything. It has no text and cannot be changed.</p>
      ) : isReading ? (
        <Loading label="The policy" />
      ) : isRefused && !replaces ? null : (
        <form
          id="policy"
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            if (entered !== "") void save.run();
          }}
        >
          {name === "" && (
            <TextField
              label="Name"
              required
              mono
              autofocus
              value={entered}
              onChange={setEntered}
              error={ofName?.join("; ")}
            />
          )}
          <RuleGenerator
            isOpen={name === ""}
            onDraft={setDraft}
            onAdd={(rules) => {
              setText(policy === draft || policy === "" ? rules : `${policy.trimEnd()}\n\n${rules}`);
              save.clear();
            }}
          />
          <PolicyText
            value={policy}
            onChange={(edited) => {
              setText(edited);
              save.clear();
            }}
            error={ofRules?.join("; ")}
            hint="Rules of Vault's form (path) for secrets, of Nomad's (namespace, node, agent …) for the cluster. A * at the end of a path stands for anything, a + for one segment."
          />
          <PolicyTest name={name} policy={policy} />
        </form>
      )}
      {save.error !== null && refusals.length === 0 && <ErrorPanel error={save.error} />}
      {!isFixed && <AsCommand request={wireRequest("POST /v1/sys/policies/acl/{name}", options)} />}
    </Dialog>
  );
}

/** Null where the token may not read it. */
async function exists(name: string): Promise<boolean | null> {
  try {
    await api("GET /v1/sys/policies/acl/{name}", { path: { name }, quiet: true });
    return true;
  } catch (failure) {
    if (isMissing(failure)) return false;
    if (isDenied(failure)) return null;
    throw failure;
  }
}
