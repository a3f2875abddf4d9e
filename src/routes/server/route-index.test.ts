import { describe, expect, it } from "vitest";
import { RouteTable } from "./route.ts";
import { RouteIndex } from "./route-index.ts";

const PATHS = [
  "",
  "/:path+",
  "/data",
  "/data/:path+",
  "/sys/mounts",
  "/sys/mounts/:path+",
  "/sys/:name",
  "/sys/:name/tune",
  "/sys/health",
  "/openapi.json",
  "/:kind/list",
  "/sys",
  "/sys/mounts/:path/tune",
  "/volume/csi/:id/attach",
];
const routes = PATHS.map((path) => ({ verb: "GET" as const, path }));

const ASKED = [
  "/",
  "",
  "/data",
  "/data/",
  "/data/a",
  "/data/a/b/",
  "/sys",
  "/sys/",
  "/sys/mounts",
  "/sys/mounts/",
  "/sys/mounts/a/tune",
  "/sys/x",
  "/sys/x/tune",
  "/sys/health",
  "/openapi.json",
  "/openapixjson",
  "/x/list",
  "/sys/list",
  "/volume/csi/1/attach",
  "/volume/csi",
  "/volume",
  "/data//a",
  "//data/a",
  "/sys//mounts",
  "/%64ata",
];

describe("RouteIndex", () => {
  it("leaves out no route that matches, and keeps their order", () => {
    const linear = routes.map((route) => ({ route, table: new RouteTable([route]) }));
    const table = new RouteTable(routes);
    for (const path of ASKED) {
      const expected = linear.filter(({ table }) => table.at(path).length > 0).map(({ route }) => route.path);
      expect(
        table.at(path).map((route) => route.path),
        path,
      ).toEqual(expected);
    }
  });

  it("leaves only the routes that spell out the segments of a path, or leave them open", () => {
    const index = new RouteIndex(routes);
    expect(index.candidates("/sys/health").map(({ path }) => path)).toEqual([
      "/:path+",
      "/sys/:name",
      "/sys/:name/tune",
      "/sys/health",
      "/:kind/list",
    ]);
    expect(index.candidates("/volume/csi/1/attach").map(({ path }) => path)).toEqual([
      "/:path+",
      "/:kind/list",
      "/volume/csi/:id/attach",
    ]);
  });
});
