import { byName, type Fault, type Place, type StandIn } from "../stand-in.ts";
import type { Account, Fault as ApiFault } from "./account.ts";
import type { RepoHostDouble } from "./server.ts";
import { vaultAt } from "./state.ts";

const writes = ["putSecret", "deleteSecret"];

export const faults: Readonly<Record<Fault, ApiFault>> = {
  throttled: {
    fault: "error",
    status: 429,
    message: "You have exceeded a rate limit",
    headers: { "retry-after": "1" },
  },
  unavailable: { fault: "error", status: 503 },
  lost: { fault: "apply-then-drop" },
  cut: { fault: "drop" },
  forbidden: { fault: "error", status: 403, message: "Resource not accessible by personal access token" },
};

/** GitHub Actions, with the repository of an account. */
export async function startStandIn(shared: { repoHost(): Promise<RepoHostDouble> }): Promise<StandIn> {
  const double = await shared.repoHost();
  let first: Account | null = double.main;
  return {
    type: "repo-host",
    settings: { REPO_HOST_URL: double.url },
    shell: { REPO_HOST: `${double.url}/_double` },
    async open() {
      const account = first ?? (await double.openAccount());
      first = null;
      return placeOf(account);
    },
    close: () => double.close(),
  };
}

function placeOf(account: Account): Place {
  const { owner, repository, accessToken, appId, appKey, installationId } = account.credentials;
  const body = { repository_owner: owner, repository_name: repository, access_token: accessToken };
  const place = `${owner}/${repository}`;
  return {
    body,
    wrongCredentials: { ...body, access_token: "ghp_wrong" },
    bodies: {
      "repo-host-app": { app_id: appId, private_key: appKey },
      "repo-host": {
        app_name: "sync-bot",
        installation_id: installationId,
        repository_owner: owner,
        repository_name: repository,
      },
    },
    missing: { ...body, repository_name: "missing" },
    objects: () =>
      byName(
        account
          .secrets()
          .filter((secret) => secret.place === place)
          .map(({ name, value }) => ({ name, value, owned: null })),
      ),
    write(name, value) {
      account.call({ operation: "put-secret", place, name, value });
      const secret = vaultAt(account.state, place).secrets.get(name.toUpperCase());
      // Beyond the tolerance between the provider's times, which are whole seconds.
      if (secret) secret.updatedAt += 60_000;
    },
    remove: (name) => void account.call({ operation: "delete-secret", place, name }),
    fail: (fault, count) => account.fault({ ...faults[fault], count, operation: writes }),
    writes: () => account.requests().filter(({ operation }) => writes.includes(operation)).length,
  };
}
