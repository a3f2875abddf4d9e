/**
 * The object accepts no change at present: a snapshot is being taken, or a restore has not ended. A retry succeeds
 * later.
 */
export class Frozen extends Error {
  override readonly name = "Frozen";
}

/** Also true for an error from another object's RPC, which keeps only the class name. */
export const isFrozen = (failure: unknown): failure is Error => failure instanceof Error && failure.name === "Frozen";

const AGAIN_MS = 200;

/**
 * Retries a call to an object while it is frozen, for results that must not be lost.
 * @param call changes nothing when it is refused
 */
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

/** A snapshot blocks writes of an object for at most this long. */
export const QUIESCE_MS = 10_000;
