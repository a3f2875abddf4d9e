import type { Place, StandIn } from "../stand-in.ts";
import { type SupabaseAccount, startFunctionSecrets } from "./server.ts";

/** Supabase, with a project. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startFunctionSecrets();
  return {
    type: "function-secrets",
    settings: { FUNCTION_SECRETS_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

function placeOf(account: SupabaseAccount): Place {
  const body = { access_token: account.token, project_ref: account.project };
  return {
    body,
    wrongCredentials: { ...body, access_token: "wrong" },
    missing: { ...body, project_ref: "missingmissingmissin" },
    objects: () => new Map([...account.secrets].map(([name, value]) => [name, { value, owned: null }])),
    write: (name, value) => void account.secrets.set(name, value),
    remove: (name) => void account.secrets.delete(name),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
