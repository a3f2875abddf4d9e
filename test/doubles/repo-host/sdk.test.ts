import { createPrivateKey } from "node:crypto";
import { createAppAuth } from "@octokit/auth-app";
import sodium from "libsodium-wrappers";
import { App, Octokit } from "octokit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../../src/providers/outcome.ts";
import type { CallContext, ExternalObject } from "../../../src/sync/destinations/destination-type.ts";
import { repoHost } from "../../../src/sync/destinations/repo-host/adapter.ts";
import type { Account } from "./account.ts";
import { type RepoHostDouble, startRepoHost } from "./server.ts";

// The vendor's own client accepts the double's answers and errors, and does with it what our adapter does: so neither the
// double nor the adapter is only our own misreading of the protocol.

let double: RepoHostDouble;
let account: Account;
const place = { owner: "acme", repo: "web" };

beforeAll(async () => {
  await sodium.ready;
  double = await startRepoHost();
});
afterAll(() => double.close());
beforeEach(async () => {
  account = await double.openAccount();
});

/** Throttling and retrying are left out: they would wait where the test wants to see the answer. */
const plain = { throttle: { enabled: false }, retry: { enabled: false } };
const client = (auth = account.credentials.accessToken) => new Octokit({ auth, baseUrl: double.url, ...plain });

/** As the vendor's guide to encrypting secrets does it. */
function seal(text: string, key: string): string {
  const sealed = sodium.crypto_box_seal(
    sodium.from_string(text),
    sodium.from_base64(key, sodium.base64_variants.ORIGINAL),
  );
  return sodium.to_base64(sealed, sodium.base64_variants.ORIGINAL);
}

describe("the vendor's client with the double", () => {
  it("creates, updates, reads and deletes a repository's secret", async () => {
    const { actions } = client().rest;
    const { data: key } = await actions.getRepoPublicKey(place);
    const secret = { ...place, secret_name: "TOKEN" };
    const write = { ...secret, encrypted_value: seal("one", key.key), key_id: key.key_id };
    expect((await actions.createOrUpdateRepoSecret(write)).status).toBe(201);
    expect((await actions.createOrUpdateRepoSecret(write)).status).toBe(204);
    expect((await actions.getRepoSecret(secret)).data).toMatchObject({
      name: "TOKEN",
      updated_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
    });
    expect((await actions.listRepoSecrets(place)).data).toMatchObject({ total_count: 1, secrets: [{ name: "TOKEN" }] });
    expect(account.secrets()).toMatchObject([{ place: "acme/web", value: "one" }]);
    expect((await actions.deleteRepoSecret(secret)).status).toBe(204);
    await expect(actions.deleteRepoSecret(secret)).rejects.toMatchObject({ status: 404 });
  });

  it("writes secrets of an environment whose name has a slash, and of an organization", async () => {
    const { actions } = client().rest;
    const there = { ...place, environment_name: "eu/früh" };
    const { data: ofEnvironment } = await actions.getEnvironmentPublicKey(there);
    const sealed = { encrypted_value: seal("e", ofEnvironment.key), key_id: ofEnvironment.key_id };
    await actions.createOrUpdateEnvironmentSecret({ ...there, secret_name: "E", ...sealed });
    const { data: ofOrganization } = await actions.getOrgPublicKey({ org: "acme" });
    const { id } = (await client().rest.repos.get(place)).data;
    await actions.createOrUpdateOrgSecret({
      org: "acme",
      secret_name: "O",
      visibility: "selected",
      selected_repository_ids: [id],
      encrypted_value: seal("o", ofOrganization.key),
      key_id: ofOrganization.key_id,
    });
    expect(account.secrets()).toMatchObject([
      { place: "acme", name: "O", value: "o", visibility: "selected", selected: [id] },
      { place: "acme/web:eu/früh", name: "E", value: "e" },
    ]);
    const { data: who } = await actions.listSelectedReposForOrgSecret({ org: "acme", secret_name: "O" });
    expect(who).toMatchObject({ total_count: 1, repositories: [{ name: "web" }] });
  });

  it("authenticates as an application with the key as issued and as PKCS#8", async () => {
    const { appId, appKey, installationId } = account.credentials;
    const pkcs8 = createPrivateKey(appKey).export({ type: "pkcs8", format: "pem" }).toString();
    for (const privateKey of [appKey, pkcs8]) {
      const app = new App({ appId, privateKey, Octokit: Octokit.defaults({ baseUrl: double.url, ...plain }) });
      expect((await app.octokit.rest.apps.getAuthenticated()).data).toMatchObject({ id: Number(appId) });
      const installed = await app.getInstallationOctokit(installationId);
      expect((await installed.rest.actions.getRepoPublicKey(place)).status).toBe(200);
    }
    const auth = createAppAuth({
      appId,
      privateKey: pkcs8,
      request: new Octokit({ baseUrl: double.url, ...plain }).request,
    });
    const token = await auth({
      type: "installation",
      installationId,
      repositoryNames: ["web"],
      permissions: { secrets: "write" },
    });
    expect(token).toMatchObject({ repositorySelection: "selected", permissions: { secrets: "write" } });
    const limited = client(token.token).rest.actions;
    expect((await limited.getRepoPublicKey(place)).status).toBe(200);
    await expect(limited.getRepoPublicKey({ ...place, repo: "api" })).rejects.toMatchObject({ status: 404 });
    await expect(limited.getOrgPublicKey({ org: "acme" })).rejects.toMatchObject({ status: 403 });
  });

  it("recognises errors by status", async () => {
    const { actions } = client().rest;
    const { data: key } = await actions.getRepoPublicKey(place);
    const write = { ...place, secret_name: "TOKEN", encrypted_value: seal("one", key.key), key_id: key.key_id };
    const bad = "GITHUB_TOKEN";
    await expect(actions.createOrUpdateRepoSecret({ ...write, secret_name: bad })).rejects.toMatchObject({
      status: 422,
    });
    await expect(actions.createOrUpdateRepoSecret({ ...write, key_id: "1" })).rejects.toMatchObject({ status: 422 });
    account.call({ operation: "rotate-key", place: "acme/web" });
    await expect(actions.createOrUpdateRepoSecret(write)).rejects.toMatchObject({ status: 422 });
    await expect(client("ghp_wrong").rest.actions.getRepoPublicKey(place)).rejects.toMatchObject({ status: 401 });
  });
});

