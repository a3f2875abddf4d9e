/** A form made from the schema of a request body. Fields that are left empty are left out of the body. */
import { useRef, useState } from "preact/hooks";
import { parseExact, shown } from "../lib/exact-json.ts";
import { fieldKind, isSecretName, type JsonSchema, labelOf, plainSchema } from "../lib/schema.ts";
import type { FormValue } from "../lib/settings.ts";
import { Button, IconButton } from "./button.tsx";
import { Checkbox, Choices, Field, SelectField, TextField } from "./field.tsx";
import { KeyValue, pairsOf, pairsProblem, recordOf } from "./key-value.tsx";
import { useRevealed } from "./masked.tsx";
import { chooseFile, ValueText } from "./value-text.tsx";

/** Texts of a field that replace those of the schema. */
export interface FieldTexts {
  readonly label?: string;
  readonly hint?: string;
  readonly placeholder?: string;
  readonly isSecret?: boolean;
  /** Number of lines. */
  readonly rows?: number;
  /** Names of things that exist, to be chosen from; others may still be typed. */
  readonly list?: readonly string[];
  /** Names of values, for a choice. */
  readonly names?: Readonly<Record<string, string>>;
}

interface SchemaFormProps {
  readonly schema: JsonSchema;
  readonly value: FormValue;
  readonly onChange: (value: FormValue) => void;
  readonly texts?: Readonly<Record<string, FieldTexts>>;
  /** Fields that are not shown. */
  readonly hidden?: readonly string[];
  /** Fields that come first; all others follow in the schema's order. */
  readonly first?: readonly string[];
  /** Fields behind "More settings". */
  readonly advanced?: readonly string[];
  /** Problems by field name. */
  readonly problems?: Readonly<Record<string, string>>;
}

export function SchemaForm({
  schema,
  value,
  onChange,
  texts = {},
  hidden = [],
  first = [],
  advanced = [],
  problems = {},
}: SchemaFormProps) {
  const { properties = {}, required = [] } = plainSchema(schema);
  const names = [...new Set([...first, ...Object.keys(properties)])].filter(
    (name) => properties[name] && !hidden.includes(name),
  );
  const set = (name: string, entered: unknown): void => {
    const { [name]: _, ...rest } = value;
    onChange(isEmpty(entered) ? rest : { ...rest, [name]: entered });
  };
  const field = (name: string) => (
    <SchemaField
      key={name}
      name={name}
      schema={plainSchema(properties[name] ?? {})}
      value={value[name]}
      onChange={(entered) => set(name, entered)}
      texts={texts[name] ?? {}}
      isRequired={required.includes(name)}
      problem={problems[name]}
    />
  );
  const late = names.filter((name) => advanced.includes(name));
  return (
    <div class="schema-form">
      {names.filter((name) => !advanced.includes(name)).map(field)}
      {late.length > 0 && (
        <details
          class="more-fields"
          open={late.some((name) => problems[name])}
          // The browser shows its message at a visible field only.
          onInvalidCapture={({ currentTarget }) => {
            currentTarget.open = true;
          }}
        >
          <summary>More settings</summary>
          <div class="schema-form">{late.map(field)}</div>
        </details>
      )}
    </div>
  );
}

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === "" || (Array.isArray(value) && value.length === 0);

interface SchemaFieldProps {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly texts: FieldTexts;
  readonly isRequired: boolean;
  readonly problem: string | undefined;
}

function SchemaField({ name, schema, value, onChange, texts, isRequired, problem }: SchemaFieldProps) {
  const shared = {
    label: texts.label ?? labelOf(name),
    hint: texts.hint ?? schema.description?.replaceAll("`", ""),
    error: problem,
    required: isRequired,
  };
  const text = typeof value === "string" || typeof value === "number" ? String(value) : "";
  switch (fieldKind(schema)) {
    case "flag":
      return (
        <Checkbox
          label={shared.label}
          hint={shared.hint}
          checked={(value ?? schema.default) === true}
          onChange={onChange}
        />
      );
    case "choice": {
      const unset = isRequired ? "Choose" : (texts.placeholder ?? "Default");
      return (
        <SelectField
          {...shared}
          value={text}
          onChange={onChange}
          options={[
            { value: "", label: schema.default === undefined ? unset : `Default (${String(schema.default)})` },
            ...(schema.enum ?? []).map((option) => ({
              value: String(option),
              label: texts.names?.[String(option)] ?? String(option),
            })),
          ]}
        />
      );
    }
    case "number":
      return (
        <TextField
          {...shared}
          type="number"
          value={text}
          onChange={(entered) => onChange(entered === "" ? undefined : Number(entered))}
        />
      );
    case "texts":
      if (texts.list && texts.list.length > 0)
        return <Choices {...shared} names={texts.list} value={Array.isArray(value) ? value : []} onChange={onChange} />;
      return (
        <TextField
          {...shared}
          hint={shared.hint ? `${shared.hint} One per line.` : "One per line."}
          rows={texts.rows ?? 3}
          mono
          value={Array.isArray(value) ? value.join("\n") : text}
          onChange={(entered) => onChange(entered === "" ? [] : entered.split("\n"))}
        />
      );
    case "map":
      return (
        <MapField
          {...shared}
          noun={shared.label.toLowerCase()}
          value={value}
          onChange={onChange}
          isSecret={texts.isSecret ?? isSecretName(name)}
        />
      );
    case "group":
      return (
        <fieldset class="group">
          <legend>{shared.label}</legend>
          <SchemaForm
            // An optional group may be left empty as a whole.
            schema={isRequired || value !== undefined ? schema : { ...schema, required: [] }}
            value={(value ?? {}) as FormValue}
            onChange={(entered) => onChange(Object.keys(entered).length > 0 ? entered : undefined)}
          />
        </fieldset>
      );
    case "groups":
      return <GroupsField label={shared.label} schema={schema} value={value} onChange={onChange} />;
    case "json":
      return (
        <JsonField
          {...shared}
          value={value}
          onChange={onChange}
          isSecret={texts.isSecret ?? isSecretName(name)}
          rows={texts.rows ?? 4}
        />
      );
    default: {
      const isSecret = texts.isSecret ?? isSecretName(name);
      if (texts.rows) return <LinesField {...shared} {...{ value: text, onChange, isSecret, rows: texts.rows }} />;
      return (
        <TextField
          {...shared}
          type={isSecret ? "password" : "text"}
          autocomplete={isSecret ? "new-password" : "off"}
          mono={isSecret || /path|template|uri|url|arn|id$/i.test(name)}
          {...(texts.placeholder ? { placeholder: texts.placeholder } : {})}
          {...(texts.list ? { list: texts.list } : {})}
          value={text}
          onChange={onChange}
        />
      );
    }
  }
}

