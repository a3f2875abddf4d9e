import type { Place, StandIn } from "../stand-in.ts";
import { type ContextAccount, startCiContext } from "./server.ts";

/** CircleCI, with a context of an account. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startCiContext();
  return {
    type: "ci-context",
    settings: { CI_CONTEXT_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

function placeOf(account: ContextAccount): Place {
  const { context } = account;
  const body = { access_token: account.token, context_id: account.contextId };
  return {
    body,
    wrongCredentials: { ...body, access_token: "wrong" },
    missing: { ...body, context_id: "00000000-0000-4000-8000-000000000000" },
    objects: () => new Map([...context].map(([name, { value }]) => [name, { value, owned: null }])),
    write: (name, value) => void account.write(context, name, value),
    remove: (name) => void context.delete(name),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
