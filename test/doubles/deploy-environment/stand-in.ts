import type { Place, StandIn } from "../stand-in.ts";
import { type RailwayAccount, startDeployEnvironment } from "./server.ts";

/** Railway, with a service in an environment of a project. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startDeployEnvironment();
  return {
    type: "deploy-environment",
    settings: { DEPLOY_ENVIRONMENT_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

export const bodyOf = (account: RailwayAccount) => ({
  access_token: account.token,
  project_id: account.projectId,
  environment_id: account.environmentId,
  service_id: account.serviceId,
});

function placeOf(account: RailwayAccount): Place {
  const body = bodyOf(account);
  const variables = account.places.get(account.serviceId) ?? new Map<string, string>();
  return {
    body,
    wrongCredentials: { ...body, access_token: "wrong" },
    missing: { ...body, service_id: crypto.randomUUID() },
    objects: () => new Map([...variables].map(([name, value]) => [name, { value, owned: null }])),
    write: (name, value) => void variables.set(name, value),
    remove: (name) => void variables.delete(name),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
