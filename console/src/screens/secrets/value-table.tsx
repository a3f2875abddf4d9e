import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { Json } from "../../components/code.tsx";
import { copyText } from "../../components/copy.tsx";
import { Masked, useRevealed } from "../../components/masked.tsx";
import { Menu } from "../../components/menu.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { toast } from "../../components/toasts.tsx";
import { shown } from "../../lib/exact-json.ts";
import { FORMATS, type Format, formatted } from "../../lib/formats.ts";
import type { SecretData } from "./reads.ts";

/** The keys and hidden values of a secret. @param children further controls above */
export function ValueTable({ data, children }: { readonly data: SecretData; readonly children?: ComponentChildren }) {
  const [isRevealed, setRevealed] = useRevealed(false);
  const [isJson, setJson] = useState(false);
  const entries = Object.entries(data);
  return (
    <>
      <Toolbar>
        {children}
        <Button icon={isRevealed ? "hide" : "eye"} onClick={() => setRevealed(!isRevealed)}>
          {isRevealed ? "Hide all" : "Reveal all"}
        </Button>
        {isRevealed && <Button onClick={() => setJson(!isJson)}>{isJson ? "As a table" : "As JSON"}</Button>}
        <Menu
          label="Copy all values"
          items={(Object.keys(FORMATS) as Format[]).map((format) => ({
            label: `As ${FORMATS[format]}`,
            onSelect: () => void copyAll(format, data),
          }))}
        >
          Copy all
        </Menu>
      </Toolbar>
      {entries.length === 0 ? (
        <Empty title="This version has no keys" />
      ) : isRevealed && isJson ? (
        <Json value={data} label="the secret as JSON" />
      ) : (
        <div class="card card-flush">
          <table class="secrets-values" aria-label="Values">
            <tbody>
              {entries.map(([name, value]) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td>
                    <Masked value={shown(value)} label={name} isRevealed={isRevealed} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

async function copyAll(format: Format, data: SecretData): Promise<void> {
  try {
    if (await copyText(formatted(format, data))) toast(`All values are copied as ${FORMATS[format]}.`);
  } catch (failure) {
    toast(failure instanceof Error ? failure.message : String(failure), "bad");
  }
}
