import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { csiVolumeKey } from "@sallyport/agent-protocol";
import { expect, it, vi } from "vitest";
import { ARCHS, type Arch, buildExecutable, installFiles, packageOf } from "../../scripts/agent-packages.ts";
import { RELEASE } from "../../src/platform/version.ts";
import { isLong } from "../support/long.ts";
import { afterTest, eventually, type FakeService, fakeService, JOIN_TOKEN } from "./agent-service.ts";
import { CleanRoot, isInstalled, obstacle, output } from "./clean-root.ts";

/* The agent's packages, installed on a clean root file system. */

vi.setConfig({ testTimeout: 600_000 });
const because = obstacle();
if (because) console.log(`No clean root file system here, so no package of the agent is installed: ${because}`);

const ARCH = process.arch as Arch;
const STANDIN = Buffer.from(`#!/bin/sh\necho ${RELEASE}\n`);

function temporary(): string {
  const directory = mkdtempSync(join(tmpdir(), "agent-package-"));
  afterTest(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A service that offers the agent as this executable. */
async function offering(executable: Uint8Array): Promise<FakeService> {
  const service = await fakeService();
  const { archive } = await packageOf(ARCH, executable);
  for (const [name, content] of installFiles([{ arch: ARCH, archive }])) service.files.set(`/install/${name}`, content);
  return service;
}

/** The line of the documentation, run in a root. */
const install = (root: CleanRoot, service: FakeService, env: Record<string, string> = {}) =>
  root.run(["sh", "-c", 'umask 077; curl -fsS "$SALLYPORT_ADDR/install/agent" | sh'], {
    SALLYPORT_ADDR: service.url,
    ...env,
  });

/** Lets the script find a systemd that has no active unit. @returns the calls since the last reading */
function systemd(root: CleanRoot): () => string[] {
  mkdirSync(root.at("run/systemd/system"), { recursive: true });
  const program = '#!/bin/sh\necho "$*" >> /tmp/calls\n[ "$1" != is-active ]\n';
  writeFileSync(root.at("usr/bin/systemctl"), program, { mode: 0o755 });
  return () => {
    const calls = readFileSync(root.at("tmp/calls"), "utf8").trim().split("\n");
    rmSync(root.at("tmp/calls"));
    return calls;
  };
}

it("the documentation has the line that installs the agent", () => {
  const page = readFileSync("docs/guides/agent.md", "utf8");
  const line = 'curl -fsS "$SALLYPORT_ADDR/install/agent" | sudo env SALLYPORT_ADDR="$SALLYPORT_ADDR" sh\n';
  expect(page).toContain(line);
  // Arguments of sudo are in its log.
  expect(page).not.toMatch(/sudo .*TOKEN=/);
  expect(readFileSync("agent/packaging/install.sh", "utf8")).toContain(line);
});

it("packages have the same bytes each time, root's files, and what the service and the unit name", async () => {
  const [first, second] = [await packageOf("x64", STANDIN), await packageOf("x64", STANDIN)];
  expect(
    first.archive.content.equals(second.archive.content) && first.debian.content.equals(second.debian.content),
  ).toBe(true);
  const directory = temporary();
  const at = (name: string) => join(directory, name);
  for (const { name, content } of [first.archive, first.debian]) writeFileSync(at(name), content);
  const listed = output("tar", ["-tvzf", at(first.archive.name)])
    .trim()
    .split("\n");
  for (const line of listed) expect(line).toMatch(/^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--) root\/root /);
  for (const path of ["usr/bin/sallyport-agent", "usr/lib/systemd/system/sallyport-agent.service"])
    expect(listed.some((line) => line.endsWith(` ./${path}`))).toBe(true);
  if (!isInstalled("dpkg-deb")) return;
  const control = output("dpkg-deb", ["--field", at(first.debian.name)]);
  expect(control).toContain(`Version: ${RELEASE}\nArchitecture: amd64\n`);
  output("dpkg-deb", ["--extract", at(first.debian.name), at("content")]);
  expect(readFileSync(at("content/usr/bin/sallyport-agent")).equals(STANDIN)).toBe(true);
  output("dpkg-deb", ["--control", at(first.debian.name), at("control")]);
  expect(statSync(at("control/postinst")).mode & 0o777).toBe(0o755);
});

it("parts of an archive fit a static file of the platform, and make it up", async () => {
  const content = Buffer.alloc(60 * 1024 * 1024, "x");
  const files = installFiles(ARCHS.map((arch) => ({ arch, archive: { name: `a-${arch}`, content } })));
  expect([...files.keys()].sort()).toEqual(
    ["agent", "agent.sha256", ...ARCHS.flatMap((arch) => [0, 1, 2].map((at) => `a-${arch}.${at}`))].sort(),
  );
  for (const part of files.values()) expect(part.length).toBeLessThanOrEqual(25 * 1024 * 1024);
  expect(Buffer.concat([0, 1, 2].map((at) => files.get(`a-x64.${at}`) ?? Buffer.alloc(0))).equals(content)).toBe(true);
});

it.runIf(!because)(
  "the line installs the agent, its user, its unit and its configuration, and a second run upgrades it",
  async () => {
    const root = new CleanRoot();
    const service = await offering(STANDIN);
    const { status, text } = await install(root, service, { SALLYPORT_JOIN_TOKEN: JOIN_TOKEN });
    expect([status, text]).toEqual([0, expect.stringContaining(`sallyport-agent ${RELEASE} is installed`)]);
    expect(text).not.toContain(JOIN_TOKEN);
    const config = JSON.parse(readFileSync(root.at("etc/sallyport-agent/agent.json"), "utf8"));
    expect(config.service).toBe(service.url);
    expect(statSync(root.at("etc/sallyport-agent/join-token")).mode & 0o777).toBe(0o600);
    const unit = readFileSync(root.at("etc/systemd/system/sallyport-agent.service"), "utf8");
    expect(unit).toContain("ExecStart=/usr/local/bin/sallyport-agent --config");
    expect(readFileSync(root.at("etc/group"), "utf8")).toMatch(/^csi:/m);
    const [, uid] =
      /^sallyport-agent:[^:]*:(\d+):.*\/usr\/sbin\/nologin$/m.exec(readFileSync(root.at("etc/passwd"), "utf8")) ?? [];
    // The agent's user can read its files, with any umask of root.
    for (const directory of ["etc/sallyport-agent", "usr/local/share/doc/sallyport-agent"])
      expect(statSync(root.at(directory)).mode & 0o777, directory).toBe(0o755);

    const calls = systemd(root);
    const token = root.at("etc/sallyport-agent/join-token");
    rmSync(token);
    writeFileSync(token, JOIN_TOKEN, { mode: 0o644 });
    writeFileSync(root.at("etc/sallyport-agent/agent.json"), "{}");
    const next = await offering(Buffer.from("#!/bin/sh\necho next\n"));
    expect((await install(root, next)).status).toBe(0);
    expect(statSync(token)).toMatchObject({ uid: Number(uid), mode: 0o100600 });
    expect(calls()).toContain("enable --now sallyport-agent");
    mkdirSync(root.at("var/lib/sallyport-agent"));
    writeFileSync(root.at("var/lib/sallyport-agent/node.json"), "{}");
    expect((await install(root, next)).status).toBe(0);
    expect(calls()).not.toContain("enable --now sallyport-agent");
    expect(readFileSync(root.at("usr/local/bin/sallyport-agent"), "utf8")).toContain("next");
    expect(readFileSync(root.at("etc/sallyport-agent/agent.json"), "utf8")).toBe("{}");
  },
);

it.runIf(!because)(
  "nothing is installed from a wrong package, a truncated script, or an address that is none",
  async () => {
    const root = new CleanRoot();
    const service = await offering(STANDIN);
    const [name = "", content = Buffer.alloc(0)] = [...service.files].find(([path]) => path.endsWith(".0")) ?? [];
    const script = service.files.get("/install/agent")?.toString() ?? "";
    const changed = Buffer.from(content);
    changed[changed.length - 9] = (changed[changed.length - 9] ?? 0) ^ 1;
    service.files.set(name, changed);
    const refused = await install(root, service);
    expect([refused.status, refused.text]).toEqual([1, expect.stringContaining("has another SHA-256 digest")]);
    service.files.delete(name);
    const missing = await install(root, service);
    expect([missing.status, missing.text]).toEqual([1, expect.stringContaining("cannot be downloaded")]);
    service.files.set(name, content);
    for (const share of [0.3, 0.6, 0.9])
      await root.run(["sh"], { SALLYPORT_ADDR: service.url }, script.slice(0, script.length * share));
    for (const address of ["", "http://sallyport.example", `${service.url}"; touch /tmp/x; "`])
      expect((await root.run(["sh"], { SALLYPORT_ADDR: address }, script)).status).toBe(1);
    for (const path of ["usr/local/bin/sallyport-agent", "etc/sallyport-agent", "etc/systemd", "tmp/x"])
      expect(root.has(path), path).toBe(false);
    expect(readFileSync(root.at("etc/group"), "utf8")).not.toContain("csi");
  },
);

it.runIf(!because && isLong)(
  "the installed agent serves a CSI driver behind root's socket, without Node on the machine",
  async () => {
    const directory = temporary();
    await buildExecutable("agent/src/main.ts", ARCH, join(directory, "agent"));
    await buildExecutable("packages/csi-dir/src/main.ts", ARCH, join(directory, "csi-dir"));
    const root = new CleanRoot();
    const service = await offering(readFileSync(join(directory, "agent")));
    expect(await install(root, service, { SALLYPORT_JOIN_TOKEN: JOIN_TOKEN })).toMatchObject({ status: 0 });
    expect((await root.run(["sh", "-c", "command -v node || command -v nodejs"])).status).toBe(127);

    writeFileSync(root.at("usr/local/bin/csi-dir"), readFileSync(join(directory, "csi-dir")), { mode: 0o755 });
    const group = /^csi:x:(\d+):/m.exec(readFileSync(root.at("etc/group"), "utf8"))?.[1] ?? "";
    // The socket inherits the directory's group: root:csi 0660.
    mkdirSync(root.at("run/csi"));
    chownSync(root.at("run/csi"), 0, Number(group));
    await root.run(["chmod", "2755", "/run/csi"]);
    const env = {
      CSI_ENDPOINT: "unix:///run/csi/csi.sock",
      CSI_DIR_ROOT: "/var/lib/csi-dir",
      CSI_DIR_NODE_ID: "node-1",
    };
    const driver = root.start(["/usr/local/bin/csi-dir"], env);
    await eventually("the driver", () => driver.log().includes("serving") || undefined, 90_000);
    expect(statSync(root.at("run/csi/csi.sock"))).toMatchObject({ uid: 0, gid: Number(group) });

    const path = "etc/sallyport-agent/agent.json";
    const config = JSON.parse(readFileSync(root.at(path), "utf8"));
    const { monitorAddress: _, ...rest } = config;
    writeFileSync(
      root.at(path),
      JSON.stringify({ ...rest, name: "node-1", csi: { plugins: [{ id: "disk", socket: "/run/csi/csi.sock" }] } }),
    );
    await root.run([
      "sh",
      "-c",
      "mkdir -p -m 711 /var/lib/sallyport-agent && chown sallyport-agent:sallyport-agent /var/lib/sallyport-agent",
    ]);
    /** As the unit does: the user, these groups, and no capability. */
    const agent = (groups: string) =>
      root.start([
        "setpriv",
        "--reuid=sallyport-agent",
        "--regid=sallyport-agent",
        `--groups=${groups}`,
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--no-new-privs",
        "sallyport-agent",
        "--config",
        "/etc/sallyport-agent/agent.json",
      ]);
    const own = /^sallyport-agent:x:(\d+):/m.exec(readFileSync(root.at("etc/group"), "utf8"))?.[1] ?? "";
    const outside = agent(own);
    await eventually("the agent", () => outside.log().includes("agent_started") || undefined).catch((failure) => {
      throw new Error(`${failure.message}: ${outside.log()}`);
    });
    const refused = await service.session(90_000);
    const { node } = await refused.welcome();
    const description = () =>
      [...refused.frames.flatMap((frame) => (frame.t === "fp" ? [frame.node] : [])), node].find(
        ({ CSINodePlugins }) => CSINodePlugins?.["disk"],
      )?.CSINodePlugins?.["disk"]?.HealthDescription;
    await eventually("the refusal", () => description()?.includes("EACCES") || undefined);
    expect(description()).toContain("add the agent to it (SupplementaryGroups=)");
    outside.child.kill("SIGTERM");
    await refused.closed;

    const inside = agent(`${own},${group}`);
    const session = await service.session(90_000);
    const hello = await session.welcome({ cfg: { fingerprintMs: 300 } });
    const isHealthy = () =>
      [hello.node, ...session.frames.flatMap((frame) => (frame.t === "fp" ? [frame.node] : []))].some(
        ({ CSINodePlugins }) => CSINodePlugins?.["disk"]?.Healthy,
      );
    await eventually("a healthy plugin", () => isHealthy() || undefined, 90_000);
    const capability = { accessMode: "single-node-writer", attachmentMode: "file-system" };
    const ask = async (number: number, method: string, params: object) => {
      const op = `01939b5e-7a10-7cc1-8b5e-00000000000${number}`;
      const key = csiVolumeKey("disk", "default", "v");
      session.request({ op, method, key, gen: number, params: { pluginId: "disk", ...params } });
      const result = await session.result(op);
      if (!result.ok) throw new Error(`${method}: ${result.error.message}\n${inside.log()}`);
      return result.result as { externalId: string; context: object; path: string };
    };
    const made = await ask(1, "csi.controller.create", {
      name: "v",
      capacityMin: 0,
      capacityMax: 0,
      capabilities: [capability],
      mount: null,
      parameters: {},
      snapshotId: "",
      cloneId: "",
      topology: null,
    });
    const use = { externalId: made.externalId, allocId: "a1" };
    const common = { capability, mount: null, readOnly: false, context: made.context };
    const attached = await ask(2, "csi.controller.publish", {
      externalId: made.externalId,
      externalNodeId: "node-1",
      ...common,
    });
    const { path: mounted } = await ask(3, "csi.node.publish", { ...use, ...common, ...attached });
    expect((await root.run(["sh", "-c", `echo works > ${mounted}/file && cat ${mounted}/file`])).text).toBe("works\n");
    await ask(4, "csi.node.detach", use);
    await ask(5, "csi.controller.unpublish", { externalId: made.externalId, externalNodeId: "node-1" });
    await ask(6, "csi.controller.delete", { externalId: made.externalId });
    inside.child.kill("SIGTERM");
    expect((await session.closed).code).toBe(1000);
  },
);
