import { useState } from "preact/hooks";
import { ApiError, api, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { type FormValue, SchemaForm } from "../../components/schema-form.tsx";
import { useAction } from "../../lib/resource.ts";
import { fieldProblems, isSecretName } from "../../lib/schema.ts";
import { HIDDEN, TYPES, textsOf, withoutSecrets } from "./fields.ts";
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
      const gone = Object.keys((was ?? {}) as object).filter((tag) => !(tag in ((is ?? {}) as object)));
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
  const provider = TYPES.find((entry) => entry.type === type);
  const body = changesOf(before, value);
  const hasChanges = Object.keys(body).length > 0;
  const options = { path: { type, name }, body: body as Record<string, never>, sensitive: true };
  const preview = useAction(async () => {
    const { data } = await api(PATCH, { ...options, query: { dry_run: true } });
    if ("planned" in data) setPlan(data.planned);
  });
  const save = useAction(async () => {
    await api(PATCH, options);
    onDone();
  });
  const error = save.error ?? preview.error;
  const problems = fieldProblems(error instanceof ApiError ? error.messages : []);
  if (!provider) return null;
  const { required: _, ...optional } = provider.schema;
  const masked = Object.keys(destination.connection_details).filter((field) => !(field in before));
  const texts = {
    ...textsOf(type),
    ...Object.fromEntries(
      masked.map((field) => [field, { ...textsOf(type)[field], placeholder: "set; left empty, it stays", hint: "" }]),
    ),
  };
  return (
    <Dialog
      title={`Edit ${name}`}
      shape="side"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button onClick={() => void preview.run()} isBusy={preview.isBusy} disabled={!hasChanges}>
            Preview
          </Button>
          <Button kind="primary" type="submit" form="edit-destination" isBusy={save.isBusy} disabled={!hasChanges}>
            Save changes
          </Button>
        </>
      }
    >
      <form
        id="edit-destination"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void save.run();
        }}
      >
        <p class="muted">
          Secret fields keep their value while they are empty.
          {provider.fixed.length > 0 &&
            " What names the target cannot change: create another destination for another one."}
        </p>
        <SchemaForm
          schema={optional}
          value={value}
          onChange={(entered) => {
            setValue(entered);
            setPlan(null);
          }}
          texts={texts}
          hidden={[...HIDDEN, ...provider.fixed]}
          first={provider.first}
          problems={problems}
        />
        {error !== null && <ErrorPanel error={error} />}
        {plan && (
          <section aria-label="Preview" class="stack" ref={intoView}>
            <p class="muted">After these changes, once each secret is pushed again:</p>
            <Plan planned={plan} />
          </section>
        )}
        <AsCommand request={wireRequest(PATCH, { ...options, body: withoutSecrets(body) as Record<string, never> })} />
      </form>
    </Dialog>
  );
}
