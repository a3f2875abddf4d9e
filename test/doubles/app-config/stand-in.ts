import type { Place, StandIn } from "../stand-in.ts";
import { type AppAccount, startAppConfig } from "./server.ts";

/** Heroku, with an app of an account. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startAppConfig();
  return {
    type: "app-config",
    settings: { APP_CONFIG_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

function placeOf(account: AppAccount): Place {
  const body = { access_token: account.token, app: account.app };
  return {
    body,
    wrongCredentials: { ...body, access_token: "wrong" },
    missing: { ...body, app: "missing" },
    objects: () => new Map([...account.vars].map(([name, value]) => [name, { value, owned: null }])),
    write: (name, value) => void account.vars.set(name, value),
    remove: (name) => void account.vars.delete(name),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
