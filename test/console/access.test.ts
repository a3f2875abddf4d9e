import { describe, expect, it } from "vitest";
import { policyProblem } from "../../console/src/screens/access/policy-text.ts";
import { type Console, describeConsole } from "./support/console.ts";

const PHONE = { width: 360, height: 740 };
const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();
const dialog = (opened: Console) => opened.page.getByRole("dialog");
const confirmation = (opened: Console) => opened.page.locator("dialog.dialog-box");

describe("the form of a policy", () => {
  it.each([
    ['path "a/*" {\n  capabilities = ["read"]\n}', null],
    ['# a { in a comment\npath "a" { capabilities = ["deny"] }', null],
    ['path "a" {\n  capabilities = ["raed"]\n}', "raed is no capability."],
    ['path "a" {', "Line 1: { is not closed."],
    ['path "a" {\n}}', "Line 2: } closes nothing."],
    ['path "a', "Line 1: the text in quotes does not end."],
  ])("%j is %s", (text, problem) => expect(policyProblem(text)).toBe(problem));
});

describeConsole("access", (suite) => {
  it("checks a policy while it is typed, writes it, creates a token with it and lists the token's capabilities", async () => {
    const opened = await suite().open({ path: "access", refusals: [/404 GET \/v1\/sys\/policies\/acl\/console-app/] });
    const { page } = opened;
    await click(opened, "Write a policy");
    await dialog(opened).getByLabel(/^Name/).fill("console-app");
    await dialog(opened).getByLabel("Rules").fill('path "secret/data/app/*" { capabilities = ["raed"] }');
    await dialog(opened).getByText("raed is no capability.").waitFor();
    await dialog(opened).getByLabel("Rules").fill('path "secret/data/app/*" { capabilities = ["read"] }');
    await opened.shot("access-policy");
    await opened.expectClean();
    await click(opened, "Save policy");
    await page.getByRole("cell", { name: "console-app" }).waitFor();
    await opened.shot("access-policies");
    await page.getByRole("tab", { name: "Tokens" }).click();
    await click(opened, "Create token");
    await dialog(opened).getByLabel("Policies").fill("console-app");
    await dialog(opened).getByRole("button", { name: "Create token" }).click();
    await dialog(opened).getByText("The token is shown here only").waitFor();
    await opened.expectClean();
    await click(opened, "Done");
    const token = await suite().tokenWith("console-checked", 'path "secret/data/app/*" { capabilities = ["list"] }');
    const { data } = (await suite().call("GET", "auth/token/lookup-self", undefined, { token })) as {
      data: { accessor: string };
    };
    await page.getByRole("tab", { name: "What may a token do?" }).click();
    await page.getByLabel("Accessor of the token").fill(data.accessor);
    await click(opened, "Check");
    await page.getByRole("table", { name: "Rights on the paths" }).getByText("list").waitFor();
    await opened.shot("access-check");
    await opened.expectClean();
    await page.getByRole("tab", { name: "Auth methods" }).click();
    await page.getByText("auth/token/").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("revokes a token by its accessor", async () => {
    const token = await suite().tokenWith("console-revoked", 'path "cubbyhole/*" { capabilities = ["read"] }');
    const { data } = (await suite().call("GET", "auth/token/lookup-self", undefined, { token })) as {
      data: { accessor: string };
    };
    const opened = await suite().open({ path: "access?tab=tokens" });
    await opened.page.getByRole("cell", { name: data.accessor }).click();
    await dialog(opened).getByText("console-revoked").waitFor();
    await opened.expectClean();
    await click(opened, "Revoke");
    await confirmation(opened).getByRole("button", { name: "Revoke the token" }).click();
    await expect.poll(() => opened.page.getByRole("cell", { name: data.accessor }).count()).toBe(0);
    await expect(suite().call("GET", "auth/token/lookup-self", undefined, { token })).rejects.toThrow("403");
    await opened.expectClean();
    await opened.close();
  });

  it("fits a phone in dark mode", async () => {
    const opened = await suite().open({ path: "access", viewport: PHONE, theme: "dark" });
    await opened.page.getByRole("table", { name: "Policies" }).waitFor();
    await opened.shot("access-phone");
    await opened.expectClean();
    await opened.close();
  });
});
