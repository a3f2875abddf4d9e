import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";
import { KubernetesApi } from "./kubernetes-api.ts";
import { CHANGED_TYPES, MOUNT, makeChanges } from "./notified-changes.ts";
import { installOperator, operatorProgram } from "./operator-program.ts";
import { pageBlock } from "./react-page.ts";
import { SocketRecorder } from "./socket-recorder.ts";

/*
 * The Vault Secrets Operator, unmodified, in a cluster that has an API server only, with the manifests of
 * docs/guides/react-to-changes.md. test/http/event-exchanges.quick.test.ts replays what it sends.
 */

const dir = mkdtempSync(join(tmpdir(), "sallyport-operator-"));
const cluster = new KubernetesApi(join(dir, "cluster"));
const operator = operatorProgram();
const missing = operator.missing ?? cluster.program.missing;
if (missing !== null) console.warn(`The Vault Secrets Operator is not tried: ${missing}.`);

const RESOURCES = "/apis/secrets.hashicorp.com/v1beta1/namespaces/shop";
/** Of the operator, for everything that it does. */
const MOMENT = { timeout: 60_000, interval: 200 };

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly destination?: object; readonly [field: string]: unknown };
}

/** The manifests of the page, with the address that it leaves to the reader. */
const pageManifests = (address: string): Manifest[] =>
  parseAllDocuments(pageBlock("yaml", "VaultStaticSecret").replace("https://sallyport.example", address)).map(
    (document) => document.toJS(),
  );

/** A manifest under another name, with other fields. */
const variant = ({ metadata, spec, ...manifest }: Manifest, name: string, changes: object): Manifest => ({
  ...manifest,
  metadata: { ...metadata, name },
  spec: { ...spec, ...(spec.destination && { destination: { ...spec.destination, name } }), ...changes },
});

describe.runIf(missing === null)("Vault Secrets Operator", { timeout: 300_000 }, () => {
  const clone = cloneOfWorkingTree();
  let service: LocalService;
  let manager: ChildProcess;
  let printed = "";
  const recorders: SocketRecorder[] = [];

  async function call(method: string, path: string, body?: object): Promise<void> {
    const answer = await fetch(`${service.baseUrl}/v1/${path}`, {
      method,
      headers: { "X-Vault-Token": service.token },
      ...(body && { body: JSON.stringify(body) }),
    });
    expect([path, answer.ok, await answer.text()]).toEqual([path, true, expect.anything()]);
  }
  const recorded = async () => {
    const recorder = await SocketRecorder.before(service.baseUrl);
    recorders.push(recorder);
    return recorder;
  };
  const apply = async (manifest: Manifest) => {
    await cluster.call("POST", `${RESOURCES}/${manifest.kind.toLowerCase()}s?fieldValidation=Strict`, manifest);
  };
  /** The value in a Secret of the cluster. */
  const valueIn = async (name: string) => {
    const [values] = (await cluster.secrets("shop"))[name] ?? [];
    return (values as { value?: string } | undefined)?.value;
  };
  const expectValue = (name: string, value: string) =>
    expect.poll(() => valueIn(name), { ...MOMENT, message: printed.slice(-2000) }).toBe(value);
  const write = (value: string) => call("POST", "secret/data/app/db", { data: { value } });

  beforeAll(async () => {
    await cluster.start();
    await cluster.createNamespace("shop", ["shop"]);
    const kubeconfig = join(dir, "kubeconfig");
    await installOperator(operator.source, cluster, kubeconfig);
    service = await new LocalService(clone, await freePort(), { SEED: "0", AGENT: "0" }).ready();
    for (const path of ["secret", MOUNT])
      await call("POST", `sys/mounts/${path}`, { type: "kv", options: { version: "2" } });
    await call("POST", "sys/policies/acl/react", { policy: pageBlock("hcl", "subscribe_event_types") });
    await call("POST", "sys/auth/kubernetes", { type: "kubernetes" });
    const keys = { kubernetes_host: "https://cluster.example", pem_keys: await cluster.keys() };
    await call("POST", "auth/kubernetes/config", keys);
    await service.shell(`TOKEN=$SALLYPORT_TOKEN; ${pageBlock("sh", "auth/kubernetes/role/shop")}`);

    const options = ["--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"];
    manager = spawn(operator.path, options, {
      cwd: dir,
      stdio: ["ignore", "pipe", "pipe"],
      env: { HOME: dir, KUBECONFIG: kubeconfig, OPERATOR_NAMESPACE: "operator" },
    });
    for (const stream of [manager.stdout, manager.stderr]) stream?.on("data", (bytes) => (printed += bytes));
  }, 300_000);

  afterAll(async () => {
    manager?.kill("SIGKILL");
    for (const recorder of recorders) recorder.close();
    service?.signal("SIGINT");
    await service?.exit;
    cluster.stop();
    remove(clone);
    rmSync(dir, { recursive: true, force: true });
  });

  it("creates the page's Secret and changes it after a write, also after its socket was cut", async () => {
    const recorder = await recorded();
    await write("first");
    const manifests = pageManifests(recorder.address);
    for (const manifest of manifests) await apply(manifest);
    const secret = manifests.at(-1) as Manifest;
    expect(secret.spec).toMatchObject({ refreshAfter: "1h", syncConfig: { instantUpdates: true } });
    await apply(variant(secret, "polled", { syncConfig: { instantUpdates: false } }));
    await expectValue("app-db", "first");
    await expectValue("polled", "first");
    await expect.poll(() => recorder.upgrades, MOMENT).toBe(1);
    await write("second");
    await expectValue("app-db", "second");

    recorder.cut();
    await expect.poll(() => recorder.upgrades, MOMENT).toBe(2);
    await write("third");
    await expectValue("app-db", "third");
    // The same resource without instant updates has read nothing since: each change above is an event's.
    expect(await valueIn("polled")).toBe("first");
  });

  it("has every change of a mount in the frames of its socket", async () => {
    const recorder = await recorded();
    const everything = ["create", "read", "list", "subscribe"];
    const rule = (path: string) => ({ [path]: { capabilities: everything, subscribe_event_types: ["*"] } });
    const policy = JSON.stringify({ path: { ...rule("sys/events/subscribe/kv*"), ...rule(`${MOUNT}/*`) } });
    await call("POST", "sys/policies/acl/notified", { policy });
    await call("POST", "auth/kubernetes/role/notified", {
      bound_service_account_names: "shop",
      bound_service_account_namespaces: "shop",
      audience: "sallyport",
      token_policies: "notified",
    });
    await call("POST", `${MOUNT}/data/read`, { data: { value: "first" } });
    const [connection, auth, secret] = pageManifests(recorder.address) as [Manifest, Manifest, Manifest];
    const kubernetes = { ...(auth.spec["kubernetes"] as object), role: "notified" };
    await apply(variant(connection, "notified", {}));
    await apply(variant(auth, "notified", { vaultConnectionRef: "notified", kubernetes }));
    await apply(variant(secret, "notified", { vaultAuthRef: "notified", mount: MOUNT, path: "read" }));
    await expectValue("notified", "first");
    await expect.poll(() => recorder.upgrades, MOMENT).toBe(1);
    await makeChanges(call);
    const frames = () => recorder.lines(`${MOUNT}/`).filter((line) => line.startsWith('< "')).length;
    await expect.poll(frames, MOMENT).toBe(CHANGED_TYPES.length);
    recorder.compare("operator", `${MOUNT}/`);
    await call("POST", `${MOUNT}/data/read`, { data: { value: "second" } });
    await expectValue("notified", "second");
  });
});
