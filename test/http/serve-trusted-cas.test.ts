import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { builtWorker } from "../../scripts/runtime-server.ts";
import { S3Double } from "../doubles/s3.ts";
import { freePort } from "../smoke/local-service.ts";
import { AUTHORITY, FIRST, SIGNED } from "./certificates.ts";
import { Served } from "./served.ts";

/* `npm run serve` with servers whose certificate is of a private authority, on loopback. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-cas-"));
const file = (name: string, text: string): string => {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
};
const BOOTSTRAP_SECRET = "bootstrap-secret-of-the-tests";
const settings = {
  STATE_DIR: join(dir, "state"),
  TLS_CERT: file("cert.pem", FIRST.cert),
  TLS_KEY: file("key.pem", FIRST.key),
  MASTER_KEY: Buffer.from("serve-tests-use-this-master-key!").toString("base64"),
  BOOTSTRAP_SECRET,
  BACKUP_EVERY: "1s",
};
const TRUSTED_CAS = file("authorities.pem", AUTHORITY);

const jwk = { ...generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" }), kid: "1" };
const issuer = createServer(SIGNED, (_request, response) => {
  response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ keys: [jwk] }));
});
let issuerPort = 0;
let s3: S3Double;
let served: Served;
let token = "";

const start = async (more: Record<string, string>): Promise<void> => {
  served = new Served(await freePort(), { ...settings, PRIVATE_HOSTS: `127.0.0.1:${issuerPort}`, ...more });
  await served.ready();
};
const configure = () =>
  served.call("POST", "/v1/auth/jwt/config", token, { jwks_url: `https://127.0.0.1:${issuerPort}/keys` });

beforeAll(async () => {
  issuer.listen(0, "127.0.0.1");
  await once(issuer, "listening");
  issuerPort = (issuer.address() as AddressInfo).port;
  s3 = await S3Double.start(SIGNED);
});
afterEach(async () => {
  served.kill();
  await served.gone();
});
afterAll(() => {
  issuer.closeAllConnections();
  issuer.close();
  s3.stop();
  rmSync(dir, { recursive: true, force: true });
});

describe("npm run serve", { timeout: 300_000 }, () => {
  it("trusts the authorities in TRUSTED_CAS", async () => {
    await start({ TRUSTED_CAS });
    token = await served.bootstrap(BOOTSTRAP_SECRET);
    await served.json("POST", "/v1/sys/auth/jwt", token, { type: "jwt" });
    expect(await configure()).toEqual({ status: 204, text: "" });
    const { PUBLIC_NETWORK } = builtWorker(join(settings.STATE_DIR, "runtime"), {}, [AUTHORITY]).serviceBindings;
    expect(PUBLIC_NETWORK.network).toEqual({
      allow: ["public"],
      tlsOptions: { trustBrowserCas: true, trustedCertificates: [AUTHORITY] },
    });
  });

  it("trusts no private authority without it, and the public ones of Node.js where the system has no store", async () => {
    const none = join(dir, "none");
    await start({ ...s3.settings, BACKUP_TOKEN: token, SSL_CERT_FILE: none, SSL_CERT_DIR: none });
    expect(served.events("no_system_authorities")).toMatchObject([
      { level: "warn", message: expect.stringContaining("ca-certificates") },
    ]);
    expect(readFileSync(join(settings.STATE_DIR, "trusted-cas.pem"), "utf8").split("-----END ")).toHaveLength(
      rootCertificates.length + 1,
    );
    expect(await configure()).toMatchObject({ status: 400, text: expect.stringContaining("jwks_url") });
    await expect.poll(() => served.events("backup_failed")[0]).toMatchObject({ message: expect.any(String) });
    expect(s3.requests).toEqual([]);
  });

  it("trusts them in backups to a bucket", async () => {
    await start({ TRUSTED_CAS, ...s3.settings, BACKUP_TOKEN: token });
    await expect.poll(() => served.events("backup_taken").length).toBeGreaterThan(0);
    expect(s3.objects.size).toBeGreaterThan(0);
  });

  it("does not start with a file that is missing or has no certificate", async () => {
    for (const [path, says] of [
      [join(dir, "none.pem"), "cannot be read: ENOENT"],
      [file("text.pem", "no certificate"), "has no certificate in PEM format"],
      [file("leaf.pem", SIGNED.cert), "certificate 1 is not that of an authority"],
    ] as const) {
      served = new Served(await freePort(), { ...settings, TRUSTED_CAS: path });
      expect(await served.exit).toBe(1);
      expect(served.events("start_failed")).toMatchObject([{ message: expect.stringContaining(says) }]);
    }
  });
});
