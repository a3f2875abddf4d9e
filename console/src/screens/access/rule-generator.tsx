/** Rules of a policy for one folder, secret or role of an engine, from its path and what is allowed. */
import { useEffect, useState } from "preact/hooks";
import { kindsOf } from "../../../../src/credentials/engines/description.ts";
import { engineDescriptions, isEngine } from "../../../../src/credentials/engines/descriptions.ts";
import { Button } from "../../components/button.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { useResource } from "../../lib/resource.ts";
import { readMounts } from "../secrets/reads.ts";
import { useSecretNames } from "../secrets/secret-names.ts";

type Right = "read" | "write" | "delete";

const RIGHTS: readonly { readonly value: Right; readonly label: string }[] = [
  { value: "read", label: "Read and list" },
  { value: "write", label: "Read and write" },
  { value: "delete", label: "Read, write and delete" },
];

/** Capabilities on values and on metadata, where an engine has them apart. */
const CAPABILITIES: Readonly<Record<Right, readonly [values: readonly string[], metadata: readonly string[]]>> = {
  read: [["read"], ["read", "list"]],
  write: [
    ["create", "read", "update", "patch"],
    ["create", "read", "update", "patch", "list"],
  ],
  delete: [
    ["create", "read", "update", "patch", "delete"],
    ["create", "read", "update", "patch", "list", "delete"],
  ],
};

const rule = (path: string, capabilities: readonly string[]): string =>
  `path ${JSON.stringify(path)} {\n  capabilities = ${JSON.stringify(capabilities).replaceAll(",", ", ")}\n}\n`;

/** @param name below the mount; a folder is empty or ends with a slash */
export function rulesFor(mount: string, version: 1 | 2, name: string, right: Right): string {
  const pattern = name === "" || name.endsWith("/") ? `${name}*` : name;
  const [values, metadata] = CAPABILITIES[right];
  if (version === 1) return rule(`${mount}/${pattern}`, [...new Set([...values, "list"])]);
  const versions = right === "delete" ? ["delete", "undelete", "destroy"] : [];
  return [
    rule(`${mount}/data/${pattern}`, values),
    rule(`${mount}/metadata/${pattern}`, metadata),
    ...versions.map((action) => rule(`${mount}/${action}/${pattern}`, ["update"])),
  ].join("");
}

/** Rules for the credentials of a role, and for the list in which it is chosen. @param name empty: of all roles */
function rulesForRole(mount: string, type: string, name: string): string {
  const kinds = engineDescriptions.filter((each) => each.type === type).flatMap(kindsOf);
  const issues = kinds
    .flatMap(({ issue, reads = [] }) => [...issue, ...reads])
    .map((path) => (path.includes(":name") ? path.replace(":name", name || "+") : `${path}/${name || "*"}`))
    .map((path) => rule(mount + path, ["read"]));
  return [...issues, ...kinds.map(({ path, lists: [list = path] = [] }) => rule(mount + list, ["list"]))].join("");
}

/**
 * @param isOpen for a new policy
 * @param onDraft told the rules of the path as it is entered; empty without one
 */
export function RuleGenerator({
  isOpen,
  onDraft,
  onAdd,
}: {
  readonly isOpen: boolean;
  readonly onDraft: (rules: string) => void;
  readonly onAdd: (rules: string) => void;
}) {
  const [path, setPath] = useState("");
  const [right, setRight] = useState<Right>("read");
  const mounts = useResource(["policy-mounts"], readMounts);
  const known = mounts.value?.kv ?? [];
  const engines = mounts.value?.others.filter(isEngine) ?? [];
  const wanted = path.replace(/^\/+/, "");
  const isOf = (each: { readonly path: string }) => `${wanted}/`.startsWith(`${each.path}/`);
  const engine = engines.find(isOf);
  // A caller who may not see the engines names one of version 2.
  const { path: mount, version = 2 } = engine
    ? { path: engine.path }
    : (known.find(isOf) ?? { path: wanted.split("/", 1)[0] ?? "" });
  const name = wanted.slice(mount.length + 1);
  const names = useSecretNames(
    known.some(({ path: each, version: of }) => each === mount && of === 2) ? mount : "",
    name,
  );
  const rules = !wanted.includes("/")
    ? ""
    : engine
      ? rulesForRole(mount, engine.type, name)
      : rulesFor(mount, version, name, right);
  useEffect(() => onDraft(rules), [rules]);
  return (
    <details open={isOpen}>
      <summary>Add rules for a folder, a secret or a role</summary>
      <div class="form">
        <TextField
          label="Path"
          mono
          value={path}
          onChange={setPath}
          list={[...[...known, ...engines].map((each) => `${each.path}/`), ...names.map((each) => `${mount}/${each}`)]}
          hint="Engine and name, such as secret/app/db or azure/reader. A folder ends with a slash."
        />
        {engine ? (
          <p class="muted">Allowed: issue credentials of {name ? "this role" : "every role"}.</p>
        ) : (
          <SelectField
            label="Allowed"
            value={right}
            onChange={(chosen) => setRight(chosen as Right)}
            options={RIGHTS}
          />
        )}
        <div>
          <Button
            disabled={rules === ""}
            onClick={() => {
              onAdd(rules);
              setPath("");
            }}
          >
            Add rules
          </Button>
        </div>
      </div>
    </details>
  );
}
