import { expect, it } from "vitest";
import { type Console, describeConsole } from "./support/console.ts";

const PHONE = { width: 360, height: 740 };

const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();
const dialog = (opened: Console) => opened.page.getByRole("dialog");

describeConsole("storage", (suite) => {
  it("creates a host volume from a form, shows it on its node, and deletes it after its name was typed in", async () => {
    const opened = await suite().open({ path: "storage" });
    const { page } = opened;
    await click(opened, "Create host volume");
    await dialog(opened)
      .getByLabel(/^Name( required)?$/)
      .fill("console-host");
    await opened.shot("storage-create-host");
    await opened.expectClean();
    await click(opened, "Create volume");
    await page.getByRole("heading", { name: "console-host", level: 1 }).waitFor();
    await page.getByText("ready", { exact: true }).first().waitFor();
    await opened.shot("storage-host");
    await opened.expectClean();
    await click(opened, "Delete");
    await dialog(opened).getByRole("textbox").fill("console-host");
    await click(opened, "Delete the volume");
    await page.getByRole("heading", { name: "Storage", level: 1 }).waitFor();
    await expect.poll(() => page.getByRole("link", { name: "console-host" }).count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("creates a CSI volume and a snapshot of it, and shows the plugin's health", async () => {
    const opened = await suite().open({ path: "storage?tab=csi" });
    const { page } = opened;
    await click(opened, "Create CSI volume");
    await dialog(opened)
      .getByLabel(/^Name( required)?$/)
      .fill("console-csi");
    await dialog(opened)
      .getByLabel(/^Plugin/)
      .selectOption("dir");
    await click(opened, "Create volume");
    await page.getByRole("heading", { name: "console-csi", level: 1 }).waitFor();
    await opened.shot("storage-csi");
    await opened.expectClean();
    await opened.visit("storage?tab=plugins");
    await page.getByRole("link", { name: "dir", exact: true }).click();
    await page.getByRole("heading", { name: "dir", level: 1 }).waitFor();
    await opened.shot("storage-plugin");
    await opened.expectClean();
    await opened.close();
  });

  it("fits a phone in dark mode", async () => {
    const opened = await suite().open({ path: "storage", viewport: PHONE, theme: "dark" });
    await opened.page.getByRole("heading", { name: "Storage", level: 1 }).waitFor();
    await opened.page.waitForLoadState("networkidle");
    await opened.shot("storage-phone");
    await opened.expectClean();
    await opened.close();
  });
});
