import { expect, it } from "vitest";
import { CANARY, type Console, describeConsole } from "./support/console.ts";

const PHONE = { width: 360, height: 740 };
const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();
const dialog = (opened: Console) => opened.page.getByRole("dialog");
const confirmation = (opened: Console) => opened.page.locator("dialog.dialog-box");

describeConsole("access", (suite) => {
  it("writes a policy, creates a token with it, and says what the token may do", async () => {
    const opened = await suite().open({
      path: "access",
      refusals: [/404 GET \/v1\/sys\/policies\/acl\/console-app/, /40[03] POST .*lookup-accessor/],
    });
    const { page } = opened;
    await click(opened, "Write a policy");
    await dialog(opened).getByLabel(/^Name/).fill("console-app");
    await dialog(opened).getByLabel("Rules").fill('path "secret/data/app/*" { capabilities = ["read"] }');
    await dialog(opened).getByText("Test it before you save").click();
    await dialog(opened).getByLabel("Paths", { exact: true }).fill("secret/data/app/x\nsecret/data/other");
    await click(opened, "Test");
    const tried = dialog(opened).getByRole("table", { name: "Rights with this policy" });
    await tried.getByRole("row", { name: "secret/data/app/x deny read" }).waitFor();
    await tried.getByRole("row", { name: "secret/data/other deny deny" }).waitFor();
    // For a token that has it: with its other policies.
    await suite().tokenWith("console-held", 'path "secret/data/app/*" { capabilities = ["list"] }');
    const policies = ["console-held", "console-app"];
    const { auth: holder } = (await suite().call("POST", "auth/token/create", { policies })) as {
      auth: { accessor: string };
    };
    await dialog(opened).getByLabel("Accessor of the token that has it").fill(holder.accessor);
    await click(opened, "Test");
    await tried.getByRole("row", { name: /^secret\/data\/app\/x list (list ?read|read ?list)$/ }).waitFor();
    await opened.shot("access-policy");
    await opened.expectClean();
    // Each kind of text has its colour, and the field has the same text.
    const rules = dialog(opened).getByLabel("Rules");
    const text = await rules.inputValue();
    await rules.fill(`# ${CANARY}\n${text}`);
    const lines = dialog(opened).locator(".policy-text pre");
    expect(await lines.textContent()).toBe(`${await rules.inputValue()}\n`);
    expect(await lines.locator(".policy-note").textContent()).toBe(`# ${CANARY}`);
    await rules.fill(text);
    await click(opened, "Save policy");
    await page.getByRole("cell", { name: "console-app" }).waitFor();
    await opened.shot("access-policies");
    await page.getByRole("tab", { name: "Tokens" }).click();
    await click(opened, "Create token");
    await dialog(opened).getByLabel("console-app").check();
    await dialog(opened).getByRole("button", { name: "Create token" }).click();
    await dialog(opened).getByText("The token is shown here only").waitFor();
    const check = dialog(opened).getByRole("link", { name: "What may it do?" });
    const accessor = new URL((await check.getAttribute("href")) ?? "", suite().bench.url).searchParams.get("accessor");
    expect(await dialog(opened).locator("code").last().textContent()).toBe(accessor);
    await opened.expectClean();
    await click(opened, "Done");
    const token = await suite().tokenWith("console-checked", 'path "secret/data/app/*" { capabilities = ["list"] }');
    const { data } = (await suite().call("GET", "auth/token/lookup-self", undefined, { token })) as {
      data: { accessor: string };
    };
    await page.getByRole("tab", { name: "What may a token do?" }).click();
    await page.getByLabel("Accessor of the token").fill(data.accessor);
    await page.getByLabel("Paths").fill("secret/data/app/database");
    await click(opened, "Check");
    await page.getByRole("table", { name: "Rights on the paths" }).getByText("list").waitFor();
    await opened.shot("access-check");
    await opened.expectClean();
    await page.getByRole("tab", { name: "Auth methods" }).click();
    await page.getByText("auth/token/").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("writes the rules for one folder of either version, with which a colleague reads it and nothing else", async () => {
    await suite().call("POST", "sys/mounts/console-plain", { type: "kv" });
    for (const name of ["own/x", "other"])
      await suite().call("POST", `secret/data/console/${name}`, { data: { a: "b" } });
    const opened = await suite().open({
      path: "access",
      refusals: [/404 GET \/v1\/sys\/policies\/acl\/console-folder/],
    });
    await click(opened, "Write a policy");
    await dialog(opened).getByLabel(/^Name/).fill("console-folder");
    for (const [path, right] of [
      ["secret/console/own/", "Read and write"],
      ["console-plain/x", "Read and list"],
    ] as const) {
      await dialog(opened).getByLabel("Path", { exact: true }).fill(path);
      await dialog(opened).getByLabel("Allowed").selectOption({ label: right });
      await click(opened, "Add rules");
    }
    const rules = await dialog(opened).getByLabel("Rules", { exact: true }).inputValue();
    expect(rules).not.toContain("secret/data/app");
    expect(rules).toContain('path "console-plain/x" {\n  capabilities = ["read", "list"]\n}');
    await opened.expectClean();
    await click(opened, "Save policy");
    await opened.page.getByRole("cell", { name: "console-folder" }).waitFor();
    const { auth } = (await suite().call("POST", "auth/token/create", { policies: ["console-folder"] })) as {
      auth: { client_token: string };
    };
    const as = { token: auth.client_token };
    await suite().call("POST", "secret/data/console/own/x", { data: { a: "c" } }, as);
    await suite().call("GET", "secret/metadata/console/own?list=true", undefined, as);
    for (const path of ["secret/data/console/other", "secret/metadata/console?list=true"])
      await expect(suite().call("GET", path, undefined, as), path).rejects.toThrow("403");
    await opened.close();
  });

  it("offers secrets and engines, and writes the rules for the credentials of a role", async () => {
    await suite().call("POST", "secret/data/console/offered", { data: { a: "b" } });
    for (const type of ["cloud-a", "cloud-c"]) await suite().call("POST", `sys/mounts/console-${type}`, { type });
    const opened = await suite().open({ path: "access", refusals: [/404 GET \/v1\/sys\/policies\/acl\/console-role/] });
    await click(opened, "Write a policy");
    await dialog(opened).getByLabel(/^Name/).fill("console-role");
    const path = dialog(opened).getByLabel("Path", { exact: true });
    for (const [typed, offered] of [
      ["console-cloud", "console-cloud-a/"],
      ["secret/console/off", "secret/console/offered"],
    ] as const) {
      await path.fill(typed);
      await opened.page.getByRole("option", { name: offered, exact: true }).waitFor();
    }
    await path.fill("console-cloud-a/reader");
    await dialog(opened).getByText("Allowed: issue credentials of this role.").waitFor();
    await click(opened, "Add rules");
    await path.fill("console-cloud-c/");
    await dialog(opened).getByText("Allowed: issue credentials of every role.").waitFor();
    await click(opened, "Add rules");
    const rules = await dialog(opened).getByLabel("Rules", { exact: true }).inputValue();
    const pathsWith = (right: string) =>
      [...rules.matchAll(/path "(.*)" \{\n {2}capabilities = \["(\w+)"\]\n\}/g)].flatMap(([, of, has]) =>
        has === right ? [of] : [],
      );
    expect(pathsWith("list")).toEqual([
      "console-cloud-a/roles",
      "console-cloud-a/static-roles",
      "console-cloud-c/rolesets",
      "console-cloud-c/static-accounts",
      "console-cloud-c/impersonated-accounts",
    ]);
    expect(pathsWith("read")).toEqual([
      "console-cloud-a/creds/reader",
      "console-cloud-a/sts/reader",
      "console-cloud-a/static-creds/reader",
      "console-cloud-c/roleset/+/token",
      "console-cloud-c/roleset/+/key",
      "console-cloud-c/token/*",
      "console-cloud-c/key/*",
      "console-cloud-c/static-account/+/token",
      "console-cloud-c/static-account/+/key",
      "console-cloud-c/impersonated-account/+/token",
    ]);
    await opened.expectClean();
    await click(opened, "Save policy");
    await opened.page.getByRole("cell", { name: "console-role" }).waitFor();
    for (const type of ["cloud-a", "cloud-c"]) await suite().call("DELETE", `sys/mounts/console-${type}`);
    await opened.close();
  });

  it("saves the rules of a path that is entered, and refuses to leave out those of another", async () => {
    const opened = await suite().open({
      path: "access",
      refusals: [/404 GET \/v1\/sys\/policies\/acl\/console-path/],
    });
    await click(opened, "Write a policy");
    await dialog(opened).getByLabel(/^Name/).fill("console-path");
    await dialog(opened).getByLabel("Path", { exact: true }).fill("secret/console/path/");
    await click(opened, "Save policy");
    await opened.page.getByRole("cell", { name: "console-path" }).click();
    const rules = dialog(opened).getByLabel("Rules", { exact: true });
    await expect.poll(() => rules.inputValue()).toContain('path "secret/data/console/path/*" {');
    expect(await rules.inputValue()).not.toContain("app");
    await dialog(opened).getByText("Add rules for a folder, a secret or a role").click();
    await dialog(opened).getByLabel("Path", { exact: true }).fill("secret/console/other/");
    await click(opened, "Save policy");
    await dialog(opened).getByText("Add the rules of the path, or clear it.").waitFor();
    await click(opened, "Add rules");
    await click(opened, "Save policy");
    await dialog(opened).waitFor({ state: "hidden" });
    const { data } = (await suite().call("GET", "sys/policies/acl/console-path")) as { data: { policy: string } };
    expect(data.policy).toContain('path "secret/metadata/console/other/*" {');
    await opened.close();
  });

  it("writes a policy with a token that may not read them, and replaces one only when that is confirmed", async () => {
    const policy = 'path "sys/policies/acl/*" { capabilities = ["create", "update"] }';
    const opened = await suite().open({
      path: "access",
      token: await suite().tokenWith("console-policy-writer", policy),
      refusals: [/40[34] /],
    });
    await click(opened, "Write a policy");
    await dialog(opened).getByLabel(/^Name/).fill("console-unlisted");
    const rules = dialog(opened).getByLabel("Rules", { exact: true });
    const replace = dialog(opened).getByLabel("Replace the policy without having read it");
    const stored = async (): Promise<string> =>
      ((await suite().call("GET", "sys/policies/acl/console-unlisted")) as { data: { policy: string } }).data.policy;
    await rules.fill('path "secret/data/x" { capabilities = ["read"] }');
    await click(opened, "Save policy");
    await dialog(opened).getByText("Your token may not see whether there is a policy console-unlisted.").waitFor();
    await replace.check();
    await opened.expectClean();
    await click(opened, "Save policy");
    await dialog(opened).waitFor({ state: "hidden" });
    expect(await stored()).toContain("secret/data/x");
    // Its text cannot be read, so that there is none to edit.
    await opened.visit("access?policy=console-unlisted");
    await replace.waitFor();
    expect(await rules.count()).toBe(0);
    expect(await dialog(opened).getByRole("button", { name: "Save policy" }).isDisabled()).toBe(true);
    await replace.check();
    await rules.fill('path "secret/data/y" { capabilities = ["read"] }');
    await click(opened, "Save policy");
    await dialog(opened).waitFor({ state: "hidden" });
    expect(await stored()).toContain("secret/data/y");
    await opened.close();
  });

  it("revokes a token by its accessor", async () => {
    const token = await suite().tokenWith("console-revoked", 'path "cubbyhole/*" { capabilities = ["read"] }');
    const { data } = (await suite().call("GET", "auth/token/lookup-self", undefined, { token })) as {
      data: { accessor: string };
    };
    // Tokens of other tests end while they are looked up.
    const opened = await suite().open({ path: "access?tab=tokens", refusals: [/40[03] POST .*lookup-accessor/] });
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

  it("enables a method, creates a user who logs in, and disables the method", async () => {
    const opened = await suite().open({ path: "access?tab=methods", refusals: [/404 GET \/v1\/auth\/console-staff/] });
    const { page } = opened;
    await click(opened, "Enable a method");
    await dialog(opened).getByLabel("Path").fill("console-staff");
    await dialog(opened).getByLabel("Description").fill(CANARY);
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Enable the method" }).click();
    await page.getByRole("heading", { name: "auth/console-staff/", level: 1 }).waitFor();
    await page.getByText("No user yet").waitFor();
    await click(opened, "Create user");
    await dialog(opened).getByLabel(/^Name/).fill("ann");
    await dialog(opened).getByLabel("Password").fill("correct horse battery");
    await dialog(opened)
      .getByLabel(/^Policies/)
      .fill("default");
    await dialog(opened).getByText("As a command").click();
    expect(await dialog(opened).locator(".as-command").textContent()).not.toContain("correct horse");
    await opened.shot("access-user");
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Create user" }).click();
    await page.getByRole("cell", { name: "ann" }).waitFor();
    const login = { password: "correct horse battery" };
    const { auth } = (await suite().call("POST", "auth/console-staff/login/ann", login)) as {
      auth: { policies: string[] };
    };
    expect(auth.policies).toEqual(["default"]);
    await page.getByRole("cell", { name: "ann" }).click();
    await dialog(opened)
      .getByLabel(/^Policies/)
      .fill("default\nconsole-more");
    await click(opened, "Save changes");
    await expect
      .poll(async () => (await suite().call("GET", "auth/console-staff/users/ann")) as object)
      .toMatchObject({ data: { token_policies: ["default", "console-more"] } });
    await page.getByRole("cell", { name: "ann" }).click();
    await click(opened, "Delete");
    await click(opened, "Delete user");
    await page.getByText("No user yet").waitFor();
    await click(opened, "More actions");
    await page.getByRole("menuitem", { name: "Disable this method" }).click();
    await dialog(opened).getByRole("textbox").fill("console-staff");
    await click(opened, "Disable the auth method");
    await page.getByRole("heading", { name: "Access", level: 1 }).waitFor();
    await expect.poll(() => page.getByRole("cell", { name: "auth/console-staff/" }).count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("creates a role for a program with its two ids, with which the program logs in", async () => {
    await suite().call("POST", "sys/auth/console-programs", { type: "approle" });
    const opened = await suite().open({ path: "access/method/console-programs", refusals: [/404 GET/] });
    const { page } = opened;
    await click(opened, "Create role");
    await dialog(opened).getByLabel(/^Name/).fill("deployer");
    await dialog(opened)
      .getByLabel(/^Policies/)
      .fill("default");
    await dialog(opened).getByRole("button", { name: "Create role" }).click();
    await page.getByRole("cell", { name: "deployer" }).click();
    const answer = page.waitForResponse(/\/secret-id$/);
    await click(opened, "Create secret ID");
    const { data } = (await (await answer).json()) as { data: { secret_id: string } };
    const { secret_id } = data;
    await dialog(opened).getByText("Secret ID, shown here only").waitFor();
    expect(await dialog(opened).getByText(secret_id).count()).toBe(0);
    await click(opened, "Reveal the secret ID");
    await dialog(opened).getByText(secret_id).waitFor();
    await opened.shot("access-approle");
    await opened.expectClean();
    const role_id = (await dialog(opened).locator(".with-copy code").first().textContent()) ?? "";
    const { auth } = (await suite().call("POST", "auth/console-programs/login", { role_id, secret_id })) as {
      auth: { client_token: string };
    };
    expect(auth.client_token).toMatch(/^hvs\./);
    await opened.close();
  });

  it("creates an entity and a group with a policy for both", async () => {
    const opened = await suite().open({ path: "access?tab=identities", refusals: [/404 GET \/v1\/identity/] });
    const { page } = opened;
    for (const [noun, name] of [
      ["entity", "console-person"],
      ["group", "console-team"],
    ] as const) {
      await click(opened, `Create ${noun}`);
      await dialog(opened).getByLabel(/^Name/).fill(name);
      await dialog(opened)
        .getByLabel(/^Policies/)
        .fill("default");
      await opened.expectClean();
      await dialog(opened)
        .getByRole("button", { name: `Create ${noun}` })
        .click();
      await page.getByRole("cell", { name }).click();
      await dialog(opened).getByText(/^Id$/).waitFor();
      await opened.shot(`access-${noun}`);
      await opened.expectClean();
      await click(opened, "Cancel");
    }
    await opened.close();
  });

  it("leaves it to the service which policies are valid", async () => {
    const opened = await suite().open({ path: "access", refusals: [/404 GET \/v1\/sys\/policies/] });
    const rules = [
      ['namespace "default" {', '  capabilities = ["host-volume-create", "csi-list-volume"]', "}"],
      ['path "a" { capabilities = ["read"] } # capabilities = ["of people"] } " {'],
      ["/* { */", 'path "a/+/b" { capabilities = ["subscribe"] subscribe_event_types = ["*"] }'],
      ['{"path": {"a": {"capabilities": ["read"]}}}'],
    ];
    for (const [at, lines] of rules.entries()) {
      await click(opened, "Write a policy");
      await dialog(opened).getByLabel(/^Name/).fill(`console-valid-${at}`);
      await dialog(opened).getByLabel("Rules").fill(lines.join("\n"));
      await click(opened, "Save policy");
      await dialog(opened).waitFor({ state: "detached" });
      await opened.page.getByRole("cell", { name: `console-valid-${at}` }).waitFor();
    }
    await opened.expectClean();
    await opened.close();
  });

  it("shows at the rules why the service refuses a policy, and keeps what was typed", async () => {
    const opened = await suite().open({ path: "access", refusals: [/4\d\d (GET|POST) \/v1\/sys\/policies/] });
    await click(opened, "Write a policy");
    await dialog(opened).getByLabel(/^Name/).fill("console-refused");
    const field = dialog(opened).getByLabel("Rules");
    const rules = 'path "secret/*" { capabilities = ["raed"] }';
    await field.fill(rules);
    await click(opened, "Save policy");
    await dialog(opened)
      .locator(".field-error")
      .getByText(/invalid capability "raed"/)
      .waitFor();
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    expect(await dialog(opened).getByLabel("Rules").inputValue()).toBe(rules);
    await opened.expectClean();
    await click(opened, "Cancel");
    await opened.close();
  });

  it("works in the namespace that is selected", async () => {
    await suite().call("PUT", "sys/namespaces/console-separate");
    await suite().call(
      ...(["PUT", "sys/policies/acl/console-inside", { policy: 'path "a" { capabilities = ["read"] }' }] as const),
      { namespace: "console-separate" },
    );
    const opened = await suite().open({ path: "access?ns=console-separate", refusals: [/404 GET/] });
    const { page } = opened;
    const policies = page.getByRole("table", { name: "Policies" });
    await policies.getByText("console-inside").waitFor();
    expect(await policies.getByText("root", { exact: true }).count()).toBe(0);
    await opened.visit("access");
    await policies.getByText("root", { exact: true }).waitFor();
    expect(await policies.getByText("console-inside").count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("keeps a list of 100,000 tokens smooth, and reads only those in sight", async () => {
    const opened = await suite().open();
    const { page } = opened;
    let looked = 0;
    await page.route("**/v1/auth/token/accessors*", (route) =>
      route.fulfill({ json: { data: { keys: Array.from({ length: 100_000 }, (_, at) => `accessor-${at}`) } } }),
    );
    await page.route("**/v1/auth/token/lookup-accessor", async (route) => {
      looked++;
      const { accessor } = route.request().postDataJSON() as { accessor: string };
      const token = { accessor, display_name: `${CANARY} ${accessor}`, policies: [CANARY], meta: null, path: "" };
      await route.fulfill({ json: { data: { ...token, expire_time: null, renewable: false, num_uses: 0 } } });
    });
    await opened.visit("access?tab=tokens");
    const table = page.getByRole("table", { name: "Tokens" });
    await table.getByText(`${CANARY} accessor-0`, { exact: true }).waitFor();
    await table.getByRole("row").nth(1).focus();
    await page.keyboard.press("End");
    await table.getByText(`${CANARY} accessor-99999`, { exact: true }).waitFor();
    expect(await table.locator("tbody tr").count()).toBeLessThan(150);
    expect(looked).toBeLessThan(300);
    await opened.expectClean();
    await opened.close();
  });

  it("fits a telephone, in the dark", async () => {
    const long = `console-${"long-".repeat(20)}name`;
    await suite().call("PUT", `sys/policies/acl/${long}`, { policy: 'path "a" { capabilities = ["read"] }' });
    const opened = await suite().open({ path: "access", viewport: PHONE, theme: "dark" });
    // A name that is cut off is shown whole where the pointer rests on it.
    const cell = opened.page.getByRole("cell", { name: long });
    await cell.hover();
    expect(await cell.getAttribute("title")).toBe(long);
    await suite().call("DELETE", `sys/policies/acl/${long}`);
    await opened.shot("access-phone");
    await opened.expectClean();
    await opened.close();
  });
});
