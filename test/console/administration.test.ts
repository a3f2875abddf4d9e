import { expect, it } from "vitest";
import { describeConsole } from "./support/console.ts";

describeConsole("administration", (suite) => {
  it("writes, changes and deletes quotas, and keeps the fields that the form does not change", async () => {
    const opened = await suite().open({ path: "access?tab=limits", refusals: [/404 (GET|LIST)/, /400 POST/] });
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Create rate limit" }).click();
    await dialog.getByLabel("Name").fill("console-rate");
    await dialog.getByLabel("Path", { exact: true }).fill("nowhere/");
    await dialog.getByRole("button", { name: "Create rate limit" }).click();
    await dialog.getByRole("alert").first().waitFor();
    await dialog.getByLabel("Path", { exact: true }).fill("secret/");
    await dialog.getByLabel(/^Rate/).fill("100000");
    await opened.expectClean();
    await opened.shot("admin-rate-limit");
    await dialog.getByRole("button", { name: "Create rate limit" }).click();
    await page.getByRole("row", { name: "console-rate" }).click();
    await dialog.getByLabel(/^Rate/).fill("200000");
    await dialog.getByRole("button", { name: "Save changes" }).click();
    await dialog.waitFor({ state: "hidden" });
    const { data } = (await suite().call("GET", "sys/quotas/rate-limit/console-rate")) as {
      data: Record<string, unknown>;
    };
    expect(data).toMatchObject({ path: "secret/", rate: 200000 });

    await page.getByRole("button", { name: "Create lease limit" }).click();
    await dialog.getByLabel("Name").fill("console-leases");
    await dialog.getByLabel(/^Max leases/).fill("100000");
    await dialog.getByRole("button", { name: "Create lease limit" }).click();
    await page.getByRole("row", { name: "console-leases" }).waitFor();
    await page.getByText("No name is locked").waitFor();
    await opened.expectClean();
    await opened.shot("admin-limits");
    for (const name of ["console-rate", "console-leases"]) {
      await page.getByRole("row", { name }).click();
      await dialog.getByRole("button", { name: "Delete", exact: true }).click();
      await page
        .locator("dialog.dialog-box")
        .getByRole("button", { name: /^Delete / })
        .click();
      await page.getByRole("row", { name }).waitFor({ state: "hidden" });
    }
    await opened.close();
  });

  it("unlocks a name that failed log-ins have locked", async () => {
    await suite().call("POST", "sys/auth/console-lock", { type: "userpass" });
    await suite().call("POST", "sys/auth/console-lock/tune", {
      user_lockout_config: { lockout_threshold: "1", lockout_duration: "1h" },
    });
    await suite().call("POST", "auth/console-lock/users/ann", { password: "right-password" });
    const logIn = (password: string) =>
      suite().call("POST", "auth/console-lock/login/ann", { password }, { token: "" });
    await expect(logIn("wrong")).rejects.toThrow();
    await expect(logIn("wrong")).rejects.toThrow();
    await expect(logIn("right-password")).rejects.toThrow();
    const opened = await suite().open({ path: "access?tab=limits", refusals: [/404 (GET|LIST)/] });
    const row = opened.page.getByRole("row").filter({ hasText: "ann" });
    await row.getByRole("button", { name: "Unlock" }).click();
    await opened.page.getByRole("button", { name: "Unlock the name" }).click();
    await row.waitFor({ state: "hidden" });
    await opened.expectClean();
    await opened.close();
    await logIn("right-password");
  });

  it("makes a namespace and a token role, and moves an engine and an auth method", async () => {
    for (const path of ["console-moved", "console-to-move"]) await suite().call("DELETE", `sys/mounts/${path}`);
    for (const path of ["console-moved", "console-to-move"]) await suite().call("DELETE", `sys/auth/${path}`);
    await suite().call("POST", "sys/mounts/console-to-move", { type: "kv", options: { version: "2" } });
    await suite().call("POST", "console-to-move/data/kept", { data: { k: "v" } });
    await suite().call("POST", "sys/auth/console-to-move", { type: "userpass" });
    const opened = await suite().open({ path: "access?tab=namespaces", refusals: [/404 (GET|LIST)/] });
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Create namespace" }).click();
    await dialog.getByLabel("Name").first().fill("console-made");
    await dialog.getByRole("button", { name: "Create namespace" }).click();
    await page.getByRole("row", { name: "console-made" }).click();
    await dialog.getByRole("heading", { name: "Namespace console-made" }).waitFor();
    await opened.expectClean();
    await dialog.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByText("Its engines, secrets, policies and tokens are deleted with it").waitFor();
    await page.locator("dialog.dialog-box").getByRole("button", { name: "Delete namespace" }).click();
    await page.getByRole("row", { name: "console-made" }).waitFor({ state: "hidden" });

    await page.getByRole("tab", { name: "Token roles" }).click();
    await page.getByRole("button", { name: "Create token role" }).click();
    await dialog.getByLabel("Name").fill("console-role");
    await dialog
      .getByLabel(/^Allowed policies/)
      .first()
      .fill("default");
    await dialog.getByRole("button", { name: "Create token role" }).click();
    await page.getByRole("row", { name: "console-role" }).waitFor();
    await opened.expectClean();
    await suite().call("DELETE", "auth/token/roles/console-role");

    await opened.visit("secrets/console-to-move");
    await page.getByRole("button", { name: "More about the engine" }).click();
    await page.getByRole("menuitem", { name: "Move to another path" }).click();
    await dialog.getByLabel("New path").fill("console-moved");
    await opened.expectClean();
    await dialog.getByRole("button", { name: "Move to the new path" }).click();
    await page.getByRole("heading", { name: "console-moved/" }).waitFor();
    await page.getByRole("treeitem", { name: "kept" }).waitFor();
    await opened.visit("access/method/console-to-move");
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Move to another path" }).click();
    await dialog.getByLabel("New path").fill("auth/console-moved");
    await dialog.getByRole("button", { name: "Move to the new path" }).click();
    await page.getByRole("heading", { name: "auth/console-moved/" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("names the rights that a token lacks for each list", async () => {
    const token = await suite().tokenWith("console-no-admin", 'path "nothing" { capabilities = ["read"] }');
    const opened = await suite().open({ token, path: "access?tab=limits", refusals: [/403 /] });
    const { page } = opened;
    for (const right of ["sys/quotas/rate-limit: list", "sys/quotas/lease-count: list", "sys/locked-users: read"])
      await page.getByText(`(${right})`).waitFor();
    expect(await page.getByText("No name is locked").count()).toBe(0);
    await page.getByRole("tab", { name: "Namespaces" }).click();
    await page.getByText("Your token may not see namespaces (sys/namespaces: list).").waitFor();
    await opened.expectClean();
    await opened.close();
  });
});
