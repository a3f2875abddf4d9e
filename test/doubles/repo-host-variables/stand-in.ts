import type { Account } from "../repo-host/account.ts";
import type { RepoHostDouble } from "../repo-host/server.ts";
import { faults } from "../repo-host/stand-in.ts";
import { vaultAt } from "../repo-host/state.ts";
import { byName, type Place, type StandIn } from "../stand-in.ts";

const writes = ["createVariable", "updateVariable", "deleteVariable"];

/** GitHub's variables, with the repository of an account. */
export async function startStandIn(shared: { repoHost(): Promise<RepoHostDouble> }): Promise<StandIn> {
  const double = await shared.repoHost();
  return {
    type: "repo-host-variables",
    settings: { REPO_HOST_URL: double.url },
    open: async () => placeOf(await double.openAccount()),
    close: () => double.close(),
  };
}

function placeOf(account: Account): Place {
  const { owner, repository, accessToken } = account.credentials;
  const body = {
    repository_owner: owner,
    repository_name: repository,
    access_token: accessToken,
    allow_plaintext: true,
  };
  const { variables } = vaultAt(account.state, `${owner}/${repository}`);
  return {
    body,
    wrongCredentials: { ...body, access_token: "ghp_wrong" },
    missing: { ...body, repository_name: "missing" },
    objects: () => byName([...variables.values()].map(({ name, value }) => ({ name, value, owned: null }))),
    write(given, value) {
      const name = given.toUpperCase();
      variables.set(name, { name, value, createdAt: 0, updatedAt: Date.now() });
    },
    remove: (name) => void variables.delete(name.toUpperCase()),
    fail: (fault, count) => account.fault({ ...faults[fault], count, operation: writes }),
    writes: () => account.requests().filter(({ operation }) => writes.includes(operation)).length,
  };
}
