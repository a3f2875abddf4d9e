import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync } from "node:fs";
import { beforeAll, expect, it } from "vitest";
import { parseConfig } from "../../agent/src/config.ts";
import { EXIT } from "../../agent/src/exit.ts";
import { AgentProcess, fakeService, JOIN_TOKEN, nodeDirectory } from "./agent-service.ts";

const BUNDLE = "agent/dist/sallyport-agent.mjs";
const page = readFileSync("docs/guides/agent.md", "utf8");
const unit = readFileSync("agent/sallyport-agent.service", "utf8");

beforeAll(() => {
  execFileSync(process.execPath, ["agent/build.ts"], { stdio: "pipe" });
});

it("the bundle is one file that runs from any directory", async () => {
  const service = await fakeService();
  const { path, at } = nodeDirectory(service.url);
  copyFileSync(BUNDLE, at("agent.mjs"));
  const agent = new AgentProcess(["--config", path], { SALLYPORT_JOIN_TOKEN: JOIN_TOKEN }, [at("agent.mjs")]);
  const session = await service.session();
  await session.welcome();
  session.request({ op: "01939b5e-7a10-7cc1-8b5e-000000000001", method: "agent.fingerprint" });
  expect(await session.result("01939b5e-7a10-7cc1-8b5e-000000000001")).toMatchObject({ ok: true });
  agent.child.kill("SIGTERM");
  expect(await agent.exit).toBe(0);
});

it("the documented configuration is valid, and the page lists every key with its default", () => {
  const example = /```json\n([^`]*)```/.exec(page)?.[1] ?? "";
  const { name: _, ...config } = parseConfig("agent.json", example);
  const { reserved, hostVolumes, csi, ...others } = config;
  const named = (prefix: string, values: object) =>
    Object.entries(values).map(([key, value]): [string, unknown] => [prefix + key, value]);
  const keys = [
    ...named("", others),
    ...named("reserved.", reserved),
    ...named("hostVolumes.", hostVolumes),
    ...named("csi.", csi),
  ];
  for (const [key, value] of keys) {
    const row = page.split("\n").find((line) => line.startsWith("| `") && line.includes(`\`${key}\``));
    expect(row, key).toBeDefined();
    const isDefault = typeof value === "string" && value !== "" && !example.includes(value);
    if (isDefault) expect(row).toContain(`\`${value}\``);
  }
});

it("the page and the systemd unit list every exit code; the unit does not restart after codes that need an operator", () => {
  for (const code of Object.values(EXIT)) expect(page).toContain(`| ${code} | `);
  const [, listed = ""] = /^RestartPreventExitStatus=(.*)$/m.exec(unit) ?? [];
  const forPeople = Object.values(EXIT).filter((code) => code !== EXIT.stopped && code !== EXIT.failed);
  expect(listed.split(" ").map(Number)).toEqual(forPeople);
});

it("the systemd unit uses a user without privileges, limits memory, and stops plugins with the agent", () => {
  const settings = unit.split("\n").filter((line) => /^[A-Z]/.test(line));
  for (const setting of [
    "User=sallyport-agent",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "RestrictSUIDSGID=yes",
    "MemoryMax=512M",
    "KillMode=mixed",
  ])
    expect(settings).toContain(setting);
  expect(settings.filter((setting) => /^(AmbientCapabilities|ReadWritePaths)=/.test(setting))).toEqual([]);
  const [, families = ""] = /^RestrictAddressFamilies=(.*)$/m.exec(unit) ?? [];
  expect(families.split(" ").sort()).toEqual(["AF_INET", "AF_INET6", "AF_NETLINK", "AF_UNIX"]);
});