describe("our adapter and the vendor's client", () => {
  const object: ExternalObject = {
    name: "TOKEN",
    value: '{"password":"é😀\\n"}',
    tags: {},
    idempotencyToken: "i",
    knownToExist: false,
    reference: null,
    previousTagKeys: [],
    contentType: "application/json",
    updatePolicy: "replace",
  };
  const context = (): CallContext => ({ settings: { REPO_HOST_URL: double.url }, send: sender({ deadlineMs: 5000 }) });
  const connection = () => ({
    access_token: account.credentials.accessToken,
    secrets_location: "repository" as const,
    repository_owner: "acme",
    repository_name: "web",
  });

  it("read, overwrite and remove each other's secrets", async () => {
    const { actions } = client().rest;
    const secret = { ...place, secret_name: "TOKEN" };
    expect(await repoHost.put(object, connection(), context())).toMatchObject({ outcome: "ok" });
    expect((await actions.getRepoSecret(secret)).data.name).toBe("TOKEN");
    expect(account.secrets()).toMatchObject([{ value: object.value }]);
    const { data: key } = await actions.getRepoPublicKey(place);
    const theirs = { encrypted_value: seal("theirs", key.key), key_id: key.key_id };
    await actions.createOrUpdateRepoSecret({ ...secret, ...theirs });
    expect(account.secrets()).toMatchObject([{ value: "theirs" }]);
    expect(await repoHost.put(object, connection(), context())).toMatchObject({ outcome: "ok" });
    expect(account.secrets()).toMatchObject([{ value: object.value }]);
    expect(await repoHost.remove({ ...object, ownedOnly: false }, connection(), context())).toEqual({ outcome: "ok" });
    await expect(actions.getRepoSecret(secret)).rejects.toMatchObject({ status: 404 });
  });

  it("send the same requests with the same fields", async () => {
    const { actions } = client().rest;
    const { data: key } = await actions.getRepoPublicKey(place);
    const theirs = { encrypted_value: seal("theirs", key.key), key_id: key.key_id };
    await actions.createOrUpdateRepoSecret({ ...place, secret_name: "TOKEN", ...theirs });
    await actions.deleteRepoSecret({ ...place, secret_name: "TOKEN" });
    await repoHost.put(object, connection(), context());
    await repoHost.remove({ ...object, ownedOnly: false }, connection(), context());
    const shapes = account.requests().map(({ method, path, fields }) => ({ method, path, fields: fields?.toSorted() }));
    expect(shapes.slice(3)).toEqual(shapes.slice(0, 3));
  });
});
