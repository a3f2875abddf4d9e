import { Octokit } from "octokit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { repoHost } from "../../../src/sync/destinations/repo-host/adapter.ts";
import { repoHostVariables } from "../../../src/sync/destinations/repo-host-variables/adapter.ts";
import { driverOf } from "../../support/adapter-driver.ts";
import type { Account } from "../repo-host/account.ts";
import { type RepoHostDouble, startRepoHost } from "../repo-host/server.ts";

// The vendor's own client reads what the adapters write, and the double answers it.

let double: RepoHostDouble;
let account: Account;
const place = { owner: "acme", repo: "web" };

beforeAll(async () => {
  double = await startRepoHost();
});
afterAll(() => double.close());
beforeEach(async () => {
  account = await double.openAccount();
});

const client = () =>
  new Octokit({
    auth: account.credentials.accessToken,
    baseUrl: double.url,
    throttle: { enabled: false },
    retry: { enabled: false },
  }).rest;

const body = () => ({
  repository_owner: "acme",
  repository_name: "web",
  access_token: account.credentials.accessToken,
});
const organization = {
  repository_owner: "",
  repository_name: "",
  secrets_location: "organization",
  organization_name: "acme",
};
const secrets = driverOf(repoHost, () => double, body);
const variables = driverOf(
  { ...repoHostVariables, description: { ...repoHostVariables.description, settings: ["REPO_HOST_URL"] } },
  () => double,
  () => ({ ...body(), allow_plaintext: true }),
);

describe("secrets of other applications", () => {
  it.each(["dependabot", "codespaces"] as const)(
    "of %s are written with its own key, apart from Actions",
    async (application) => {
      const ok = { outcome: "ok", reference: expect.any(String) };
      expect(await secrets.put({ value: "of-actions" })).toEqual(ok);
      expect(await secrets.put({ value: "of-another" }, { application })).toEqual(ok);
      const { name } = secrets;
      expect(account.secrets()).toMatchObject([
        { place: "acme/web", name, value: "of-actions" },
        { place: `acme/web@${application}`, name, value: "of-another" },
      ]);
      const rest = client();
      const listed = await rest[application].listRepoSecrets(place);
      expect(listed.data).toMatchObject({ total_count: 1, secrets: [{ name }] });
      expect(await secrets.inspect(null, { application })).toMatchObject({ state: "present" });
      expect(await secrets.remove({ application })).toEqual({ outcome: "ok" });
      expect(account.secrets()).toHaveLength(1);
      const all = { ...organization, application, organization_visibility: "all" };
      expect(await secrets.put({}, all)).toEqual(ok);
      expect((await rest[application].listOrgSecrets({ org: "acme" })).data).toMatchObject({ total_count: 1 });
    },
  );

  it("have no environments", () => {
    expect(secrets.refused({ application: "dependabot", environment_name: "production" })).toEqual([
      "environment_name",
    ]);
  });
});

describe("variables", () => {
  it("are read by the vendor's client, and its changes by the adapter", async () => {
    const { actions } = client();
    const { name } = variables;
    expect(await variables.put({ value: "one" })).toEqual({ outcome: "ok", reference: name });
    expect((await actions.getRepoVariable({ ...place, name })).data).toMatchObject({ name, value: "one" });
    await actions.updateRepoVariable({ ...place, name, value: "theirs" });
    expect(await variables.inspect(name, {}, "one")).toMatchObject({ state: "changed" });
    await actions.deleteRepoVariable({ ...place, name });
    expect(await variables.put({ value: "two", knownToExist: true })).toMatchObject({ outcome: "ok" });
    await expect(actions.createRepoVariable({ ...place, name, value: "x" })).rejects.toMatchObject({ status: 409 });
  });

  it("of an environment and of an organization with selected repositories are apart", async () => {
    const { actions } = client();
    const { name } = variables;
    const environment_name = account.credentials.environment;
    expect(await variables.put({}, { environment_name })).toMatchObject({ outcome: "ok" });
    const there = { ...place, environment_name, name };
    expect((await actions.getEnvironmentVariable(there)).data).toMatchObject({ name });
    const selected = { ...organization, organization_visibility: "selected", selected_repository_names: ["web"] };
    expect(await variables.put({}, selected)).toMatchObject({ outcome: "ok" });
    expect(await variables.put({ knownToExist: true }, selected)).toMatchObject({ outcome: "ok" });
    expect((await actions.getOrgVariable({ org: "acme", name })).data).toMatchObject({ visibility: "selected" });
    expect(await variables.inspect(null)).toMatchObject({ state: "absent" });
  });

  it("require the consent to plain text", () => {
    for (const allow_plaintext of [undefined, false]) {
      expect(variables.refused({ allow_plaintext })).toEqual(["allow_plaintext"]);
    }
  });
});
