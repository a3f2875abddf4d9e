/**
 * Backups as objects of a bucket of S3 or a compatible store, named `PREFIX CLUSTER-ID/sallyport-….snapshot`. One part
 * of a backup is held in memory. An object appears when it is whole; parts that a crash has left are removed before the
 * next one.
 */
import { partsOf } from "../src/lib/parts-of.ts";
import type { S3Settings } from "./backup-s3-settings.ts";
import { type BackupStore, isBackupName, type Stored } from "./backup-store.ts";
import { logEvent } from "./json-lines.ts";
import { S3Client, textsIn } from "./s3-client.ts";

/** S3 takes 10 000 parts of 5 MiB to 5 GiB, so a backup has at most 156 GiB. */
const PART_BYTES = 16 * 1024 * 1024;
const MAX_PARTS = 10_000;

export class S3Store implements BackupStore {
  readonly #client: S3Client;
  readonly #settings: S3Settings;
  readonly #clusterId: () => Promise<string>;
  readonly #partBytes: number;

  /** @param clusterId of the deployment: its backups are never confused with those of another one in the bucket */
  constructor(settings: S3Settings, clusterId: () => Promise<string>, partBytes = PART_BYTES) {
    this.#partBytes = partBytes;
    this.#client = new S3Client(settings);
    this.#settings = settings;
    this.#clusterId = clusterId;
  }

  async names(signal: AbortSignal): Promise<string[]> {
    const folder = await this.#folder();
    const names: string[] = [];
    for (let token: string | undefined = ""; token !== undefined; ) {
      const query = { "list-type": "2", prefix: folder, ...(token && { "continuation-token": token }) };
      const { text } = await this.#client.send("GET", "", { query, signal });
      names.push(...textsIn(text, "Key").map((key) => key.slice(folder.length)));
      [token] = textsIn(text, "NextContinuationToken");
    }
    return names.filter(isBackupName).sort();
  }

  async put(name: string, content: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<Stored> {
    const folder = await this.#folder();
    await this.#abortUploads(folder, signal).catch((failure: unknown) => {
      logEvent("warn", "backup_parts_left", { message: String(failure) });
    });
    const bytes = await this.#upload(`${folder}${name}`, content, signal);
    return { place: `s3://${this.#settings.bucket}/${folder}${name}`, bytes };
  }

  async remove(name: string, signal: AbortSignal): Promise<void> {
    await this.#client.send("DELETE", `${await this.#folder()}${name}`, { signal });
  }

  async #folder(): Promise<string> {
    return `${this.#settings.prefix}${await this.#clusterId()}/`;
  }

  /** @returns the size of the object */
  async #upload(key: string, content: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<number> {
    let bytes = 0;
    let upload: string | undefined;
    const etags: string[] = [];
    try {
      for await (const body of partsOf(content, this.#partBytes)) {
        bytes += body.length;
        if (upload === undefined && body.length < this.#partBytes) {
          await this.#client.send("PUT", key, { body, signal });
          return bytes;
        }
        if (etags.length === MAX_PARTS) throw new Error(`a backup is larger than ${MAX_PARTS} parts`);
        upload ??= await this.#begin(key, signal);
        const query = { partNumber: String(etags.length + 1), uploadId: upload };
        const { etag } = await this.#client.send("PUT", key, { query, body, signal });
        if (!etag) throw new Error("the store has returned no ETag for a part");
        etags.push(etag);
      }
      if (upload === undefined) throw new Error("the snapshot is empty");
      const parts = etags.map((etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
      const body = Buffer.from(`<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`);
      await this.#client.send("POST", key, { query: { uploadId: upload }, body, signal });
      return bytes;
    } catch (failure) {
      // The cause is reported; what stays is removed before the next backup.
      if (upload !== undefined) await this.#abort(key, upload, AbortSignal.timeout(10_000)).catch(() => {});
      throw failure;
    }
  }

  async #begin(key: string, signal: AbortSignal): Promise<string> {
    const { text } = await this.#client.send("POST", key, { query: { uploads: "" }, signal });
    const [upload] = textsIn(text, "UploadId");
    if (!upload) throw new Error("the store has returned no UploadId");
    return upload;
  }

  /** Aborts uploads that a crash has left: their parts take space and are in no list of objects. */
  async #abortUploads(folder: string, signal: AbortSignal): Promise<void> {
    const { text } = await this.#client.send("GET", "", { query: { uploads: "", prefix: folder }, signal });
    const [keys, uploads] = [textsIn(text, "Key"), textsIn(text, "UploadId")];
    for (const [at, key] of keys.entries()) {
      if (key.startsWith(folder) && isBackupName(key.slice(folder.length)))
        await this.#abort(key, uploads[at] ?? "", signal);
    }
  }

  async #abort(key: string, upload: string, signal: AbortSignal): Promise<void> {
    await this.#client.send("DELETE", key, { query: { uploadId: upload }, signal });
  }
}
