import { env, exports } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { get, lines, mountKv, put } from "./client.ts";

it("pushes a secret written over HTTP to a destination, and streams the event of the policy that allowed it", async () => {
  const { accessor } = await mountKv();
  await put("/v1/sys/policies/acl/app", {
    policy: 'path "kv/data/app/*" { capabilities = ["create","update","read"] }',
  });
  const created = await put("/v1/auth/token/create", { policies: ["app"] });
  const token = created.body.auth.client_token;

  const written = await put("/v1/kv/data/app/db", { data: { password: "canary-1" } }, { token });
  expect(written.status).toBe(200);
  expect(written.body.data.version).toBe(1);
  const read = await get("/v1/kv/data/app/db", { token });
  expect(read.body.data.data).toEqual({ password: "canary-1" });

  for (const type of ["in-mem", "cloud-a-sm"]) {
    const body =
      type === "in-mem"
        ? {}
        : {
            access_key_id: env.TEST_CLOUD_A.accessKeyId,
            secret_access_key: env.TEST_CLOUD_A.secretAccessKey,
            region: "eu-west-1",
          };
    expect((await put(`/v1/sys/sync/destinations/${type}/d`, body)).status).toBe(200);
    const set = await put(`/v1/sys/sync/destinations/${type}/d/associations/set`, {
      mount: "kv",
      secret_name: "app/db",
    });
    expect(set.status).toBe(200);
    expect(set.body.data.associated_secrets[`${accessor}/app/db`]).toMatchObject({
      sync_status: "SYNCED",
      external_name: `vault/${accessor}/app/db`,
    });
  }
  const objects = await get("/sys/sync/destinations/in-mem/d/objects");
  expect(objects.body.data.objects[`vault/${accessor}/app/db`].value).toBe('{"password":"canary-1"}');

  await put("/v1/kv/data/app/db", { data: { password: "canary-2" } }, { token });
  await vi.waitFor(async () => {
    const secrets = (await (await fetch(`${env.TEST_CLOUD_A.url}/_double/secrets`)).json()) as {
      name: string;
      value: string;
    }[];
    expect(secrets.find((secret) => secret.name === `vault/${accessor}/app/db`)?.value).toBe('{"password":"canary-2"}');
  });

  const stream = await exports.default.fetch("https://x/v1/event/stream?topic=ACLPolicy", {
    headers: { "X-Orch-Token": "root" },
  });
  const first = await lines(stream.body).next();
  expect(first.value).toMatchObject({
    Index: 1,
    Events: [{ Topic: "ACLPolicy", Type: "ACLPolicyUpserted", Key: "app", Index: 1 }],
  });
  await stream.body?.cancel().catch(() => undefined);
});
