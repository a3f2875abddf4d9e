import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { ExampleNamespace, run, yamlOf } from "./examples.ts";
import { goProgram } from "./go-program.ts";
import { LocalIssuer, POD_CLAIMS } from "./local-issuer.ts";

/** External Secrets and the Secrets Store CSI driver: the manifests of examples/, read as their programs do. */

const externalSecrets = goProgram("external-secrets", "external-secrets");
if (externalSecrets.missing !== null) console.warn(`External Secrets is not tried: ${externalSecrets.missing}.`);

const cluster = new LocalIssuer("kubernetes/serviceaccount");

async function namespaceWithLogin(name: string): Promise<{ place: ExampleNamespace; account: string }> {
  const place = await ExampleNamespace.create(name);
  const keys = { KEYS: await cluster.publicKey(), KUBERNETES_HOST: "https://cluster.example" };
  await place.setUp("kubernetes-login", keys);
  return { place, account: await cluster.sign(POD_CLAIMS) };
}

// The requests of the provider's source, v0.16.2: pkg/provider/vault (auth_kubernetes.go, client_get.go, client.go).
it("the requests of External Secrets for its manifests are answered", async () => {
  const { place, account } = await namespaceWithLogin("external-secrets");
  const [, store] = yamlOf("examples/external-secrets/secret-store.yaml");
  const [wanted] = yamlOf("examples/external-secrets/external-secret.yaml");
  const { vault } = store.spec.provider;
  const { mountPath, role, serviceAccountRef } = vault.auth.kubernetes;
  expect(serviceAccountRef).toEqual({ name: "app", audiences: ["sallyport"] });
  const login = await place.call("PUT", `auth/${mountPath}/login`, null, { jwt: account, role });
  expect(login.status, JSON.stringify(login.body)).toBe(200);
  const token = login.body.auth.client_token;
  expect((await place.call("GET", "auth/token/lookup-self", token)).body.data.type).toBe("service");
  for (const { remoteRef } of wanted.spec.data) {
    const read = await place.call("GET", `${vault.path}/data/${remoteRef.key}`, token);
    expect(read.body.data.data[remoteRef.property], remoteRef.property).toEqual(expect.any(String));
  }
  for (const { extract } of wanted.spec.dataFrom)
    expect((await place.call("GET", `${vault.path}/data/${extract.key}`, token)).body.data.data).toEqual({
      key: "sk-1",
    });
  expect((await place.call("PUT", "auth/token/revoke-self", token)).status).toBe(204);
});

it.runIf(externalSecrets.missing === null)(
  "the provider of External Secrets makes the secret, and pushes one",
  async () => {
    const { place, account } = await namespaceWithLogin("external-secrets-program");
    const dir = mkdtempSync(join(tmpdir(), "sallyport-external-secrets-"));
    try {
      cpSync("examples/external-secrets", dir, { recursive: true });
      const file = join(dir, "secret-store.yaml");
      const text = readFileSync(file, "utf8");
      // The tests of the others run in the same service.
      writeFileSync(file, text.replace("      path: secret\n", `      path: secret\n      namespace: ${place.name}\n`));
      const rules = ["data", "metadata"].map(
        (part) => `path "secret/${part}/app/tls" { capabilities = ["create", "read", "update"] }`,
      );
      const writes = ['path "secret/data/app/*" { capabilities = ["read"] }', ...rules].join(" ");
      await place.call("PUT", "sys/policies/acl/prod-app", place.token, { policy: writes });
      const { code, output, stdout } = await run(externalSecrets.path, [dir, place.address, account], {}, dir);
      expect(code, output).toBe(0);
      expect(JSON.parse(stdout)).toEqual({
        ready: "Ready",
        secret: { DATABASE_USERNAME: "app", DATABASE_PASSWORD: "first", key: "sk-1" },
        asked: ["POST /api/v1/namespaces/prod/serviceaccounts/app/token"],
      });
      const pushed = await place.call("GET", "secret/data/app/tls", place.token);
      expect(pushed.body.data.data).toEqual({ certificate: "value of tls.crt" });
      expect(pushed.body.data.metadata).toMatchObject({
        version: 1,
        custom_metadata: { "managed-by": "external-secrets" },
      });
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },
);

// The requests of the provider's source: internal/auth/kubernetes_jwt.go and internal/provider/provider.go.
it("the requests of the Vault provider of the Secrets Store CSI driver give every file of its manifest", async () => {
  const { place, account } = await namespaceWithLogin("secrets-store-csi");
  const [wanted] = yamlOf("examples/secrets-store-csi/secret-provider-class.yaml");
  const { roleName, vaultAuthMountPath, objects, audience } = wanted.spec.parameters;
  expect(audience).toBe("sallyport");
  const login = await place.call("POST", `auth/${vaultAuthMountPath}/login`, null, { jwt: account, role: roleName });
  expect(login.status, JSON.stringify(login.body)).toBe(200);
  const files: Record<string, string> = {};
  for (const { objectName, secretPath, secretKey } of parse(objects)) {
    const { body } = await place.call("GET", secretPath, login.body.auth.client_token);
    files[objectName] = body.data.data[secretKey];
  }
  expect(files).toEqual({ "database-username": "app", "database-password": "first" });
  const [pod] = yamlOf("examples/secrets-store-csi/pod.yaml");
  expect(pod.spec.volumes[0].csi.volumeAttributes.secretProviderClass).toBe(wanted.metadata.name);
  expect(pod.spec.serviceAccountName).toBe("app");
});
