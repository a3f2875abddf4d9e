import { byName, type Fault, type Place, type StandIn } from "../stand-in.ts";
import { type Fault as ApiFault, type DeployProjectDouble, type OpenedAccount, startDeployProject } from "./api.ts";

const writes = ["CreateVariables", "EditVariable", "RemoveVariable"] as const;
const target = ["preview", "production"];

const faults: Record<Fault, ApiFault> = {
  throttled: { fault: "error", status: 429, code: "rate_limited", headers: { "retry-after": "1" } },
  unavailable: { fault: "error", status: 503, code: "internal_server_error" },
  lost: { fault: "apply-then-drop" },
  cut: { fault: "drop" },
  forbidden: { fault: "error", status: 403, code: "forbidden" },
};

/** Vercel, with the personal project of an account. */
export async function startStandIn(): Promise<StandIn> {
  const double = await startDeployProject();
  let first: OpenedAccount | null = double.account;
  return {
    type: "deploy-project",
    settings: { DEPLOY_PROJECT_URL: double.url },
    shell: { DEPLOY_PROJECT: `${double.url}/_double` },
    open() {
      const account = first ?? double.open();
      first = null;
      return placeOf(double, account);
    },
    close: () => double.close(),
  };
}

function placeOf(double: DeployProjectDouble, { id: account, accessToken, projectId }: OpenedAccount): Place {
  const body = { access_token: accessToken, project_id: projectId, deployment_environments: target };
  const find = (name: string) => double.secrets(account).find(({ key }) => key === name);
  return {
    body,
    wrongCredentials: { ...body, access_token: "wrong" },
    missing: { ...body, project_id: "prj_missing" },
    objects: () =>
      byName(
        double.secrets(account).map(({ key, value, comment }) => ({
          name: key,
          value,
          owned: comment?.startsWith("managed by sallyport sync") ?? false,
        })),
      ),
    write(name, value) {
      const id = find(name)?.id;
      const change = { value, comment: "by hand" };
      if (id !== undefined) double.call("EditVariable", { id, body: change }, account);
      else double.call("CreateVariables", { body: { ...change, key: name, type: "encrypted", target } }, account);
    },
    remove(name) {
      double.call("RemoveVariable", { id: find(name)?.id ?? "" }, account);
    },
    fail: (fault, count) => double.fault({ ...faults[fault], count, operation: writes }, account),
    writes: () => double.requests(account).filter(({ operation }) => writes.some((one) => one === operation)).length,
  };
}
