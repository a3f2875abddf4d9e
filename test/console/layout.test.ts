import { expect, it } from "vitest";
import { describeConsole } from "./support/console.ts";

const SCREENS = [
  "",
  "secrets",
  "secrets/secret",
  "secrets/secret/at/app/database",
  "secrets/secret/at/app/database?tab=versions",
  "sync",
  "sync?tab=queue",
  "sync/new/cloud-c-sm",
  "secrets/secret/many/app",
  "secrets/secret/compare/app",
  "credentials",
  "events",
  "storage",
  "nodes",
  "access",
  "access?tab=tokens",
  "access?tab=token-roles",
  "access?tab=methods",
  "access?tab=limits",
  "access?tab=namespaces",
  "notifications",
  "notifications?tab=rules",
  "guides",
  "audit",
  "open",
];

describeConsole("the layout", (suite) => {
  it.each([
    [1280, 800],
    [1440, 900],
    [360, 740],
  ])("scrolls no tabs, tables and trees beside their direction at %i x %i", async (width, height) => {
    const opened = await suite().open({ viewport: { width, height }, refusals: [/404 GET/] });
    const found: string[] = [];
    for (const path of SCREENS) {
      await opened.visit(path);
      await opened.page.waitForTimeout(500);
      await opened.shown();
      await opened.shot(`layout-${width}-${path.replace(/[^a-z]+/g, "-")}`);
      const scrolled = await opened.page.evaluate(() => {
        const over = (selector: string, side: "Width" | "Height"): string[] =>
          [...document.querySelectorAll(selector)].flatMap((element) => {
            const px = element[`scroll${side}`] - element[`client${side}`];
            const overflow = getComputedStyle(element)[side === "Width" ? "overflowX" : "overflowY"];
            return px > 0 && overflow !== "hidden" ? [`${selector}: ${side} ${px}`] : [];
          });
        return [
          ...over(".tabs", "Height"),
          ...over(".table-box", "Width"),
          ...over("html", "Width"),
          ...(innerWidth > 1000 ? over("main:has(.secrets-side)", "Height") : []),
        ];
      });
      found.push(...scrolled.map((line) => `${path} ${line}`));
    }
    expect(found).toEqual([]);
    await opened.close();
  });
});
