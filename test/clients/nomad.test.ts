import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, inject, it } from "vitest";

/** The command line of Nomad, unmodified, where `NOMAD` names its program: no registry has it. */

const program = process.env["NOMAD"] ?? "";
if (program === "") console.warn("The command line nomad is not tried: NOMAD names no program.");

const dir = mkdtempSync(join(tmpdir(), "sallyport-nomad-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const COMMAND_MS = 60_000;
const POLICY = 'namespace "default" { policy = "write" }\n';
const HOST_VOLUME = `type = "host"
name = "cli-host"
plugin_id = "mkdir"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`;
const CSI_VOLUME = `type = "csi"
id = "cli-csi"
name = "cli-csi"
plugin_id = "dir"
capacity_min = "1MiB"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`;

/** `$1` is the first captured text of the row before. */
const ROWS: readonly (readonly [command: string, exit: number, prints: RegExp])[] = [
  ["server members", 0, /global .*alive/],
  ["status", 0, /ID|No running jobs/],
  ["agent-info", 0, /leader = true/],
  ["operator raft list-peers", 0, /leader/],
  ["operator autopilot health", 0, /Healthy: true/],
  ["operator autopilot set-config -min-quorum=1", 1, /501 \(there are no Raft servers/],
  ["operator scheduler get-config", 0, /Reject Job Registration += true/],
  ["system gc", 0, /^$/],
  ["monitor", 1, /the service's log is its operator's/],
  ["var list", 1, /404/],
  ["acl bootstrap", 1, /ACL bootstrap already done/],
  ["acl policy apply -description=d cli policy.hcl", 0, /Successfully wrote "cli"/],
  ["acl policy info cli", 0, /Description = d/],
  ["acl role create -name=cli -policy=cli", 0, /ID += (\S+)/],
  ["acl role delete $1", 0, /successfully deleted/],
  ["acl token create -name=cli -policy=cli -ttl=1h", 0, /Accessor ID += (\S+)/],
  ["acl token info $1", 0, /Accessor ID += (\S+)/],
  ["acl token delete $1", 0, /successfully deleted/],
  ["acl policy delete cli", 0, /Successfully deleted cli/],
  ["namespace apply -description=x cli", 0, /Successfully applied/],
  ["namespace status cli", 0, /Description += x/],
  ["namespace delete cli", 0, /Successfully deleted/],
  ["node pool list", 0, /default/],
  ["node status -verbose", 0, /^(\S{36}) .*ready/m],
  ["node eligibility -disable $1", 0, /Node "(\S+)" scheduling eligibility set: ineligible/],
  ["node eligibility -enable $1", 0, /Node "(\S+)" .*set: eligible/],
  ["node drain -enable -yes -detach $1", 0, /Node "(\S+)" drain strategy set/],
  ["node drain -disable -yes $1", 0, /Node "(\S+)" drain strategy unset/],
  ["node eligibility -enable $1", 0, /eligible/],
  ["plugin status dir", 0, /Controllers Healthy +=/],
  ["volume create host.hcl", 0, /Created host volume cli-host with ID (\S+)/],
  ["volume status -type=host $1", 0, /ID += (\S+)/],
  ["volume delete -type=host $1", 0, /Successfully deleted/],
  ["volume create csi.hcl", 0, /with ID cli-csi/],
  ["volume snapshot create cli-csi cli", 0, /^(snap-\S+)/m],
  ["volume snapshot delete dir $1", 0, /^$/],
  ["volume status -type=csi cli-csi", 0, /Plugin ID += dir/],
  ["volume delete cli-csi", 0, /Successfully deleted/],
  ["operator api /v1/regions", 0, /\["global"\]/],
];

async function run(command: string): Promise<{ readonly code: number; readonly text: string }> {
  const { address, token } = inject("service");
  const env = { PATH: process.env["PATH"], HOME: dir, NOMAD_ADDR: address, NOMAD_TOKEN: token };
  const child = spawn(program, command.split(" "), {
    cwd: dir,
    env,
    timeout: COMMAND_MS,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (text += bytes));
  const [code] = await once(child, "close");
  return { code: Number(code), text };
}

it.runIf(program !== "")("every command of nomad prints what its row says", { timeout: 600_000 }, async () => {
  writeFileSync(join(dir, "policy.hcl"), POLICY);
  writeFileSync(join(dir, "host.hcl"), HOST_VOLUME);
  writeFileSync(join(dir, "csi.hcl"), CSI_VOLUME);
  let captured = "";
  for (const [command, exit, prints] of ROWS) {
    const { code, text } = await run(command.replace("$1", captured));
    expect([command, code, text]).toEqual([command, exit, expect.stringMatching(prints)]);
    captured = prints.exec(text)?.[1] ?? captured;
  }
});
