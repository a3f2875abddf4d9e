import { spawn } from "node:child_process";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { S3Store } from "../../scripts/backup-s3.ts";
import { s3Settings } from "../../scripts/backup-s3-settings.ts";
import { S3Double } from "../doubles/s3.ts";

const double = await S3Double.start();
afterAll(() => double.stop());
beforeEach(() => {
  double.objects.clear();
  double.uploads.clear();
  double.requests.length = 0;
  double.fault = () => undefined;
});

/** The smallest part that S3 takes. */
const PART = 5 * 1024 * 1024;
const NAMES = ["20261124", "20261125", "20261126"].map((day) => `sallyport-${day}T020000Z.snapshot`);
const [NAME = ""] = NAMES;
const never = new AbortController().signal;

function storeOf(more: Record<string, string> = {}, cluster = "cluster-1"): S3Store {
  const settings = s3Settings({ ...double.settings, ...more }) ?? expect.fail();
  return new S3Store(settings, async () => cluster, PART);
}

/** Bytes that differ everywhere, in pieces of an odd size. @param failsAt the byte at which the source breaks */
function content(bytes: number, failsAt = Number.POSITIVE_INFINITY): ReadableStream<Uint8Array> {
  let sent = 0;
  return new ReadableStream({
    pull(controller) {
      if (sent >= failsAt) return controller.error(new Error("the source has broken"));
      if (sent === bytes) return controller.close();
      const piece = new Uint8Array(Math.min(777_777, bytes - sent)).map((_, at) => (sent + at) % 251);
      sent += piece.length;
      controller.enqueue(piece);
    },
  });
}
const bytesOf = async (bytes: number): Promise<Buffer> => buffer(content(bytes) as never);

describe("backups in a bucket", () => {
  it.each([1_000, PART, 2 * PART + 1])("of %i bytes are stored whole", async (bytes) => {
    const stored = await storeOf({ BACKUP_S3_PREFIX: "a/b" }).put(NAME, content(bytes), never);
    expect(stored).toEqual({ place: `s3://backups/a/b/cluster-1/${NAME}`, bytes });
    const [[key, object] = ["", Buffer.of()]] = double.objects;
    expect([double.objects.size, double.uploads.size, key]).toEqual([1, 0, `a/b/cluster-1/${NAME}`]);
    expect(object.equals(await bytesOf(bytes))).toBe(true);
  });

  it("are listed over all pages and removed, without those of other deployments and other objects", async () => {
    const [store, other] = [storeOf(), storeOf({}, "cluster-10")];
    for (const name of [...NAMES, "notes.txt"]) double.objects.set(`cluster-1/${name}`, Buffer.of(1));
    await other.put(NAME, content(9), never);
    expect(await store.names(never)).toEqual(NAMES);
    await store.remove(NAME, never);
    expect(await store.names(never)).toEqual(NAMES.slice(1));
    expect(await other.names(never)).toEqual([NAME]);
  });

  it("leave nothing when the snapshot breaks, and remove what a crash has left", async () => {
    const left = { parts: new Map([[1, Buffer.alloc(9)]]) };
    double.uploads.set("crashed", { ...left, key: `cluster-1/${NAME}` });
    double.uploads.set("foreign", { ...left, key: `cluster-2/${NAME}` });
    await expect(storeOf().put(NAME, content(3 * PART, 1.5 * PART), never)).rejects.toThrow("the source has broken");
    expect([double.objects.size, [...double.uploads.keys()]]).toEqual([0, ["foreign"]]);
    expect(double.requests.some((line) => line.includes("partNumber=1"))).toBe(true);
  });

  it("are retried while the store is overloaded, and after an error in the body of a completion", async () => {
    const asked = new Map<string, number>();
    double.fault = (method, target) => {
      const times = (asked.get(`${method} ${target}`) ?? 0) + 1;
      asked.set(`${method} ${target}`, times);
      if (times > 1) return undefined;
      return method === "POST" && target.includes("uploadId")
        ? [200, "<Error><Code>InternalError</Code><Message>again</Message></Error>"]
        : [503, "<Error><Code>SlowDown</Code></Error>"];
    };
    await storeOf().put(NAME, content(PART + 1), never);
    expect(double.objects.get(`cluster-1/${NAME}`)?.equals(await bytesOf(PART + 1))).toBe(true);
  });

  it("name the store's error, and never the secret key", async () => {
    const wrong = storeOf({ BACKUP_S3_SECRET_ACCESS_KEY: "another-canary" });
    const failure = await wrong.names(never).catch(String);
    expect(failure).toMatch(/^Error: GET \/backups: 403 SignatureDoesNotMatch /);
    expect(failure).not.toContain("canary");
    double.fault = () => [301, "<Error><Code>PermanentRedirect</Code><Message>another endpoint</Message></Error>"];
    await expect(storeOf().names(never)).rejects.toThrow("GET /backups: 301 PermanentRedirect another endpoint");
    const gone = storeOf({ BACKUP_S3_ENDPOINT: "http://127.0.0.1:1" });
    await expect(gone.names(AbortSignal.timeout(1_000))).rejects.toThrow();
  });

  it("are read by curl as the documentation says", async () => {
    await storeOf().put(NAME, content(5_000), never);
    const { key, endpoint } = double;
    const args = ["-fsS", "--aws-sigv4", "aws:amz:eu-test-1:s3", "--user", `${key.accessKeyId}:${key.secretAccessKey}`];
    const child = spawn("curl", [
      ...args,
      "-H",
      "x-amz-content-sha256: UNSIGNED-PAYLOAD",
      `${endpoint}/backups/cluster-1/${NAME}`,
    ]);
    expect((await buffer(child.stdout)).equals(await bytesOf(5_000))).toBe(true);
  });
});
