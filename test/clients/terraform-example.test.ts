import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { cloneOfWorkingTree, freePort, LocalService, remove } from "../smoke/local-service.ts";
import { CHANGES, hasTerraform, missing, terraform } from "./terraform-program.ts";

/** The module of examples/terraform: its values for a trial, and a second team with a destination and an engine of clouds. */

const EXAMPLE = "examples/terraform";
/** Resources of providers that cannot be built here. */
const CURRENT = "examples/terraform-current";
if (missing !== null) console.warn(`The Terraform module is not applied: ${missing}.`);

const dirs: string[] = [];
afterAll(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

function copyOfExample(): string {
  const dir = mkdtempSync(join(tmpdir(), "sallyport-terraform-"));
  dirs.push(dir);
  cpSync(EXAMPLE, dir, { recursive: true });
  return dir;
}

/** Applies, plans without a difference, calls `check`, and destroys. */
async function cycle(env: Readonly<Record<string, string>>, values: string, check: () => Promise<void>): Promise<void> {
  const dir = copyOfExample();
  const run = async (...args: string[]) => {
    const { code, output } = await terraform(dir, env, ...args, `-var-file=${values}`);
    expect(code, output).not.toBe(CHANGES);
    expect(code, output).toBe(0);
    return output;
  };
  await run("apply", "-auto-approve");
  await run("plan", "-detailed-exitcode");
  await check();
  expect(await run("destroy", "-auto-approve")).toMatch(/Destroy complete! Resources: \d+ destroyed/);
}

async function read(address: string, token: string, path: string): Promise<{ status: number; body: string }> {
  const answer = await fetch(`${address}/v1/${path}`, { headers: { "X-Vault-Token": token } });
  return { status: answer.status, body: await answer.text() };
}

it.runIf(hasTerraform).each([EXAMPLE, CURRENT])("%s is well-formed", (folder) => {
  const { status, stdout, stderr } = spawnSync("terraform", ["fmt", "-check", "-diff", folder], { encoding: "utf8" });
  expect(status, stdout + stderr).toBe(0);
});

it(`the requests for each resource of ${CURRENT} are replayed by other tests`, () => {
  const replayed = ["terraform.quick", "terraform-cluster.quick"].map((name) =>
    readFileSync(`test/workers/${name}.test.ts`, "utf8"),
  );
  const used = [...readFileSync(`${CURRENT}/main.tf`, "utf8").matchAll(/^resource "(\w+)"/gm)].map(
    ([, type = ""]) => type,
  );
  expect(used).toHaveLength(8);
  // Destinations are in a table by the provider's word for their type.
  const words = used.map((type) => (type === "vault_secrets_sync_aws_destination" ? '"aws-sm"' : type));
  expect(words.filter((word) => !replayed.join("").includes(word))).toEqual([]);
});

it.runIf(missing === null)(
  "example.tfvars is applied, shows no difference, copies the secret, and is destroyed",
  async () => {
    const { address, token } = inject("service");
    const destination = "sys/sync/destinations/in-mem/trial";
    await cycle({ VAULT_ADDR: address, VAULT_TOKEN: token }, "example.tfvars", async () => {
      await expect
        .poll(async () => (await read(address, token, `${destination}/associations`)).body)
        .toContain('"sync_status":"SYNCED"');
    });
    for (const path of [destination, "sys/mounts/shop", "sys/policies/acl/shop-reader"])
      expect((await read(address, token, path)).status, path).toBeGreaterThanOrEqual(400);
  },
  300_000,
);

describe.runIf(missing === null)("with the stand-ins of the clouds", () => {
  let dir: string;
  let service: LocalService;
  beforeAll(async () => {
    dir = cloneOfWorkingTree();
    service = await new LocalService(dir, await freePort(), { PLAYGROUND: "1" }).ready();
  });
  afterAll(async () => {
    service.signal("SIGINT");
    await service.exit;
    remove(dir);
  });

  it("a destination of AWS and an engine of Azure are applied, show no difference, and are destroyed", async () => {
    const bodies = (await service.shell("cat $PROVIDERS/cloud-a-sm.json; echo; echo ---; cat $PROVIDERS/cloud-b.json"))
      .split("---")
      .map((text) => JSON.parse(text));
    const [aws, azure] = bodies;
    const role = {
      azure_roles: JSON.stringify([{ role_name: "Reader", scope: `/subscriptions/${azure.subscription_id}` }]),
    };
    const values = {
      team: "payments",
      secrets: { "app/database": JSON.stringify({ password: "p" }) },
      destinations: { live: { type: "aws-sm", settings: JSON.stringify(aws) } },
      associations: [{ destination: "live", secret: "app/database" }],
      azure,
      azure_roles: { reader: JSON.stringify({ ...role, ttl: "1h" }) },
    };
    const file = join(dir, "values.tfvars.json");
    writeFileSync(file, JSON.stringify(values));
    const env = { VAULT_ADDR: service.baseUrl, VAULT_TOKEN: service.token };
    await cycle(env, file, async () => {
      const objects = () => service.shell(". $PROVIDERS/providers.sh; curl -s $CLOUD_A/secrets");
      await expect.poll(objects).toContain("app/database");
      const { status, body } = await read(service.baseUrl, service.token, "payments-azure/creds/reader");
      expect(status, body).toBe(200);
      const { lease_id } = JSON.parse(body);
      const revoked = await fetch(`${service.baseUrl}/v1/sys/leases/revoke`, {
        method: "POST",
        headers: { "X-Vault-Token": service.token },
        body: JSON.stringify({ lease_id }),
      });
      expect(revoked.status).toBeLessThan(300);
    });
  }, 600_000);
});
