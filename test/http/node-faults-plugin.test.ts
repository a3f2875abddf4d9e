import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { isLong } from "../support/long.ts";
import { Cluster, creation, type Node } from "./node-faults-world.ts";
import { alive } from "./process-alive.ts";

/* Faults of a host volume plugin, with the real service and a real node. */

vi.setConfig({ testTimeout: 240_000 });

const cluster = new Cluster();
beforeAll(() => cluster.start(), 180_000);
afterAll(() => cluster.destroy(), 60_000);

describe("a faulty plugin", () => {
  const ways: Record<string, (at: Node["at"]) => string> = {
    rubbish: () => "echo '{{{ not JSON'",
    nothing: () => "exit 0",
    number: () => `echo '{"path": 7}'`,
    flood: () => "exec /usr/bin/yes",
    outside: () => `echo '{"path": "/etc"}'`,
    climbs: (at) => `echo '{"path": "${at("volumes")}/../state"}'`,
    link: (at) => `/bin/ln -sfn /etc ${at("volumes")}/out; echo '{"path": "${at("volumes")}/out"}'`,
    dies: () => "kill -9 $$",
    forks: (at) => `/bin/sleep 600 & echo $! >> ${at("forked")}; exit 3`,
    hangs: (at) => `/bin/sleep 600 & echo $! >> ${at("forked")}; wait`,
  };

  // Requests to a hanging plugin end after a minute; agent-dhv-plugins.test.ts tests such plugins with a shorter limit.
  it.runIf(isLong)(
    "fails only its own requests, writes nowhere else, and has created each volume once after it recovers",
    async () => {
      const script = (at: Node["at"]) =>
        [
          `volume="$DHV_VOLUMES_DIR/$DHV_VOLUME_ID"`,
          `[ -e ${at("fixed")} ] && { /bin/mkdir -p "$volume"; printf '{"path": "%s"}' "$volume"; exit 0; }`,
          `case "$DHV_VOLUME_NAME" in`,
          ...Object.entries(ways).map(([name, way]) => `${name}) ${way(at)} ;;`),
          "esac",
        ].join("\n");
      const node = await cluster.node("odd", "n1", script);
      const request = (Name: string) => creation({ NodePool: "odd", PluginID: "odd", Name }, Name);
      const asked = Object.keys(ways).map(async (name) => [
        name,
        (await cluster.call("PUT", "/v1/volume/host/create", request(name))).status,
      ]);
      const good = await cluster.create({ NodePool: "odd", Name: "good" });
      expect(good.status, good.text).toBe(200);
      // An interrupted plugin is called again until the outcome is known; one that has exited has failed.
      const cutOff = ["dies", "flood", "hangs"];
      expect(Object.fromEntries(await Promise.all(asked))).toEqual(
        Object.fromEntries(Object.keys(ways).map((name) => [name, cutOff.includes(name) ? 504 : 502])),
      );
      const listed = async () => (await cluster.list("&node_pool=odd")).map(({ ID }: { ID: string }) => ID).sort();
      expect(await listed()).toEqual([good.body.Volume.ID]);
      writeFileSync(node.at("fixed"), "");
      // After a reconnect, the service asks again for operations of unknown outcome.
      await node.restart();
      const made = await Promise.all(
        Object.keys(ways).map((name) => cluster.insist("PUT", "/v1/volume/host/create", request(name), [200])),
      );
      expect(await listed()).toEqual([good, ...made].map(({ body }) => body.Volume.ID).sort());
      expect(node.volumes()).toEqual(await listed());
      const forked = readFileSync(node.at("forked"), "utf8").split("\n").slice(0, -1).map(Number);
      await vi.waitFor(() => expect(forked.filter(alive), "processes of the plugin that live on").toEqual([]));
    },
  );
});
