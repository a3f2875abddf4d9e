import { describe, expect, it } from "vitest";
import { LoginLockouts } from "./login-lockouts.ts";

const CONFIG = {
  lockout_threshold: 5,
  lockout_duration: 900,
  lockout_counter_reset_duration: 900,
  lockout_disable: false,
};
const NOW = 1_000_000;

describe("failed logins", () => {
  it("of a user are kept under a flood of failures of other names", () => {
    const lockouts = new LoginLockouts();
    for (let i = 0; i < 5; i += 1) lockouts.failed("m", "ann", true, CONFIG, NOW);
    for (let i = 0; i < 20_000; i += 1) lockouts.failed("m", `nobody-${i}`, false, CONFIG, NOW);
    for (let i = 0; i < 20_000; i += 1) lockouts.failed("other", `user-${i}`, true, CONFIG, NOW);
    expect(lockouts.isLocked("m", "ann", CONFIG, NOW)).toBe(true);
    expect(lockouts.locked("m", CONFIG, NOW)).toEqual(["ann"]);
  });

  it("lock names without a user as well, and each name at its own mount", () => {
    const lockouts = new LoginLockouts();
    for (let i = 0; i < 5; i += 1) lockouts.failed("m", "nobody", false, CONFIG, NOW);
    for (let i = 0; i < 5; i += 1) lockouts.failed("m", "ann", true, CONFIG, NOW);
    expect(lockouts.locked("m", CONFIG, NOW)).toEqual(["ann", "nobody"]);
    expect(lockouts.locked("n", CONFIG, NOW)).toEqual([]);
    lockouts.clear("m", "nobody");
    lockouts.forget("m");
    expect(lockouts.locked("m", CONFIG, NOW)).toEqual([]);
  });
});
