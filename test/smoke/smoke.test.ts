import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { startAzure } from "../doubles/cloud-b/azure.ts";
import { isLong } from "../support/long.ts";
import { createCsiVolume, csi, FreshClone, PATIENT } from "./fresh-clone.ts";
import { freePort } from "./local-service.ts";
import { shownIn, withoutTheVolatile } from "./readme.ts";

interface SecretAnswer {
  readonly data: { readonly data: unknown; readonly metadata: { readonly version: number } };
}

const clone = new FreshClone();
/** Each check reads the environment of every process of the machine. */
const RARELY = { timeout: 120_000, interval: 250 };
/** Each check starts a shell, and the wait lasts minutes. */
const EACH_SECOND = { timeout: 450_000, interval: 1_000 };

describe("npm start, in a fresh clone", PATIENT, () => {
  it("finds its data and node again, loads new files, and refuses a second start", async () => {
    const first = await clone.npmStart().ready();
    await first.tour();
    await createCsiVolume(first, "kept");
    first.signal("SIGINT");
    expect(await first.remains()).toEqual([]);

    mkdirSync(join(clone.dir, "state/files/team"), { recursive: true });
    writeFileSync(join(clone.dir, "state/files/team/key.json"), "not a key");
    const service = await clone.npmStart().ready();
    const refusalOf = (file: string) =>
      service.shell(
        `curl -s -X POST -H "X-Orch-Token: $SALLYPORT_TOKEN" -d '{"credentials":"@${file}"}' $SALLYPORT_ADDR/v1/sys/sync/destinations/cloud-c-sm/d`,
      );
    expect(await refusalOf("team/key.json")).toContain("credentials: must be the JSON content");
    expect(await refusalOf("key.json")).toContain("credentials: the bucket FILES holds no object key.json");
    expect(
      await service.shell('curl -s -H "X-Orch-Token: $SALLYPORT_TOKEN" $SALLYPORT_ADDR/v1/secret/data/app/database'),
    ).toContain("changed-by-me");

    const volumes = async () =>
      JSON.parse(
        await service.shell('curl -s -H "X-Orch-Token: $SALLYPORT_TOKEN" "$SALLYPORT_ADDR/v1/volumes?type=host"'),
      );
    expect(service.nodes).toHaveLength(1);
    await expect.poll(volumes).toMatchObject([{ Name: "uploads", NodeID: service.nodes[0], State: "ready" }]);

    await expect.poll(() => csi(service)).toEqual({ ID: "dir", controllers: 1, nodes: 1 });
    const external = await service.shell(
      'curl -s -H "X-Orch-Token: $SALLYPORT_TOKEN" "$SALLYPORT_ADDR/v1/volumes/external?plugin_id=dir&per_page=9"',
    );
    expect(JSON.parse(external).Volumes).toHaveLength(1);

    expect(await clone.refusal()).toContain(
      `Port ${clone.port} is in use: stop what listens there, or set PORT to another one.`,
    );
    expect(await clone.refusal({}, await freePort())).toMatch(
      /state is in use by another service \(process \d+\): stop that one/,
    );

    service.signal("SIGTERM", "npm");
    expect(await service.remains()).toEqual([]);
  });

  it("issues identity tokens that a provider verifies by the published keys, without a client secret", async () => {
    const azure = await startAzure();
    try {
      const { account, details } = azure.openAccount();
      const { tenant_id, subscription_id, client_id, root, resource_group: scope } = details;
      account.call({ change: "RemovePassword", id: root.object_id, keyId: root.key_id });
      const urls = {
        CLOUD_B_LOGIN_URL: azure.loginUrl,
        CLOUD_B_GRAPH_URL: azure.graphUrl,
        CLOUD_B_ARM_URL: azure.armUrl,
      };
      const service = await clone.npmStart({ ...urls, AGENT: "0" }).ready();
      expect(service.nodes).toEqual([]);
      const ask = async (method: string, path: string, body?: object) => {
        const headers = { "X-Orch-Token": service.token };
        const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
        const answer = await fetch(`${service.baseUrl}/v1/${path}`, init);
        const text = await answer.text();
        if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
        return text === "" ? null : JSON.parse(text);
      };
      const audience = "api://AzureADTokenExchange";
      const issuer = `${service.baseUrl}/v1/identity/oidc/plugins`;
      await ask("POST", "sys/mounts/cloud-b", { type: "cloud-b" });
      await ask("POST", "cloud-b/config", { tenant_id, subscription_id, client_id, identity_token_audience: audience });
      const { accessor } = (await ask("GET", "sys/mounts/cloud-b")).data;
      const subject = `plugin-identity:root:secret:${accessor}`;
      account.call({ change: "AddFederatedCredential", id: root.object_id, issuer, subject, audience });
      expect((await ask("GET", "identity/oidc/plugins/.well-known/openid-configuration")).issuer).toBe(issuer);

      const before = account.everything();
      await ask("POST", "cloud-b/roles/app", {
        cloud_roles: [{ role_name: "Reader", scope }],
        permanently_delete: true,
      });
      const issued = await ask("GET", "cloud-b/creds/app");
      expect(account.everything().applications.map(({ appId }) => appId)).toContain(issued.data.client_id);
      await ask("POST", "sys/leases/revoke", { lease_id: issued.lease_id });
      expect(account.everything()).toEqual(before);

      const logins = account.log.filter(({ operation }) => operation === "Token");
      expect(logins.map(({ status }) => status)).toEqual(logins.map(() => 200));
      expect(logins.flatMap(({ fields }) => fields)).not.toContain("client_secret");
      service.signal("SIGINT");
      expect(await service.remains()).toEqual([]);
    } finally {
      await azure.close();
    }
  });

  it("restarts a crashed agent or CSI driver, runs the requested number, and leaves no process when it is killed", async () => {
    // A node that ends together with the service is given up after 60 pings: the next tests expect a single one.
    const service = await clone.npmStart({ AGENT: "2", AGENT_PING_MS: "2000" }).ready();
    const make = () =>
      service.shell(
        `curl -s --retry 9 --retry-all-errors --fail -X PUT -H "X-Orch-Token: $SALLYPORT_TOKEN" -d '{"Volume":{"Name":"shared","PluginID":"mkdir"}}' $SALLYPORT_ADDR/v1/volume/host/create`,
      );
    const first = JSON.parse(await make()).Volume.NodeID;
    service.kill("agent-child");
    const second = JSON.parse(await make()).Volume.NodeID;
    expect([first, second].sort()).toEqual(service.nodes.sort());
    expect(service.output).toMatch(/The local agent local-[12] has ended \(SIGKILL\) and is started again/);
    service.kill("csi-child");
    await expect
      .poll(() => service.output)
      .toMatch(/The CSI driver of local-[12] has ended \(SIGKILL\) and is started again/);
    await expect.poll(() => csi(service), EACH_SECOND).toEqual({ ID: "dir", controllers: 2, nodes: 2 });

    service.signal("SIGKILL");
    expect(await service.remains()).toEqual([]);
  });

  it("keeps serving, with its data, when any one of its processes is killed or frozen", async () => {
    const service = await clone.npmStart({ AGENT: "1" }).ready();
    const ask = async (method: string, path: string, body?: object) => {
      const init = { method, headers: { "X-Orch-Token": service.token }, signal: AbortSignal.timeout(5_000) };
      const answer = await fetch(`${service.baseUrl}${path}`, { ...init, ...(body && { body: JSON.stringify(body) }) });
      if (answer.status === 503) expect(answer.headers.get("retry-after")).toBe("1");
      return { status: answer.status, body: answer.status === 200 ? JSON.parse(await answer.text()) : null };
    };
    let versions = (await ask("GET", "/v1/secret/metadata/app/database")).body.data.current_version;
    const parts = ["workerd serve", "runtime-child", "gateway-child", "agent-child", "csi-child"];
    const alone = parts.map((part) => [part]);
    // Frozen ones are given half a minute to come back by themselves: outside of the long run all freeze at once.
    const rounds = { SIGKILL: alone, SIGSTOP: isLong ? alone : [parts] } as const;
    for (const signal of ["SIGKILL", "SIGSTOP"] as const) {
      for (const round of rounds[signal]) {
        const dead = round.map((part) => [part, service.kill(part, signal)[0]] as const);
        for (const [part, pid] of dead) {
          expect(pid, part).toBeDefined();
          await expect.poll(() => service.pids(part).some((other) => other !== pid), RARELY).toBe(true);
          await expect.poll(() => service.pids(part), RARELY).not.toContain(pid);
        }
        const value = { signal, round: round.join() };
        const written = () => ask("POST", "/v1/secret/data/app/database", { data: value }).catch(() => null);
        await expect.poll(async () => (await written())?.status, { timeout: 120_000 }).toBe(200);
        const read = () => ask("GET", "/v1/secret/data/app/database").catch(() => null);
        const { data } = (await vi.waitUntil(async () => (await read())?.body, 120_000)) as SecretAnswer;
        expect(data.data).toEqual(value);
        expect(data.metadata.version).toBeGreaterThan(versions);
        versions = data.metadata.version;
      }
    }
    // The second node of an earlier test is given up after two minutes.
    await expect.poll(() => csi(service), EACH_SECOND).toEqual({ ID: "dir", controllers: 1, nodes: 1 });
    // Out of descriptors: no new connection is accepted, and no process ends.
    const [starved] = service.pids("workerd serve");
    const limited = spawnSync("prlimit", ["--pid", String(starved), "--nofile=16:16"]);
    if (!limited.error) {
      await expect.poll(() => service.pids("workerd serve"), RARELY).not.toContain(starved);
      const read = () => ask("GET", "/v1/secret/data/app/database").catch(() => null);
      await expect.poll(async () => (await read())?.body?.data.metadata.version, { timeout: 120_000 }).toBe(versions);
    }
    service.signal("SIGINT");
    expect(await service.remains()).toEqual([]);
  });

  it("keeps serving when it is older than a day and another wrangler runs in the checkout", async () => {
    const service = await clone.npmStart({ AGENT: "0" }).ready();
    const temporary = join(clone.dir, ".wrangler/tmp");
    const stale = join(temporary, "dev-stale");
    mkdirSync(stale, { recursive: true });
    const age = (path: string) => {
      if (statSync(path).isDirectory()) for (const name of readdirSync(path)) age(join(path, name));
      utimesSync(path, 1, 1);
    };
    for (const path of [join(clone.dir, "state/runtime"), temporary]) age(path);
    const before = service.pids("workerd serve");
    const other = spawnSync("npx", ["wrangler", "deploy", "--dry-run", "--outdir", "state/bundle"], { cwd: clone.dir });
    expect(other.status, String(other.stderr)).toBe(0);
    expect(existsSync(stale)).toBe(false);
    const read = 'curl -s -H "X-Orch-Token: $SALLYPORT_TOKEN" $SALLYPORT_ADDR/v1/sys/health';
    for (let time = 0; time < 3; time++) expect(JSON.parse(await service.shell(read)).initialized).toBe(true);
    expect(service.pids("workerd serve")).toEqual(before);
    expect(service.output).not.toContain("started again");
    service.signal("SIGINT");
    expect(await service.remains()).toEqual([]);
  });

  it("returns every error for a large body, restarts after a crash, and ends when npm is killed", async () => {
    const service = await clone.npmStart().ready();
    for (const [token, status] of [
      [service.token, 413],
      ["none", 403],
    ] as const) {
      for (const size of [1_200_000, 5_000_000]) {
        const body = JSON.stringify({ data: "x".repeat(size) });
        const put = () =>
          fetch(`${service.baseUrl}/v1/secret/destroy/n`, { method: "PUT", headers: { "X-Orch-Token": token }, body });
        const answers = await Promise.all(Array.from({ length: 20 }, put));
        expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([status]));
      }
    }
    service.signal("SIGKILL", "npm");
    expect(await service.remains()).toEqual([]);
  });

  it("refuses to start without the key of its data, and prints both ways out", async () => {
    const state = join(clone.dir, "state");
    const key = join(state, ".dev.vars");
    renameSync(key, join(clone.dir, "kept"));
    const waysOut = `restore ${key} from a backup, or remove ${state} and start afresh.`;
    expect(await clone.refusal()).toContain(
      `The data in ${state} is sealed with a MASTER_KEY, and ${key} is gone: ${waysOut}`,
    );
    const other = Buffer.alloc(32, 7).toString("base64");
    expect(await clone.refusal({ MASTER_KEY: other, DEV_ROOT_TOKEN: "t" })).toContain(
      `The MASTER_KEY in the environment is not the one that sealed the data in ${state}: ${waysOut}`,
    );
    renameSync(join(clone.dir, "kept"), key);
  });
});

