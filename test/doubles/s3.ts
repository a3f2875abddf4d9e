import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { verifySignature } from "./cloud-a-sts/signature.ts";

/**
 * A store with the part of S3's API that backups use (https://docs.aws.amazon.com/AmazonS3/latest/API/). Requests are checked
 * with the vendor's own signer, parts by the vendor's rules.
 */
export class S3Double {
  readonly #server: Server;
  readonly objects = new Map<string, Buffer>();
  readonly uploads = new Map<string, { readonly key: string; readonly parts: Map<number, Buffer> }>();
  /** Method and target of each accepted request. */
  readonly requests: string[] = [];
  /** Answers a request instead of the store: status and body. */
  fault: (method: string, target: string) => readonly [status: number, body: string] | undefined = () => undefined;
  readonly key = { accessKeyId: "AKIDBACKUPS", secretAccessKey: "canary-of-the-secret-key" };
  #next = 1;

  readonly #scheme: string;

  private constructor(tls: { readonly cert: string; readonly key: string } | undefined) {
    const listener: RequestListener = async (request, response) => {
      const { status, body, etag } = await this.#answer(request);
      response.writeHead(status, { ...(etag && { ETag: etag }), "Content-Type": "application/xml" }).end(body);
    };
    this.#scheme = tls ? "https" : "http";
    this.#server = tls ? createTlsServer(tls, listener) : createServer(listener);
  }

  static async start(tls?: { readonly cert: string; readonly key: string }): Promise<S3Double> {
    const double = new S3Double(tls);
    double.#server.listen(0, "127.0.0.1");
    await once(double.#server, "listening");
    return double;
  }

  get endpoint(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get settings(): Record<string, string> {
    return {
      BACKUP_S3_BUCKET: "backups",
      BACKUP_S3_ENDPOINT: this.endpoint,
      BACKUP_S3_REGION: "eu-test-1",
      BACKUP_S3_ACCESS_KEY_ID: this.key.accessKeyId,
      BACKUP_S3_SECRET_ACCESS_KEY: this.key.secretAccessKey,
    };
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #answer(request: IncomingMessage): Promise<Reply> {
    const body = await buffer(request);
    const { method = "", url: target = "" } = request;
    const headers = request.headers as Record<string, string>;
    const verdict = await verifySignature(
      { method, target, headers, body, isUnsignedAllowed: method === "GET" },
      {
        service: "s3",
        regions: ["eu-test-1"],
        now: Date.now(),
        find: (id) => (id === this.key.accessKeyId ? this.key : undefined),
      },
    );
    if (!verdict.ok) return refusal(403, "SignatureDoesNotMatch", verdict.message);
    if (headers["x-amz-content-sha256"] === undefined) return refusal(400, "MissingSecurityHeader");
    this.requests.push(`${method} ${target}`);
    const fault = this.fault(method, target);
    if (fault) return { status: fault[0], body: fault[1] };
    const { pathname, searchParams } = new URL(target, this.endpoint);
    const [, bucket, ...rest] = decodeURIComponent(pathname).split("/");
    if (bucket !== "backups") return refusal(404, "NoSuchBucket");
    const key = rest.join("/");
    return key === "" ? this.#ofBucket(method, searchParams) : this.#ofObject(method, key, searchParams, body);
  }

  #ofBucket(method: string, query: URLSearchParams): Reply {
    if (method !== "GET") return refusal(405, "MethodNotAllowed");
    const prefix = query.get("prefix") ?? "";
    if (query.has("uploads")) {
      const found = [...this.uploads].filter(([, { key }]) => key.startsWith(prefix));
      const shown = found.map(([id, { key }]) => `<Upload><Key>${key}</Key><UploadId>${id}</UploadId></Upload>`);
      return xml("ListMultipartUploadsResult", shown.join(""));
    }
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix)).sort();
    const from = Number(query.get("continuation-token")?.replace("page&", "") ?? "0");
    // Two keys a page.
    const shown = keys.slice(from, from + 2).map((key) => `<Contents><Key>${key}</Key></Contents>`);
    const isTruncated = from + 2 < keys.length;
    const next = isTruncated ? `<NextContinuationToken>page&amp;${from + 2}</NextContinuationToken>` : "";
    return xml("ListBucketResult", `<IsTruncated>${isTruncated}</IsTruncated>${shown.join("")}${next}`);
  }

  #ofObject(method: string, key: string, query: URLSearchParams, body: Buffer): Reply {
    const id = query.get("uploadId");
    const upload = id === null ? undefined : this.uploads.get(id);
    if (id !== null && (upload === undefined || upload.key !== key)) return refusal(404, "NoSuchUpload");
    if (method === "POST" && query.has("uploads")) {
      const made = `upload+/=${this.#next++}`;
      this.uploads.set(made, { key, parts: new Map() });
      return xml("InitiateMultipartUploadResult", `<Key>${key}</Key><UploadId>${made}</UploadId>`);
    }
    if (method === "PUT" && upload) {
      upload.parts.set(Number(query.get("partNumber")), body);
      return { status: 200, body: "", etag: etagOf(body) };
    }
    if (method === "POST" && upload && id !== null) return this.#complete(id, key, upload.parts, body.toString());
    if (method === "DELETE" && id !== null) this.uploads.delete(id);
    else if (method === "DELETE") this.objects.delete(key);
    else if (method === "PUT") this.objects.set(key, body);
    else {
      const object = this.objects.get(key);
      return object ? { status: 200, body: object } : refusal(404, "NoSuchKey");
    }
    return method === "PUT" ? { status: 200, body: "", etag: etagOf(body) } : { status: 204, body: "" };
  }

  #complete(id: string, key: string, parts: Map<number, Buffer>, document: string): Reply {
    const named = [...document.matchAll(/<Part><PartNumber>(\d+)<\/PartNumber><ETag>([^<]+)<\/ETag><\/Part>/g)];
    const bodies: Buffer[] = [];
    for (const [at, [, number, etag]] of named.entries()) {
      const body = parts.get(Number(number));
      if (!body || etagOf(body) !== etag || Number(number) !== at + 1) return refusal(400, "InvalidPart");
      if (at < named.length - 1 && body.length < 5 * 1024 * 1024) return refusal(400, "EntityTooSmall");
      bodies.push(body);
    }
    if (bodies.length === 0) return refusal(400, "MalformedXML");
    this.objects.set(key, Buffer.concat(bodies));
    this.uploads.delete(id);
    return xml("CompleteMultipartUploadResult", `<Key>${key}</Key>`);
  }
}

interface Reply {
  readonly status: number;
  readonly body: string | Buffer;
  readonly etag?: string;
}

const etagOf = (body: Buffer): string => `"${createHash("md5").update(body).digest("hex")}"`;
const xml = (name: string, content: string): Reply => ({ status: 200, body: `<${name}>${content}</${name}>` });
export const refusal = (status: number, code: string, message = "refused"): Reply => ({
  status,
  body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`,
});
