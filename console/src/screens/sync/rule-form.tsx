import schema from "schema:POST /v1/sys/sync/destinations/{type}/{name}/rules/{rule}";
import { useEffect, useState } from "preact/hooks";
import { type Api, api, apiFull, type Schemas, wireRequest } from "../../api/client.ts";
import { TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { toast } from "../../components/toasts.tsx";
import { useResource } from "../../lib/resource.ts";
import { type FormValue, formOf } from "../../lib/settings.ts";
import { count, plural } from "../../lib/text.ts";
import { readMounts } from "../secrets/reads.ts";
import { DestinationField } from "./destination-field.tsx";
import { intoView, Plan } from "./plan.tsx";
import { type DestinationRef, keyOf, type PlannedObject } from "./reads.ts";

export const WRITE_RULE = "POST /v1/sys/sync/destinations/{type}/{name}/rules/{rule}";

type Rule = Schemas["SyncRule"];
type Body = NonNullable<Api[typeof WRITE_RULE]["body"]>;

const ADVANCED = [
  "exclude_glob",
  "match_all",
  "key_glob",
  "exclude_key_glob",
  "value_template",
  "name_template",
  "granularity",
  "on_unmatch",
  "max_secrets",
  "max_removals",
  "priority",
];

/** The body that writes a rule as it is. */
export function bodyOf(rule: Rule): Body {
  const { name, status, generation, progress, sync_operation_counters, problems, plan_id, evaluated_at, ...fields } =
    rule;
  return fields as Body;
}

interface Props {
  /** One destination, or those to choose from. */
  readonly destinations: readonly DestinationRef[];
  /** The rule to edit; null for a new one. */
  readonly rule: Rule | null;
  /** The folder of a new rule: an engine, and a path that is empty or ends with a slash. */
  readonly of?: { readonly mount: string; readonly folder: string };
  readonly onClose: () => void;
  readonly onDone: () => void;
}

interface Planned {
  readonly summary: Readonly<Record<string, number>>;
  readonly planned: readonly PlannedObject[];
}

/** Form of a rule, with a preview of the objects and their reasons. */
export function RuleForm({ destinations, rule, of, onClose, onDone }: Props) {
  const engines = useResource(["rule-engines"], readMounts);
  const [only] = destinations;
  const [key, setKey] = useState(destinations.length === 1 && only ? keyOf(only) : "");
  const [name, setName] = useState(rule?.name ?? (of ? ruleNameOf(of) : ""));
  const [value, setValue] = useState<FormValue>(
    rule ? formOf(bodyOf(rule) as FormValue, true) : of ? bodyOfFolder(of) : {},
  );
  const [plan, setPlan] = useState<Planned | null>(null);
  const destination = destinations.find((each) => keyOf(each) === key) ?? { type: "TYPE", name: "NAME" };
  const options = { path: { ...destination, rule: name }, body: value as Body };
  const preview = async (): Promise<void> => {
    const { data } = await api(WRITE_RULE, { ...options, query: { dry_run: true } });
    if ("planned" in data) setPlan(data);
  };
  const save = async (): Promise<void> => {
    // A write replaces the rule of that name. A token may write what it may not read.
    const read = { path: options.path, accept: [403, 404], quiet: true };
    if (!rule && (await apiFull("GET /v1/sys/sync/destinations/{type}/{name}/rules/{rule}", read)).status === 200)
      throw new Error(`There is a rule ${name} already.`);
    await api(WRITE_RULE, options);
    toast(`The rule ${name} is saved.`);
    onDone();
  };
  useEffect(() => setPlan(null), [key, name, value]);
  const isReady = key !== "" && name !== "" && value["mount"] !== undefined;
  return (
    <FormDialog
      title={rule ? `Edit ${rule.name}` : of ? `Sync ${of.mount}/${of.folder} by a rule` : "Add rule"}
      verb="Save rule"
      onClose={onClose}
      perform={save}
      preview={preview}
      isReady={isReady}
      after={
        plan && (
          <section aria-label="Preview" class="stack" ref={intoView}>
            <p class="muted">{summaryOf(plan.summary)} Nothing has changed yet.</p>
            <Plan planned={plan.planned} />
          </section>
        )
      }
      request={wireRequest(WRITE_RULE, options)}
    >
      {({ problems }) => (
        <>
          {(of || destinations.length > 1) && (
            <DestinationField destinations={destinations} value={key} onChange={setKey} />
          )}
          <TextField label="Name" value={name} onChange={setName} required mono disabled={rule !== null} />
          <SchemaForm
            schema={schema}
            value={value}
            onChange={setValue}
            problems={problems}
            hidden={["dry_run"]}
            first={["mount", "path_prefix", "path_glob", "metadata_selector"]}
            advanced={value["match_all"] ? ADVANCED.filter((field) => field !== "match_all") : ADVANCED}
            texts={{ mount: { label: "Secrets engine", list: engines.value?.kv.map(({ path }) => path) ?? [] } }}
          />
        </>
      )}
    </FormDialog>
  );
}

type Folder = NonNullable<Props["of"]>;

/** The name that `sallyport sync set` gives to the rule of a folder. */
const ruleNameOf = ({ mount, folder }: Folder): string =>
  `${mount}/${folder}`
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 63);

const bodyOfFolder = ({ mount, folder }: Folder): FormValue =>
  folder === "" ? { mount, match_all: true } : { mount, path_prefix: folder.replace(/\/$/, "") };

function summaryOf({ matched = 0, ...actions }: Readonly<Record<string, number>>): string {
  const parts = Object.entries(actions).filter(([, number]) => number > 0);
  const changes = parts.map(([word, number]) => `${count(number)} ${word}`).join(", ") || "no change";
  return `Matches ${plural(matched, "secret")}: ${changes}.`;
}
