import { byName, type Place, type StandIn } from "../stand-in.ts";
import { type SiteAccount, startDeploySite } from "./server.ts";

/** Netlify, with a site of a team. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startDeploySite();
  return {
    type: "deploy-site",
    settings: { DEPLOY_SITE_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

function placeOf(account: SiteAccount): Place {
  const body = { access_token: account.token, account_id: account.id, site_id: "site-1", deploy_context: "production" };
  const variables = account.sites.get("site-1") ?? new Map();
  function write(key: string, value: string, is_secret: boolean): void {
    const values = [{ id: crypto.randomUUID(), context: "production", value }];
    variables.set(key, { key, scopes: [], values, is_secret, updated_at: account.time() });
  }
  return {
    body,
    shown: { is_secret: false },
    wrongCredentials: { ...body, access_token: "wrong" },
    missing: { ...body, site_id: "missing" },
    objects: () =>
      byName(
        [...variables.values()].map(({ key, values }) => ({ name: key, value: values[0]?.value ?? "", owned: null })),
      ),
    write: (name, value) => write(name, value, true),
    writeShown: (name, value) => write(name, value, false),
    remove: (name) => void variables.delete(name),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
