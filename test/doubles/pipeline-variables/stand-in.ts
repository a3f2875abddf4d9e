import { MARKER } from "../../../src/sync/destinations/pipeline-variables/adapter.ts";
import type { SharedCloudB } from "../cloud-b-kv/shared.ts";
import type { Place, StandIn } from "../stand-in.ts";
import { type PipelineAccount, startPipelineVariables } from "./server.ts";

/** Azure DevOps, with an organization and a variable group. */
export async function startStandIn(shared: { cloudB(): Promise<SharedCloudB> }): Promise<StandIn> {
  const cloudB = await shared.cloudB();
  const double = await startPipelineVariables((token) => cloudB.double.verify(token));
  return {
    type: "pipeline-variables",
    settings: { PIPELINE_VARIABLES_URL: double.url, CLOUD_B_LOGIN_URL: cloudB.double.url },
    open: () => placeOf(double.open()),
    close: async () => {
      await Promise.all([double.close(), cloudB.double.close()]);
    },
  };
}

export const bodyOf = ({ organization, project, groupId, token }: PipelineAccount) => ({
  organization,
  project: project.name,
  variable_group_id: groupId,
  access_token: token,
});

const namesOf = ({ variables }: PipelineAccount): string[] => variables.get(MARKER)?.value.split(",") ?? [];

function placeOf(account: PipelineAccount): Place {
  // A group as an earlier destination has left it, because it cannot be empty.
  account.variables = new Map([[MARKER, { value: "-" }]]);
  const body = bodyOf(account);
  /** Another writer's change takes the name off our list. */
  function disown(name: string): void {
    const names = namesOf(account).filter((one) => one !== name);
    account.variables.set(MARKER, { value: names.join(",") || "-" });
    account.touch();
  }
  return {
    body,
    wrongCredentials: { ...body, access_token: "wrong" },
    missing: { ...body, variable_group_id: 4242 },
    objects() {
      const names = namesOf(account);
      const own = [...account.variables].filter(([name]) => name !== MARKER);
      return new Map(own.map(([name, { value }]) => [name, { value, owned: names.includes(name) }]));
    },
    write(name, value) {
      account.variables.set(name, { value, isSecret: true });
      disown(name);
    },
    remove(name) {
      account.variables.delete(name);
      account.touch();
    },
    fail: (fault, times) => account.fail(fault, times),
    writes: () => account.writes,
  };
}
