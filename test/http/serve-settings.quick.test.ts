import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { jsonLine } from "../../scripts/json-lines.ts";
import { SECRET_SETTINGS, SERVE_SETTINGS, serveEnvironment, serveSettings } from "../../scripts/serve-settings.ts";
import { WORKER_SETTINGS } from "../../scripts/settings.ts";
import { AUTHORITY, FIRST, SIGNED } from "./certificates.ts";

const dir = mkdtempSync(join(tmpdir(), "sallyport-settings-"));
afterAll(() => rmSync(dir, { recursive: true }));

function file(name: string, text: string, mode = 0o600): string {
  const path = join(dir, name);
  writeFileSync(path, text, { mode });
  chmodSync(path, mode);
  return path;
}

const NEEDED = { MASTER_KEY: "k", STATE_DIR: "/var/lib/sallyport" };
const S3 = {
  BACKUP_TOKEN: "t",
  BACKUP_S3_BUCKET: "backups",
  BACKUP_S3_ACCESS_KEY_ID: "id",
  BACKUP_S3_SECRET_ACCESS_KEY: "secret",
};
const tls = () => ({ TLS_CERT: file("cert.pem", FIRST.cert), TLS_KEY: file("key.pem", FIRST.key) });

describe("the settings of npm run serve", () => {
  it("have defaults for one machine on loopback", () => {
    expect(serveSettings(NEEDED)).toEqual({
      host: "127.0.0.1",
      port: 8787,
      stateDir: "/var/lib/sallyport",
      tls: undefined,
      trustedProxies: [],
      trustedCas: [],
      backup: undefined,
      drainMs: 20_000,
    });
  });

  it("take the state directory of a systemd unit", () => {
    expect(serveSettings({ MASTER_KEY: "k", STATE_DIRECTORY: "/var/lib/x" }).stateDir).toBe("/var/lib/x");
  });

  it("are refused by name", () => {
    const rows: readonly [settings: Record<string, string>, says: string | RegExp][] = [
      [{ STATE_DIR: "x", MASTER_KEY: "" }, "MASTER_KEY is required"],
      [{ STATE_DIR: "" }, "STATE_DIR is required"],
      [{ DEV_ROOT_TOKEN: "root" }, "DEV_ROOT_TOKEN is for npm start"],
      [{ PLAYGROUND: "1" }, "PLAYGROUND is for npm start"],
      [{ PORT: "0" }, "PORT must be a number"],
      [{ HOST: "example.com" }, "HOST must be an address"],
      [{ HOST: "0.0.0.0" }, "HOST 0.0.0.0 would take tokens unencrypted"],
      [{ HOST: "::" }, "HOST :: would take tokens unencrypted"],
      [{ TLS_CERT: "/x" }, "TLS_CERT and TLS_KEY are needed together"],
      [{ TLS_CERT: join(dir, "none"), TLS_KEY: join(dir, "none") }, /TLS_CERT .* cannot be read/],
      [{ TRUSTED_PROXIES: "10.0.0.0/8, proxy" }, 'TRUSTED_PROXIES: "proxy" is not an address'],
      [{ TRUSTED_CAS: join(dir, "none") }, /TRUSTED_CAS .* cannot be read/],
      [{ TRUSTED_CAS: file("text.pem", "no certificate") }, "has no certificate in PEM format"],
      [{ TRUSTED_CAS: file("leaf.pem", `${AUTHORITY}\n${SIGNED.cert}`) }, "certificate 2 is not that of an authority"],
      [{ TRUSTED_CAS: file("cut.pem", AUTHORITY.replace(/.{99}(?=\n---)/s, "")) }, "certificate 1 is not that of an"],
      [
        { TRUSTED_CAS: file("half.pem", `${AUTHORITY}\n${AUTHORITY.slice(0, 200)}`) },
        "has a certificate without an end",
      ],
      [{ TRUSTED_CAS: file("with-key.pem", `${AUTHORITY}\n${SIGNED.key}`) }, "has a private key"],
      [{ TRUSTED_CAS: file("ca.pem", AUTHORITY), NODE_EXTRA_CA_CERTS: "/x" }, "are both set: remove one"],
      [{ BACKUP_DIR: "/b" }, "BACKUP_TOKEN and one of BACKUP_DIR and BACKUP_S3_BUCKET are needed"],
      [{ BACKUP_TOKEN: "t" }, "BACKUP_TOKEN and one of BACKUP_DIR and BACKUP_S3_BUCKET are needed"],
      [{ ...S3, BACKUP_DIR: "/b" }, "BACKUP_DIR and BACKUP_S3_BUCKET are both set"],
      [{ ...S3, BACKUP_S3_BUCKET: "" }, "BACKUP_S3_BUCKET must be a bucket's name"],
      [{ ...S3, BACKUP_S3_BUCKET: "a/b" }, "BACKUP_S3_BUCKET must be a bucket's name"],
      [{ ...S3, BACKUP_S3_REGION: "a b" }, "BACKUP_S3_REGION must be a region"],
      [{ ...S3, BACKUP_S3_PREFIX: "/a" }, "BACKUP_S3_PREFIX must be folders"],
      [{ ...S3, BACKUP_S3_PREFIX: "a/../b" }, "BACKUP_S3_PREFIX must be folders"],
      [{ ...S3, BACKUP_S3_ACCESS_KEY_ID: "" }, "BACKUP_S3_ACCESS_KEY_ID and BACKUP_S3_SECRET_ACCESS_KEY are needed"],
      [{ ...S3, BACKUP_S3_ENDPOINT: "http://s3.example.com" }, "BACKUP_S3_ENDPOINT must be https"],
      [{ ...S3, BACKUP_S3_ENDPOINT: "https://s3.example.com/x" }, "BACKUP_S3_ENDPOINT must be https"],
      [{ ...S3, BACKUP_S3_ENDPOINT: "https://a:b@s3.example.com" }, "BACKUP_S3_ENDPOINT must be https"],
      [{ BACKUP_DIR: "/b", BACKUP_TOKEN: "t", BACKUP_KEEP: "0" }, "BACKUP_KEEP must be a number"],
      [{ BACKUP_DIR: "/b", BACKUP_TOKEN: "t", BACKUP_EVERY: "1" }, "BACKUP_EVERY must be a duration"],
      [{ STOP_TIMEOUT: "0s" }, "STOP_TIMEOUT must be a duration"],
      [{ STOP_TIMEOUT: "25d" }, "STOP_TIMEOUT must be at most 24d"],
      [{ STOP_TIMEOUT: "999999h" }, "STOP_TIMEOUT must be at most 24d"],
    ];
    for (const [settings, says] of rows)
      expect(() => serveSettings({ ...NEEDED, ...settings }), JSON.stringify(settings)).toThrow(says);
  });

  it("allow addresses beyond loopback with TLS, or behind a proxy that ends it", () => {
    expect(serveSettings({ ...NEEDED, HOST: "0.0.0.0", ...tls() }).tls).toEqual({
      cert: join(dir, "cert.pem"),
      key: join(dir, "key.pem"),
    });
    expect(serveSettings({ ...NEEDED, HOST: "::", TRUSTED_PROXIES: "10.0.0.0/8" }).trustedProxies).toEqual([
      "10.0.0.0/8",
    ]);
  });

  it("take the certificates of own authorities", () => {
    const TRUSTED_CAS = file("two.pem", `a comment\n${AUTHORITY}\n\n${FIRST.cert}\n`);
    expect(serveSettings({ ...NEEDED, TRUSTED_CAS }).trustedCas).toEqual([AUTHORITY, FIRST.cert]);
  });

  it("of a backup have a day and a week as defaults", () => {
    expect(serveSettings({ ...NEEDED, BACKUP_DIR: "/b", BACKUP_TOKEN: "t" }).backup).toEqual({
      to: "/b",
      token: "t",
      keep: 7,
      everyMs: 86_400_000,
    });
    expect(serveSettings({ ...NEEDED, ...S3, BACKUP_S3_PREFIX: "a/b" }).backup?.to).toEqual({
      endpoint: "https://s3.us-east-1.amazonaws.com",
      region: "us-east-1",
      bucket: "backups",
      prefix: "a/b/",
      accessKeyId: "id",
      secretAccessKey: "secret",
    });
  });
});

