import { expect, it } from "vitest";
import { clock } from "./clock.ts";
import { byItself, creds, lookup, succeeded } from "./engine-helpers.ts";
import { openEngineWithRole, uuid } from "./engine-world.ts";

clock.moves = true;

it("revokes expired leases under a constant load of requests for credentials", async () => {
  await openEngineWithRole({ ttl: 10 });
  const { lease_id: lease } = (await creds("web")).body;
  const issuedAndRevoked = async () => {
    succeeded(await creds("web"));
    expect((await lookup(lease)).status).toBe(400);
  };
  await byItself(uuid, issuedAndRevoked, 1_000, 11_000);
});
