import { expect, it } from "vitest";
import { clock } from "./clock.ts";
import {
  byItself,
  creds,
  dynamicRole,
  lookup,
  mountEngine,
  openTenant,
  succeeded,
  writeRole,
} from "./engine-helpers.ts";

clock.moves = true;

it("revokes expired leases under a constant load of requests for credentials", async () => {
  const tenant = await openTenant();
  const uuid = await mountEngine(tenant);
  await writeRole("web", dynamicRole(tenant, { ttl: 10 }));
  const { lease_id: lease } = (await creds("web")).body;
  const issuedAndRevoked = async () => {
    succeeded(await creds("web"));
    expect((await lookup(lease)).status).toBe(400);
  };
  await byItself(uuid, issuedAndRevoked, 1_000, 11_000);
});
