import { expect, it } from "vitest";
import cloudflare from "../../examples/producers/cloudflare-account-token.json" with { type: "json" };
import { CANARY, type Console, describeConsole } from "./support/console.ts";
import { control, providerBody, providerValue } from "./support/providers.ts";

const MOUNT = "console-azure";
const TEMPLATE = "console-{{ random 20 }}";
/** The service answers 404 for a list without entries, and the browser counts that as a failed load. */
const EMPTY_LISTS = [/404 GET \/v1\/(console-\w+\/[\w-]+|sys\/leases\/lookup\/.+)$/];

const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();
const dialog = (opened: Console) => opened.page.getByRole("dialog");

interface Engine {
  readonly subscription_id: string;
  readonly tenant_id: string;
  readonly client_id: string;
  readonly client_secret: string;
}

interface Role {
  readonly cloud_roles: readonly { readonly role_name: string; readonly scope: string }[];
}

/** The dialog above another one: it opens a moment after the click. */
const confirmation = (opened: Console) => opened.page.locator("dialog.dialog-box");

describeConsole("cloud credentials", (suite) => {
  it("enables an engine, configures it and writes a role", async () => {
    const opened = await suite().open({ path: "credentials", refusals: EMPTY_LISTS });
    await opened.page.getByRole("button", { name: "Enable engine" }).first().click();
    await opened.page.getByLabel(/^Path/).fill(MOUNT);
    await opened.page.getByLabel("Description").fill(CANARY);
    await opened.shot("credentials-enable");
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Enable engine" }).click();
    await opened.page.getByRole("heading", { name: MOUNT, level: 1 }).waitFor();
    const account = providerBody(suite().bench, "cloud-b") as unknown as Engine;
    await opened.page.getByLabel("Tenant ID").fill(account.tenant_id);
    await opened.page.getByLabel("Subscription ID").fill(account.subscription_id);
    await opened.page.getByLabel("Client ID").fill(account.client_id);
    await opened.page.getByLabel("Client secret").fill(account.client_secret);
    await opened.page.getByLabel("Rotation period").fill("30d");
    await click(opened, "Save configuration");
    await opened.page.getByText("every 30 d").waitFor();
    await opened.page.getByText("Next rotation").waitFor();
    await opened.shot("credentials-config");
    await opened.expectClean();
    await opened.page.getByRole("tab", { name: "Roles" }).click();
    await opened.page.getByRole("button", { name: "Create role" }).first().click();
    const [assignment] = (providerBody(suite().bench, "cloud-b-role") as unknown as Role).cloud_roles;
    await opened.page.getByLabel("Name required").fill("reader");
    await opened.page.getByLabel("Role name").fill(assignment?.role_name ?? "");
    await opened.page.getByLabel(/^Scope/).fill(assignment?.scope ?? "");
    await opened.page.getByLabel("TTL", { exact: true }).fill("1h");
    await opened.page.getByLabel("Maximum TTL", { exact: true }).fill("24h");
    await opened.shot("credentials-role-form");
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Create role" }).click();
    await opened.page.getByRole("table", { name: "Roles" }).getByText("reader").waitFor();
    await opened.shot("credentials-roles");
    await opened.expectClean();
    await opened.close();
  });

  it("enables, configures and issues from an engine of another provider, with the fields of its type", async () => {
    const opened = await suite().open({
      path: "credentials",
      refusals: [...EMPTY_LISTS, /404 GET \/v1\/console-aws\//],
    });
    const { page } = opened;
    const account = providerBody(suite().bench, "cloud-a") as unknown as Readonly<Record<string, string>>;
    await page.getByRole("button", { name: "Enable engine" }).first().click();
    await page.getByLabel("Provider").selectOption("AWS");
    expect(await page.getByLabel(/^Path/).inputValue()).toBe("aws");
    await page.getByLabel(/^Path/).fill("console-aws");
    await dialog(opened).getByRole("button", { name: "Enable engine" }).click();
    await page.getByRole("heading", { name: "console-aws", level: 1 }).waitFor();
    await page.getByText("Not configured yet").waitFor();
    await page.getByLabel("Access key ID").fill(account["access_key"] ?? "");
    await page.getByLabel("Secret access key").fill(account["secret_key"] ?? "");
    await page.getByText("More settings").first().click();
    await page.getByLabel("IAM endpoint").fill(account["iam_endpoint"] ?? "");
    await page.getByLabel("STS endpoint").fill(account["sts_endpoint"] ?? "");
    await page.getByLabel("Username template").fill(TEMPLATE);
    await opened.shot("credentials-aws-config");
    await click(opened, "Save configuration");
    await page.getByText("Configured", { exact: true }).waitFor();
    await page.getByLabel("Maximum lease").fill("24h");
    await page.getByLabel(/^Lease/).fill("1h");
    await click(opened, "Save lease");
    await page.getByLabel("Region", { exact: true }).fill("eu-west-1");
    await click(opened, "Save configuration");
    await page.getByText("console-aws is configured.").first().waitFor();
    await expect.poll(() => page.getByLabel("Region", { exact: true }).inputValue()).toBe("eu-west-1");
    const stored = (await suite().call("GET", "console-aws/config/root")) as { data: Record<string, unknown> };
    expect(stored.data).toMatchObject({ region: "eu-west-1", username_template: TEMPLATE });
    await opened.expectClean();
    await page.getByRole("tab", { name: "Roles" }).click();
    await page.getByRole("button", { name: "Create role" }).first().click();
    const user = providerBody(suite().bench, "cloud-a-user") as unknown as { policy_arns: string[] };
    await page.getByLabel("Name required").fill("deploy");
    // The fields of one credential type are shown once it is chosen, and one that was filled for another is not sent.
    const fields = dialog(opened);
    expect(await fields.getByLabel("Role ARNs").count()).toBe(0);
    await page.getByLabel("Credential type").selectOption("assumed_role");
    await fields.getByLabel("Role ARNs").fill("arn:aws:iam::123456789012:role/of-another-type");
    await page.getByLabel("Credential type").selectOption("iam_user");
    expect(await fields.getByLabel("Role ARNs").count()).toBe(0);
    await page.getByLabel("Policy ARNs").fill(user.policy_arns[0] ?? "");
    await opened.shot("credentials-aws-role");
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Create role" }).click();
    await page.getByRole("table", { name: "Roles" }).getByText("deploy").click();
    await page.getByText(user.policy_arns[0] ?? "").waitFor();
    await click(opened, "Issue credentials");
    await dialog(opened).getByRole("button", { name: "Issue credentials" }).click();
    await dialog(opened).getByRole("button", { name: "Copy the secret access key" }).waitFor({ timeout: 60_000 });
    await dialog(opened).getByText("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY").waitFor();
    await dialog(opened).getByText("Ends in").waitFor();
    await opened.shot("credentials-aws-issued");
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Revoke now" }).click();
    await page.getByText("No leases").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows the kinds of roles of a type, each with its own fields", async () => {
    await suite().call("POST", "sys/mounts/console-gcp", { type: "cloud-c" });
    const opened = await suite().open({
      theme: "dark",
      path: "credentials/console-gcp?tab=config",
      refusals: [...EMPTY_LISTS, /404 GET \/v1\/console-gcp\//],
    });
    const { page } = opened;
    await page.getByText("More settings").first().click();
    await page.getByLabel("Service account").fill("engine@acme.iam.gserviceaccount.com");
    await page.getByLabel("Identity token audience").fill("//iam.googleapis.com/projects/1/x");
    await click(opened, "Save configuration");
    await page.getByText("Configured", { exact: true }).waitFor();
    await opened.expectClean();
    await page.getByRole("tab", { name: "Roles" }).click();
    await page.getByRole("button", { name: "Create role" }).first().click();
    await page.getByLabel("Project").waitFor();
    await page.getByLabel("Kind").selectOption("Impersonated account");
    await expect.poll(() => page.getByLabel("Project").count()).toBe(0);
    await page.getByLabel("Token scopes").fill("https://www.googleapis.com/auth/cloud-platform");
    await page.setViewportSize({ width: 360, height: 740 });
    await opened.shot("credentials-gcp-role-phone");
    await opened.expectClean();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    await opened.close();
  });

  it("issues by the paths that the token may use, and lets it choose where it may not read the role", async () => {
    const token = await suite().tokenWith(
      "console-gcp-keys",
      `path "console-gcp/roleset/Deploy/key" { capabilities = ["read"] } path "console-gcp/key/*" { capabilities = ["read"] }
       path "console-gcp/static-accounts" { capabilities = ["list"] }
       path "console-gcp/impersonated-accounts" { capabilities = ["list"] }`,
    );
    const opened = await suite().open({ token, path: "credentials", refusals: [/403 /, ...EMPTY_LISTS] });
    const { page } = opened;
    await page.route("**/v1/console-gcp/rolesets?*", (route) =>
      route.fulfill({ json: { data: { keys: ["Deploy"] } } }),
    );
    await opened.visit("credentials/console-gcp");
    const create = page.getByRole("button", { name: "Create role" });
    await expect.poll(() => create.getAttribute("title")).toContain("console-gcp/roleset/*: update");
    await page.getByLabel("Filter roles").fill("dep");
    await click(opened, "Issue credentials");
    const path = dialog(opened).getByLabel("Path");
    const options = () => path.locator("option").allTextContents();
    await expect.poll(options).toEqual(["console-gcp/roleset/Deploy/key", "console-gcp/key/Deploy"]);
    await opened.expectClean();
    await dialog(opened).getByText("As a command").click();
    await dialog(opened).getByText("/v1/console-gcp/roleset/Deploy/key").waitFor();
    await path.selectOption("console-gcp/key/Deploy");
    await dialog(opened).getByText("/v1/console-gcp/key/Deploy").waitFor();
    await opened.close();
  });

  it("shows the service's error when a role cannot be written", async () => {
    const opened = await suite().open({
      path: `credentials/${MOUNT}`,
      refusals: [/400 POST \/v1\/console-azure\/roles\/wrong/],
    });
    await opened.page.getByRole("button", { name: "Create role" }).first().click();
    await opened.page.getByLabel("Name required").fill("wrong");
    await opened.page.getByLabel("Role name").fill(CANARY);
    await opened.page.getByLabel(/^Scope/).fill("/subscriptions/none");
    await dialog(opened).getByRole("button", { name: "Create role" }).click();
    await dialog(opened).getByText("Request", { exact: true }).click();
    await dialog(opened).getByText("400 POST /v1/console-azure/roles/wrong").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("issues credentials once, with copy and countdown, then renews and revokes the lease", async () => {
    const opened = await suite().open({ path: `credentials/${MOUNT}/reader`, refusals: EMPTY_LISTS });
    await opened.page.getByText("Reader").first().waitFor();
    await click(opened, "Issue credentials");
    await dialog(opened).getByRole("button", { name: "Issue credentials" }).click();
    await opened.page.getByText("Copy the secret now: it is not shown again.").waitFor();
    await dialog(opened).getByRole("button", { name: "Copy the client secret" }).click();
    const secret = await opened.page.evaluate(() => navigator.clipboard.readText());
    expect(secret.length).toBeGreaterThan(20);
    expect(await opened.page.content()).not.toContain(secret);
    await dialog(opened).getByRole("button", { name: "Reveal the client secret" }).click();
    await opened.page.getByText(secret).waitFor();
    await opened.shot("credentials-issued");
    await opened.expectClean();
    await click(opened, "Done");
    const table = opened.page.getByRole("table", { name: "Leases" });
    await table.getByText("Active").waitFor();
    await opened.picture("console-credentials");
    await opened.expectClean();
    await table.getByText("reader").click();
    await opened.page.getByLabel("Renew for").fill("2h");
    await click(opened, "Renew lease");
    await opened.page.getByLabel("Messages").getByText("The lease ends in 2 h.").waitFor();
    await opened.shot("credentials-lease");
    await opened.expectClean();
    await click(opened, "Revoke lease");
    await confirmation(opened).getByRole("button", { name: "Revoke lease" }).click();
    await opened.page.getByText("No leases").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("issues them to a token with the rules that the console writes for a role", async () => {
    const token = await suite().tokenWith(
      "console-issuer",
      `path "${MOUNT}/creds/reader" { capabilities = ["read"] } path "${MOUNT}/roles" { capabilities = ["list"] }
       path "${MOUNT}/static-roles" { capabilities = ["list"] }`,
    );
    const opened = await suite().open({ token, path: "credentials", refusals: [/403 /, ...EMPTY_LISTS] });
    await click(opened, "Issue credentials");
    await dialog(opened).getByLabel("Engine").selectOption(MOUNT);
    await expect.poll(() => dialog(opened).getByLabel("Role").inputValue()).toBe("reader");
    await dialog(opened).getByRole("button", { name: "Continue" }).click();
    await dialog(opened).getByRole("button", { name: "Issue credentials" }).click();
    await dialog(opened).getByText("Copy the secret now: it is not shown again.").waitFor();
    await dialog(opened).getByText("Ends in").waitFor();
    await opened.expectClean();
    await opened.close();
    await suite().call("PUT", `sys/leases/revoke-prefix/${MOUNT}/creds/reader`, { sync: true });
  });

  it("issues from the first page after showing life and rights, and revokes from the list", async () => {
    const opened = await suite().open({ path: "credentials", refusals: EMPTY_LISTS });
    const { page } = opened;
    await click(opened, "Issue credentials");
    await dialog(opened).getByLabel("Engine").selectOption(MOUNT);
    await expect.poll(() => dialog(opened).getByLabel("Role").inputValue()).toBe("reader");
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Continue" }).click();
    await dialog(opened).getByText("1 h; with renewals 1 d at most").waitFor();
    await dialog(opened).getByText("or with your token if that ends first").waitFor();
    await dialog(opened).getByText("/subscriptions/").first().waitFor();
    await opened.shot("credentials-terms");
    await opened.expectClean();
    const answer = Promise.withResolvers<void>();
    await page.route(`**/v1/${MOUNT}/creds/**`, async (route) => {
      await answer.promise;
      await route.continue();
    });
    await dialog(opened).getByRole("button", { name: "Issue credentials" }).click();
    // Credentials that are being made are not left unseen.
    await dialog(opened).getByText("The provider takes its time").waitFor();
    await page.keyboard.press("Escape");
    await dialog(opened).getByText("Close? Nothing shows the credentials again.").waitFor();
    await dialog(opened).getByRole("button", { name: "Keep it open" }).click();
    answer.resolve();
    await dialog(opened).getByRole("button", { name: "Done" }).click();
    await opened.visit(`credentials/${MOUNT}?tab=leases`);
    const row = page.getByRole("table", { name: "Leases" }).getByRole("row").filter({ hasText: "Active" });
    await row.first().getByText("reader").click();
    await dialog(opened).getByText("root (you)").waitFor();
    await opened.expectClean();
    await page.keyboard.press("Escape");
    await row.first().getByRole("button", { name: "Revoke" }).click();
    await confirmation(opened).getByRole("button", { name: "Revoke lease" }).click();
    await page.getByText("No leases").waitFor();
    await opened.close();
  });

  it("shows a lease that cannot be revoked with the reason", async () => {
    const everything = new URL(providerValue(suite().bench, "CLOUD_B_EVERYTHING"));
    const faults = `${everything.origin}/_double/faults${everything.search}`;
    const { lease_id } = (await suite().call("GET", `${MOUNT}/creds/reader?verify=true`)) as { lease_id: string };
    await control(faults, "POST", {
      count: 500,
      operation: "DeleteApplication",
      fault: "error",
      status: 403,
      code: "Authorization_RequestDenied",
      message: CANARY,
    });
    await suite()
      .call("POST", "sys/leases/revoke", { lease_id })
      .catch(() => null);
    const opened = await suite().open({
      path: `credentials/${MOUNT}?tab=leases`,
      refusals: [...EMPTY_LISTS, /400 POST \/v1\/sys\/leases\/revoke/],
    });
    await opened.page.getByRole("table", { name: "Leases" }).getByText("Not revoked").waitFor();
    await opened.shot("credentials-leases");
    await opened.page.getByRole("row").filter({ hasText: "Not revoked" }).getByText("reader").click();
    await opened.page.getByText("It could not be revoked.").waitFor();
    await opened.shot("credentials-irrevocable");
    await opened.expectClean();
    await control(faults, "DELETE");
    await click(opened, "Forget lease");
    await confirmation(opened).getByRole("button", { name: "Forget lease" }).click();
    await opened.page.getByText("No leases").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows how many credentials of a pool are ready, also when none is", async () => {
    const everything = new URL(providerValue(suite().bench, "CLOUD_B_EVERYTHING"));
    const faults = `${everything.origin}/_double/faults${everything.search}`;
    await control(faults, "POST", { count: 500, operation: "CreateApplication", fault: "error", status: 503 });
    await suite().call("POST", `${MOUNT}/roles/reader`, { pool_size: 1 });
    const opened = await suite().open({ path: `credentials/${MOUNT}?tab=roles`, refusals: EMPTY_LISTS });
    await opened.page.getByRole("table", { name: "Roles" }).getByText("reader").click();
    await opened.page.getByText(/Ready in the pool\s*0/).waitFor();
    await opened.close();
    await suite().call("POST", `${MOUNT}/roles/reader`, { pool_size: 0 });
    await control(faults, "DELETE");
  });

  it("revokes leases by prefix and shows the progress", async () => {
    for (let n = 0; n < 3; n++) await suite().call("GET", `${MOUNT}/creds/reader`);
    const opened = await suite().open({ path: `credentials/${MOUNT}?tab=leases`, refusals: EMPTY_LISTS });
    await opened.page.getByRole("table", { name: "Leases" }).getByText("Active").nth(2).waitFor();
    await click(opened, "More actions with leases");
    await opened.page.getByRole("menuitem", { name: "Revoke by prefix" }).click();
    await opened.page.getByText(/3 leases end: software/).waitFor();
    await opened.shot("credentials-revoke-prefix");
    await opened.expectClean();
    await click(opened, "Revoke 3 leases");
    await opened.page.getByText("All leases below the prefix are revoked").waitFor({ timeout: 110_000 });
    await opened.shot("credentials-revoked");
    await opened.expectClean();
    await opened.close();
  });

  it("rotates the root secret, and shows the settings that federation needs", async () => {
    const opened = await suite().open({ path: `credentials/${MOUNT}?tab=config`, refusals: EMPTY_LISTS });
    await click(opened, "Rotate root secret now");
    await dialog(opened).getByRole("button", { name: "Rotate root secret" }).click();
    await opened.page.getByText("Valid for").waitFor();
    await opened.page.getByText("Root secret ends in").waitFor({ timeout: 60_000 });
    await opened.page.getByRole("tab", { name: "Federation" }).click();
    await opened.page
      .getByText(/plugin-identity:root:secret:/)
      .first()
      .waitFor();
    await opened.shot("credentials-federation");
    await opened.expectClean();
    await opened.visit("credentials?tab=issuer");
    await opened.page.getByText("Signing keys").waitFor();
    await opened.shot("credentials-issuer");
    await opened.expectClean();
    await opened.visit("credentials");
    await opened.page.getByRole("table", { name: "Engines" }).getByText("Configured").first().waitFor();
    await opened.shot("credentials-engines");
    await opened.expectClean();
    await opened.close();
  });

  it("shows the calls of an HTTPS producer's definition without its secrets", async () => {
    const mount = "console-producer";
    await suite().call("POST", `sys/mounts/${mount}`, { type: "https-producer" });
    const config = { ...cloudflare, secrets: { token: CANARY }, vars: { account: "ab".repeat(16), permission: "p" } };
    const body = { ...config, vars: { ...config.vars, root_permission: "r" } };
    expect(await suite().call("POST", `${mount}/config`, body)).toBeNull();
    const opened = await suite().open({ path: `credentials/${mount}?tab=config`, refusals: EMPTY_LISTS });
    await click(opened, "Show calls");
    const call = opened.page.getByRole("group", { name: "the call root.create" });
    await call.waitFor();
    expect(await call.textContent()).toContain("authorization: Bearer ***");
    await opened.shot("credentials-dry-run");
    await opened.expectClean();
    await opened.close();
    await suite().call("DELETE", `sys/mounts/${mount}`);
  });

  it("replaces data that the token cannot read by a note, and breaks no page", async () => {
    const token = await suite().tokenWith(
      "console-credentials-none",
      `path "${MOUNT}/creds/reader" { capabilities = ["read"] }`,
    );
    const opened = await suite().open({
      token,
      path: "credentials",
      refusals: [/403 (GET|POST) /, /404 GET /],
    });
    for (const path of [
      "credentials",
      "credentials?tab=issuer",
      `credentials/${MOUNT}`,
      `credentials/${MOUNT}?tab=leases`,
      `credentials/${MOUNT}?tab=config`,
      `credentials/${MOUNT}?tab=federation`,
      `credentials/${MOUNT}/reader`,
    ]) {
      await opened.visit(path);
      await opened.page.getByRole("heading", { level: 1 }).waitFor();
      await opened.page.waitForLoadState("networkidle");
      await opened.expectClean();
    }
    await opened.shot("credentials-denied");
    await opened.close();
  });

  it("fits a phone in dark mode", async () => {
    const opened = await suite().open({
      theme: "dark",
      path: `credentials/${MOUNT}/reader`,
      refusals: EMPTY_LISTS,
    });
    await opened.page.getByText("Reader").first().waitFor();
    await opened.page.setViewportSize({ width: 360, height: 740 });
    for (const path of [
      `credentials/${MOUNT}/reader`,
      "credentials",
      `credentials/${MOUNT}?tab=config`,
      `credentials/${MOUNT}?tab=federation`,
    ]) {
      await opened.visit(path);
      await opened.page.getByRole("heading", { level: 1 }).waitFor();
      await opened.shot(`${path.replaceAll(/\W/g, "-")}-phone`);
      await opened.expectClean();
      expect(await opened.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    }
    await opened.close();
  });
});