describe("the playground", PATIENT, () => {
  it("runs the tours of the documents, and starts with empty data each time", async () => {
    const settings = { PLAYGROUND: "1", STATE_DIR: "playground" };
    const service = await clone.npmStart(settings).ready();
    const logins = ["logins", "log-in-with-approle", "cluster-logins", "identity"];
    const systems = ["from-github-actions", "from-kubernetes", "people-with-oidc", "through-cloudflare-access"];
    const logIns = systems.map((system) => `log-in-${system}`);
    const guides = ["policies-and-tokens", ...logins, ...logIns, "namespaces", "secrets"];
    for (const page of ["events", "volumes", "sync", "credentials", ...guides]) {
      const shown = shownIn(join(clone.dir, `docs/guides/${page}.md`), "Tour");
      const printed = await service.session(shown);
      expect(shown.length).toBeGreaterThan(8);
      for (const [at, { command, output }] of shown.entries())
        expect(withoutTheVolatile(printed[at] ?? ""), `${page}: ${command}`).toBe(withoutTheVolatile(output));
    }
    service.signal("SIGINT");
    expect(await service.remains()).toEqual([]);

    const again = await clone.npmStart(settings).ready();
    expect(
      await again.shell('curl -s -X LIST -H "X-Orch-Token: $SALLYPORT_TOKEN" $SALLYPORT_ADDR/v1/sys/sync/destinations'),
    ).toContain('"keys":["in-mem/"]');
    again.signal("SIGINT");
    expect(await again.remains()).toEqual([]);
  });
});
