import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";
import { KubernetesApi } from "./kubernetes-api.ts";

/*
 * The API server of Kubernetes, built from its public module: the Secrets that we write there by the rights of our page,
 * and logins of its service accounts.
 */

const dir = mkdtempSync(join(tmpdir(), "sallyport-kubernetes-"));
const cluster = new KubernetesApi(dir);
const { missing } = cluster.program;
if (missing !== null) console.warn(`The service is not tried against Kubernetes: ${missing}.`);

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const PATCH = { "content-type": "application/merge-patch+json" };

/** The verbs of the Role on the guide's page. */
const verbs = (): string[] =>
  (/verbs: \[([^\]]+)\]/.exec(readFileSync("docs/guides/sync.md", "utf8"))?.[1] ?? "").split(", ");

describe.runIf(missing === null)("Kubernetes", { timeout: 300_000 }, () => {
  const clone = cloneOfWorkingTree();
  let service: LocalService;
  let host = "";

  const kube = cluster.call.bind(cluster);
  const tokenOf = (account: string, spec?: object) => cluster.tokenOf("apps", account, spec);
  const shown = () => cluster.secrets("apps");

  async function ask(method: string, path: string, body?: object) {
    const answer = await fetch(`${service.baseUrl}/v1/${path}`, {
      method,
      headers: { "X-Vault-Token": service.token },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, text, data: text === "" ? null : JSON.parse(text) };
  }
  async function must(method: string, path: string, body?: object) {
    const answer = await ask(method, path, body);
    expect([200, 204], `${method} ${path}: ${answer.text}`).toContain(answer.status);
    return answer.data;
  }

  beforeAll(async () => {
    await cluster.start();
    host = cluster.host;
    await cluster.createNamespace("apps", ["sync", "app", "other", "reviewer"]);
    service = await new LocalService(clone, await freePort(), {
      SEED: "0",
      AGENT: "0",
      SYNC_ALLOWED_HOSTS: "127.0.0.1",
    }).ready();
    await must("POST", "sys/mounts/kv", { type: "kv", options: { version: "2" } });
  }, 300_000);

  afterAll(async () => {
    service?.signal("SIGINT");
    await service?.exit;
    cluster.stop();
    remove(clone);
    rmSync(dir, { recursive: true, force: true });
  });

  it("takes, changes, shares and removes Secrets by the Role that the guide names", async () => {
    const rules = [{ apiGroups: [""], resources: ["secrets"], verbs: verbs() }];
    await kube("POST", `${RBAC}/namespaces/apps/roles`, { metadata: { name: "sync" }, rules });
    await cluster.bind("Role", "sync", "apps", "sync");
    const at = "sys/sync/destinations/cluster-secrets/k";
    await must("POST", at, {
      host,
      namespace: "apps",
      token: await tokenOf("sync"),
      secret_name_template: "{{ .SecretPath }}",
      update_policy: "owned-only",
    });
    expect((await must("POST", `${at}/verify`)).data).toEqual({ ok: true, message: expect.any(String) });
    await kube("POST", "/api/v1/namespaces/apps/secrets", { metadata: { name: "theirs" }, data: { a: "eA==" } });
    const OURS = { "app.kubernetes.io/managed-by": "sallyport" };
    const theirs = [{ a: "x" }, {}];

    const value = { user: "ann", word: "p w ä", n: 3 };
    for (const name of ["db", "theirs"]) {
      await must("PUT", `kv/data/${name}`, { data: value });
      await must("POST", `${at}/associations/set`, { mount: "kv", secret_name: name });
    }
    await expect.poll(shown).toEqual({ theirs, db: [{ ...value, n: "3" }, OURS] });
    await expect
      .poll(async () => (await must("GET", `${at}/associations`)).data.sync_operation_counters)
      .toEqual({ SYNCED: 1, CLIENT_SIDE_ERROR: 1 });

    // Another manager's key and label stay through a change and through the removal.
    const change = { metadata: { labels: { team: "web" } }, data: { extra: "eA==" } };
    await kube("PATCH", "/api/v1/namespaces/apps/secrets/db", change, PATCH);
    await must("PUT", "kv/data/db", { data: { user: "bob" } });
    await expect.poll(shown).toEqual({
      theirs,
      db: [
        { user: "bob", extra: "x" },
        { ...OURS, team: "web" },
      ],
    });
    const drift = async () => (await must("GET", `${at}/drift`)).data.objects;
    const stateOf = async (name: string) =>
      JSON.stringify(Object.entries(await drift()).find(([key]) => key.endsWith(name)));
    expect(await stateOf("/db")).toContain('"in_sync"');
    await kube("PATCH", "/api/v1/namespaces/apps/secrets/db", { data: { user: "eA==" } }, PATCH);
    expect(await stateOf("/db")).toContain('"changed"');
    await must("PUT", "kv/data/db", { data: { user: "carl" } });
    await expect.poll(shown).toEqual({
      theirs,
      db: [
        { user: "carl", extra: "x" },
        { ...OURS, team: "web" },
      ],
    });
    for (const name of ["db", "theirs"])
      await must("POST", `${at}/associations/remove`, { mount: "kv", secret_name: name });
    await expect.poll(shown).toEqual({ theirs, db: [{ extra: "x" }, { team: "web" }] });

    await kube("DELETE", "/api/v1/namespaces/apps/secrets/db");
    await must("POST", `${at}/associations/set`, { mount: "kv", secret_name: "db" });
    await expect.poll(shown).toEqual({ theirs, db: [{ user: "carl" }, OURS] });
    await must("DELETE", `${at}?purge=true`);
    await expect.poll(shown).toEqual({ theirs });
  });

  it("logs in service accounts, reviewed by the cluster or by its keys", async () => {
    await cluster.bind("ClusterRole", "system:auth-delegator", "apps", "reviewer");
    await must("POST", "sys/auth/kubernetes", { type: "kubernetes" });
    const role = {
      bound_service_account_names: "app",
      bound_service_account_namespaces: "apps",
      audience: "sallyport",
    };
    await must("POST", "auth/kubernetes/role/app", role);
    const login = async (jwt: string) => (await ask("POST", "auth/kubernetes/login", { role: "app", jwt })).status;
    const audiences = ["sallyport"];
    const pem_keys = await cluster.keys();
    for (const config of [
      { kubernetes_host: host, token_reviewer_jwt: await tokenOf("reviewer"), pem_keys: [] },
      { kubernetes_host: "https://cluster.example", pem_keys },
    ]) {
      await must("POST", "auth/kubernetes/config", config);
      const token = await tokenOf("app", { audiences });
      const { auth } = await must("POST", "auth/kubernetes/login", { role: "app", jwt: token });
      expect(auth.metadata).toMatchObject({ service_account_name: "app", service_account_namespace: "apps" });
      expect(await login(await tokenOf("app"))).toBe(403);
      expect(await login(await tokenOf("other", { audiences }))).toBe(403);
      const [header, , signature] = token.split(".");
      const [, claims] = (await tokenOf("other", { audiences })).split(".");
      expect(await login([header, claims, signature].join("."))).toBe(403);
    }
    // Only the cluster knows that the object of a token is gone.
    await must("POST", "auth/kubernetes/config", {
      kubernetes_host: host,
      token_reviewer_jwt: await tokenOf("reviewer"),
      pem_keys: [],
    });
    await kube("POST", "/api/v1/namespaces/apps/secrets", { metadata: { name: "bound" } });
    const bound = await tokenOf("app", {
      audiences,
      boundObjectRef: { kind: "Secret", apiVersion: "v1", name: "bound" },
    });
    expect(await login(bound)).toBe(200);
    await kube("DELETE", "/api/v1/namespaces/apps/secrets/bound");
    await expect.poll(() => login(bound)).toBe(403);
  });
});