describe("docs/operate/self-hosted.md", () => {
  const page = readFileSync("docs/operate/self-hosted.md", "utf8");
  const [, section = ""] = /^## Settings\n(.*?)^## /ms.exec(page) ?? [];

  it("lists exactly the settings that are read, with their defaults", () => {
    const named = [...section.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, names = ""]) =>
      [...names.matchAll(/`([A-Z0-9_]+)`/g)].map(([, name]) => name),
    );
    expect(named.sort()).toEqual([...SERVE_SETTINGS, "MASTER_KEY", "BOOTSTRAP_SECRET"].sort());
    const backup = serveSettings({ ...NEEDED, BACKUP_DIR: "/b", BACKUP_TOKEN: "t" }).backup;
    expect(section).toContain(`| \`BACKUP_KEEP\` | ${backup?.keep} |`);
    expect(section).toContain(`| \`PORT\` | ${serveSettings(NEEDED).port} |`);
  });

  it("sets only known settings in its examples, its unit and its container file", () => {
    const unit = readFileSync("deploy/sallyport.service", "utf8");
    // Arguments of the build are not settings.
    const container = readFileSync("deploy/Containerfile", "utf8").replaceAll(/^ARG .*$/gm, "");
    const set = [
      ...page.matchAll(/^([A-Z0-9_]+)=/gm),
      ...unit.matchAll(/^Environment=([A-Z_]+)=/gm),
      ...container.matchAll(/(?:^ENV| )([A-Z_]+)=/gm),
    ].map(([, name]) => name);
    expect(set).toEqual(expect.arrayContaining(["TLS_CERT", "MASTER_KEY_FILE", "HOST"]));
    const known = [...SERVE_SETTINGS, ...WORKER_SETTINGS];
    expect(set.filter((name) => !known.includes(name ?? ""))).toEqual([]);
    for (const file of [unit, container])
      for (const [path] of file.matchAll(/\b(?:scripts|deploy)\/[\w-]+\.(?:ts|mjs)/g))
        expect(existsSync(path), path).toBe(true);
  });

  it("gives requests less time to end than systemd gives the service", () => {
    const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(readFileSync("deploy/sallyport.service", "utf8")) ?? [];
    expect(serveSettings(NEEDED).drainMs / 1000).toBeLessThan(Number(seconds) / 2);
  });
});

