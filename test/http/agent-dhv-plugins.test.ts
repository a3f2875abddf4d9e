import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { DIRECTORY_PLUGIN, request, TestNode } from "./agent-dhv-node.ts";
import { alive } from "./process-alive.ts";

let node: TestNode;
beforeEach(() => {
  node = new TestNode();
});
afterEach(() => node.remove());

const volume = request({ pluginId: "p", name: "data", namespace: "team" });
const create = (more: object = {}, limits: object = {}) =>
  node.start({ limits: { killGraceMs: 300, ...limits } }).create({ ...volume, ...more });
/** A plugin that prints a fixed answer to every operation. */
const says = (answer: unknown) => node.plugin("p", `#!/bin/sh\necho '${JSON.stringify(answer)}'\n`);

/** A working plugin that records its environment, arguments and directory in files beside it. */
function noting(): void {
  node.plugin(
    "p",
    `#!${process.execPath}
const { mkdirSync, rmSync, writeFileSync } = require("node:fs");
const noted = { env: process.env, argv: process.argv.slice(2), cwd: process.cwd() };
writeFileSync(process.env.DHV_OPERATION + ".json", JSON.stringify(noted));
const path = process.env.DHV_VOLUMES_DIR + "/" + process.env.DHV_VOLUME_ID;
if (process.argv[2] === "create") mkdirSync(path, { recursive: true });
if (process.argv[2] === "delete") rmSync(path, { recursive: true });
console.log(JSON.stringify({ version: "1", path, bytes: 7 }));
`,
  );
}
const noted = (operation: string) => JSON.parse(readFileSync(join(node.pluginDir, `${operation}.json`), "utf8"));

async function isGone(pid: number): Promise<void> {
  await vi.waitFor(() => expect(alive(pid)).toBe(false), { interval: 20 });
}
const pidIn = (name: string) => Number(readFileSync(join(node.pluginDir, name), "utf8"));

it("passes the documented environment to a plugin for each operation, and nothing else", async () => {
  noting();
  const volumes = node.start();
  const parameters = { size: "big", quote: `'"\n` };
  await volumes.fingerprint();
  const made = await volumes.create({ ...volume, parameters, capacityMin: 10, capacityMax: 2 ** 53 - 1 });
  const path = join(node.volumesDir, volume.id);
  expect(made).toEqual({ ok: true, path, bytes: 7 });
  expect(await volumes.delete({ id: volume.id })).toEqual({ ok: true });

  const both = {
    DHV_VOLUMES_DIR: node.volumesDir,
    DHV_PLUGIN_DIR: node.pluginDir,
    DHV_NODE_POOL: "pool",
    DHV_NODE_ID: node.options.nodeId,
    DHV_NAMESPACE: "team",
    DHV_VOLUME_NAME: "data",
    DHV_VOLUME_ID: volume.id,
    DHV_PARAMETERS: JSON.stringify(parameters),
  };
  const cwd = node.pluginDir;
  expect(noted("fingerprint")).toEqual({ env: { DHV_OPERATION: "fingerprint" }, argv: ["fingerprint"], cwd });
  expect(noted("create")).toEqual({
    env: {
      DHV_OPERATION: "create",
      ...both,
      DHV_CAPACITY_MIN_BYTES: "10",
      DHV_CAPACITY_MAX_BYTES: String(2 ** 53 - 1),
    },
    argv: ["create"],
    cwd,
  });
  expect(noted("delete")).toEqual({
    env: { DHV_OPERATION: "delete", ...both, DHV_CREATED_PATH: path },
    argv: ["delete"],
    cwd,
  });
});

it("passes absent parameters as `null`, as in Nomad's plugin interface", async () => {
  noting();
  await create();
  expect(noted("create").env.DHV_PARAMETERS).toBe("null");
});

it("runs a script with an `env` interpreter although PATH is unset", async () => {
  node.plugin("p", DIRECTORY_PLUGIN.replace("/bin/sh", "/usr/bin/env sh"));
  expect(await create()).toMatchObject({ ok: true, bytes: 1024 });
});

it("reports 0 bytes when the plugin omits them", async () => {
  mkdirSync(join(node.root, "v"));
  says({ path: join(node.root, "v") });
  expect(await create()).toEqual({ ok: true, path: join(node.root, "v"), bytes: 0 });
});

