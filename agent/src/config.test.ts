import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { parseConfig, readConfig } from "./config.ts";
import { Ending, EXIT } from "./exit.ts";

const configOf = (value: unknown) => parseConfig("agent.json", JSON.stringify(value));
const service = "https://sallyport.example";

let directory: string | undefined;
afterEach(() => {
  if (directory) rmSync(directory, { recursive: true });
  directory = undefined;
});

it("requires the service's address only", () => {
  expect(configOf({ service })).toEqual({
    service,
    name: hostname(),
    datacenter: "dc1",
    pool: "default",
    class: "",
    meta: {},
    stateDir: "/var/lib/sallyport-agent",
    reserved: { cpuShares: 0, memoryMB: 0, diskMB: 0, ports: "" },
    hostVolumes: {
      volumesDir: "/var/lib/sallyport-agent/volumes",
      pluginDir: "/opt/sallyport-agent/plugins",
      plugins: [],
      registerRoots: [],
    },
    csi: { mountsDir: "/var/lib/sallyport-agent/csi", plugins: [] },
  });
});

it("gives a CSI plugin both roles by default", () => {
  const plugins = [{ id: "disk", socket: "/run/disk/csi.sock" }];
  expect(configOf({ service, csi: { plugins } }).csi.plugins).toEqual([
    { ...plugins[0], roles: ["controller", "node"] },
  ]);
});

it.each([
  ["no service", {}, "service: "],
  ["an invalid address", { service: "sallyport" }, "service: must be a URL"],
  ["plain http over a network", { service: "http://sallyport.example" }, "service: must begin with https://"],
  ["http to a name that only looks like loopback", { service: "http://127.0.0.1.example" }, "service: must begin with"],
  ["a password in the address", { service: "https://u:p@sallyport.example" }, "service: must be an origin alone"],
  ["a path in the address", { service: `${service}/v1` }, "service: must be an origin alone"],
  ["a key with a typo", { service, hostVolumes: { pluginsDir: "/p" } }, "hostVolumes.pluginsDir: there is no such key"],
  [
    "a CSI plugin with an id that cannot be a file name",
    { service, csi: { plugins: [{ id: "../x", socket: "/s" }] } },
    "csi.plugins.0.id: ",
  ],
  [
    "a CSI plugin with a relative socket",
    { service, csi: { plugins: [{ id: "x", socket: "s" }] } },
    "csi.plugins.0.socket: ",
  ],
  [
    "a CSI plugin without roles",
    { service, csi: { plugins: [{ id: "x", socket: "/s", roles: [] }] } },
    "csi.plugins.0.roles: ",
  ],
  [
    "a CSI plugin with more topology segments than a report may have",
    {
      service,
      csi: {
        plugins: [
          {
            id: "x",
            socket: "/s",
            topology: Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`k${at}`, "a"])),
          },
        ],
      },
    },
    "csi.plugins.0.topology: has more than 64 entries",
  ],
  [
    "a CSI plugin twice",
    { service, csi: { plugins: ["/a", "/b"].map((socket) => ({ id: "x", socket })) } },
    "csi.plugins: names a plugin twice",
  ],
  ["a relative directory", { service, stateDir: "state" }, "stateDir: must be an absolute path"],
  [
    "the root as a directory",
    { service, hostVolumes: { registerRoots: ["//"] } },
    "hostVolumes.registerRoots.0: must not",
  ],
  [
    "a plugin outside its directory",
    { service, hostVolumes: { plugins: [{ name: "../x" }] } },
    "plugins.0.name: must be",
  ],
  [
    "a plugin in place of the built-in one",
    { service, hostVolumes: { plugins: [{ name: "mkdir" }] } },
    "mkdir is built in",
  ],
  ["an invalid digest", { service, hostVolumes: { plugins: [{ name: "x", sha256: "00" }] } }, "plugins.0.sha256: "],
  [
    "a plugin twice",
    { service, hostVolumes: { plugins: [{ name: "x" }, { name: "x" }] } },
    "plugins: names a plugin twice",
  ],
  ["the pool of all nodes", { service, pool: "all" }, 'pool: must not be "all"'],
  ["a number as metadata", { service, meta: { rack: 1 } }, "meta.rack: "],
  ["a negative reserve", { service, reserved: { memoryMB: -1 } }, "reserved.memoryMB: "],
  ["a relative path of a CA", { service, caFile: "ca.pem" }, "caFile: must be an absolute path"],
  ["a proxy without a scheme", { service, proxy: "proxy:3128" }, "proxy: must be an http:// or https:// URL"],
  ["a socks proxy", { service, proxy: "socks5://proxy:1080" }, "proxy: must be an http:// or https:// URL"],
  [
    "monitoring on a network",
    { service, monitorAddress: "0.0.0.0:9465" },
    "monitorAddress: must be a loopback address",
  ],
  ["monitoring without a port", { service, monitorAddress: "localhost" }, "monitorAddress: must be a loopback address"],
  ["monitoring at no port", { service, monitorAddress: "[::1]:70000" }, "monitorAddress: must be a loopback address"],
  ["no object", [], "(all): "],
])("%s is refused, naming the key and the rule", (_, value, words) => {
  expect(() => configOf(value)).toThrow(words);
});

it("names every wrong key in one message", () => {
  const wrong = () => configOf({ service: "x", stateDir: "y", typo: 1 });
  expect(wrong).toThrow(/service: .*stateDir: .*typo: /s);
  expect(wrong).toThrow(Ending);
});

it("accepts http for a loopback service and normalizes directories", () => {
  expect(configOf({ service: "http://localhost:8787/" }).service).toBe("http://localhost:8787");
  expect(configOf({ service: "http://[::1]:1" }).service).toBe("http://[::1]:1");
  expect(configOf({ service, stateDir: "/a//b/../c/" }).stateDir).toBe("/a/c");
});

it("refuses a world-writable file and a missing one", () => {
  directory = mkdtempSync(join(tmpdir(), "sallyport-config-"));
  const path = join(directory, "agent.json");
  expect(() => readConfig(path)).toThrow(`${path} cannot be used: ENOENT`);
  writeFileSync(path, JSON.stringify({ service }));
  chmodSync(path, 0o646);
  expect(() => readConfig(path)).toThrow("anyone on this machine can change it");
  chmodSync(path, 0o644);
  expect(readConfig(path).service).toBe(service);
  writeFileSync(path, "{");
  expect(() => readConfig(path)).toThrow(`${path} is not JSON`);
  try {
    readConfig(path);
  } catch (failure) {
    expect(failure).toMatchObject({ code: EXIT.unusable });
  }
});
