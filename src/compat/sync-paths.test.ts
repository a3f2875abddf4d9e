import { describe, expect, it } from "vitest";
import { TYPE_NAMES } from "./dialect.ts";
import { neutralPath } from "./sync-paths.ts";

describe("a path in neutral names", () => {
  it.each(TYPE_NAMES)("calls %s so, also where it came as %s", (neutral, upstream) => {
    for (const rest of ["", "/", "/prod", "/prod/associations/set", `/${upstream}`]) {
      expect(neutralPath(`sys/sync/destinations/${upstream}${rest}`)).toBe(`sys/sync/destinations/${neutral}${rest}`);
      expect(neutralPath(`sys/sync/destinations/${neutral}${rest}`)).toBe(`sys/sync/destinations/${neutral}${rest}`);
    }
  });

  it("calls the folder of applications so, and leaves their names", () => {
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
  ])("leaves %j as it is", (path) => {
    expect(neutralPath(path)).toBe(path);
  });
});
