/** The object takes no change just now: a snapshot is being taken, or a restore has not ended. It will later. */
export class Frozen extends Error {
  override readonly name = "Frozen";
}

/** Also after it has come from another object, where only the name is left of the class. */
export const isFrozen = (failure: unknown): failure is Error => failure instanceof Error && failure.name === "Frozen";

const AGAIN_MS = 200;

/** Calls an object again while it is frozen, for what would be a pity to lose. @param call changes nothing when it is refused */
export async function retryWhileFrozen<T>(call: () => Promise<T>): Promise<T> {
  for (const end = Date.now() + QUIESCE_MS; ; ) {
    try {
      return await call();
    } catch (failure) {
      if (!isFrozen(failure) || Date.now() >= end) throw failure;
    }
    await scheduler.wait(AGAIN_MS);
  }
}

/** A snapshot never keeps an object from changing for longer than this. */
export const QUIESCE_MS = 10_000;
