import { type Failure, fail } from "./outcome.ts";
import type { VolumeRecord } from "./records.ts";

const RESTORE_PAUSE_MS = 30_000;
const MAX_RESTORE_PAUSE_MS = 3_600_000;

/** How long a failed restore is paused, doubled per failure. */
export const restorePauseMs = (times: number): number =>
  Math.min(RESTORE_PAUSE_MS * 2 ** Math.min(times - 1, 30), MAX_RESTORE_PAUSE_MS);

/** The plugin was not run: it is absent, not allowed, or not executable. */
export const isPluginAway = ({ kind }: Failure): boolean =>
  kind === "forbidden" || kind === "missing" || kind === "unavailable";

/** Name and namespace become environment variables of plugins, which cannot hold every character. */
export function textFault({ name, namespace }: { name: string; namespace: string }) {
  for (const [field, text] of Object.entries({ name, namespace }))
    if (text === "" || /\p{Cc}/u.test(text)) return fail("invalid", `${field} is empty or has control characters`);
  return undefined;
}

/** A volume stays with its plugin, since no other plugin could delete it. */
export function pluginFault(old: VolumeRecord | undefined, pluginId: string) {
  if (old === undefined) return undefined;
  const { id, pluginId: made } = old.request;
  if (old.state === "deleting") return fail("conflict", `volume "${id}" is half deleted: delete it again`);
  if (made === pluginId) return undefined;
  const maker = made === "" ? "was registered" : `was created by plugin "${made}"`;
  return fail("conflict", `volume "${id}" ${maker}, which cannot be changed`);
}
