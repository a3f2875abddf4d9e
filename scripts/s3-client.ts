/** Requests to S3 or a compatible store: path style, Signature Version 4 with the hash of the body, retries, deadlines. */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { AwsClient } from "aws4fetch";
import type { S3Settings } from "./backup-s3-settings.ts";

const TRIES = 4;
const FIRST_PAUSE_MS = 500;
/** For one part, on a slow line. */
const DEADLINE_MS = 600_000;

interface Sending {
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal: AbortSignal;
}

interface S3Answer {
  readonly text: string;
  readonly etag: string;
}

export class S3Client {
  readonly #signer: AwsClient;
  readonly #bucketUrl: string;

  constructor({ endpoint, bucket, region, accessKeyId, secretAccessKey }: S3Settings) {
    this.#signer = new AwsClient({ accessKeyId, secretAccessKey, region, service: "s3", retries: 0 });
    this.#bucketUrl = `${endpoint}/${bucket}`;
  }

  /**
   * @param key of an object; empty for the bucket
   * @throws Error with the store's code and message, never with a header or a body of the request
   */
  async send(method: string, key: string, { query = {}, body, signal }: Sending): Promise<S3Answer> {
    const search = new URLSearchParams(query).toString();
    const url = `${this.#bucketUrl}${key && `/${key}`}${search && `?${search}`}`;
    const what = `${method} ${new URL(url).pathname}`;
    for (let attempt = 1; ; attempt++) {
      const result = await this.#once(method, url, body, signal).catch((error: unknown) => unreachable(error));
      if (!(result instanceof S3Failure)) return result;
      signal.throwIfAborted();
      if (!result.again || attempt === TRIES) throw new Error(`${what}: ${result.message}`);
      await sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1), undefined, { signal });
    }
  }

  async #once(
    method: string,
    url: string,
    body: Uint8Array | undefined,
    signal: AbortSignal,
  ): Promise<S3Answer | S3Failure> {
    const hash = createHash("sha256")
      .update(body ?? "")
      .digest("hex");
    const headers = { "x-amz-content-sha256": hash };
    const signed = await this.#signer.sign(url, { method, headers, ...(body && { body: new Uint8Array(body) }) });
    const answer = await fetch(signed, {
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]),
    });
    const text = await answer.text();
    // A store may find out during a long completion that it fails: then the body of the 200 is an error.
    if (answer.ok && !/<Error>/.test(text)) return { text, etag: answer.headers.get("etag") ?? "" };
    const [code = "", message = ""] = [textsIn(text, "Code")[0], textsIn(text, "Message")[0]];
    const again = answer.ok || answer.status >= 500 || answer.status === 429;
    return new S3Failure([answer.status, code, message].filter((part) => part !== "").join(" "), again);
  }
}

class S3Failure {
  readonly message: string;
  readonly again: boolean;

  constructor(message: string, again: boolean) {
    this.message = message;
    this.again = again;
  }
}

function unreachable(error: unknown): S3Failure {
  const { message, cause } = error as Error;
  return new S3Failure(cause instanceof Error ? `${message}: ${cause.message}` : message, true);
}

/** The texts of all elements of a name; S3's documents have no attributes there. */
export const textsIn = (xml: string, element: string): string[] =>
  [...xml.matchAll(new RegExp(`<${element}>([^<]*)</${element}>`, "g"))].map(([, text = ""]) => unescaped(text));

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

const unescaped = (text: string): string =>
  text.replace(/&(?:#(\d+)|#x([0-9a-fA-F]+)|(\w+));/g, (all, decimal, hex, name) => {
    if (decimal || hex) return String.fromCodePoint(Number.parseInt(decimal ?? hex, decimal ? 10 : 16));
    return ENTITIES[name] ?? all;
  });
