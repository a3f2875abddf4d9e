import { useState } from "preact/hooks";
import type { WireRequest } from "../../api/client.ts";
import { FormDialog } from "../../components/form-dialog.tsx";
import { sizeText } from "../../lib/text.ts";
import { bytesOf, SizeField } from "./fields.tsx";

interface Sizes {
  readonly min: number;
  readonly max: number;
}

interface ExpandProps {
  readonly title: string;
  readonly min: number;
  readonly max: number;
  /** The present size, where it is known. */
  readonly capacity?: number;
  readonly requestOf: (sizes: Sizes) => WireRequest;
  readonly perform: (sizes: Sizes) => Promise<unknown>;
  readonly onClose: () => void;
}

/** Changes the capacity that is asked for; the plugin makes the volume larger when the lower bound is above its size. */
export function ExpandDialog({ title, min, max, capacity, requestOf, perform, onClose }: ExpandProps) {
  const [texts, setTexts] = useState({ min: textOf(min || (capacity ?? 0)), max: textOf(max) });
  const entered = { min: bytesOf(texts.min) ?? 0, max: bytesOf(texts.max) ?? 0 };
  const isReady = bytesOf(texts.min) !== null && bytesOf(texts.max) !== null;
  return (
    <FormDialog
      title={title}
      verb="Change capacity"
      shape="box"
      onClose={onClose}
      perform={() => perform(entered)}
      isReady={isReady}
      request={requestOf(entered)}
    >
      {capacity !== undefined && capacity > 0 && <p>The volume has {sizeText(capacity)} now. It can only grow.</p>}
      <SizeField
        label="Capacity, at least"
        value={texts.min}
        autofocus
        onChange={(text) => setTexts({ ...texts, min: text })}
        hint="Above the present size, the plugin makes the volume larger."
      />
      <SizeField
        label="Capacity, at most"
        value={texts.max}
        onChange={(text) => setTexts({ ...texts, max: text })}
        hint="Left empty, there is no bound."
      />
    </FormDialog>
  );
}

/** As the person would have typed it: in the largest unit that divides it. */
function textOf(bytes: number): string {
  if (bytes === 0) return "";
  for (const [unit, size] of [
    ["TiB", 2 ** 40],
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ] as const)
    if (bytes % size === 0) return `${bytes / size} ${unit}`;
  return `${bytes} B`;
}
