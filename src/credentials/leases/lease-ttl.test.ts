import { describe, expect, it } from "vitest";
import { leaseTtlOf, passwordLife, renewed } from "./lease-ttl.ts";

const MAX = 2_764_800;
const role = (ttl = 0, max_ttl = 0, explicit_max_ttl = 0) => ({ ttl, max_ttl, explicit_max_ttl });
const mount = (default_lease_ttl = 0, max_lease_ttl = 0) => ({ default_lease_ttl, max_lease_ttl });

describe("the TTL and maximum TTL of a lease", () => {
  it.each([
    [role(), mount(), MAX, MAX, 0],
    [role(20, 30), mount(), 20, 30, 0],
    [role(20, 0, 60), mount(), 20, 60, 0],
    [role(20, 30, 60), mount(), 20, 30, 0],
    [role(0, 0, 10), mount(), 10, 10, 1],
    [role(), mount(600, 3_600), 600, 3_600, 0],
    [role(7_200), mount(600, 3_600), 3_600, 3_600, 1],
    [role(0, 5 * MAX), mount(), MAX, MAX, 0],
    [role(0, 2 * MAX), mount(0, 3 * MAX), MAX, 2 * MAX, 0],
  ])("of %j on a mount with %j are %i and %i seconds", (ttls, of, ttl, maxTtl, warnings) => {
    expect(leaseTtlOf(ttls, of)).toMatchObject({ ttl, maxTtl });
    expect(leaseTtlOf(ttls, of).warnings).toHaveLength(warnings);
  });

  it("end an hour before the password, or with it when the role sets explicit_max_ttl", () => {
    for (const ttls of [role(), role(20, 30), role(20, 30, 0)]) {
      expect(passwordLife(ttls, mount())).toBe(leaseTtlOf(ttls, mount()).maxTtl + 3_600);
    }
    expect(passwordLife(role(0, 0, 10), mount())).toBe(10);
  });
});

describe("renewing a lease", () => {
  const lease = { issued: 0, expires: 100_000, keyEnds: 1_000_000 };
  const at = (now: number, ttls = role(100, 300), increment = 0, of = lease) =>
    renewed(of, ttls, mount(), increment, now);

  it("extends the lease from now by the role's TTL or the increment", () => {
    expect(at(50_000)).toMatchObject({ ok: true, value: { expires: 150_000, renewable: true, warnings: [] } });
    expect(at(50_000, role(100, 300), 20)).toMatchObject({ value: { expires: 70_000 } });
  });

  it("stops at the maximum TTL counted from the issue, and is then refused", () => {
    expect(at(250_000)).toMatchObject({
      value: { expires: 300_000, renewable: false, warnings: [expect.any(String)] },
    });
    expect(at(300_000)).toMatchObject({ ok: false, message: "past the max TTL, cannot renew" });
  });

  it("stops at the expiry of the password, regardless of the role", () => {
    const short = { ...lease, keyEnds: 120_000 };
    expect(at(50_000, role(100), 0, short)).toMatchObject({ value: { expires: 120_000, renewable: false } });
    expect(at(130_000, role(100), 0, short)).toMatchObject({ ok: false });
  });
});
