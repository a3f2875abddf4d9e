import { useState } from "preact/hooks";
import { api, isDenied, isMissing } from "../api/client.ts";
import { clusterNamespace, secretsNamespace } from "../api/namespaces.ts";
import { Button } from "../components/button.tsx";
import { Dialog } from "../components/dialog.tsx";
import { ErrorPanel, Lacking } from "../components/error-panel.tsx";
import { TextField } from "../components/field.tsx";
import { Icon } from "../components/icons.tsx";
import { useResource } from "../lib/resource.ts";
import { setQuery } from "./router.ts";

/** Shows both selected namespaces and opens the switcher. */
export function NamespaceButton() {
  const [isOpen, setOpen] = useState(false);
  const secrets = secretsNamespace.value || "root";
  const cluster = clusterNamespace.value;
  return (
    <>
      <button type="button" class="namespace-button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        <Icon name="namespaces" />
        <span class="unseen">Namespaces:</span>
        <span class="namespace-names">
          <span title="Namespace of secrets, sync, credentials and access">
            <span class="muted">secrets</span> {secrets}
          </span>
          <span title="Namespace of events, jobs and volumes">
            <span class="muted">cluster</span> {cluster === "*" ? "all" : cluster}
          </span>
        </span>
        <Icon name="down" />
      </button>
      {isOpen && <Switcher onClose={() => setOpen(false)} />}
    </>
  );
}

function Switcher({ onClose }: { readonly onClose: () => void }) {
  const choose = (changes: Readonly<Record<string, string | null>>): void => {
    setQuery(changes, { replace: false });
    onClose();
  };
  return (
    <Dialog title="Namespaces" onClose={onClose} shape="wide">
      <div class="namespace-columns">
        <SecretsNamespaces onChoose={(path) => choose({ ns: path || null })} />
        <ClusterNamespaces onChoose={(name) => choose({ cluster: name === "default" ? null : name })} />
      </div>
    </Dialog>
  );
}

/** The tree of the secrets API, a level at a time. */
function SecretsNamespaces({ onChoose }: { readonly onChoose: (path: string) => void }) {
  const [at, setAt] = useState(secretsNamespace.value);
  const [typed, setTyped] = useState("");
  const children = useResource(["namespaces", at], async (signal) => {
    const { data } = await api("GET /v1/sys/internal/ui/namespaces", { namespace: at, quiet: true, signal });
    return data.keys;
  });
  const parents = at === "" ? [] : at.split("/").map((_, index, all) => all.slice(0, index).join("/"));
  return (
    <section>
      <h3>Secrets, sync, credentials, access</h3>
      <ul class="choices">
        {parents.map((path) => (
          <Choice
            key={path}
            label={path || "root"}
            isSelected={false}
            onChoose={() => onChoose(path)}
            onEnter={() => setAt(path)}
          />
        ))}
        <Choice label={at || "root"} isSelected={at === secretsNamespace.value} onChoose={() => onChoose(at)} />
        {(children.value ?? []).map((name) => {
          const path = [at, name.replace(/\/$/, "")].filter(Boolean).join("/");
          return (
            <Choice
              key={path}
              label={path}
              isSelected={path === secretsNamespace.value}
              isChild
              onChoose={() => onChoose(path)}
              onEnter={() => setAt(path)}
            />
          );
        })}
      </ul>
      <Unlisted error={children.error} />
      <form
        class="inline-form"
        onSubmit={(event) => {
          event.preventDefault();
          onChoose(typed.trim().replace(/^\/|\/$/g, ""));
        }}
      >
        <TextField label="Another one" value={typed} onChange={setTyped} placeholder="team/a" mono />
        <Button type="submit">Use</Button>
      </form>
    </section>
  );
}

/** A token without rights on namespaces types the name instead. */
function Unlisted({ error }: { readonly error: unknown }) {
  if (error === null || isMissing(error)) return null;
  if (isDenied(error)) return <Lacking refusal={error} what="Namespaces" />;
  return <ErrorPanel error={error} />;
}

function ClusterNamespaces({ onChoose }: { readonly onChoose: (name: string) => void }) {
  const found = useResource(["cluster-namespaces"], (signal) => api("GET /v1/namespaces", { quiet: true, signal }));
  const names = found.value?.map(({ Name }) => Name) ?? ["default"];
  return (
    <section>
      <h3>Events, jobs, volumes</h3>
      <ul class="choices">
        {["*", ...names].map((name) => (
          <Choice
            key={name}
            label={name === "*" ? "all namespaces" : name}
            isSelected={name === clusterNamespace.value}
            onChoose={() => onChoose(name)}
          />
        ))}
      </ul>
      <Unlisted error={found.error} />
    </section>
  );
}

function Choice({
  label,
  isSelected,
  isChild = false,
  onChoose,
  onEnter,
}: {
  readonly label: string;
  readonly isSelected: boolean;
  readonly isChild?: boolean;
  readonly onChoose: () => void;
  readonly onEnter?: () => void;
}) {
  return (
    <li class={isChild ? "choice choice-child" : "choice"}>
      <button type="button" class="choice-name" aria-pressed={isSelected} onClick={onChoose}>
        {label}
        {isSelected && <Icon name="check" />}
      </button>
      {onEnter && (
        <button
          type="button"
          class="icon-button"
          aria-label={`Show the namespaces in ${label}`}
          title={`Show the namespaces in ${label}`}
          onClick={onEnter}
        >
          <Icon name="right" />
        </button>
      )}
    </li>
  );
}