interface Shared {
  readonly label: string;
  readonly hint: string | undefined;
  readonly error: string | undefined;
  readonly required: boolean;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly isSecret: boolean;
}

function MapField({ label, hint, error, noun, value, onChange, isSecret }: Shared & { readonly noun: string }) {
  const [pairs, setPairs] = useState(() => pairsOf((value ?? {}) as Record<string, string>));
  const problem = pairsProblem(pairs) ?? error;
  return (
    <fieldset class="group">
      <legend>{label}</legend>
      {problem && <p class="field-error">{problem}</p>}
      {hint && <p class="field-hint">{hint}</p>}
      <KeyValue
        pairs={pairs}
        noun={noun.replace(/s$/, "")}
        isSecret={isSecret}
        onChange={(changed) => {
          setPairs([...changed]);
          const record = recordOf(changed);
          onChange(Object.keys(record).length > 0 ? record : undefined);
        }}
      />
    </fieldset>
  );
}

let last = 0;

function GroupsField({
  label,
  schema,
  value,
  onChange,
}: Pick<Shared, "label" | "value" | "onChange"> & { readonly schema: JsonSchema }) {
  const groups = (Array.isArray(value) ? value : []) as FormValue[];
  // Fields keep what is typed: each stays with its entry when one before it is removed.
  const ids = useRef<number[]>([]).current;
  while (ids.length < groups.length) ids.push(++last);
  const item = plainSchema(schema.items ?? {});
  return (
    <fieldset class="group">
      <legend>{label}</legend>
      {groups.map((group, at) => (
        <div key={ids[at]} class="group-entry">
          <SchemaForm schema={item} value={group} onChange={(entered) => onChange(groups.with(at, entered))} />
          <IconButton
            icon="trash"
            label={`Remove entry ${at + 1} of ${label}`}
            onClick={() => {
              ids.splice(at, 1);
              onChange(groups.toSpliced(at, 1));
            }}
          />
        </div>
      ))}
      <Button kind="quiet" icon="plus" onClick={() => onChange([...groups, {}])}>
        Add to {label.toLowerCase()}
      </Button>
    </fieldset>
  );
}

/** JSON or, where it is none, plain text: a body may take both. */
function JsonField({ value, onChange, ...shared }: Shared & { readonly rows: number }) {
  const [text, setText] = useState(value === undefined ? "" : shown(value));
  return (
    <LinesField
      {...shared}
      value={text}
      onChange={(entered) => {
        setText(entered);
        onChange(jsonOrText(entered));
      }}
    />
  );
}

interface LinesProps extends Omit<Shared, "value" | "onChange"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly rows: number;
}

/** Text of several lines, hidden until it is revealed where it is a secret. */
function LinesField({ value, onChange, isSecret, rows, ...shared }: LinesProps) {
  const [isShown, setShown] = useRevealed(!isSecret);
  return (
    <Field {...shared}>
      {(ids) => (
        <div class="lines">
          <ValueText {...ids} {...{ value, onChange, rows, required: shared.required, isHidden: !isShown }} />
          {isSecret && (
            <span class="lines-actions">
              <IconButton
                icon={isShown ? "hide" : "eye"}
                label={`${isShown ? "Hide" : "Reveal"}: ${shared.label}`}
                pressed={isShown}
                onClick={() => setShown(!isShown)}
              />
              <IconButton
                icon="file"
                label={`Read from a file: ${shared.label}`}
                onClick={() => chooseFile(onChange)}
              />
            </span>
          )}
        </div>
      )}
    </Field>
  );
}

function jsonOrText(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return text;
  }
}
