import { textOf, warn } from "../observability/log.ts";
import { type ObjectName, textOfObject } from "./object-kinds.ts";

/** The storage of an object is empty, though it held data before. It is not begun anew: its data can be put back. */
export class StorageLost extends Error {
  override readonly name = "StorageLost";

  constructor(object: string) {
    super(
      `storage lost: the storage of ${object} is empty, though it held data before; nothing is written to it. ` +
        "Put its file back, or restore a snapshot into a new deployment",
    );
  }
}

/** Also after it has come from another object, where only the name is left of the class. */
export const isStorageLost = (failure: unknown): failure is Error =>
  failure instanceof Error && failure.name === "StorageLost";

/** Kept beside the tables, as no part of the data: a snapshot does not hold it, and a restore leaves it. */
const KEY = "birth";

interface State {
  readonly id: string;
  /** Whether the storage was empty when it got its id; false in storage that is older than ids. */
  readonly fresh: boolean;
  readonly recorded: boolean;
}

/** Records an id for an object and answers the one on record, which is another's if the object began with other storage. */
export type Register = (object: ObjectName, id: string, fresh: boolean) => Promise<string>;

/**
 * The birth of an object's storage: an id made with its tables, and on record elsewhere before the object does anything.
 *
 *   empty ──id──> unrecorded ──record has this id──> recorded
 *                     └────────record has another──> lost, until the file is put back
 */
export class StorageIdentity {
  readonly #storage: DurableObjectStorage;
  readonly #object: ObjectName;
  #state: State;

  /** @param fresh whether the storage was empty */
  constructor(storage: DurableObjectStorage, object: ObjectName, fresh: boolean) {
    this.#storage = storage;
    this.#object = object;
    this.#state = storage.kv.get<State>(KEY) ?? { id: crypto.randomUUID(), fresh, recorded: false };
    if (!this.#state.recorded) storage.kv.put(KEY, this.#state);
  }

  get isRecorded(): boolean {
    return this.#state.recorded;
  }

  /** @throws StorageLost; whatever `register` throws, when the storage is fresh: it may be that it was lost */
  async record(register: Register): Promise<void> {
    const { id, fresh } = this.#state;
    const object = textOfObject(this.#object);
    // A record must not outlive a storage that a crash took back.
    await this.#storage.sync();
    let known: string;
    try {
      known = await register(this.#object, id, fresh);
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
    this.#storage.kv.put(KEY, this.#state);
  }
}
