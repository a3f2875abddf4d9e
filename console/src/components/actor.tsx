/** The name of a token's owner, looked up by accessor when it is shown. The accessor stays where no name can be found. */

import { useEffect } from "preact/hooks";
import { api } from "../api/client.ts";
import { caller } from "../api/session.ts";
import { signal } from "../lib/signal.ts";

/** Empty for a token that has ended, and for callers that may not look it up. */
const names = signal<ReadonlyMap<string, string>>(new Map());
const KNOWN_MS = 30_000;
let known = { at: 0, accessors: Promise.resolve<readonly string[]>([]) };

/** Only tokens that exist are looked up: an audit log is full of others. */
function existing(): Promise<readonly string[]> {
  if (Date.now() - known.at > KNOWN_MS) {
    const read = api("LIST /v1/auth/token/accessors", { namespace: "", quiet: true });
    known = {
      at: Date.now(),
      accessors: read.then(
        ({ data }) => data.keys,
        () => [],
      ),
    };
  }
  return known.accessors;
}

async function lookUp(accessor: string): Promise<void> {
  if (names.peek().has(accessor)) return;
  names.value = new Map(names.peek()).set(accessor, "");
  if (!(await existing()).includes(accessor)) return;
  const options = { namespace: "", body: { accessor }, quiet: true } as const;
  const name = await api("POST /v1/auth/token/lookup-accessor", options).then(
    ({ data }) => data.display_name,
    () => "",
  );
  names.value = new Map(names.peek()).set(accessor, name);
}

export function Actor({ accessor }: { readonly accessor: string }) {
  const isSelf = accessor === caller.value?.accessor;
  useEffect(() => {
    if (accessor && !isSelf) void lookUp(accessor);
  }, [accessor, isSelf]);
  if (isSelf) return <span title={accessor}>{caller.value?.name} (you)</span>;
  const name = names.value.get(accessor);
  return name ? <span title={accessor}>{name}</span> : <span class="mono">{accessor}</span>;
}
