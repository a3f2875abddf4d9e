import { generateKeyPairSync } from "node:crypto";
import { expect, it } from "vitest";
import { CANARY, type Console, describeConsole } from "./support/console.ts";

const dialog = (opened: Console) => opened.page.getByRole("dialog");
const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();

describeConsole("the configuration of an auth method", (suite) => {
  it("keeps what it has when one field is changed, and asks for its secret again", async () => {
    const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    await suite().call("POST", "sys/auth/console-cluster", { type: "kubernetes" });
    await suite().call("POST", "auth/console-cluster/config", {
      kubernetes_host: "https://one.example.com",
      token_reviewer_jwt: "first.reviewer.token",
      pem_keys: [publicKey.export({ type: "spki", format: "pem" })],
      disable_iss_validation: false,
    });
    const stored = async (): Promise<unknown> =>
      ((await suite().call("GET", "auth/console-cluster/config")) as { data: unknown }).data;
    const opened = await suite().open({ path: "access/method/console-cluster", refusals: [/404 GET/] });
    const { page } = opened;
    const reviewer = dialog(opened).getByLabel(/^Token reviewer JWT/);
    const isMissing = () => reviewer.evaluate((field) => (field as HTMLInputElement).validity.valueMissing);
    await click(opened, "Configure");
    await dialog(opened)
      .getByLabel(/^Kubernetes host/)
      .fill("https://two.example.com");
    await click(opened, "Save configuration");
    expect(await isMissing()).toBe(true);
    await dialog(opened).getByText("A save replaces the whole configuration: enter it again.").waitFor();
    expect(await stored()).toMatchObject({ kubernetes_host: "https://one.example.com" });
    await opened.expectClean();
    await opened.shot("access-configuration");
    await reviewer.fill("second.reviewer.token");
    await dialog(opened).getByText("As a command").click();
    expect(await dialog(opened).locator(".as-command").textContent()).not.toContain("second.reviewer");
    await click(opened, "Save configuration");
    await dialog(opened).waitFor({ state: "hidden" });
    expect(await stored()).toMatchObject({
      kubernetes_host: "https://two.example.com",
      disable_iss_validation: false,
      token_reviewer_jwt_set: true,
      pem_keys: [expect.stringContaining("BEGIN PUBLIC KEY")],
    });
    await page.getByRole("button", { name: "Commands of this screen" }).click();
    expect(await page.getByRole("complementary", { name: "Commands" }).textContent()).not.toContain("second.reviewer");
    // A flag that is set by default, and a secret that is removed on purpose.
    await click(opened, "Configure");
    await dialog(opened).getByText("More settings").click();
    await dialog(opened)
      .getByLabel(/^Disable iss validation/)
      .check();
    await dialog(opened).getByLabel("Remove the stored Token reviewer JWT").check();
    await click(opened, "Save configuration");
    await dialog(opened).waitFor({ state: "hidden" });
    expect(await stored()).toMatchObject({ disable_iss_validation: true, token_reviewer_jwt_set: false });
    await opened.close();
    await suite().call("DELETE", "sys/auth/console-cluster");
  });

  it("shows the refusal of a wrong address at its field", async () => {
    await suite().call("POST", "sys/auth/console-jwt", { type: "jwt" });
    const opened = await suite().open({
      path: "access/method/console-jwt",
      refusals: [/404 GET/, /4\d\d POST \/v1\/auth\/console-jwt\/config/],
    });
    await click(opened, "Configure");
    await dialog(opened)
      .getByLabel(/discovery URL/i)
      .fill(`not an address ${CANARY}`);
    await click(opened, "Save configuration");
    await dialog(opened).getByRole("alert").getByText("oidc_discovery_url: ").waitFor();
    await dialog(opened).locator(".field-error").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("of a limit keeps false, which is not its default", async () => {
    const limit = { rate: 100_000, inheritable: false };
    await suite().call("POST", "sys/quotas/rate-limit/console-kept", limit);
    const opened = await suite().open({ path: "access?tab=limits" });
    await opened.page.getByRole("cell", { name: "console-kept" }).click();
    await dialog(opened).getByLabel(/^Rate/).fill("200000");
    await click(opened, "Save changes");
    await dialog(opened).waitFor({ state: "hidden" });
    const { data } = (await suite().call("GET", "sys/quotas/rate-limit/console-kept")) as { data: object };
    expect(data).toMatchObject({ rate: 200_000, inheritable: false });
    await opened.close();
    await suite().call("DELETE", "sys/quotas/rate-limit/console-kept");
  });
});
