import { expect, it, vi } from "vitest";
import { mountAws, openAwsAccount } from "./aws-helpers.ts";
import { del, get, put } from "./client.ts";
import { clock } from "./clock.ts";
import { succeeded } from "./engine-helpers.ts";

clock.moves = true;

/** Leases of users: only `config/lease` and the mount decide on their TTLs. */

const renew = (lease_id: string) => put("/v1/sys/leases/renew", { lease_id });

it.each([
  ["deleted", () => del("/v1/aws/roles/user")],
  [
    "one of sessions with a shorter life",
    () => put("/v1/aws/roles/user", { credential_type: "assumed_role", default_sts_ttl: 900, max_sts_ttl: 900 }),
  ],
])("renews the lease of a user whose role is %s by now", async (_what, change) => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  try {
    await mountAws(await openAwsAccount());
    succeeded(await put("/v1/aws/config/lease", { lease: "1h", lease_max: "24h" }));
    succeeded(await put("/v1/aws/roles/user", { credential_type: "iam_user" }));
    const { lease_id } = succeeded(await get("/v1/aws/creds/user")).body;
    succeeded(await change());
    vi.setSystemTime(Date.now() + 1_800_000);
    const renewed = succeeded(await renew(lease_id)).body;
    expect(renewed).toMatchObject({ lease_duration: 3_600, renewable: true, warnings: null });
  } finally {
    vi.useRealTimers();
  }
});
