import type { Place, StandIn } from "../stand-in.ts";
import { type HttpsAccount, startHttps } from "./server.ts";

/** A key-value API. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startHttps();
  return {
    type: "https",
    settings: {},
    open: () => placeOf(double.open(), double.url),
    close: () => double.close(),
  };
}

function placeOf(account: HttpsAccount, url: string): Place {
  const bodyAt = (path: string, token: string) => ({
    url: `${url}${path}/{{ .Name }}`,
    inspect_url: `${url}${path}/{{ .Name }}`,
    probe_url: `${url}${path}`,
    headers: { authorization: `Bearer ${token}` },
  });
  return {
    body: bodyAt("/api/secrets", account.token),
    shown: {
      inspect_url: `${url}/api/list`,
      list_pointer: "/items",
      name_pointer: "/name",
      next_pointer: "/next",
      version_pointer: "/version",
      value_pointer: "/value",
    },
    wrongCredentials: bodyAt("/api/secrets", "wrong"),
    missing: bodyAt("/api/missing", account.token),
    objects: () => new Map([...account.objects].map(([name, { value }]) => [name, { value, owned: null }])),
    write: (name, value) => void account.write(name, value),
    remove: (name) => void account.objects.delete(name),
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
