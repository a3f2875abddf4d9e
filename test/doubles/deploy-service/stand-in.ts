import type { Place, StandIn } from "../stand-in.ts";
import { type RenderAccount, startDeployService } from "./server.ts";

/** Render, with a service and an environment group. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startDeployService();
  return {
    type: "deploy-service",
    settings: { DEPLOY_SERVICE_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

function placeOf(account: RenderAccount): Place {
  const body = { api_key: account.token, service_id: account.service };
  const variables = account.places.get(account.service) ?? new Map<string, string>();
  return {
    body,
    wrongCredentials: { ...body, api_key: "wrong" },
    missing: { ...body, service_id: "srv-missing" },
    objects: () => new Map([...variables].map(([name, value]) => [name, { value, owned: null }])),
    write: (name, value) => void variables.set(name, value),
    remove: (name) => void variables.delete(name),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
