import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { randomFrom } from "../crash/random.ts";
import { S3Double } from "../doubles/s3.ts";
import { freePort } from "../smoke/local-service.ts";
import { amount } from "../support/long.ts";
import { FIRST, SECOND } from "./certificates.ts";
import { Served } from "./served.ts";

const KILLS = amount(4, 16);
const BOOTSTRAP_SECRET = "bootstrap-secret-of-the-tests";
const MASTER_KEY = Buffer.from("serve-tests-use-this-master-key!").toString("base64");

const dir = mkdtempSync(join(tmpdir(), "sallyport-serve-"));
const backups = join(dir, "backups");
const settings = {
  STATE_DIR: join(dir, "state"),
  TLS_CERT: join(dir, "cert.pem"),
  TLS_KEY: join(dir, "key.pem"),
  MASTER_KEY,
  BOOTSTRAP_SECRET,
  AUDIT_ADDRESS: "plain",
  EVENT_HEARTBEAT_MS: "300",
  STOP_TIMEOUT: "60s",
  TRUSTED_PROXIES: "127.0.0.1",
};
const started: Served[] = [];
let port = 0;
let token = "";

const start = (more: Record<string, string> = {}): Promise<Served> => {
  const served = new Served(port, { ...settings, ...more });
  started.push(served);
  return served.ready();
};

const useCertificate = ({ cert, key }: typeof FIRST) => {
  writeFileSync(settings.TLS_CERT, cert);
  writeFileSync(settings.TLS_KEY, key);
};

/** A separate connection that sends a request in pieces. */
async function opened(): Promise<{ socket: TLSSocket; text: () => string; ended: Promise<unknown> }> {
  const socket = connect({ port, host: "127.0.0.1", ca: [FIRST.cert, SECOND.cert] });
  let text = "";
  socket.setEncoding("latin1").on("data", (piece) => {
    text += piece;
  });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  return { socket, text: () => text, ended: new Promise((resolve) => socket.once("close", resolve)) };
}

/** The health check of the container file. */
async function health(): Promise<unknown> {
  const env = { STATE_DIR: settings.STATE_DIR };
  const [code] = await once(spawn(process.execPath, ["deploy/health.mjs"], { env, stdio: "ignore" }), "exit");
  return code;
}