it("kills a hung plugin and its child processes at the time limit, also when they ignore SIGTERM", async () => {
  node.plugin(
    "p",
    `#!/bin/sh
trap '' TERM
echo $$ > leader
(trap '' TERM; sh -c 'trap "" TERM; echo $$ > grandchild; while :; do sleep 1; done') &
while :; do sleep 1; done
`,
  );
  const made = await create({}, { operationMs: 3_000 });
  expect(made).toEqual({
    ok: false,
    kind: "timeout",
    outcome: "unknown",
    message: `error creating volume "${volume.id}" with plugin "p": did not end within 3000 ms`,
  });
  await isGone(pidIn("leader"));
  await isGone(pidIn("grandchild"));
});

it("lets a plugin clean up on SIGTERM before it ends", async () => {
  node.plugin("p", `#!/bin/sh\ntrap 'echo > cleaned; exit 0' TERM\nwhile :; do sleep 0.05; done\n`);
  expect(await create({}, { operationMs: 2_000, killGraceMs: 20_000 })).toMatchObject({ ok: false, kind: "timeout" });
  expect(existsSync(join(node.pluginDir, "cleaned"))).toBe(true);
});

it("limits a fingerprint to a shorter time", async () => {
  node.plugin("p", "#!/bin/sh\nsleep 600\n");
  const statuses = await node.start({ limits: { fingerprintMs: 200, killGraceMs: 300 } }).fingerprint();
  expect(statuses).toEqual([
    { name: "mkdir", ok: true, version: "0.0.1" },
    {
      name: "p",
      ok: false,
      kind: "timeout",
      outcome: "unknown",
      message: 'error fingerprinting plugin "p": did not end within 200 ms',
    },
  ]);
});

it("accepts the result of a plugin whose child process keeps the pipe open, and kills the child", async () => {
  const path = join(node.root, "v");
  mkdirSync(path);
  node.plugin(
    "p",
    `#!/bin/sh\n(sh -c 'echo $$ > grandchild; while :; do sleep 1; done') &\nwhile [ ! -s grandchild ]; do sleep 0.01; done\necho '{"path":"${path}","bytes":1}'\n`,
  );
  expect(await create()).toEqual({ ok: true, path, bytes: 1 });
  await isGone(pidIn("grandchild"));
});

it("returns the result although a process outside the process group keeps the pipe open", async () => {
  const path = join(node.root, "v");
  mkdirSync(path);
  node.plugin(
    "p",
    `#!${process.execPath}
const { spawn } = require("node:child_process");
const away = spawn(process.execPath, ["-e", "setTimeout(() => {}, 60000)"], { detached: true, stdio: "inherit" });
require("node:fs").writeFileSync("away", String(away.pid));
console.log(JSON.stringify({ path: ${JSON.stringify(path)} }));
process.exit(0);
`,
  );
  expect(await create()).toEqual({ ok: true, path, bytes: 0 });
  process.kill(pidIn("away"), "SIGKILL");
});

it("fails a plugin that writes more than 1 MiB to stdout, but not to stderr, and keeps no more than the limit", async () => {
  node.plugin("p", "#!/bin/sh\nyes | head -c 300000000\n");
  expect(await create()).toEqual({
    ok: false,
    kind: "plugin",
    outcome: "failed",
    message: `error creating volume "${volume.id}" with plugin "p": wrote more than 1048576 bytes to stdout: ${"y ".repeat(256).trim()}`,
  });
  expect(node.records()).toEqual({});

  const path = join(node.root, "v");
  mkdirSync(path);
  node.plugin("p", `#!/bin/sh\nyes 0123456789 | head -c 300000 >&2\necho '{"path":"${path}"}'\n`);
  node.log.length = 0;
  expect(await create()).toMatchObject({ ok: true });
  const kept = node.log.filter((line) => line.startsWith(`plugin "p" create "${volume.id}": 0123`));
  expect(kept.length).toBeGreaterThan(5_000);
  expect(kept.length * 11).toBeLessThanOrEqual(64 * 1024 + 11);
});

it("accepts a result of exactly the maximum size", async () => {
  const path = join(node.root, "v");
  mkdirSync(path);
  const answer = JSON.stringify({ path });
  node.plugin("p", `#!/bin/sh\nprintf '%s' '${answer}'\nhead -c ${1048576 - answer.length} /dev/zero | tr '\\0' ' '\n`);
  expect(await create()).toMatchObject({ ok: true });
});

