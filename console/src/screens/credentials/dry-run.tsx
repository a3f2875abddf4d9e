import { useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { AsCommand } from "../../components/as-command.tsx";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { ErrorPanel } from "../../components/error-panel.tsx";
import { Card } from "../../components/page.tsx";
import { useAction } from "../../lib/resource.ts";
import type { Engine } from "./reads.ts";

type Shown = Schemas["ProducerDryRun"];

const WRITE = "POST /v1/https-producer/dry-run";

const textOf = ({ method, url, headers, body }: Shown["calls"][number]): string =>
  [
    `${method} ${url}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined ? [] : ["", body]),
  ].join("\n");

/** The calls of the stored definition with sample values; nothing is sent. */
export function DryRun({ engine: { path: mount } }: { readonly engine: Engine }) {
  const [shown, setShown] = useState<Shown | null>(null);
  const request = { mount, body: {} };
  const run = useAction(async () => setShown((await api(WRITE, request)).data));
  return (
    <Card title="Dry run">
      <div class="stack">
        <p class="muted">Shows every call of the stored definition with samples. Nothing is sent.</p>
        {run.error !== null && <ErrorPanel error={run.error} />}
        {shown?.problems.map((problem) => (
          <p key={problem} role="alert">
            {problem}
          </p>
        ))}
        {shown?.calls.map((call) => (
          <Code key={call.call} text={textOf(call)} label={`the call ${call.call}`} wrap />
        ))}
        <div class="row">
          <Button isBusy={run.isBusy} onClick={() => void run.run()}>
            Show calls
          </Button>
        </div>
        <AsCommand request={wireRequest(WRITE, request)} />
      </div>
    </Card>
  );
}
