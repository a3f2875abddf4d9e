import { expect, it } from "vitest";
import { describeConsole } from "./support/console.ts";

describeConsole("guides", (suite) => {
  it("lists the guides, opens one when it is asked for, and follows its links", async () => {
    const read: string[] = [];
    const opened = await suite().open({ path: "guides" });
    const { page } = opened;
    page.on("request", (request) => read.push(new URL(request.url()).pathname));
    await page.getByLabel("Filter guides").fill("web console");
    await page.getByRole("link", { name: "The web console" }).click();
    await page.getByRole("heading", { name: "The web console" }).waitFor();
    await page.getByRole("heading", { name: "Many secrets" }).waitFor();
    expect(read.filter((path) => path.includes("/guide-"))).toHaveLength(1);
    await opened.expectClean();
    await opened.shot("guide");
    await page.getByRole("link", { name: "link that shows a secret once" }).click();
    const heading = page.getByRole("heading", { name: "In the console" });
    await expect.poll(async () => ((await heading.boundingBox())?.y ?? 9_999) < 900).toBe(true);
    await opened.expectClean();
    await opened.visit("guides/none");
    await page.getByText("There is no such guide").waitFor();
    await opened.close();
  });

  it("fits a phone", async () => {
    const opened = await suite().open({ path: "guides/guides/sync", viewport: { width: 360, height: 740 } });
    await opened.page.getByRole("heading", { name: "Sync" }).first().waitFor();
    await opened.page.locator(".guides-text").waitFor();
    const width = await opened.page.evaluate(() => document.documentElement.scrollWidth);
    expect(width).toBeLessThanOrEqual(360);
    await opened.expectClean();
    await opened.close();
  });
});