describe("the file of the settings", () => {
  it("completes the environment, which wins", () => {
    const CONFIG = file("one.env", "PORT=1\nSTATE_DIR=/from-file\nEMPTY=\n");
    expect(serveEnvironment({ CONFIG, PORT: "2", STATE_DIR: "" })).toMatchObject({
      PORT: "2",
      STATE_DIR: "/from-file",
    });
  });

  it("may name files of secrets, in any of the two", () => {
    const CONFIG = file("two.env", `MASTER_KEY_FILE=${file("key", "from-file\n")}\n`);
    const BOOTSTRAP_SECRET_FILE = file("bootstrap", "once");
    expect(serveEnvironment({ CONFIG, BOOTSTRAP_SECRET_FILE })).toMatchObject({
      MASTER_KEY: "from-file",
      BOOTSTRAP_SECRET: "once",
    });
    expect(() => serveEnvironment({ CONFIG, MASTER_KEY: "k" })).toThrow("MASTER_KEY and MASTER_KEY_FILE are both set");
    expect(() => serveEnvironment({ MASTER_KEY_FILE: join(dir, "none") })).toThrow(/MASTER_KEY_FILE .* cannot be read/);
  });

  it("is refused when others may read secrets in it", () => {
    // Paths, addresses and ids beside a secret are none; DEV_ROOT_TOKEN is for npm start.
    const named = [...SERVE_SETTINGS, ...WORKER_SETTINGS].filter(
      (name) => /SECRET|TOKEN|KEY|HEADERS|PASSWORD/.test(name) && !/_(FILE|URL|ID)$|^TLS_KEY$|^DEV_ROOT/.test(name),
    );
    expect(named.filter((name) => name !== "ACL_TOKEN_SECRETS").sort()).toEqual([...SECRET_SETTINGS].sort());
    for (const name of SECRET_SETTINGS)
      expect(() => serveEnvironment({ CONFIG: file(`${name}.env`, `${name}=a=b\n`, 0o644) }), name).toThrow(
        "is open to every user",
      );
    expect(serveEnvironment({ CONFIG: file("group.env", "MASTER_KEY=k\n", 0o640) })).toMatchObject({ MASTER_KEY: "k" });
    expect(serveEnvironment({ CONFIG: file("plain.env", "PORT=1\n", 0o644) })).toMatchObject({ PORT: "1" });
  });
});

describe("a line of the log", () => {
  const at = new Date("2026-11-25T10:00:00Z");
  const line = (text: string) => JSON.parse(jsonLine("warn", text, "runtime", at));

  it("keeps the fields of the Worker's line, and its time", () => {
    expect(line('{"level":"audit","kind":"answer"}')).toEqual({
      time: "2026-11-25T10:00:00.000Z",
      level: "audit",
      kind: "answer",
    });
    expect(line('{"time":"2026-01-01T00:00:00Z"}').time).toBe("2026-01-01T00:00:00Z");
  });

  it("is one line for any text", () => {
    for (const text of ["two\nlines\n", "{broken", '"text"', "[1]", ""]) {
      expect(jsonLine("warn", text, "runtime", at)).toMatch(/^[^\n]+\n$/);
      expect(line(text)).toMatchObject({ level: "warn", event: "runtime", message: text.trimEnd() });
    }
  });
});
