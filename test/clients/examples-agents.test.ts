import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { ExampleNamespace, run } from "./examples.ts";
import { goProgram } from "./go-program.ts";

/** consul-template, and the agents of Vault and OpenBao, whose templates are those of consul-template. */

const consulTemplate = goProgram("consul-template", "consul-template", "github.com/hashicorp/consul-template");
if (consulTemplate.missing !== null) console.warn(`consul-template is not tried: ${consulTemplate.missing}.`);

const dir = mkdtempSync(join(tmpdir(), "sallyport-agents-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Logs in with the files that setup.sh writes, as the agents do, and checks and renews the token. */
async function tokenOf(place: ExampleNamespace, folder: string): Promise<string> {
  const config = readFileSync("examples/vault-agent/agent.hcl", "utf8");
  const value = (name: string) => new RegExp(`${name} += "(.+)"`).exec(config)?.[1] ?? "";
  const read = (name: string) => readFileSync(join(folder, value(name)), "utf8");
  const body = { role_id: read("role_id_file_path"), secret_id: read("secret_id_file_path") };
  const login = await place.call("PUT", `${value("mount_path")}/login`, null, body);
  expect(login.status, JSON.stringify(login.body)).toBe(200);
  const { client_token: token, renewable } = login.body.auth;
  expect(renewable).toBe(true);
  expect((await place.call("GET", "auth/token/lookup-self", token)).status).toBe(200);
  expect((await place.call("PUT", "auth/token/renew-self", token, { increment: 0 })).status).toBe(200);
  return token;
}

it("the requests of an agent log in by AppRole, renew the token, and read what the template reads", async () => {
  const place = await ExampleNamespace.create("vault-agent");
  await place.setUp("vault-agent", {}, dir);
  const token = await tokenOf(place, dir);
  const template = readFileSync("examples/consul-template/app.env.ctmpl", "utf8");
  const [, path = ""] = /secret "([^"]+)"/.exec(template) ?? [];
  const { status, body } = await place.call("GET", path, token);
  expect([status, Object.keys(body.data.data).sort()]).toEqual([200, ["password", "username"]]);
  expect((await place.call("GET", "secret/metadata/app/database", token)).status).toBe(403);
});

it.runIf(consulTemplate.missing === null)(
  "consul-template writes the file, and writes it again after the secret has changed",
  async () => {
    const place = await ExampleNamespace.create("consul-template");
    const folder = join(dir, "consul-template");
    cpSync("examples/consul-template", folder, { recursive: true });
    await place.setUp("vault-agent", {}, folder);
    const env = { ...place.env, VAULT_TOKEN: await tokenOf(place, folder) };
    const first = await run(consulTemplate.path, ["-config=config.hcl", "-once"], env, folder);
    expect(first.code, first.output).toBe(0);
    const file = join(folder, "app.env");
    expect(readFileSync(file, "utf8")).toBe("DATABASE_USERNAME=app\nDATABASE_PASSWORD=first\n");
    rmSync(file);
    const child = spawn(consulTemplate.path, ["-config=config.hcl"], {
      cwd: folder,
      stdio: "ignore",
      env: { PATH: process.env["PATH"], HOME: folder, ...env },
    });
    // Written by the running program from the first version, before the secret changes.
    await expect.poll(() => existsSync(file), { timeout: 60_000 }).toBe(true);
    const data = { username: "app", password: "second" };
    expect((await place.call("POST", "secret/data/app/database", place.token, { data })).status).toBe(200);
    await expect.poll(() => readFileSync(file, "utf8"), { timeout: 240_000 }).toContain("DATABASE_PASSWORD=second");
    // It ends by SIGINT; SIGTERM is passed on to a program that it runs.
    child.kill("SIGINT");
    await once(child, "close");
  },
  300_000,
);
