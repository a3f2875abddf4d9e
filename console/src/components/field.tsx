/** Fields of forms: a label above, a hint and an error below, all tied to the input for screen readers. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Combo } from "./combo.tsx";

interface FieldProps {
  readonly label: ComponentChildren;
  readonly hint?: ComponentChildren;
  readonly error?: string | null | undefined;
  readonly required?: boolean;
  /** Gets the ids that tie the input to its texts. */
  readonly children: (ids: {
    readonly id: string;
    readonly "aria-describedby": string | undefined;
    readonly "aria-invalid": boolean;
  }) => ComponentChildren;
}

export function Field({ label, hint, error, required = false, children }: FieldProps) {
  const id = useId();
  const described = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ") || undefined;
  return (
    <div class="field">
      <label for={id}>
        {label}
        {required && <span class="required"> required</span>}
      </label>
      {children({ id, "aria-describedby": described, "aria-invalid": Boolean(error) })}
      {error && (
        <p class="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
      {hint && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

interface TextFieldProps extends Omit<FieldProps, "children"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly type?: "text" | "password" | "number" | "search" | "url";
  readonly placeholder?: string;
  /** More than one line. */
  readonly rows?: number;
  readonly autocomplete?: string;
  readonly autofocus?: boolean;
  readonly disabled?: boolean;
  readonly mono?: boolean;
  /** Things that exist, to be chosen from; other text may still be typed. */
  readonly list?: readonly string[] | undefined;
}

export function TextField({
  value,
  onChange,
  type = "text",
  placeholder,
  rows,
  autocomplete = "off",
  autofocus,
  disabled,
  mono = false,
  list,
  ...field
}: TextFieldProps) {
  return (
    <Field {...field}>
      {(ids) => {
        const own = {
          ...ids,
          value,
          placeholder,
          disabled,
          autofocus,
          required: field.required,
          class: mono ? "input mono" : "input",
        };
        if (list) return <Combo {...own} onChange={onChange} options={list} />;
        const shared = {
          ...own,
          ref: autofocus ? focusOn : null,
          spellcheck: false,
          onInput: (event: Event) => onChange((event.currentTarget as HTMLInputElement).value),
        };
        return rows ? (
          <textarea {...shared} rows={rows} />
        ) : (
          <input
            {...shared}
            // The types of Preact list what each type of input takes; these are the same for all of ours.
            type={type as "text"}
            autocomplete={autocomplete}
            autocapitalize="off"
          />
        );
      }}
    </Field>
  );
}

/** The attribute alone has an effect in dialogs and on a page that is being loaded only. */
const focusOn = (element: HTMLElement | null): void => element?.focus();

interface Choice {
  readonly value: string;
  readonly label: string;
}

interface SelectFieldProps extends Omit<FieldProps, "children"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly options: readonly Choice[];
  readonly disabled?: boolean;
}

export function SelectField({ value, onChange, options, disabled, ...field }: SelectFieldProps) {
  return (
    <Field {...field}>
      {(ids) => (
        <Select
          {...ids}
          value={value}
          disabled={disabled}
          onChange={onChange}
          options={options.map((option) => [option.value, option.label])}
        />
      )}
    </Field>
  );
}

interface SelectProps {
  /** Absent: a field around it has the label. */
  readonly label?: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly disabled?: boolean | undefined;
}

/** A choice in a toolbar or a row; a value that is none of the options is shown as it is. */
export function Select({ label, value, onChange, options, ...rest }: SelectProps) {
  return (
    <select
      {...rest}
      class="input"
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      {!options.some(([name]) => name === value) && <option value={value}>{value}</option>}
      {options.map(([name, text]) => (
        <option key={name} value={name}>
          {text}
        </option>
      ))}
    </select>
  );
}

export function Checkbox({
  label,
  hint,
  checked,
  onChange,
  disabled,
}: {
  readonly label: ComponentChildren;
  readonly hint?: ComponentChildren;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  readonly disabled?: boolean;
}) {
  const id = useId();
  return (
    <div class="check">
      <input
        type="checkbox"
        id={id}
        checked={checked}
        disabled={disabled}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {hint && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

/** Names of things that exist: one checkbox each, also for a chosen name that is gone. */
export function Choices({
  label,
  hint,
  error,
  names,
  value,
  onChange,
}: Omit<FieldProps, "children" | "required"> & {
  readonly names: readonly string[];
  readonly value: readonly string[];
  readonly onChange: (value: readonly string[]) => void;
}) {
  return (
    <fieldset class="group">
      <legend>{label}</legend>
      {error && <p class="field-error">{error}</p>}
      {hint && <p class="field-hint">{hint}</p>}
      {[...new Set([...names, ...value])].map((name) => (
        <Checkbox
          key={name}
          label={name}
          checked={value.includes(name)}
          onChange={(checked) => onChange(checked ? [...value, name] : value.filter((each) => each !== name))}
        />
      ))}
    </fieldset>
  );
}

/** One choice of a few, as buttons side by side. */
export function Segments<Value extends string>({
  label,
  value,
  onChange,
  options,
}: {
  readonly label: string;
  readonly value: Value;
  readonly onChange: (value: Value) => void;
  readonly options: readonly { readonly value: Value; readonly label: string }[];
}) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          class="segment"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}

/** Input above a list: filters it as the person types. */
export function SearchInput({
  label,
  value,
  onChange,
  placeholder,
}: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly placeholder?: string;
}) {
  return (
    <input
      type="search"
      class="input search-input"
      aria-label={label}
      placeholder={placeholder ?? label}
      value={value}
      spellcheck={false}
      autocomplete="off"
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  );
}
