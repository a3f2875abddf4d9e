import { describe, expect, it } from "vitest";
import { TYPE_NAMES } from "./dialect.ts";
import { neutralPath } from "./sync-paths.ts";

describe("neutralPath", () => {
  it.each(TYPE_NAMES)("returns the neutral type %s for it and for %s", (neutral, upstream) => {
    for (const rest of ["", "/", "/prod", "/prod/associations/set", `/${upstream}`]) {
      expect(neutralPath(`sys/sync/destinations/${upstream}${rest}`)).toBe(`sys/sync/destinations/${neutral}${rest}`);
      expect(neutralPath(`sys/sync/destinations/${neutral}${rest}`)).toBe(`sys/sync/destinations/${neutral}${rest}`);
    }
  });

  it("translates the folder of applications and keeps their names", () => {
    expect(neutralPath("sys/sync/github-apps/github-apps")).toBe("sys/sync/repo-host-apps/github-apps");
    expect(neutralPath("sys/sync/github-apps")).toBe("sys/sync/repo-host-apps");
  });

  it.each([
    "sys/sync/destinations",
    "sys/sync/destinations/",
    "sys/sync/destinations/in-mem/gh",
    "sys/sync/destinations/AWS-SM/d",
    "sys/sync/destinations/aws-sm2/d",
    "sys/sync/destinations/github-apps/d",
    "sys/sync/associations/gh/aws-sm",
    "sys/sync/gh/d",
    "sys/mounts/gh",
    "kv/sync/destinations/gh",
    "auth/sync/github-apps",
    "kv/data/sys/sync/destinations/gh",
    "gh/data/aws-sm",
    "ns/sys/sync/destinations/gh/d",
    "",
  ])("returns %j unchanged", (path) => {
    expect(neutralPath(path)).toBe(path);
  });
});
