import { spawnSync } from "node:child_process";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "./local-service.ts";

/** A test's limit: ten times the longest test of an idle machine. */
export const PATIENT = { timeout: 900_000 };

/** A fresh clone for the tests of a file; the services that a test starts there end with it. */
export class FreshClone {
  dir = "";
  port = 0;
  readonly #started: LocalService[] = [];

  constructor() {
    beforeAll(async () => {
      if (spawnSync("curl", ["--version"]).error) throw new Error("The commands of the README need curl: install it.");
      this.dir = cloneOfWorkingTree();
      this.port = await freePort();
    });
    afterEach(() => {
      for (const service of this.#started.splice(0)) service.kill();
    });
    afterAll(() => remove(this.dir));
  }

  npmStart(settings: Record<string, string> = {}, onPort = this.port): LocalService {
    const service = new LocalService(this.dir, onPort, settings);
    this.#started.push(service);
    return service;
  }

  /** The output of a start that ends by itself. */
  async refusal(settings: Record<string, string> = {}, onPort = this.port): Promise<string> {
    const service = this.npmStart(settings, onPort);
    expect(await service.exit).toBe(1);
    return service.output;
  }
}

/** The CSI plugin that `npm start` brings, and the numbers of its healthy instances. */
export async function csi(service: LocalService) {
  const plugins = JSON.parse(
    await service.shell('curl -s -H "X-Orch-Token: $SALLYPORT_TOKEN" "$SALLYPORT_ADDR/v1/plugins?type=csi"'),
  );
  const [{ ID, ControllersHealthy: controllers, NodesHealthy: nodes }] = plugins;
  return { ID, controllers, nodes };
}

/** Creates a CSI volume, and returns its id at the plugin. */
export async function createCsiVolume(service: LocalService, id: string): Promise<string> {
  const definition = `{"ID":"${id}","Name":"${id}","PluginID":"dir","RequestedCapabilities":[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}]}`;
  const created = await service.shell(
    `curl -s -X PUT -H "X-Orch-Token: $SALLYPORT_TOKEN" $SALLYPORT_ADDR/v1/volume/csi/${id}/create -d '${definition}'`,
  );
  return JSON.parse(created).Volumes[0].ExternalID;
}
