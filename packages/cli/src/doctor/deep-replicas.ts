import { type Finding, findings } from "./finding.ts";
import type { Trial } from "./trial.ts";

/**
 * Reads a secret through the replicas of two places after each of two writes: both must have the new version at once.
 * The platform decides where the objects run, and does not show it, so the message has their latency.
 */

const PLACES = ["weur", "enam"];
const PATIENCE_MS = 15_000;

interface Read {
  /** The replica that answered; null when the owners did. */
  readonly replica: string | null;
  readonly value: string;
  readonly ms: number;
}

export async function deepReplicas({ api, address, token, name }: Trial): Promise<string | Finding> {
  const path = `${name}/data/near`;
  const readAt = async (place: string): Promise<Read> => {
    const start = performance.now();
    const response = await fetch(new URL(`v1/${path}`, address.href.replace(/\/?$/, "/")), {
      headers: { "X-Vault-Token": token, "X-Sallyport-Place": place },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const ms = Math.round(performance.now() - start);
    if (!response.ok) throw new Error(`${place}: ${response.status} for a read`);
    const body = (await response.json()) as { data: { data: { value: string } } };
    return { replica: response.headers.get("X-Sallyport-Replica"), value: body.data.data.value, ms };
  };
  const last = new Map<string, number>();
  // The first round creates the objects; in the second one they have the version before in memory.
  for (const value of ["one", "two"]) {
    await api.write(path, { data: { value } });
    for (const place of PLACES) {
      const read = await readAt(place);
      if (read.replica === null)
        return findings("replicas").unknown("no replica has answered: READ_REPLICAS is 0, or they fail");
      if (read.value !== value) throw new Error(`${read.replica} has the version before after a write`);
      last.set(read.replica, read.ms);
    }
  }
  const times = [...last].map(([replica, ms]) => `${replica} in ${ms} ms`).join(", ");
  return `each new version was there at once: ${times}; the platform does not show where they run`;
}
