import { useState } from "preact/hooks";
import { api, wireRequest } from "../../api/client.ts";
import { withoutValues } from "../../api/request-log.ts";
import { Button } from "../../components/button.tsx";
import { Checkbox, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { KeyValue, type Pair, pair, pairsProblem } from "../../components/key-value.tsx";
import { toast } from "../../components/toasts.tsx";
import { chooseFile, ValueText } from "../../components/value-text.tsx";
import { parseExact, shown } from "../../lib/exact-json.ts";
import { FORMATS, type Format, formatOf, formatted, parsed } from "../../lib/formats.ts";
import { mergePatch } from "../../lib/merge-patch.ts";
import type { KvMount } from "./addresses.ts";
import type { SecretData } from "./reads.ts";

interface EditorProps {
  readonly mount: KvMount;
  /** Null for a new secret. */
  readonly path: string | null;
  /** Where a new secret begins. */
  readonly folder: string;
  /** Present values; null for a version that has none, absent for a new secret and where they could not be read. */
  readonly current?: SecretData | null | undefined;
  /** Number of the newest version. */
  readonly version?: number | undefined;
  readonly onClose: () => void;
  readonly onDone: (path: string) => void;
}

/** Values that were no text stay what they were, as long as what is typed is JSON. */
function typedValue({ name, value }: Pair, current: SecretData): unknown {
  if (!Object.hasOwn(current, name) || typeof current[name] === "string") return value;
  try {
    return parseExact(value);
  } catch {
    return value;
  }
}

/** Writes a secret: a new one, or a new version. */
export function SecretEditor({ mount, path, folder, current, version, onClose, onDone }: EditorProps) {
  const isNew = path === null;
  const isVersioned = mount.version === 2;
  const [typedPath, setTypedPath] = useState(folder);
  const [pairs, setPairs] = useState<readonly Pair[]>(() => {
    const entries = Object.entries(current ?? {});
    return entries.length > 0 ? entries.map(([name, value]) => pair(name, shown(value))) : [pair()];
  });
  // The values as one text; null = the pairs count.
  const [text, setText] = useState<{ readonly format: Format; readonly raw: string } | null>(null);
  const mayPatch = !isNew && isVersioned && current !== null;
  // Values that cannot be seen are not replaced by default.
  const [isPatch, setPatch] = useState(mayPatch && current === undefined);
  const [isGuarded, setGuarded] = useState(true);

  const name = path ?? typedPath.replace(/^\/|\/$/g, "");
  const dataOfPairs = (): SecretData =>
    Object.fromEntries(
      pairs.filter((entry) => entry.name !== "").map((entry) => [entry.name, typedValue(entry, current ?? {})]),
    );
  const read = (): SecretData => {
    if (text === null) {
      const problem = pairsProblem(pairs);
      if (problem) throw new Error(problem);
      return dataOfPairs();
    }
    const data = parsed(text.format, text.raw);
    if (text.format !== "env") return data;
    return Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, typedValue(pair(key, String(value)), current ?? {})]),
    );
  };
  /** Shows values in a form; null: as pairs. */
  const show = (format: Format | null, data: SecretData): void => {
    if (format === null) setPairs(Object.entries(data).map(([key, value]) => pair(key, shown(value))));
    setText(format && { format, raw: formatted(format, data) });
  };
  const attempt = (perform: () => void): void => {
    try {
      perform();
    } catch (failure) {
      toast(failure instanceof Error ? failure.message : String(failure), "bad");
    }
  };
  const cas = isNew ? 0 : version;
  const options = isVersioned && isGuarded && cas !== undefined ? { options: { cas } } : {};
  const requestOf = (data: SecretData) => ({
    mount: mount.path,
    path: { path: name || "PATH" },
    body: { data, ...options },
  });
  const written = (): SecretData => (isPatch ? mergePatch(current ?? null, read()) : read());
  const save = async (): Promise<void> => {
    const data = written();
    if (!isVersioned)
      await api("POST /v1/kv-v1/{path}", { mount: mount.path, path: { path: name }, body: data, sensitive: true });
    else if (isPatch) await api("PATCH /v1/secret/data/{path}", { ...requestOf(data), sensitive: true });
    else await api("POST /v1/secret/data/{path}", { ...requestOf(data), sensitive: true });
    toast(`${name} is written.`);
    onDone(name);
    onClose();
  };
  const preview = () => {
    let data: SecretData;
    try {
      data = withoutValues(written()) as SecretData;
    } catch {
      data = { "…": "…" };
    }
    const { body, ...request } = requestOf(data);
    if (!isVersioned) return wireRequest("POST /v1/kv-v1/{path}", { ...request, body: data });
    return wireRequest(`${isPatch ? "PATCH" : "POST"} /v1/secret/data/{path}`, { ...request, body });
  };
  return (
    <FormDialog
      title={isNew ? "New secret" : `Write ${name}`}
      onClose={onClose}
      perform={save}
      request={preview()}
      verb={isNew ? "Write the secret" : isVersioned ? "Write the new version" : "Write the values"}
    >
      {isNew && (
        <TextField
          label="Path"
          value={typedPath}
          onChange={setTypedPath}
          required
          mono
          autofocus
          placeholder="app/database"
          hint={`In ${mount.path}/. Slashes make folders.`}
        />
      )}
      {!isNew && current === undefined && (
        <p class="notice">The present values cannot be read, so the editor begins empty.</p>
      )}
      <div class="row">
        <div class="segments" role="group" aria-label="Form of the values">
          {[null, ...(Object.keys(FORMATS) as Format[])].map((format) => (
            <button
              key={format}
              type="button"
              class="segment"
              aria-pressed={format === (text?.format ?? null)}
              onClick={() => format !== (text?.format ?? null) && attempt(() => show(format, read()))}
            >
              {format === null ? "Keys and values" : FORMATS[format]}
            </button>
          ))}
        </div>
        <Button
          icon="file"
          onClick={() =>
            chooseFile((raw, name) =>
              attempt(() => show(text?.format ?? null, { ...read(), ...parsed(formatOf(name), raw) })),
            )
          }
        >
          Add values from a file
        </Button>
      </div>
      {text === null ? (
        <KeyValue pairs={pairs} onChange={setPairs} noun="key" isSecret />
      ) : (
        <ValueText
          aria-label={`Values as ${FORMATS[text.format]}`}
          value={text.raw}
          rows={8}
          onChange={(raw) => setText({ ...text, raw })}
        />
      )}
      {mayPatch && (
        <Checkbox
          label="Send only what changed (patch)"
          hint="Keys that were not touched keep their value, also when another person changed them meanwhile."
          checked={isPatch}
          onChange={setPatch}
        />
      )}
      {isVersioned && cas !== undefined && (
        <Checkbox
          label={isNew ? "Only if there is no such secret yet" : `Only if version ${cas} is still the newest`}
          hint="The write is refused otherwise, so that nothing is overwritten unseen."
          checked={isGuarded}
          onChange={setGuarded}
        />
      )}
    </FormDialog>
  );
}
