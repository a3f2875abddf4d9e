import vault from "node-vault";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Account, type KvV2Double, startKvV2 } from "./server.ts";

// A client of others reads the double's answers, so they are not only our own misreading of the protocol.

let double: KvV2Double;
let account: Account;
let client: ReturnType<typeof vault>;

beforeAll(async () => {
  double = await startKvV2();
  account = double.open();
  client = clientWith(account.token);
});
afterAll(() => double.close());

const clientWith = (token: string) =>
  vault({ endpoint: double.url, token, requestOptions: { headers: { "X-Vault-Request": "true" } } });

it("writes, reads, deletes and reads the metadata of a secret", async () => {
  const path = `${account.mount}/data/app/db`;
  const write = (cas: number, data: object) => client.write(path, { options: { cas }, data });
  expect((await write(0, { a: "1" })).data).toMatchObject({ version: 1, destroyed: false });
  expect((await client.read(path)).data).toMatchObject({ data: { a: "1" }, metadata: { version: 1 } });
  await expect(write(0, { a: "2" })).rejects.toThrow("did not match the current version");
  await client.delete(path);
  await expect(client.read(path)).rejects.toMatchObject({ response: { statusCode: 404 } });
  // Versions count on after a deletion.
  expect((await write(1, { a: "2" })).data).toMatchObject({ version: 2 });
  expect((await client.read(`${account.mount}/metadata/app/db`)).data).toMatchObject({ current_version: 2 });
});

it("reads health, logs in by a JWT and is refused with a wrong token", async () => {
  expect(await client.health()).toMatchObject({ cluster_id: double.clusterId, sealed: false });
  const login = await client.write("auth/jwt/login", { role: "sync", jwt: account.jwt });
  expect(login.auth).toMatchObject({ client_token: expect.any(String), lease_duration: 3600 });
  await expect(clientWith("hvs.wrong").read(`${account.mount}/data/app/db`)).rejects.toMatchObject({
    response: { statusCode: 403 },
  });
});
