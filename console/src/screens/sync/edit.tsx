import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { FormDialog } from "../../components/form-dialog.tsx";
import { SchemaForm } from "../../components/schema-form.tsx";
import { Loaded } from "../../components/states.tsx";
import { useResource } from "../../lib/resource.ts";
import { isSecretName } from "../../lib/schema.ts";
import type { FormValue } from "../../lib/settings.ts";
import { readTypes, textsOf, withoutSecrets } from "./fields.ts";
import { intoView, Plan } from "./plan.tsx";
import type { Destination, PlannedObject } from "./reads.ts";

const PATCH = "PATCH /v1/sys/sync/destinations/{type}/{name}";

interface Props {
  readonly destination: Destination;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** The settings as the form shows them: masked ones are empty. */
function settingsOf({ connection_details, options }: Destination): FormValue {
  const { granularity_level, ...rest } = options;
  const shown = Object.entries(connection_details).filter(
    ([name, value]) => value !== "*****" && !isSecretName(name) && (typeof value !== "object" || Array.isArray(value)),
  );
  return { ...Object.fromEntries(shown), ...rest, granularity: granularity_level };
}

/** The body of the update: changed fields, and null for those that were emptied. */
function changesOf(before: FormValue, after: FormValue): FormValue {
  const changes: Record<string, unknown> = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [was, is] = [before[name], after[name]];
    if (JSON.stringify(was) === JSON.stringify(is)) continue;
    if (name === "custom_tags") {
      const gone = Object.keys((was ?? {}) as object).filter((tag) => !Object.hasOwn((is ?? {}) as object, tag));
      if (gone.length > 0) changes["tags_to_remove"] = gone;
      changes[name] = is ?? {};
    } else changes[name] = is ?? null;
  }
  return changes;
}

/** Changes a destination. The preview says what that does to objects that are there. */
export function EditDestination({ destination, onClose, onDone }: Props) {
  const { type, name } = destination;
  const [before] = useState(() => settingsOf(destination));
  const [value, setValue] = useState(before);
  const [plan, setPlan] = useState<readonly PlannedObject[] | null>(null);
  const types = useResource(["destination-types"], readTypes);
  const provider = types.value?.find((entry) => entry.type === type);
  const body = changesOf(before, value);
  const hasChanges = Object.keys(body).length > 0;
  const options = { path: { type, name }, body: body as Record<string, never>, sensitive: true };
  const preview = async (): Promise<void> => {
    const { data } = await api(PATCH, { ...options, query: { dry_run: true } });
    if ("planned" in data) setPlan(data.planned);
  };
  const save = async (): Promise<void> => {
    await api(PATCH, options);
    onDone();
  };
  const { required: _, ...optional } = provider?.schema ?? {};
  const masked = Object.keys(destination.connection_details).filter((field) => !(field in before));
  const texts = {
    ...textsOf(type),
    ...Object.fromEntries(
      masked.map((field) => [field, { ...textsOf(type)[field], placeholder: "set; left empty, it stays", hint: "" }]),
    ),
  };
  return (
    <FormDialog
      title={`Edit ${name}`}
      verb="Save changes"
      onClose={onClose}
      perform={save}
      preview={preview}
      isReady={hasChanges}
      after={
        plan && (
          <section aria-label="Preview" class="stack" ref={intoView}>
            <p class="muted">After these changes, once each secret is pushed again:</p>
            <Plan planned={plan} />
          </section>
        )
      }
      request={wireRequest(PATCH, { ...options, body: withoutSecrets(body) as Record<string, never> })}
    >
      {({ problems }) => (
        <>
          <p class="muted">
            Secret fields keep their value while they are empty.
            {provider &&
              provider.fixed.length > 0 &&
              " What names the target cannot change: create another destination for another one."}
          </p>
          <Loaded resource={types} label="The form">
            {() =>
              provider && (
                <SchemaForm
                  schema={optional}
                  value={value}
                  onChange={(entered) => {
                    setValue(entered);
                    setPlan(null);
                  }}
                  texts={texts}
                  hidden={[...provider.hidden, ...provider.fixed]}
                  first={provider.first}
                  problems={problems}
                />
              )
            }
          </Loaded>
        </>
      )}
    </FormDialog>
  );
}