beforeAll(async () => {
  port = await freePort();
  useCertificate(FIRST);
});
afterEach(async () => {
  for (const served of started.splice(0)) {
    served.kill();
    await served.gone();
  }
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Each test starts the whole service a few times. */
describe("npm run serve", { timeout: 300_000 }, () => {
  it("serves over TLS, logs JSON lines without secrets, and ends requests under way when it stops", async () => {
    const served = await start({ BACKUP_DIR: join(settings.TLS_CERT, "below-a-file"), BACKUP_TOKEN: "none" });
    await expect
      .poll(() => served.events("backup_failed"))
      .toMatchObject([{ message: expect.stringMatching(/^BACKUP_DIR .* cannot be used: ENOTDIR/) }]);
    expect((await served.call("GET", "/v1/sys/health")).status).toBe(501);
    token = await served.bootstrap(BOOTSTRAP_SECRET);
    // The status is cached for a second.
    await expect.poll(async () => (await served.call("GET", "/v1/sys/health")).status).toBe(200);
    await served.json("PUT", "/v1/sys/mounts/kv", token, { type: "kv", options: { version: "2" } });
    await served.json("POST", "/v1/kv/data/app", token, { data: { password: "canary-in-a-secret" } });
    await served.json("POST", "/v1/sys/auth/jwt", token, { type: "jwt" });
    const refusals = [port, await freePort()].map(async (each) => {
      const body = { jwks_url: `http://127.0.0.1:${each}/keys` };
      return (await served.call("POST", "/v1/auth/jwt/config", token, body)).text;
    });
    const [open = "", closed] = await Promise.all(refusals);
    expect([open, open]).toEqual([closed, expect.stringContaining("the URL must begin with https://")]);
    const { nodes } = await served.json("GET", "/v1/sys/ha-status", token);
    expect(nodes[0].api_address).toBe(`https://127.0.0.1:${port}`);

    const stream = await opened();
    stream.socket.write(`GET /v1/event/stream HTTP/1.1\r\nHost: a\r\nX-Orch-Token: ${token}\r\n\r\n`);
    await expect.poll(stream.text).toContain('"Index":');
    const slow = await opened();
    const body = JSON.stringify({ data: { late: "yes" } });
    slow.socket.write(
      `POST /v1/kv/data/late HTTP/1.1\r\nHost: a\r\nX-Orch-Token: ${token}\r\nX-Forwarded-For: 203.0.113.9\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 9)}`,
    );
    expect(await health()).toBe(0);
    served.signal("SIGTERM");
    await stream.ended;
    expect(stream.text()).toMatch(/\}\n\r\n0\r\n\r\n$/);
    await expect(opened()).rejects.toThrow("ECONNREFUSED");
    expect(await health()).toBe(1);
    slow.socket.write(body.slice(9));
    await slow.ended;
    expect(slow.text()).toContain("HTTP/1.1 200 OK");
    expect(await served.exit).toBe(0);

    expect(served.errors).toBe("");
    for (const line of served.lines)
      expect(line).toMatchObject({ time: expect.any(String), level: expect.any(String) });
    expect(served.lines).toContainEqual(
      expect.objectContaining({ level: "audit", path: "/v1/kv/data/late", address: "203.0.113.9", status: 200 }),
    );
    // The supervisor's own requests are in no log.
    const paths = served.lines.flatMap(({ level, path }) => (level === "audit" ? [String(path)] : []));
    expect(paths.filter((path) => !/^\/v1\/(acl|auth|sys|kv|event)\//.test(path))).toEqual([]);
    expect(served.output).not.toContain("supervisor");
    for (const secret of [MASTER_KEY, BOOTSTRAP_SECRET, token, "canary-in-a-secret"])
      expect(served.output).not.toContain(secret);
    for (const name of readdirSync(settings.STATE_DIR, { recursive: true, encoding: "utf8" }).filter((name) =>
      /(\.vars|\.json)$/.test(name),
    ))
      expect(readFileSync(join(settings.STATE_DIR, name), "utf8"), name).not.toContain(MASTER_KEY);
  });

  it("keeps every answered write when any of its processes is killed at any moment", async () => {
    const fraction = randomFrom(Number(process.env["CRASH_SEED"] ?? Date.now() % 1_000_000));
    const random = (below: number) => Math.floor(fraction() * below);
    // The whole tree as after a power failure, the parent alone, the runtime, the gateway.
    const targets = ["", "serve.ts", "workerd", "gateway-child"];
    const answered = new Map<string, string>();
    let next = 0;
    const write = async (served: Served) => {
      const [name, value] = [`w${next % 7}`, String(next++)];
      const { status } = await served.call("POST", `/v1/kv/data/${name}`, token, { data: { value } });
      if (status === 200) answered.set(name, value);
    };
    let served = await start();
    for (let kill = 0; kill < KILLS; kill++) {
      const target = targets[kill % targets.length] ?? "";
      const wanted = answered.size === 0 ? 1 : random(12) + 1;
      for (let done = 0; done < wanted; done++) await write(served);
      // A write during the kill: both outcomes are valid, but an answered one stays.
      const last = write(served).catch(() => {});
      await new Promise((go) => setTimeout(go, random(20)));
      expect(served.kill(target), target).toBeGreaterThan(0);
      await last;
      if (target === "" || target === "serve.ts") {
        await served.gone();
        served = await start();
      }
      await expect
        .poll(async () => (await served.call("GET", "/v1/kv/data/w0", token).catch(() => ({ status: 0 }))).status, {
          timeout: 120_000,
        })
        .toBe(200);
      for (const [name, value] of answered) {
        const { data } = await served.json("GET", `/v1/kv/data/${name}`, token);
        // A write without an answer may have taken effect.
        expect(Number(data.data.value), `${name} after a kill of ${target || "all"}`).toBeGreaterThanOrEqual(
          Number(value),
        );
        answered.set(name, data.data.value);
      }
    }
  });

  it("takes backups by schedule, keeps the newest, and restores one into an empty service", async () => {
    // Named while the clock of the machine was wrong.
    mkdirSync(backups, { recursive: true });
    writeFileSync(join(backups, "sallyport-20990101T000000Z.snapshot"), "");
    const first = await start({ BACKUP_DIR: backups, BACKUP_TOKEN: token, BACKUP_EVERY: "1s", BACKUP_KEEP: "2" });
    await first.json("POST", "/v1/kv/data/app", token, { data: { password: "in-the-backup" } });
    const before = first.events("backup_taken").length;
    await expect.poll(() => first.events("backup_taken").length).toBeGreaterThan(before + 2);
    first.signal("SIGTERM");
    expect(await first.exit).toBe(0);
    const files = readdirSync(backups).sort();
    const taken = first.events("backup_taken").map(({ file }) => basename(String(file)));
    expect(files).toEqual(taken.slice(-2));
    for (const name of files) expect(name).toMatch(/^sallyport-\d{8}T\d{6}Z\.snapshot$/);
    const newest = readFileSync(join(backups, files.at(-1) ?? ""));
    expect(newest.subarray(0, 20).toString()).toContain("sallyport-snapshot 1");

    const second = await start({ STATE_DIR: join(dir, "restored") });
    const temporary = await second.bootstrap(BOOTSTRAP_SECRET);
    const headers = { "Content-Type": "application/octet-stream" };
    const restored = await second.call("POST", "/v1/sys/snapshot", temporary, newest, headers);
    expect([restored.status, restored.text.slice(0, 200)]).toEqual([200, expect.any(String)]);
    expect((await second.json("GET", "/v1/kv/data/app", token)).data.data.password).toBe("in-the-backup");
    expect((await second.call("GET", "/v1/kv/data/app", temporary)).status).toBe(403);
    second.signal("SIGTERM");
    expect(await second.exit).toBe(0);

    const s3 = await S3Double.start();
    const backup = {
      ...s3.settings,
      BACKUP_S3_PREFIX: "here",
      BACKUP_TOKEN: token,
      BACKUP_EVERY: "1s",
      BACKUP_KEEP: "1",
    };
    const third = await start({ STATE_DIR: join(dir, "restored"), ...backup });
    await expect.poll(() => third.events("backup_taken").length).toBeGreaterThan(1);
    third.signal("SIGTERM");
    expect(await third.exit).toBe(0);
    const [last] = third.events("backup_taken").slice(-1);
    const objects = [...s3.objects.keys()].map((key) => `s3://backups/${key}`);
    expect(objects).toContain(last?.["file"]);
    expect(objects[0]).toMatch(/^s3:\/\/backups\/here\/[0-9a-f-]{36}\/sallyport-\d{8}T\d{6}Z\.snapshot$/);
    expect(s3.objects.values().next().value?.subarray(0, 20).toString()).toContain("sallyport-snapshot 1");
    expect(third.output).not.toContain(s3.key.secretAccessKey);
    s3.stop();
  });

  it("logs a backup that is refused, keeps none of it, and shows a new certificate after SIGHUP", async () => {
    const served = await start({ BACKUP_DIR: join(dir, "refused"), BACKUP_TOKEN: "none" });
    await expect
      .poll(() => served.events("backup_failed"))
      .toMatchObject([{ message: expect.stringContaining("403") }]);
    expect(readdirSync(join(dir, "refused"))).toEqual([]);

    const shown = async () => (await opened()).socket.getPeerCertificate().subject.CN;
    expect(await shown()).toBe("localhost-1");
    useCertificate(SECOND);
    served.signal("SIGHUP");
    await expect.poll(shown).toBe("localhost-2");
    writeFileSync(settings.TLS_CERT, "not a certificate");
    served.signal("SIGHUP");
    await expect.poll(() => served.output).toContain("The gateway keeps its certificate");
    expect(await shown()).toBe("localhost-2");
    useCertificate(FIRST);
  });

  it("refuses to start without a key, with another key, on the state of npm start, and twice on one state", async () => {
    const refusal = async (more: Record<string, string>, onPort = port) => {
      const served = new Served(onPort, { ...settings, ...more });
      started.push(served);
      expect(await served.exit).toBe(1);
      return String(served.events("start_failed")[0]?.["message"]);
    };
    expect(await refusal({ MASTER_KEY: "" })).toContain("MASTER_KEY is required");
    const other = Buffer.alloc(32, 7).toString("base64");
    expect(await refusal({ MASTER_KEY: other })).toContain("is not the one that sealed the data");
    const development = mkdtempSync(join(dir, "development-"));
    writeFileSync(join(development, ".dev.vars"), "");
    expect(await refusal({ STATE_DIR: development })).toContain("belongs to npm start");
    expect(existsSync(join(development, "state", "v3"))).toBe(false);
    const served = await start();
    expect(await refusal({}, await freePort())).toContain("is in use by another");
    expect((await served.call("GET", "/v1/sys/health")).status).toBe(200);
  });
});
