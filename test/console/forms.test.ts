import { expect, it } from "vitest";
import { type Console, describeConsole } from "./support/console.ts";
import { providerBody } from "./support/providers.ts";

const dialog = (opened: Console) => opened.page.getByRole("dialog");
const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();

describeConsole("forms", (suite) => {
  it("chooses a secret from a list with the keyboard, folder by folder, and syncs to no destination by default", async () => {
    for (const name of ["forms-a", "forms-b"]) await suite().call("POST", `sys/sync/destinations/in-mem/${name}`, {});
    await suite().call("POST", "secret/data/forms/inner/one", { data: { a: "1" } });
    const opened = await suite().open({ path: "sync?new=secret" });
    const { page } = opened;
    const verb = dialog(opened).getByRole("button", { name: "Sync secret" });
    const path = dialog(opened).getByLabel(/^Path of the secret/);
    await path.click();
    await page.getByRole("option", { name: "app/", exact: true }).waitFor();
    await opened.shot("forms-picker");
    await opened.expectClean();
    await path.fill("FORM");
    await page.getByRole("option", { name: "forms/", exact: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("option", { name: "forms/inner/" }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("option", { name: "forms/inner/one" }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    expect(await path.inputValue()).toBe("forms/inner/one");
    expect(await verb.isDisabled()).toBe(true);
    await dialog(opened)
      .getByLabel(/^Destination/)
      .selectOption("in-mem/forms-b");
    await verb.click();
    await page.getByText("forms/inner/one is synced.").first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("names fields in the words of the provider, and requires no secret that identity tokens replace", async () => {
    const opened = await suite().open({ path: "sync/new/cloud-a-sm" });
    const { page } = opened;
    const labelled = async (...labels: readonly string[]): Promise<void> => {
      await page.getByText("More settings").click();
      for (const label of labels) await page.getByText(label, { exact: true }).first().waitFor();
      await opened.expectClean();
    };
    const shared = ["Identity token audience", "Identity token TTL", "Allowed IPv4 addresses"];
    await labelled("KMS key ID", "Replica regions", "Role ARN", ...shared);
    await opened.visit("sync/new/cloud-c-sm");
    await labelled("KMS key ID", "Service account email", ...shared);
    expect(await page.getByText("Kms", { exact: false }).count()).toBe(await page.getByText(/KMS/).count());
    expect(await page.getByLabel(/^Key of the service account/).getAttribute("required")).toBe(null);
    await opened.visit("sync/new/cloud-b-kv");
    await labelled(...shared);
    expect(await page.getByLabel(/^Client secret/).getAttribute("required")).toBe(null);
    await opened.close();
  });

  it("calls a mistake of the caller refused, also with the status 500, and a fault of the service failed", async () => {
    const opened = await suite().open({ refusals: [/500 LIST|500 GET/] });
    const { page } = opened;
    const faults: readonly (readonly [text: string, headline: string])[] = [
      ["backend max lease TTL of 1 would be less", "Refused"],
      ["internal error; the operator finds it in the log", "The service has failed"],
    ];
    for (const [text, headline] of faults) {
      await page.route("**/v1/sys/policies/acl*", (route) => route.fulfill({ status: 500, json: { errors: [text] } }));
      await opened.visit("access");
      await page.getByText(text).waitFor();
      await page.getByText(headline, { exact: true }).waitFor();
      await page.unrouteAll();
      await opened.visit("nodes");
    }
    await opened.close();
  });

  it("offers nodes with an agent for host volumes", async () => {
    const opened = await suite().open({ path: "nodes" });
    const { page } = opened;
    await page.route("**/v1/agents*", (route) => route.fulfill({ json: [] }));
    await opened.visit("storage?new=host");
    const node = dialog(opened).getByLabel("Node", { exact: true });
    await expect.poll(() => node.locator("option").allTextContents()).toEqual(["Any that can do it"]);
    await page.unrouteAll();
    await opened.close();
  });

  it("removes the error of a field when the field is changed", async () => {
    const opened = await suite().open({ path: "sync/in-mem/forms-a", refusals: [/400 POST/] });
    await click(opened, "Sync a secret");
    const path = dialog(opened).getByLabel(/^Path of the secret/);
    await path.fill("forms/none");
    // The engines are read from the service, and the first one is chosen.
    await dialog(opened).getByRole("option", { name: "secret", exact: true }).waitFor({ state: "attached" });
    await click(opened, "Preview");
    await opened.page.getByText("secret not found").waitFor();
    expect(await path.getAttribute("aria-invalid")).toBe("true");
    await path.fill("forms/inner/one");
    await opened.page.getByText("secret not found").waitFor({ state: "detached" });
    await click(opened, "Preview");
    await opened.page
      .getByRole("region", { name: "Preview" })
      .getByText(/^vault\/kv_\w+\/forms\/inner\/one$/)
      .waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("asks before Escape discards what was entered at the side, and closes an untouched form at once", async () => {
    const opened = await suite().open({ path: "sync/in-mem/forms-a" });
    const { page } = opened;
    await click(opened, "Sync a secret");
    await dialog(opened).waitFor();
    await page.keyboard.press("Escape");
    await dialog(opened).waitFor({ state: "detached" });
    await click(opened, "Sync a secret");
    const path = dialog(opened).getByLabel(/^Path of the secret/);
    await path.fill("app/api");
    await page.keyboard.press("Escape");
    await dialog(opened).getByText("Discard what you have entered?").waitFor();
    await opened.expectClean();
    await page.keyboard.press("Enter");
    await dialog(opened).getByText("Discard what you have entered?").waitFor({ state: "detached" });
    expect(await path.inputValue()).toBe("app/api");
    await dialog(opened).getByRole("button", { name: "Close" }).click();
    await click(opened, "Discard");
    await dialog(opened).waitFor({ state: "detached" });
    await opened.close();
  });

  it("shows the rule of a destination's name at the field while it is typed, and what default names look like", async () => {
    const opened = await suite().open({ path: "sync/new/cloud-a-sm" });
    const { page } = opened;
    const name = page.getByLabel(/^Name required$/);
    await expect.poll(() => name.evaluate((field) => field === document.activeElement)).toBe(true);
    await name.fill("my account!");
    await page.getByText("Letters, digits, _ . and - only").waitFor();
    expect(await name.getAttribute("aria-invalid")).toBe("true");
    expect(await page.getByRole("button", { name: "Create destination" }).isDisabled()).toBe(true);
    await page.getByText("vault/kv_1a2b3c4d/app/database").waitFor();
    await opened.expectClean();
    await name.fill("my-account");
    await page.getByText("Letters, digits, _ . and - only").waitFor({ state: "detached" });
    await opened.visit("sync/new/in-mem");
    await page.getByText("nothing to log in to").waitFor();
    expect(await page.getByText("credentials are tried").count()).toBe(0);
    await opened.close();
  });

  it("leads from a failing destination to its credentials, explains a failure once, and compares honestly", async () => {
    const at = "sys/sync/destinations/cloud-a-sm/forms-wrong";
    await suite().call("POST", at, { ...providerBody(suite().bench, "cloud-a-sm"), secret_access_key: "wrong" });
    await suite().call("POST", `${at}/associations/set`, { mount: "secret", secret_name: "app/api" });
    const opened = await suite().open({ path: "sync/cloud-a-sm/forms-wrong" });
    const { page } = opened;
    await page.getByText("1 object failing").waitFor();
    await click(opened, "Push 1 failing secret");
    await page
      .getByText(/1 of 1 failed again/)
      .first()
      .waitFor();
    await click(opened, "Verify");
    await page.getByText("1 object failing").waitFor({ state: "detached" });
    expect(await page.getByRole("button", { name: "Edit credentials" }).count()).toBe(1);
    await opened.shot("forms-failing");
    await opened.expectClean();
    await page.getByRole("tab", { name: "Drift" }).click();
    await click(opened, "Compare with the provider");
    await page.getByRole("table", { name: "Comparison with the provider" }).getByText("Failing").first().waitFor();
    expect(await page.getByText("A push is under way").count()).toBe(0);
    await click(opened, "Edit credentials");
    await dialog(opened).getByLabel("Secret access key").waitFor();
    await dialog(opened).getByRole("button", { name: "Cancel" }).click();
    await dialog(opened).waitFor({ state: "detached" });
    await opened.expectClean();
    await opened.close();
    await suite().call("DELETE", `${at}?force_delete=true`);
  });
});
