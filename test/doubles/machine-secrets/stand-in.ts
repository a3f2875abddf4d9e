import type { Place, StandIn } from "../stand-in.ts";
import { type FlyAccount, startMachineSecrets } from "./server.ts";

/** Fly.io, with an app. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startMachineSecrets();
  return {
    type: "machine-secrets",
    settings: { MACHINE_SECRETS_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

function placeOf(account: FlyAccount): Place {
  const body = { api_token: account.token, app: account.app };
  return {
    body,
    wrongCredentials: { ...body, api_token: "wrong" },
    missing: { ...body, app: "missing" },
    objects: () => new Map([...account.secrets].map(([name, value]) => [name, { value, owned: null }])),
    write: (name, value) => account.change({ [name]: value }),
    remove: (name) => account.change({ [name]: null }),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
