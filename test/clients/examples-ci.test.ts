import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { SigningIssuer } from "../doubles/signing-issuer.ts";
import { ExampleNamespace, run, startIssuer, yamlOf } from "./examples.ts";

/** Jobs of GitHub Actions and GitLab CI, from the files of examples/. */

const AUDIENCE = "https://sallyport.example";
let issuer: SigningIssuer;
let close: () => void;
const dir = mkdtempSync(join(tmpdir(), "sallyport-ci-"));

beforeAll(async () => {
  ({ issuer, close } = await startIssuer());
});
afterAll(() => {
  close();
  rmSync(dir, { recursive: true, force: true });
});

// The requests of vault-action are those of vault-action.test.ts.
it("the job of GitHub Actions gets its variables by the requests of vault-action", async () => {
  const place = await ExampleNamespace.create("github-actions");
  await place.setUp("github-actions", { REPOSITORY: "acme/app", ISSUER: issuer.url });
  const [workflow] = yamlOf("examples/github-actions/deploy.yml");
  expect(workflow.permissions["id-token"]).toBe("write");
  const inputs = workflow.jobs.deploy.steps[0].with;
  const claims = { aud: inputs.jwtGithubAudience, sub: "repo:acme/app:ref:refs/heads/main", repository: "acme/app" };
  const logIn = async (ref: string) => {
    const jwt = await issuer.sign({ ...claims, ref });
    return place.call("POST", `auth/${inputs.path}/login`, null, { jwt, role: inputs.role });
  };
  const login = await logIn("refs/heads/main");
  expect(login.status, JSON.stringify(login.body)).toBe(200);
  const variables: Record<string, string> = {};
  for (const line of inputs.secrets.split(";")) {
    const [, path = "", key = "", name = ""] = /^\s*(\S+) (\S+) \| (\S+)\s*$/.exec(line) ?? [];
    variables[name] = (await place.call("GET", path, login.body.auth.client_token)).body.data.data[key];
  }
  expect(variables).toEqual({ DATABASE_USERNAME: "app", DATABASE_PASSWORD: "first" });
  expect((await logIn("refs/heads/experiment")).status).toBeGreaterThanOrEqual(400);
});

const claimsOf = (ref: string, isProtected: string) => ({
  aud: AUDIENCE,
  sub: `project_path:acme/app:ref_type:branch:ref:${ref}`,
  project_path: "acme/app",
  ref,
  ref_protected: isProtected,
});

it("the jobs of GitLab CI get the secret: by the runner's requests, and by the lines of the script", async () => {
  const place = await ExampleNamespace.create("gitlab-ci");
  await place.setUp("gitlab-ci", { PROJECT: "acme/app", ISSUER: issuer.url });
  const [pipeline] = yamlOf("examples/gitlab-ci/.gitlab-ci.yml");
  const variables: Record<string, string> = pipeline.variables;
  expect(pipeline["with-curl"].id_tokens.VAULT_ID_TOKEN.aud).toBe(AUDIENCE);
  const jwt = await issuer.sign(claimsOf("main", "true"));

  // `secrets:vault` is PATH/FIELD@MOUNT (https://docs.gitlab.com/ci/yaml/#secretsvault), read with the login of the variables.
  const [, path = "", field = "", mount = ""] =
    /^(.+)\/([^/]+)@(.+)$/.exec(pipeline["with-secrets"].secrets.DATABASE_PASSWORD.vault) ?? [];
  const role = variables["VAULT_AUTH_ROLE"];
  const login = await place.call("PUT", `auth/${variables["VAULT_AUTH_PATH"]}/login`, null, { jwt, role });
  expect(login.status, JSON.stringify(login.body)).toBe(200);
  const read = await place.call("GET", `${mount}/data/${path}`, login.body.auth.client_token);
  expect(read.body.data.data[field]).toBe("first");

  // The script's own lines; deploy.sh prints what it got. The namespace is in the address, as curl sends no header for it.
  writeFileSync(join(dir, "deploy.sh"), '#!/bin/sh\nprintf "deployed with %s" "$DATABASE_PASSWORD"\n', { mode: 0o755 });
  const lines: string[] = pipeline["with-curl"].script;
  const script = lines.join("\n").replaceAll("/v1/", `/v1/${place.name}/`);
  const env = { ...variables, VAULT_SERVER_URL: place.address, VAULT_ID_TOKEN: jwt };
  const job = await run("bash", ["-e", "-c", script], env, dir);
  expect(job.code, job.output).toBe(0);
  expect(job.stdout).toBe("deployed with first");
  const other = { ...env, VAULT_ID_TOKEN: await issuer.sign(claimsOf("feature", "false")) };
  expect((await run("bash", ["-e", "-c", script], other, dir)).code).not.toBe(0);
});
