import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { type Console, describeConsole } from "./support/console.ts";

const PHONE = { width: 360, height: 740 };
const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();
const dialog = (opened: Console) => opened.page.getByRole("dialog");

describeConsole("nodes and jobs", (suite) => {
  it("shows a node with its agent, makes it ineligible, drains it, and reverts both", async () => {
    const opened = await suite().open({ path: "nodes" });
    const { page } = opened;
    await page
      .getByRole("table", { name: "Nodes" })
      .getByRole("link", { name: /^local-/ })
      .first()
      .click();
    await page.getByText("connected", { exact: true }).waitFor();
    await opened.shot("nodes-node");
    await opened.expectClean();
    await click(opened, "Make ineligible");
    await click(opened, "Make the node ineligible");
    await page.getByText("ineligible", { exact: true }).first().waitFor();
    await click(opened, "Drain");
    await opened.expectClean();
    await click(opened, "Drain the node");
    await page.getByRole("heading", { name: /drain/i }).first().waitFor();
    await opened.shot("nodes-drain");
    await opened.expectClean();
    if (await page.getByRole("button", { name: "End the drain", exact: true }).isVisible()) {
      await click(opened, "End the drain");
      await dialog(opened).getByRole("button", { name: "End the drain" }).click();
    } else {
      await click(opened, "Make eligible");
      await click(opened, "Make the node eligible");
    }
    await page.getByText("eligible", { exact: true }).first().waitFor();
    await opened.close();
  });

  it("prints the command that joins a node, and reports when the node has joined", async () => {
    const opened = await suite().open({ path: "nodes" });
    await click(opened, "Join a node");
    await dialog(opened).getByLabel("Name of the node").fill("bad name");
    await dialog(opened).getByText("Letters, digits, dots, hyphens and underscores.").waitFor();
    await dialog(opened).getByLabel("Name of the node").fill("console-node");
    await click(opened, "Create join token");
    const line =
      (await dialog(opened).getByRole("group", { name: "the line that joins the node" }).textContent()) ?? "";
    expect(line).toContain(`"service":"${suite().bench.url}"`);
    await dialog(opened).getByText("Waiting for the node").waitFor();
    await opened.expectClean();
    const token = /echo '([^']+)' \| sudo install -m 600/.exec(line)?.[1] ?? "";
    const PublicKey = randomBytes(32).toString("base64");
    await suite().call("POST", "agent/join", { Token: token, PublicKey, Name: "console-node" });
    await dialog(opened).getByText("The node has joined").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("fits a phone in dark mode", async () => {
    const opened = await suite().open({ path: "nodes", viewport: PHONE, theme: "dark" });
    await opened.page.getByRole("table", { name: "Nodes" }).waitFor();
    await opened.shot("nodes-phone");
    await opened.expectClean();
    await opened.close();
  });
});
