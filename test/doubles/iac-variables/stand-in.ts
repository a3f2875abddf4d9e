import { byName, type Place, type StandIn } from "../stand-in.ts";
import { type IacAccount, startIacVariables } from "./server.ts";

/** HCP Terraform, with a workspace of an account. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startIacVariables();
  return {
    type: "iac-variables",
    settings: { IAC_VARIABLES_URL: double.url },
    open: () => placeOf(double.open()),
    close: () => double.close(),
  };
}

function placeOf(account: IacAccount): Place {
  const workspace_id = "ws-web1234567890abc";
  const body = { access_token: account.token, workspace_id };
  const variables = account.places.get(`/workspaces/${workspace_id}`) ?? [];
  const found = (name: string) => variables.find(({ key }) => key === name);
  function write(name: string, value: string, sensitive: boolean): void {
    const known = found(name);
    if (known) Object.assign(known, { value, description: "by hand", version: known.version + 1 });
    else {
      const id = `var-${variables.length}`;
      variables.push({
        id,
        key: name,
        value,
        category: "env",
        hcl: false,
        sensitive,
        description: "",
        version: 1,
      });
    }
  }
  return {
    body,
    shown: { sensitive: false },
    wrongCredentials: { ...body, access_token: "wrong" },
    missing: { ...body, workspace_id: "ws-missing" },
    objects: () =>
      byName(
        variables.map(({ key, value, description }) => ({
          name: key,
          value,
          owned: description?.startsWith("managed by sallyport sync") ?? false,
        })),
      ),
    write: (name, value) => write(name, value, true),
    writeShown: (name, value) => write(name, value, false),
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
