import { createHash, randomBytes } from "node:crypto";
import * as z from "zod";
import { decrypt, encrypt } from "../platform/crypto/aes-gcm.ts";
import { parseKeyring } from "../platform/crypto/keyring.ts";
import type { Versions } from "../platform/durable/migrations.ts";
import type { ObjectKind } from "../platform/durable/object-kinds.ts";
import type { Value } from "../platform/durable/snapshot/tables.ts";
import { badRequest } from "../platform/http/errors.ts";
import { RELEASE } from "../platform/version.ts";

/*
 * Snapshot file format: a magic line, then frames of a four-byte length and that many bytes. The first frame is the
 * header in plain JSON. Every other frame is one JSON record, sealed under a file key, which the header contains
 * wrapped by the master key. A frame opens only at its position and behind its header, so none can be altered, moved or
 * omitted. The last frame counts all others, so truncation is detected.
 */

export const MAGIC = "sallyport-snapshot 1\n";
export const LENGTH_BYTES = 4;

/** Metadata of an object outside its tables. Its rows follow. */
export interface ObjectRecord {
  readonly type: "object";
  readonly kind: ObjectKind;
  readonly name: string;
  readonly versions: Versions;
  readonly sequences: Readonly<Record<string, number>>;
}

/** Rows of a table of the preceding object. */
export interface RowsRecord {
  readonly type: "rows";
  readonly table: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Value[])[];
}

/** The last record. `digest`: SHA-256 of all previous bytes, in hex. */
interface EndRecord {
  readonly type: "end";
  readonly objects: number;
  readonly rows: number;
  readonly digest: string;
}

type SnapshotRecord = ObjectRecord | RowsRecord | EndRecord;

const Header = z.object({
  snapshot: z.string(),
  /** Creation time, ISO 8601. */
  taken: z.string(),
  /** Version of the service that created it. */
  version: z.string(),
  /** The master key that wraps the file key. */
  master: z.string(),
  key: z.string(),
});
type Header = z.infer<typeof Header>;

/** Seals the records of one file, in order. */
export class Sealer {
  readonly #key: Uint8Array = randomBytes(32);
  readonly #digest = createHash("sha256");
  readonly #header: Uint8Array;
  #place = 0;
  #objects = 0;
  #rows = 0;

  /** @throws Sealed */
  constructor(snapshot: string, taken: Date, masterKey: string | undefined) {
    const { newest } = parseKeyring(masterKey);
    const key = Buffer.from(encrypt(newest.bytes, this.#key, keyContext(snapshot))).toString("base64");
    const header: Header = { snapshot, taken: taken.toISOString(), version: RELEASE, master: newest.id, key };
    this.#header = Buffer.from(JSON.stringify(header));
  }

  /** The first bytes of the file. */
  begin(): Uint8Array {
    return this.#counted(Buffer.concat([Buffer.from(MAGIC), framed(this.#header)]));
  }

  seal(record: ObjectRecord | RowsRecord): Uint8Array {
    if (record.type === "object") this.#objects++;
    else this.#rows += record.rows.length;
    return this.#counted(this.#frame(record));
  }

  /** The last bytes of the file. */
  end(): Uint8Array {
    const digest = this.#digest.copy().digest("hex");
    return this.#frame({ type: "end", objects: this.#objects, rows: this.#rows, digest });
  }

  #frame(record: SnapshotRecord): Uint8Array {
    this.#place++;
    const text = Buffer.from(JSON.stringify(withRows(record, written)));
    return framed(encrypt(this.#key, text, frameContext(this.#header, this.#place)));
  }

  #counted(bytes: Uint8Array): Uint8Array {
    this.#digest.update(bytes);
    return bytes;
  }
}

/** Opens the frames of one file, in order. Reports defects as `RequestError` 400. */
export class Opener {
  readonly header: Header;
  readonly #key: Uint8Array;
  readonly #digest = createHash("sha256");
  readonly #bytes: Uint8Array;
  #place = 0;
  #objects = 0;
  #rows = 0;
  #ended = false;

  /** @param header the bytes of the first frame @throws Sealed when this deployment has no master key */
  constructor(header: Uint8Array, masterKey: string | undefined) {
    const keyring = parseKeyring(masterKey);
    this.#bytes = header;
    this.header = parseHeader(header);
    const { master, key, snapshot } = this.header;
    const wrapping = keyring.byId.get(master);
    if (!wrapping) {
      throw badRequest(
        `snapshot: it is sealed under master key ${master}, which MASTER_KEY of this deployment does not hold`,
      );
    }
    try {
      this.#key = decrypt(wrapping.bytes, Buffer.from(key, "base64"), keyContext(snapshot));
    } catch {
      throw badRequest(`snapshot: its key does not open under master key ${master}; the file was altered`);
    }
    this.#digest.update(Buffer.concat([Buffer.from(MAGIC), framed(header)]));
  }

  open(frame: Uint8Array): SnapshotRecord {
    this.#place++;
    if (this.#ended) throw badRequest("snapshot: there is something behind its end");
    let record: SnapshotRecord;
    try {
      const text = Buffer.from(decrypt(this.#key, frame, frameContext(this.#bytes, this.#place)));
      record = withRows(JSON.parse(text.toString()) as SnapshotRecord, read);
    } catch {
      throw badRequest(`snapshot: frame ${this.#place} was altered, or is not in its place`);
    }
    if (record.type === "end") this.#checkEnd(record);
    else if (record.type === "object") this.#objects++;
    else this.#rows += record.rows.length;
    this.#digest.update(framed(frame));
    return record;
  }

  /** Called at the end of the file. */
  close(): void {
    if (!this.#ended) throw badRequest("snapshot: it is cut off");
  }

  #checkEnd({ objects, rows, digest }: EndRecord): void {
    const whole = objects === this.#objects && rows === this.#rows && digest === this.#digest.copy().digest("hex");
    if (!whole) throw badRequest("snapshot: it does not hold what its end says");
    this.#ended = true;
  }
}

function parseHeader(bytes: Uint8Array): Header {
  try {
    return Header.parse(JSON.parse(Buffer.from(bytes).toString()));
  } catch {
    throw badRequest("snapshot: its header cannot be read");
  }
}

const keyContext = (snapshot: string): string => `snapshot ${snapshot} key`;
const frameContext = (header: Uint8Array, place: number): string =>
  `snapshot ${createHash("sha256").update(header).digest("hex")} ${place}`;

function framed(bytes: Uint8Array): Uint8Array {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/* Encoding of blobs, which JSON lacks. */

/** Only rows have blobs. A function for each value of the whole JSON would cost several times as much. */
function withRows<R extends SnapshotRecord>(record: R, change: (value: unknown) => unknown): R {
  return record.type === "rows" ? { ...record, rows: record.rows.map((row) => row.map(change)) } : record;
}

const written = (value: unknown): unknown =>
  value instanceof ArrayBuffer ? { base64: Buffer.from(value).toString("base64") } : value;

function read(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const { base64 } = value as { base64?: unknown };
  if (typeof base64 !== "string") return value;
  const bytes = Buffer.from(base64, "base64");
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
}
