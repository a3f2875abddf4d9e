import { beforeEach, describe, expect, it } from "vitest";
import type { Everything } from "../doubles/cloud-b-azure-types.ts";
import { clock } from "./clock.ts";
import {
  creds,
  dynamicRole,
  lookup,
  mountEngine,
  openTenant,
  revoke,
  type Tenant,
  writeRole,
} from "./engine-helpers.ts";

clock.moves = true;

let tenant: Tenant;
let fresh: Everything;
beforeEach(async () => {
  tenant = await openTenant();
  fresh = await tenant.everything();
  await mountEngine(tenant);
});

describe("credentials of a principal of their own", () => {
  it("come with a lease and its rights, and go without a trace", async () => {
    await writeRole("web", dynamicRole(tenant, { ttl: "1h", tags: "b,a" }));
    const issued = await creds("web");
    expect(issued.status, issued.text).toBe(200);
    expect(issued.body).toMatchObject({
      lease_id: expect.stringMatching(/^cloud-b\/creds\/web\/[0-9A-Za-z]{24}$/),
      renewable: true,
      lease_duration: 3600,
      data: { client_id: expect.any(String), client_secret: expect.any(String) },
      mount_type: "cloud-b",
      warnings: null,
    });
    const made = await tenant.everything();
    const application = made.applications.find(({ appId }) => appId === issued.body.data.client_id);
    expect(application).toMatchObject({
      displayName: expect.stringMatching(/^vault-[0-9a-f-]{36}$/),
      tags: ["a", "b"],
    });
    expect(made.assignments).toHaveLength(fresh.assignments.length + 1);
    expect(made.memberships).toHaveLength(1);
    expect((await lookup(issued.body.lease_id)).body.data).toMatchObject({ id: issued.body.lease_id, renewable: true });
    const revoked = await revoke(issued.body.lease_id);
    expect(revoked.status, revoked.text).toBe(204);
    expect(await tenant.everything()).toEqual(fresh);
    expect((await lookup(issued.body.lease_id)).body.errors).toEqual(["invalid lease"]);
  });
});
