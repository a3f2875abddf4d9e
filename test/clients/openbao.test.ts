import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it, vi } from "vitest";
import { freePort } from "../smoke/local-service.ts";
import { bao } from "./command-lines/programs.ts";

/* OpenBao's own server as a destination of the type `kv-v2`, by a token with the rights that our page names. */

const program = bao();
if (program.missing !== null) console.warn(`OpenBao is not tried as a destination: ${program.missing}.`);

/** The rights of the page, for the mount `copies`. */
const POLICY = `
path "copies/data/*" { capabilities = ["create", "update", "read", "delete"] }
path "copies/metadata/*" { capabilities = ["create", "update", "patch", "read", "delete"] }`;

describe.runIf(program.missing === null)("OpenBao as a destination", { timeout: 300_000 }, () => {
  const service = inject("service");
  const dir = mkdtempSync(join(tmpdir(), "sallyport-openbao-"));
  let server: ChildProcess;
  let address = "";

  async function call(base: string, token: string, method: string, path: string, body?: object) {
    const answer = await fetch(`${base}/v1/${path}`, {
      method,
      headers: { "X-Vault-Token": token },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    expect([200, 204, 404], `${method} ${path}: ${text}`).toContain(answer.status);
    return text === "" ? null : JSON.parse(text);
  }
  const there = (method: string, path: string, body?: object) => call(address, "root", method, path, body);
  const ours = (method: string, path: string, body?: object) =>
    call(service.address, service.token, method, path, body);
  const value = async (name: string) => (await there("GET", `copies/data/${name}`)).data?.data ?? null;

  beforeAll(async () => {
    const listen = `127.0.0.1:${await freePort()}`;
    const args = ["server", "-dev", "-dev-root-token-id=root", "-dev-no-store-token", `-dev-listen-address=${listen}`];
    server = spawn(program.path, args, { cwd: dir, stdio: "ignore", env: { HOME: dir } });
    address = `http://${listen}`;
    await vi.waitFor(() => there("POST", "sys/mounts/copies", { type: "kv", options: { version: "2" } }), {
      timeout: 60_000,
      interval: 200,
    });
    await there("POST", "sys/policies/acl/sync", { policy: POLICY });
    await ours("POST", "sys/mounts/openbao", { type: "kv", options: { version: "2" } });
  }, 300_000);

  afterAll(() => {
    server?.kill("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  });

  it.each(["metadata", "version"])(
    "takes, changes, compares and removes secrets, with delete_mode %s",
    async (mode) => {
      const { auth } = await there("POST", "auth/token/create", { policies: ["sync"] });
      const at = `sys/sync/destinations/kv-v2/${mode}`;
      await ours("POST", at, {
        address,
        mount: "copies",
        token: auth.client_token,
        delete_mode: mode,
        secret_name_template: `${mode}/{{ .SecretPath }}`,
        update_policy: "owned-only",
        custom_tags: { team: "web" },
      });
      expect((await ours("POST", `${at}/verify`)).data).toEqual({ ok: true, message: expect.any(String) });
      await there("POST", `copies/data/${mode}/theirs`, { data: { a: 1 } });
      for (const name of ["db", "theirs"]) {
        await ours("PUT", `openbao/data/${name}`, { data: { user: "ann", n: 3, o: { x: ["ä"] } } });
        await ours("POST", `${at}/associations/set`, { mount: "openbao", secret_name: name });
      }
      await expect.poll(() => value(`${mode}/db`)).toEqual({ user: "ann", n: 3, o: { x: ["ä"] } });
      await ours("PUT", "openbao/data/db", { data: { user: "bob" } });
      await expect.poll(() => value(`${mode}/db`)).toEqual({ user: "bob" });
      expect(await value(`${mode}/theirs`)).toEqual({ a: 1 });
      const { data } = await there("GET", `copies/metadata/${mode}/db`);
      expect(data.custom_metadata).toMatchObject({ managed_by: "sallyport", team: "web" });
      const stateOf = async () => JSON.stringify((await ours("GET", `${at}/drift`)).data.objects);
      await expect.poll(stateOf).toContain("in_sync");
      await there("POST", `copies/data/${mode}/db`, { data: { user: "other" } });
      await expect.poll(stateOf).toContain("changed");
      await ours("PUT", "openbao/data/db", { data: { user: "carl" } });
      await expect.poll(() => value(`${mode}/db`)).toEqual({ user: "carl" });
      await ours("POST", `${at}/associations/remove`, { mount: "openbao", secret_name: "db" });
      await expect.poll(() => value(`${mode}/db`)).toBe(null);
      await ours("POST", `${at}/associations/set`, { mount: "openbao", secret_name: "db" });
      await expect.poll(() => value(`${mode}/db`)).toEqual({ user: "carl" });
      await ours("DELETE", `${at}?purge=true`);
      await expect.poll(() => value(`${mode}/db`)).toBe(null);
      expect(await value(`${mode}/theirs`)).toEqual({ a: 1 });
    },
  );

  it("marks secrets of a mount that takes metadata by check-and-set only", async () => {
    await there("POST", "copies/config", { metadata_cas_required: true });
    const { auth } = await there("POST", "auth/token/create", { policies: ["sync"] });
    const at = "sys/sync/destinations/kv-v2/required";
    const template = "required/{{ .SecretPath }}";
    await ours("POST", at, { address, mount: "copies", token: auth.client_token, secret_name_template: template });
    await there("POST", "copies/data/required/theirs", { data: { a: 1 } });
    for (const name of ["fresh", "theirs"]) {
      await ours("PUT", `openbao/data/${name}`, { data: { user: "ann" } });
      await ours("POST", `${at}/associations/set`, { mount: "openbao", secret_name: name });
      await expect.poll(() => value(`required/${name}`)).toEqual({ user: "ann" });
      const marker = async () => (await there("GET", `copies/metadata/required/${name}`)).data.custom_metadata;
      await expect.poll(marker).toMatchObject({ managed_by: "sallyport" });
    }
    await there("POST", "copies/config", { metadata_cas_required: false });
  });
});
