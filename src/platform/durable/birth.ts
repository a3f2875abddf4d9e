import { textOf, warn } from "../observability/log.ts";
import { type ObjectName, textOfObject } from "./object-kinds.ts";

/**
 * The storage of an object is empty although it held data before. The object refuses to start, so that its data can be
 * restored.
 */
class StorageLost extends Error {
  override readonly name = "StorageLost";

  constructor(object: string) {
    super(
      `storage lost: the storage of ${object} is empty, though it held data before; nothing is written to it. ` +
        "Put its file back, or restore a snapshot into a new deployment",
    );
  }
}

/** Also true for an error from another object's RPC, which keeps only the class name. */
export const isStorageLost = (failure: unknown): failure is Error =>
  failure instanceof Error && failure.name === "StorageLost";

/** Stored beside the tables and not part of the data: snapshots exclude it and restores keep it. */
const KEY = "birth";

interface State {
  readonly id: string;
  /** Whether the storage was empty when it got its id; false for storage older than ids. */
  readonly fresh: boolean;
  readonly recorded: boolean;
}

/**
 * Records an id for an object and returns the id on record. The ids differ if the object started with other storage.
 */
type Register = (object: ObjectName, id: string, fresh: boolean) => Promise<string>;

/**
 * The identity of an object's storage: an id created with its tables and recorded elsewhere before the object serves
 * requests. Detects lost storage at the cost of one RPC per new object.
 *
 *   empty ──id──> unrecorded ──record has this id──> recorded
 *                     └────────record has another──> lost, until the file is restored
 */
export class StorageIdentity {
  #state: State;

  /** @param fresh whether the storage was empty */
  constructor(
    private readonly storage: DurableObjectStorage,
    private readonly object: ObjectName,
    fresh: boolean,
  ) {
    this.#state = storage.kv.get<State>(KEY) ?? { id: crypto.randomUUID(), fresh, recorded: false };
    if (!this.#state.recorded) storage.kv.put(KEY, this.#state);
  }

  get isRecorded(): boolean {
    return this.#state.recorded;
  }

  /** @throws StorageLost; rethrows errors of `register` when the storage is fresh, since it may have been lost */
  async record(register: Register): Promise<void> {
    const { id, fresh } = this.#state;
    const object = textOfObject(this.object);
    // A record must not outlive storage that a crash rolled back.
    await this.storage.sync();
    let known: string;
    try {
      known = await register(this.object, id, fresh);
    } catch (failure) {
      if (fresh) throw failure;
      warn("birth-unrecorded", { object, because: textOf(failure) });
      return;
    }
    if (known !== id) {
      warn("storage-lost", { object });
      throw new StorageLost(object);
    }
    this.#state = { ...this.#state, recorded: true };
    this.storage.kv.put(KEY, this.#state);
  }
}
