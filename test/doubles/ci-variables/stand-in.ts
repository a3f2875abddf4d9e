import type { Place, StandIn } from "../stand-in.ts";
import { byName } from "../stand-in.ts";
import { type CiAccount, startCiVariables } from "./server.ts";

/** GitLab, with a project of an account. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startCiVariables();
  return {
    type: "ci-variables",
    settings: { CI_VARIABLES_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

function placeOf(account: CiAccount): Place {
  const body = { access_token: account.token, project_id: account.project };
  const variables = account.places.get(`/projects/${account.project}`) ?? [];
  const found = (name: string) => variables.find(({ key }) => key === name);
  return {
    body,
    wrongCredentials: { ...body, access_token: "glpat-wrong" },
    missing: { ...body, project_id: "acme/missing" },
    objects: () =>
      byName(
        variables.map(({ key, value, description }) => ({
          name: key,
          value,
          owned: description?.startsWith("managed by sallyport sync") ?? false,
        })),
      ),
    write(name, value) {
      const theirs = { key: name, value, description: null, masked: false, raw: false, hidden: false };
      const known = found(name);
      if (known) Object.assign(known, theirs);
      else variables.push({ ...theirs, environment_scope: "*", variable_type: "env_var", protected: false });
    },
    remove(name) {
      variables.splice(
        variables.findIndex(({ key }) => key === name),
        1,
      );
    },
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
