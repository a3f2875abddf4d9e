#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Config, readConfig } from "./config.ts";
import { Csi } from "./csi/index.ts";
import { Ending, EXIT } from "./exit.ts";
import { error, textOf } from "./log.ts";
import { Reporter } from "./report/reporter.ts";
import { hostVolumesOf, start } from "./start.ts";
import { VERSION } from "./version.ts";
import { dropVolume, listVolumes } from "./volumes.ts";

const USAGE = `Usage: sallyport-agent --config <file> [--join-token-file <file>] [--check]
       sallyport-agent volumes list --config <file>
       sallyport-agent volumes drop <id> --config <file>

  volumes list              print the host volumes on this node's disk, and whether the service knows them
  volumes drop <id>         delete one that the service does not know, and what lies in it; stop the agent first

  --config <file>           the configuration, JSON
  --join-token-file <file>  the join token, for the first start; else SALLYPORT_JOIN_TOKEN,
                            else the configuration's joinTokenFile
  --check                   check the configuration, print what would be reported, and end
  --version                 print the version, and end`;

const JOIN_TOKEN = "SALLYPORT_JOIN_TOKEN";

async function main(): Promise<number> {
  const { values, positionals } = args();
  const { config: path, check, version, "join-token-file": tokenFile, help } = values;
  if (help) console.log(USAGE);
  else if (version) console.log(VERSION);
  else if (path === undefined) throw new Ending(EXIT.unusable, `--config is missing.\n\n${USAGE}`);
  else if (positionals.length > 0) await volumes(positionals, readConfig(path));
  else if (check) await printReport(readConfig(path));
  else {
    const config = readConfig(path);
    return start({
      config,
      joinToken: joinToken(tokenFile, config),
      stop: whenTold(),
      reread: () => readConfig(path),
      onReloadSignal: (reload) => process.on("SIGHUP", reload),
    });
  }
  return EXIT.stopped;
}

function whenTold(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort());
  return stop.signal;
}

async function volumes([what, action, id, ...rest]: readonly string[], config: Config): Promise<void> {
  const isKnown = what === "volumes" && rest.length === 0;
  if (isKnown && action === "list" && id === undefined) {
    for (const volume of await listVolumes(config)) console.log(JSON.stringify(volume));
  } else if (isKnown && action === "drop" && id !== undefined) {
    await dropVolume({ config, id, stop: whenTold() });
  } else throw new Ending(EXIT.unusable, USAGE);
}

function args() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        config: { type: "string" },
        "join-token-file": { type: "string" },
        check: { type: "boolean" },
        version: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (failure) {
    throw new Ending(EXIT.unusable, `${textOf(failure)}\n\n${USAGE}`);
  }
}

/** Undefined without a token; whether one is needed is decided later. */
function joinToken(file: string | undefined, { joinTokenFile }: Config): string | undefined {
  const given = process.env[JOIN_TOKEN]?.trim();
  // Not inherited by child processes.
  delete process.env[JOIN_TOKEN];
  if (file === undefined && given) return given;
  const path = file ?? joinTokenFile;
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8").trim() || undefined;
  } catch (failure) {
    // The file may be removed after the node has joined.
    if (file === undefined) return undefined;
    throw new Ending(EXIT.unusable, `The join token cannot be read: ${textOf(failure)}.`);
  }
}

/** Reads and writes no state, since an agent may be running on it. */
async function printReport(config: Config): Promise<void> {
  const plugins = await hostVolumesOf(config, "").fingerprint();
  const csi = new Csi(config.csi);
  const reporter = new Reporter(config, { fingerprint: async () => plugins, volumes: async () => [] }, csi);
  const { node } = await reporter.inspect();
  console.log(JSON.stringify({ node, plugins }, null, 2));
}

main().then(
  // Explicit exit: an unkillable plugin would keep the event loop alive.
  (code) => process.exit(code),
  (failure) => {
    if (failure instanceof Ending) {
      console.error(failure.message);
      process.exit(failure.code);
    }
    error("agent_failed", { message: textOf(failure) });
    process.exit(EXIT.failed);
  },
);
