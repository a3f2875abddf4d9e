/** Fields of volumes that say more than their schema: sizes with units, and capabilities with their meaning. */
import { Button, IconButton } from "../../components/button.tsx";
import { Select, TextField } from "../../components/field.tsx";
import { sizeText } from "../../lib/text.ts";

export interface Capability {
  readonly AccessMode: string;
  readonly AttachmentMode: string;
}

export const FIRST_CAPABILITY: Capability = { AccessMode: "single-node-writer", AttachmentMode: "file-system" };

const SINGLE = [
  ["single-node-writer", "one node, read and write"],
  ["single-node-reader-only", "one node, read only"],
] as const;

const HOST_MODES = [
  ...SINGLE,
  ["single-node-single-writer", "one node, one writer"],
  ["single-node-multi-writer", "one node, many writers"],
] as const;

const CSI_MODES = [
  ...SINGLE,
  ["multi-node-reader-only", "many nodes, read only"],
  ["multi-node-single-writer", "many nodes, one writer"],
  ["multi-node-multi-writer", "many nodes, many writers"],
] as const;

const ATTACHMENTS = [
  ["file-system", "file system"],
  ["block-device", "block device"],
] as const;

interface CapabilitiesProps {
  readonly kind: "host" | "csi";
  readonly value: readonly Capability[];
  readonly onChange: (value: readonly Capability[]) => void;
}

export function Capabilities({ kind, value, onChange }: CapabilitiesProps) {
  const modes = kind === "host" ? HOST_MODES : CSI_MODES;
  const change = (at: number, changes: Partial<Capability>): void =>
    onChange(value.map((entry, other) => (other === at ? { ...entry, ...changes } : entry)));
  return (
    <fieldset class="group storage-capabilities">
      <legend>Capabilities</legend>
      <p class="field-hint">How jobs may use the volume: who may write, and as files or as a device.</p>
      {value.map((entry, at) => (
        <div key={at} class="storage-capability">
          <Select
            label={`Access of capability ${at + 1}`}
            value={entry.AccessMode}
            options={modes}
            onChange={(AccessMode) => change(at, { AccessMode })}
          />
          <Select
            label={`Attachment of capability ${at + 1}`}
            value={entry.AttachmentMode}
            options={ATTACHMENTS}
            onChange={(AttachmentMode) => change(at, { AttachmentMode })}
          />
          <IconButton
            icon="trash"
            label={`Remove capability ${at + 1}`}
            disabled={value.length === 1}
            onClick={() => onChange(value.filter((_, other) => other !== at))}
          />
        </div>
      ))}
      <Button kind="quiet" icon="plus" onClick={() => onChange([...value, FIRST_CAPABILITY])}>
        Add capability
      </Button>
    </fieldset>
  );
}

export const capabilityText = ({ AccessMode, AttachmentMode }: Capability): string => {
  const mode = [...HOST_MODES, ...CSI_MODES].find(([name]) => name === AccessMode)?.[1] ?? AccessMode;
  const attachment = ATTACHMENTS.find(([name]) => name === AttachmentMode)?.[1] ?? AttachmentMode;
  return `${mode || "any access"}, ${attachment || "any attachment"}`;
};

const UNITS: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  pb: 1e15,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
  pib: 2 ** 50,
};

const MIN_BYTES_WITHOUT_UNIT = 1024 * 1024;

/** Bytes of `10 GiB`, `500MB` or `1048576`; 0 of an empty text; null of any other. */
export function bytesOf(text: string): number | null {
  if (text.trim() === "") return 0;
  const [, digits = "", unit = ""] = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text) ?? [];
  const factor = UNITS[unit.toLowerCase()];
  if (digits === "" || factor === undefined) return null;
  const bytes = Math.round(Number(digits) * factor);
  // `10` means 10 GiB to people, and would make a volume of 10 bytes.
  if (unit === "" && bytes < MIN_BYTES_WITHOUT_UNIT) return null;
  return Number.isSafeInteger(bytes) ? bytes : null;
}

export function SizeField({
  label,
  value,
  onChange,
  hint,
  error,
  required = false,
  autofocus = false,
}: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly hint: string;
  readonly error?: string | undefined;
  readonly required?: boolean;
  readonly autofocus?: boolean;
}) {
  const bytes = bytesOf(value);
  return (
    <TextField
      label={label}
      value={value}
      onChange={onChange}
      placeholder="10 GiB"
      required={required}
      autofocus={autofocus}
      hint={bytes ? `${hint} ${sizeText(bytes)} are ${bytes.toLocaleString("en")} bytes.` : hint}
      error={bytes === null ? "A number with a unit, such as 10 GiB or 500 MB." : error}
    />
  );
}
