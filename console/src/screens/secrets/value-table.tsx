import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { Json } from "../../components/code.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Masked } from "../../components/masked.tsx";
import { Toolbar } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { shown } from "../../lib/exact-json.ts";
import type { SecretData } from "./reads.ts";

/** The keys and hidden values of a secret. @param children further controls above */
export function ValueTable({ data, children }: { readonly data: SecretData; readonly children?: ComponentChildren }) {
  const [isRevealed, setRevealed] = useState(false);
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
        <CopyButton text={() => JSON.stringify(data, null, 2)} label="all values as JSON" />
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