it.each([
  ["nothing", ""],
  ["no JSON", "created /tmp/x"],
  ["two answers", '{"path":"/a"}{"path":"/b"}'],
  ["a list", "[]"],
  ["no path", "{}"],
  ["a path that is not text", '{"path":7}'],
  ["a fraction of a byte", '{"path":"/a","bytes":1.5}'],
  ["less than no bytes", '{"path":"/a","bytes":-1}'],
])("refuses as a result: %s", async (_, answer) => {
  node.plugin("p", `#!/bin/sh\nprintf '%s' '${answer}'\n`);
  expect(await create()).toEqual({
    ok: false,
    kind: "plugin",
    outcome: "failed",
    message: `error creating volume "${volume.id}" with plugin "p": answered without a path${answer && `: ${answer}`}`,
  });
  // Its name is free.
  says({ path: node.root });
  expect([node.records(), await node.start().volumes()]).toEqual([{}, []]);
});

it("returns a plugin's error on one line, truncated, with its exit code", async () => {
  const told = `\u001b[31mback end\r\nis down\u202e${"x".repeat(9999)}`;
  node.plugin(
    "p",
    `#!${process.execPath}\nconsole.log(JSON.stringify({ error: ${JSON.stringify(told)} }));\nprocess.exitCode = 3;\n`,
  );
  const made = await create();
  if (made.ok) throw new Error("it failed");
  expect(made).toMatchObject({ kind: "plugin", outcome: "failed" });
  const start = `error creating volume "${volume.id}" with plugin "p": exit code 3: [31mback end is down xx`;
  expect(made.message.slice(0, start.length)).toBe(start);
  expect(made.message.length).toBeLessThan(1200);
});

it("reports the exit code and output of a failed plugin, and the signal of a killed one", async () => {
  node.plugin("p", "#!/bin/sh\necho this is not JSON\nexit 7\n");
  expect(await create()).toEqual({
    ok: false,
    kind: "plugin",
    outcome: "failed",
    message: `error creating volume "${volume.id}" with plugin "p": exit code 7: this is not JSON`,
  });
  node.plugin("p", "#!/bin/sh\nkill -KILL $$\n");
  expect(await create()).toEqual({
    ok: false,
    kind: "plugin",
    outcome: "unknown",
    message: `error creating volume "${volume.id}" with plugin "p": was killed by SIGKILL`,
  });
});

it("names plugin, operation and volume of a failed deletion, and keeps the volume", async () => {
  node.plugin("p", DIRECTORY_PLUGIN.replace("rm -rf", `echo '{"error":"busy"}'; exit 1; rm -rf`));
  const volumes = node.start();
  await volumes.create(volume);
  expect(await volumes.delete({ id: volume.id })).toEqual({
    ok: false,
    kind: "plugin",
    outcome: "failed",
    message: `error deleting volume "${volume.id}" with plugin "p": exit code 1: busy`,
  });
  expect(await volumes.volumes()).toMatchObject([{ id: volume.id, problem: undefined }]);
});

it("refuses any path outside the volumes directory and the allowed roots in a plugin's result", async () => {
  mkdirSync(join(node.dir, "volumes-too"));
  mkdirSync(join(node.root, "v"));
  symlinkSync(node.dir, join(node.volumesDir, "out"));
  const outside = "is not below the volumes directory or an allowed root";
  const tries: Array<[path: string, rule: string]> = [
    ["/etc", outside],
    ["/", outside],
    [node.volumesDir, outside],
    [node.root, outside],
    [join(node.dir, "volumes-too"), outside],
    [join(node.volumesDir, "out"), outside],
    [join(node.volumesDir, "out/volumes-too"), outside],
    [`${node.root}/v/../../volumes-too`, 'has a ".." in it'],
    [`${node.root}/../state`, 'has a ".." in it'],
    ["volumes/v", "is not absolute"],
    ["", "is not absolute"],
    [`${node.root}/v\n`, "has control characters"],
    [`/${"x".repeat(4096)}`, "is longer than 4096 characters"],
    [join(node.root, "none"), "cannot be used: no such file or directory"],
  ];
  for (const [path, rule] of tries) {
    node.plugin("p", `#!${process.execPath}\nconsole.log(${JSON.stringify(JSON.stringify({ path }))});\n`);
    expect(await create()).toEqual({
      ok: false,
      kind: "plugin",
      outcome: "failed",
      message: expect.stringContaining(
        `error creating volume "${volume.id}" with plugin "p": answered a path that ${rule}`,
      ),
    });
  }
  says({ path: join(node.root, "v") });
  expect(await create()).toMatchObject({ ok: true });
});

