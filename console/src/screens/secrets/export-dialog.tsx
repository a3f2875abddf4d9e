/** Saves the newest values of selected secrets as one file. */
import { useState } from "preact/hooks";
import { isDenied } from "../../api/client.ts";
import { SelectField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { toast } from "../../components/toasts.tsx";
import { FORMATS, type Format, formatted } from "../../lib/formats.ts";
import { inParallel } from "../../lib/parallel.ts";
import { saveFile } from "../../lib/raw-text.ts";
import { plural } from "../../lib/text.ts";
import { baseOf, type KvMount } from "./addresses.ts";
import { newestOf } from "./bulk-job.ts";
import type { SecretData } from "./reads.ts";

const MAX_CONCURRENT = 4;

interface ExportDialogProps {
  readonly mount: KvMount;
  readonly folder: string;
  readonly paths: readonly string[];
  readonly onClose: () => void;
}

export function ExportDialog({ mount, folder, paths, onClose }: ExportDialogProps) {
  const [format, setFormat] = useState<Format>("json");
  const save = async (): Promise<void> => {
    const engine = { mount: mount.path, version: mount.version };
    const refused: string[] = [];
    const read = await inParallel(paths, MAX_CONCURRENT, async (path): Promise<[string, SecretData | undefined]> => {
      try {
        return [path, (await newestOf(engine, path))?.data];
      } catch (failure) {
        if (!isDenied(failure)) throw failure;
        refused.push(path);
        return [path, undefined];
      }
    });
    if (refused.length > 0)
      throw new Error(`Your token may not read ${plural(refused.length, "secret")}, such as ${refused[0]}.`);
    const found = read.flatMap(([path, data]) => (data ? [[path, data] as const] : []));
    const data = format === "env" ? merged(found) : Object.fromEntries(found);
    const name = baseOf(folder.replace(/\/$/, "")) || mount.path.replaceAll("/", "-");
    saveFile(formatted(format, data), `${name}.${format}`);
    const deleted = paths.length - found.length;
    toast(
      `${plural(found.length, "secret")} saved.${deleted > 0 ? ` ${plural(deleted, "secret")} had no values.` : ""}`,
    );
    onClose();
  };
  return (
    <FormDialog
      title={`Export ${plural(paths.length, "secret")}`}
      verb="Save the file"
      onClose={onClose}
      perform={save}
      subject={format}
    >
      <SelectField
        label="Format"
        value={format}
        onChange={(chosen) => setFormat(chosen as Format)}
        hint={
          format === "env"
            ? "The keys of all secrets in one file. A key of two secrets is refused."
            : "Paths with their keys and values."
        }
        options={Object.entries(FORMATS).map(([value, label]) => ({ value, label }))}
      />
      <p class="notice">The file has the newest values in plain text. Delete it after use.</p>
    </FormDialog>
  );
}

/** The keys of all secrets. @throws Error for a key of two secrets */
function merged(secrets: readonly (readonly [path: string, data: SecretData])[]): SecretData {
  const from = new Map<string, string>();
  for (const [path, data] of secrets)
    for (const key of Object.keys(data)) {
      const other = from.get(key);
      if (other !== undefined) throw new Error(`${key} is in ${other} and in ${path}. Use JSON or YAML.`);
      from.set(key, path);
    }
  return Object.assign({}, ...secrets.map(([, data]) => data)) as SecretData;
}
