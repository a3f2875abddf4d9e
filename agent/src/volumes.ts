import { statSync } from "node:fs";
import { join } from "node:path";
import { hostVolumeKey, uuid } from "@sallyport/agent-protocol";
import type { Config } from "./config.ts";
import { type HostVolumes, readRecords, recordsDir } from "./dhv/index.ts";
import { Ending, EXIT } from "./exit.ts";
import { loadKey, loadNode } from "./identity.ts";
import { codeOf, textOf } from "./log.ts";
import { isFinal, refusal } from "./ops/ending.ts";
import { Journal } from "./ops/journal.ts";
import { PAUSES, type Pauses } from "./session/reconnect.ts";
import { agentOf, hostVolumesOf } from "./start.ts";
import { lockState } from "./state-lock.ts";
import { readUnknown } from "./unknown-volumes.ts";

/** What an operator does by hand with the volumes on this node's disk: `volumes list` and `volumes drop`. */

/** How long the service gets to say which of them it does not know. */
const ASK_MS = 60_000;

export interface ListedVolume {
  readonly ID: string;
  readonly Name: string;
  readonly Namespace: string;
  /** Empty for a volume that was registered. */
  readonly PluginID: string;
  /** `creating`, `ready` or `deleting`; or why that cannot be read. */
  readonly State: string;
  /** Empty while it is not known. */
  readonly Path: string;
  /** Whether the service knew it when the agent last connected; null before the first time. */
  readonly Known: boolean | null;
}

/** Every volume on the disk, in the order of the ids. Changes nothing: an agent may be running. */
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

export interface DropOptions {
  readonly config: Config;
  readonly id: string;
  readonly stop: AbortSignal;
  readonly pauses?: Pauses;
}

/**
 * Deletes a volume that the service has no record of, and what lies in it; of a registered one only the record. The service is
 * asked anew, by a session as any other: what it asks of the node meanwhile is done. A volume whose creation or deletion has
 * not finished is given up, whether the service knows it or not: the service is told that when the agent runs again.
 * A plugin that is not there, or does not end, keeps no volume from being dropped.
 * @throws Ending when it knows the volume, cannot be asked, or the volume's plugin fails
 */
export async function dropVolume({ config, id, stop, pauses = PAUSES }: DropOptions): Promise<void> {
  if (!uuid.safeParse(id).success) throw new Ending(EXIT.unusable, "A volume's id is a UUID in lower case.");
  const { stateDir } = config;
  checkOwner(stateDir);
  const unlock = await lockState(stateDir);
  try {
    const node = await loadNode(stateDir);
    if (!node) throw new Ending(EXIT.unusable, "This node has not joined: there is nobody to ask about its volumes.");
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
      ...{ config, key: await loadKey(stateDir), node, hostVolumes, pauses },
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

/** Has operations on a volume whose end is not known end as given up: the service learns it, and they do not run again. */
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

/** What another user writes there the agent could not replace. */
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