it("runs only regular files that no other user can write, with an allowed name and content", async () => {
  const ran = join(node.dir, "ran");
  const script = `#!/bin/sh\necho > ${ran}\n`;
  const refused = async (kind: string, reason: string) => {
    expect(await create()).toEqual({
      ok: false,
      kind,
      outcome: "failed",
      message: `error creating volume "${volume.id}" with plugin "p": ${reason}`,
    });
    expect(existsSync(ran)).toBe(false);
  };

  await refused("forbidden", 'plugin is not allowed on this node: "p"');
  node.allowed.push({ name: "p" });
  await refused("missing", 'no such plugin: "p"');
  mkdirSync(join(node.pluginDir, "p"));
  await refused("forbidden", 'plugin is not a regular file: "p"');
  node.remove();

  node = new TestNode();
  node.plugin("real", script);
  symlinkSync(join(node.pluginDir, "real"), join(node.pluginDir, "p"));
  node.allowed.push({ name: "p" });
  await refused("forbidden", 'plugin is not a regular file: "p"');
  node.remove();

  node = new TestNode();
  const file = node.plugin("p", script, 0o644);
  await refused("unavailable", 'plugin not executable: "p"');
  for (const mode of [0o775, 0o757]) {
    chmodSync(file, mode);
    await refused("forbidden", 'plugin can be changed by others: "p"');
  }
  chmodSync(file, 0o755);
  chmodSync(node.pluginDir, 0o777);
  await refused("forbidden", 'plugin directory can be changed by others: plugin "p" is not run');
  chmodSync(node.pluginDir, 0o755);

  const sha256 = createHash("sha256").update(DIRECTORY_PLUGIN).digest("hex");
  node.allowed[0] = { name: "p", sha256 };
  await refused("forbidden", 'plugin is not the file that the configuration allows (sha256): "p"');
  node.plugin("p", DIRECTORY_PLUGIN);
  expect(await create()).toMatchObject({ ok: true });
  node.allowed[0] = { name: "p", sha256: sha256.toUpperCase() };
  expect(await create()).toMatchObject({ ok: true });
});

it("does not run files outside the plugin directory, even if the configuration names them", async () => {
  writeFileSync(join(node.dir, "evil"), "#!/bin/sh\necho > ran\n", { mode: 0o755 });
  for (const name of ["../evil", "/bin/sh", ".", "..", "", "-p", ".hidden", "p/../../evil", "p\n", "x".repeat(129)]) {
    node.allowed.push({ name });
    const made = await create({ pluginId: name });
    expect(made).toMatchObject({ ok: false, kind: "forbidden", outcome: "failed" });
  }
  expect(existsSync(join(node.pluginDir, "ran"))).toBe(false);
});

it("fails with the reason when a plugin cannot be started, and leaves nothing", async () => {
  node.plugin("p", "#!/no/such/interpreter\n");
  const start = `error creating volume "${volume.id}" with plugin "p": could not be started: `;
  expect(await create()).toMatchObject({ ok: false, outcome: "failed", message: `${start}no such file or directory` });
  node.plugin("p", DIRECTORY_PLUGIN);
  const parameters = Object.fromEntries(Array.from({ length: 80 }, (_, i) => [`k${i}`, "x".repeat(4096)]));
  expect(await create({ parameters })).toMatchObject({ ok: false, outcome: "failed", message: `${start}E2BIG` });
  expect(node.records()).toEqual({});
});

it("refuses a name or namespace that an environment variable cannot hold", async () => {
  node.plugin("p", DIRECTORY_PLUGIN);
  for (const more of [{ name: "a\0b" }, { name: "" }, { namespace: "a\nb" }])
    expect(await create(more)).toMatchObject({ ok: false, kind: "invalid", outcome: "failed" });
});

it("reports each plugin with its version or its error, and substitutes none for another", async () => {
  node.plugin("good", DIRECTORY_PLUGIN);
  node.plugin("rubbish", "#!/bin/sh\necho hello\n");
  node.plugin("odd", `#!/bin/sh\necho '{"version":"1 2"}'\n`);
  node.plugin("failing", "#!/bin/sh\nexit 1\n");
  node.plugin("present-but-not-allowed", DIRECTORY_PLUGIN);
  node.allowed.pop();
  node.allowed.push({ name: "absent" });
  expect(await node.start().fingerprint()).toMatchObject([
    { name: "mkdir", ok: true, version: "0.0.1" },
    { name: "good", ok: true, version: "1.2.3" },
    { name: "rubbish", ok: false, message: 'error fingerprinting plugin "rubbish": answered without a version' },
    { name: "odd", ok: false, message: 'error fingerprinting plugin "odd": answered without a version' },
    { name: "failing", ok: false, message: 'error fingerprinting plugin "failing": exit code 1' },
    { name: "absent", ok: false, message: 'error fingerprinting plugin "absent": no such plugin: "absent"' },
  ]);
});
