import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { describe, expect, it } from "vitest";
import { readTour } from "../../scripts/tour.ts";
import { createCsiVolume, csi, FreshClone, PATIENT } from "./fresh-clone.ts";
import { shownIn, withoutTheVolatile } from "./readme.ts";

const clone = new FreshClone();

describe("npm start, in a fresh clone", PATIENT, () => {
  it("starts, shows the main job working, and ends with Ctrl-C", async () => {
    const service = await clone.npmStart().ready();

    const shown = shownIn(join(clone.dir, "README.md"), "Tour");
    const outputs = await service.tour();
    expect(shown.map(({ command }) => command)).toEqual(readTour(clone.dir).map(({ command }) => command));
    expect(outputs.map(withoutTheVolatile)).toEqual(shown.map(({ output }) => withoutTheVolatile(output)));

    const [, arrived = ""] = outputs;
    expect(arrived).toContain("changed-by-me");
    const banner = service.output;
    for (const system of ["VAULT", "NOMAD", "SALLYPORT"])
      expect(banner).toContain(`export ${system}_ADDR=${service.baseUrl} ${system}_TOKEN=${service.token}\n`);
    for (const { command } of readTour(clone.dir).slice(0, 2)) expect(banner).toContain(command);
    expect(banner).toContain(`API docs:   ${service.baseUrl}/docs`);
    expect(banner).not.toContain("NOSENTRY");

    await service.shell(
      `curl -s -X POST -H "X-Orch-Token: $SALLYPORT_TOKEN" -d '{"mount":"secret","secret_name":"app/api"}' $SALLYPORT_ADDR/v1/sys/sync/destinations/in-mem/playground/associations/set`,
    );
    const associations = "$SALLYPORT_ADDR/v1/sys/sync/destinations/in-mem/playground/associations";
    await expect
      .poll(() => service.shell(`curl -s -H "X-Orch-Token: $SALLYPORT_TOKEN" ${associations}`))
      .toMatch(/"secret_name":"app\/api"[^}]*"sync_status":"SYNCED"/);
    const [volume] = JSON.parse(
      await service.shell('curl -s -H "X-Nomad-Token: $NOMAD_TOKEN" "$NOMAD_ADDR/v1/volumes?type=host"'),
    );
    expect(await service.shell("ls $VOLUMES/local-1")).toBe(`${volume.ID}\n`);
    const events = () =>
      service.shell(
        'curl -sN --max-time 2 -H "X-Orch-Token: $SALLYPORT_TOKEN" "$SALLYPORT_ADDR/v1/event/stream?topic=Deployment&topic=ACLPolicy" || true',
      );
    await expect
      .poll(events)
      .toMatch(/"Topic":"ACLPolicy".*"Topic":"Deployment"|"Topic":"Deployment".*"Topic":"ACLPolicy"/s);

    const list = await service.shell(
      'curl -s -X LIST -H "X-Vault-Token: $VAULT_TOKEN" "$VAULT_ADDR/v1/secret/metadata/app/?x=y" $VAULT_ADDR/v1/secret/metadata',
    );
    expect(list).toContain('"keys":["api","database"]');
    expect(list).toContain('"keys":["app/"]');

    await expect.poll(() => csi(service)).toEqual({ ID: "dir", controllers: 1, nodes: 1 });
    const ExternalID = await createCsiVolume(service, "kept");
    expect(statSync(join(clone.dir, "state/csi/volumes", ExternalID, "data")).isDirectory()).toBe(true);

    const processes = service.commandLines().join("\n");
    const secrets = parseEnv(readFileSync(join(clone.dir, "state/.dev.vars"), "utf8"));
    expect(processes).toContain("workerd");
    expect(processes).not.toContain(secrets["MASTER_KEY"]);
    expect(processes).not.toContain(service.token);
    expect(statSync(join(clone.dir, "state/.dev.vars")).mode & 0o777).toBe(0o600);

    // Nothing secret in clear text: not in the data, not in the log.
    const canaries = ["changed-by-me", "correct-horse-battery-staple", "sk-sample-0001", service.token];
    for (const canary of canaries) {
      expect(
        spawnSync("grep", ["-rl", "--", canary, join(clone.dir, "state/state")], { encoding: "utf8" }).stdout,
      ).toBe("");
    }
    const log = service.output.slice(service.output.lastIndexOf("|| true"));
    for (const canary of canaries) expect(log).not.toContain(canary);

    service.signal("SIGINT");
    expect(await service.remains()).toEqual([]);
  });
});
