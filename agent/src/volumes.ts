import { statSync } from "node:fs";
import { join } from "node:path";
import { hostVolumeKey, uuid } from "@sallyport/agent-protocol";
import type { Config } from "./config.ts";
import { type HostVolumes, readRecords, recordsDir } from "./dhv/index.ts";
import { Ending, EXIT } from "./exit.ts";
import { loadKey, loadNode } from "./identity.ts";
import { LiveConfig } from "./live-config.ts";
import { codeOf, textOf } from "./log.ts";
import { isFinal, refusal } from "./ops/ending.ts";
import { Journal } from "./ops/journal.ts";
import { PAUSES, type Pauses } from "./session/reconnect.ts";
import { agentOf, hostVolumesOf } from "./start.ts";
import { lockState } from "./state-lock.ts";
import { readUnknown } from "./unknown-volumes.ts";

/** The operator commands `volumes list` and `volumes drop`. */

/** Timeout for the service's list of unknown volumes. */
const ASK_MS = 60_000;

interface ListedVolume {
  readonly ID: string;
  readonly Name: string;
  readonly Namespace: string;
  /** Empty for a registered volume. */
  readonly PluginID: string;
  /** `creating`, `ready` or `deleting`, or why the record is unreadable. */
  readonly State: string;
  /** Empty while unknown. */
  readonly Path: string;
  /** Whether the service knew it at the agent's last connection; null before the first. */
  readonly Known: boolean | null;
}

/** Every volume on disk by id. Read-only, since an agent may be running. */
export async function listVolumes({ stateDir }: Pick<Config, "stateDir">): Promise<ListedVolume[]> {
  const unknown = await readUnknown(stateDir);
  const records = await readRecords(recordsDir(stateDir)).catch((failure) => {
    throw new Ending(EXIT.unusable, `The volumes in ${stateDir} cannot be read: ${textOf(failure)}.`);
  });
  const listed = [...records].map(([ID, record]): ListedVolume => {
    const Known = unknown ? !unknown.has(ID) : null;
    if (typeof record === "string")
      return { ID, Name: "", Namespace: "", PluginID: "", State: record, Path: "", Known };
    const { name: Name, namespace: Namespace, pluginId: PluginID } = record.request;
    const Path = record.state === "creating" ? "" : record.path;
    return { ID, Name, Namespace, PluginID, State: record.state, Path, Known };
  });
  return listed.sort((a, b) => (a.ID < b.ID ? -1 : 1));
}

interface DropOptions {
  readonly config: Config;
  readonly id: string;
  readonly stop: AbortSignal;
  readonly pauses?: Pauses;
}

/**
 * Deletes a volume unknown to the service, with its content; of a registered volume only the record. The service is
 * queried through a regular session, which also runs requested operations. A volume in creation or deletion is given
 * up without a query; the service learns that when the agent runs again. An absent or hanging plugin does not prevent
 * the drop.
 * @throws Ending when the service knows the volume, is unreachable, or the plugin fails
 */
export async function dropVolume({ config, id, stop, pauses = PAUSES }: DropOptions): Promise<void> {
  if (!uuid.safeParse(id).success) throw new Ending(EXIT.unusable, "A volume's id is a UUID in lower case.");
  const { stateDir } = config;
  checkOwner(stateDir);
  const unlock = await lockState(stateDir);
  try {
    const node = await loadNode(stateDir);
    if (!node) throw new Ending(EXIT.unusable, "This node has not joined: no service knows its volumes.");
    const hostVolumes = hostVolumesOf(config, node.nodeId);
    if (!(await hostVolumes.volumes()).some((volume) => volume.id === id))
      throw new Ending(EXIT.unusable, `This node has no volume ${id}.`);
    if (await isUnfinished(stateDir, id)) {
      await dropped(hostVolumes, id);
      await endOperations(stateDir, id);
      return;
    }
    const heard = new AbortController();
    let unknown: readonly string[] | undefined;
    const agent = await agentOf({
      live: new LiveConfig(config),
      key: await loadKey(stateDir),
      node,
      hostVolumes,
      pauses,
      stop: AbortSignal.any([stop, heard.signal, AbortSignal.timeout(ASK_MS)]),
      onWelcome: ({ unknownVolumes }) => {
        unknown = unknownVolumes;
        heard.abort();
      },
    });
    const code = await agent.run();
    if (!unknown)
      throw new Ending(code || EXIT.unusable, "The service could not be asked whether it knows the volume.");
    if (!unknown.includes(id))
      throw new Ending(
        EXIT.unusable,
        `The service has not said that it does not know volume ${id}: delete it there (DELETE /v1/volume/host/${id}).`,
      );
    await dropped(hostVolumes, id);
  } finally {
    unlock();
  }
}

async function isUnfinished(stateDir: string, id: string): Promise<boolean> {
  const record = (await readRecords(recordsDir(stateDir))).get(id);
  return typeof record === "object" && record.state !== "ready";
}

async function dropped(hostVolumes: HostVolumes, id: string): Promise<void> {
  const gone = await hostVolumes.delete({ id, force: true });
  if (!gone.ok) throw new Ending(EXIT.failed, gone.message);
}

/** Completes the open operations of a volume as abandoned: they are reported and do not run again. */
async function endOperations(stateDir: string, id: string): Promise<void> {
  const journal = await Journal.open(join(stateDir, "journal"));
  try {
    for (const { op, key, ended } of journal.entries())
      if (key === hostVolumeKey(id) && !(ended && isFinal(ended.ending)))
        await journal.end(op, refusal("cancelled", "it was given up by the node's operator"));
  } finally {
    await journal.close();
  }
}

/** The agent could not replace files that another user creates there. */
function checkOwner(stateDir: string): void {
  let owner: number;
  try {
    owner = statSync(stateDir).uid;
  } catch (failure) {
    throw new Ending(EXIT.unusable, `The state directory ${stateDir} cannot be used: ${codeOf(failure)}.`);
  }
  if (owner !== process.getuid?.())
    throw new Ending(EXIT.unusable, `${stateDir} belongs to another user: run this as the agent's user (sudo -u).`);
}
