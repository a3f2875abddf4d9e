import { expect, it } from "vitest";
import { CANARY, type Console, describeConsole, type Suite } from "./support/console.ts";
import { control, providerBody, providerValue } from "./support/providers.ts";

const PHONE = { width: 360, height: 740 };
/** The service answers 404 for a list without entries, and the browser counts that as a failed load. */
const EMPTY_LISTS = [/404 GET \/v1\/sys\/sync\/(destinations|repo-host-apps)$/];

/** A path of a secret that does harm where it is taken for HTML. Slashes separate segments. */
const NAME = `ui/${CANARY.replaceAll("/", "")}`;

const write = (suite: Suite, path: string, data: Record<string, string>): Promise<unknown> =>
  suite.call("POST", `secret/data/${path.split("/").map(encodeURIComponent).join("/")}`, { data });

/** The pause of all destinations is in a menu, not among the buttons. */
async function askToPause(opened: Console): Promise<void> {
  await opened.page.getByRole("button", { name: "More actions" }).click();
  await opened.page.getByRole("menuitem", { name: "Pause all syncing" }).click();
}

const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();

/** Fields of a form by label, from the body of a destination. */
const FIELDS: Readonly<Record<string, string>> = {
  access_key_id: "Access key ID",
  secret_access_key: "Secret access key",
  region: "Region",
  key_vault_uri: "Vault URI",
  tenant_id: "Tenant ID",
  client_id: "Client ID",
  client_secret: "Client secret",
  credentials: "Key of the service account",
  access_token: "Access token",
  app_name: "Application",
  installation_id: "Installation ID",
  repository_owner: "Owner",
  repository_name: "Repository",
  project_id: "Project ID",
  deployment_environments: "Environments",
  host: "API server",
  namespace: "Namespace",
  token: "Token",
  url: "URL",
};

async function fill(opened: Console, body: Readonly<Record<string, unknown>>): Promise<void> {
  for (const [name, value] of Object.entries(body)) {
    if (name === "headers") await fillHeaders(opened, value as Record<string, string>);
    // The other fields are optional, and not in sight.
    if (!FIELDS[name]) continue;
    const text = Array.isArray(value) ? value.join("\n") : String(value);
    await opened.page.getByLabel(new RegExp(`^${FIELDS[name]}( required)?$`)).fill(text);
  }
}

async function fillHeaders(opened: Console, headers: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, value] of Object.entries(headers)) {
    await click(opened, "Add header");
    await opened.page.getByPlaceholder("header").last().fill(name);
    await opened.page.getByLabel(`Value of ${name}`).fill(value);
  }
}

const TYPES = ["cloud-a-sm", "cloud-b-kv", "cloud-c-sm", "repo-host", "deploy-project"];
const LATER_TYPES = ["cluster-secrets", "ci-variables", "https"];

describeConsole("sync board", (suite) => {
  it("creates a destination of each provider from its schema's form and verifies it", async () => {
    const opened = await suite().open({ path: "sync", refusals: EMPTY_LISTS });
    await askToPause(opened);
    await opened.page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    const app = providerBody(suite().bench, "repo-host-app");
    await opened.visit("sync?tab=apps");
    await click(opened, "Add application");
    await opened.page.getByLabel(/^Name/).fill("sync-bot");
    await opened.page.getByLabel(/^App ID/).fill(String(app["app_id"]));
    await opened.page.getByLabel(/^Private key/).fill(String(app["private_key"]));
    await opened.page.getByRole("dialog").getByRole("button", { name: "Add application" }).click();
    await opened.page.getByRole("table", { name: "Applications" }).getByText("sync-bot").waitFor();
    await opened.shot("sync-apps");
    for (const type of [...TYPES, ...LATER_TYPES, "in-mem"]) {
      await opened.visit("sync/new");
      await opened.page.locator(`.sync-types a[href$="/${type}"]`).click();
      await opened.page.getByLabel(/^Name required$/).fill("console");
      if (type !== "in-mem") await fill(opened, providerBody(suite().bench, type));
      // A field that the service always refuses is no part of the form.
      expect(await opened.page.getByLabel(/^CA cert/).count()).toBe(0);
      await click(opened, "Check without creating");
      await opened.page.getByText("The form is complete; the login is checked once it is created").waitFor();
      if (type === "cloud-a-sm" || type === "repo-host") {
        await opened.shot(`sync-create-${type}`);
        await opened.expectClean();
      }
      await click(opened, "Create destination");
      await opened.page.getByRole("heading", { name: "console", level: 1 }).waitFor();
      await opened.page.getByText(/^The (credentials are accepted|destination keeps)/).waitFor();
    }
    await opened.expectClean();
    await opened.close();
    // The table of secrets begins with few destinations.
    for (const type of LATER_TYPES) await suite().call("DELETE", `sys/sync/destinations/${type}/console`);
  });

  it("shows an invalid field's error at the field", async () => {
    const opened = await suite().open({
      path: "sync/new/cloud-b-kv",
      refusals: [/400 POST \/v1\/sys\/sync\/destinations\/cloud-b-kv\/console-wrong/],
    });
    await opened.page.getByLabel(/^Name required$/).fill("console-wrong");
    await fill(opened, { ...providerBody(suite().bench, "cloud-b-kv"), key_vault_uri: "https://vault.example.com" });
    await click(opened, "Check without creating");
    await opened.page
      .getByText(/key_vault_uri|provider|host/i)
      .first()
      .waitFor();
    await opened.shot("sync-create-refused");
    await opened.expectClean();
    await opened.close();
  });

  it("previews and syncs a secret, and shows it in the table of secrets", async () => {
    await write(suite(), NAME, { password: CANARY });
    const opened = await suite().open({ path: "sync/in-mem/console", refusals: EMPTY_LISTS });
    await click(opened, "Verify");
    await opened.page.getByText("The destination keeps its objects itself").waitFor();
    await click(opened, "Sync a secret");
    await opened.page.getByLabel(/^Path of the secret/).fill(NAME);
    await click(opened, "Preview");
    await opened.page.getByRole("region", { name: "Preview" }).getByText("Create").waitFor();
    await opened.shot("sync-preview");
    await opened.expectClean();
    await click(opened, "Sync secret");
    await opened.page.getByRole("table", { name: "Secrets of the destination" }).getByText("Synced").waitFor();
    await opened.page.getByRole("tab", { name: "Objects" }).click();
    await opened.page
      .getByRole("button", { name: /^Reveal/ })
      .first()
      .click();
    await opened.page.getByText("{{7*7}}").first().waitFor();
    await opened.expectClean();
    await opened.page.getByRole("tab", { name: "Settings" }).click();
    await opened.page.getByText("Name template").waitFor();
    await opened.visit("sync?tab=matrix");
    const row = opened.page.getByRole("row").filter({ hasText: "onerror" });
    await row.getByText("Synced").first().waitFor();
    await opened.expectClean();
    await row.focus();
    await opened.page.keyboard.press("Enter");
    await opened.page.getByRole("dialog").getByText("Version there").waitFor();
    await opened.shot("sync-secret");
    await opened.expectClean();
    await opened.close();
  });

  it("adds a rule after a preview of its objects, pauses it, and deletes it", async () => {
    await write(suite(), "rules/one", { password: CANARY });
    const opened = await suite().open({
      path: "sync/in-mem/console?tab=rules",
      refusals: [...EMPTY_LISTS, /400 POST .*\/rules\/web/, /404 GET .*\/rules(\/web)?$/],
    });
    await opened.page.getByRole("tab", { name: "Rules" }).click();
    await click(opened, "Add rule");
    await opened.page.getByLabel(/^Name required$/).fill("web");
    await opened.page.getByLabel(/^Secrets engine required$/).fill("secret");
    await click(opened, "Preview");
    await opened.page
      .getByText(/set match_all=true/)
      .first()
      .waitFor();
    await opened.page.getByLabel(/^Path prefix/).fill("rules/");
    await click(opened, "Preview");
    await opened.page.getByRole("region", { name: "Preview" }).getByText("Matches 1 secret: 1 create.").waitFor();
    await opened.shot("sync-rule-preview");
    await opened.expectClean();
    await click(opened, "Save rule");
    const table = opened.page.getByRole("table", { name: "Rules" });
    await table.getByText("Active").waitFor();
    await table.getByText("1 of 1").waitFor();
    await opened.shot("sync-rules");
    await opened.expectClean();
    await opened.page.getByRole("tab", { name: "Secrets" }).click();
    await opened.page.getByText(/^Rule web \(1\)$/).click();
    const secrets = opened.page.getByRole("table", { name: "Secrets of the destination" });
    await secrets.getByText("Rule web").waitFor();
    expect(await secrets.getByRole("row").count()).toBe(2);
    await opened.shot("sync-origins");
    await opened.expectClean();
    await opened.page.getByRole("tab", { name: "Rules" }).click();
    const choose = async (item: string) => {
      await click(opened, "Actions of web");
      await opened.page.getByRole("menuitem", { name: item }).click();
    };
    await choose("Pause");
    await table.getByText("Paused").waitFor();
    await choose("Edit");
    await opened.page.getByLabel(/^Path prefix/).fill("rules/none");
    await opened.page.getByLabel(/^Paused/).uncheck();
    await opened.page.getByRole("dialog").getByText("More settings").click();
    await opened.page.getByLabel(/^Priority/).fill("0");
    await click(opened, "Save rule");
    await table.getByText("0 of 0").waitFor();
    // A zero is no empty setting.
    await choose("Edit");
    await click(opened, "Save rule");
    await opened.page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(await suite().call("GET", "sys/sync/destinations/in-mem/console/rules/web")).toMatchObject({
      data: { priority: 0 },
    });
    await choose("Delete");
    await opened.page.getByRole("dialog").getByRole("button", { name: "Delete rule" }).click();
    await opened.page.getByText("No rules yet").waitFor();
    await opened.close();
  });

  it("shows why a push failed and when it is retried, and retries it at once", async () => {
    const faults = providerValue(suite().bench, "CLOUD_A");
    const opened = await suite().open({ path: "sync/cloud-a-sm/console", refusals: EMPTY_LISTS });
    await control(`${faults}/faults`, "POST", {
      count: 50,
      fault: "error",
      status: 400,
      code: "AccessDeniedException",
      message: CANARY,
    });
    await click(opened, "Sync a secret");
    await opened.page.getByLabel(/^Path of the secret/).fill("app/database");
    await click(opened, "Sync secret");
    await opened.page
      .getByRole("table", { name: "Secrets of the destination" })
      .getByText("Failing", { exact: true })
      .waitFor();
    await opened.page.getByRole("row").filter({ hasText: "app/database" }).first().click();
    await opened.page.getByRole("dialog").getByText("CreateSecret was refused").waitFor();
    await opened.shot("sync-failure");
    await opened.expectClean();
    await opened.visit("sync");
    await opened.page
      .getByRole("table", { name: "Destinations" })
      .getByText(/failing|Paused after failures/)
      .waitFor();
    await opened.picture("console-sync");
    await opened.expectClean();
    await opened.visit("sync?tab=matrix&show=failing");
    await opened.page.getByText("Failing", { exact: true }).first().waitFor();
    await opened.shot("sync-matrix-failing");
    await control(`${faults}/clear-faults`, "POST");
    await opened.visit("sync/cloud-a-sm/console");
    await click(opened, "Push 1 failing secret");
    await opened.page.getByRole("table", { name: "Secrets of the destination" }).getByText("Synced").waitFor();
    await opened.page.getByRole("tab", { name: "Drift" }).click();
    await click(opened, "Compare with the provider");
    await opened.page.getByRole("table", { name: "Comparison with the provider" }).getByText("In sync").waitFor();
    await opened.shot("sync-drift");
    await opened.expectClean();
    await opened.close();
  });

  it("pauses and resumes syncing, and sets the queue capacity", async () => {
    const opened = await suite().open({ path: "sync?tab=queue", refusals: EMPTY_LISTS });
    await askToPause(opened);
    await opened.page.getByRole("dialog").getByRole("button", { name: "Pause all syncing" }).click();
    await opened.page.getByText("Syncing is paused").waitFor();
    await write(suite(), "app/database", { username: "app", password: "while-paused" });
    await opened.page.getByLabel("Capacity").fill("5000");
    await click(opened, "Set capacity");
    await opened.page.getByText("of 5,000 places").first().waitFor();
    await opened.shot("sync-paused");
    await opened.expectClean();
    await click(opened, "Resume syncing");
    await opened.page.getByText("Syncing is paused").waitFor({ state: "detached" });
    await suite().call("DELETE", "sys/sync/config");
    await opened.close();
  });

  it("changes a destination after a preview", async () => {
    const opened = await suite().open({ path: "sync/cloud-a-sm/console" });
    await click(opened, "Edit");
    await opened.page.getByLabel("Name template").fill("console/{{ .SecretPath }}");
    await click(opened, "Preview");
    await opened.page.getByRole("region", { name: "Preview" }).getByText("console/app/database").waitFor();
    await opened.expectClean();
    await opened.shot("sync-edit");
    await click(opened, "Save changes");
    await opened.page.getByRole("tab", { name: "Settings" }).click();
    await opened.page.getByText("console/{{ .SecretPath }}").waitFor();
    await opened.shot("sync-settings");
    await opened.expectClean();
    await opened.close();
  });

  it("purges a destination after its name was typed in", async () => {
    const opened = await suite().open({
      path: "sync/cloud-a-sm/console",
      refusals: [...EMPTY_LISTS, /404 GET \/v1\/sys\/sync\/destinations\/cloud-a-sm\/console/],
    });
    await opened.page.getByRole("button", { name: "More actions" }).click();
    await opened.page.getByRole("menuitem", { name: "Delete destination" }).click();
    await opened.page.getByText(/will be deleted\. Software that reads them there will fail/).waitFor();
    const button = opened.page.getByRole("button", { name: "Purge destination" });
    expect(await button.isDisabled()).toBe(true);
    await opened.page.getByLabel("Type console to confirm").fill("console");
    await opened.shot("sync-purge");
    await opened.expectClean();
    await button.click();
    await opened.page.getByText("There is no such destination").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("replaces data that the token cannot read by a note, and breaks no page", async () => {
    const token = await suite().tokenWith(
      "console-sync-none",
      'path "sys/internal/ui/mounts" { capabilities = ["read"] }',
    );
    const opened = await suite().open({ token, path: "sync", refusals: [/403 (GET|POST|PATCH) /, /404 GET /] });
    await opened.page.getByText("Not allowed").first().waitFor();
    await opened.shot("sync-denied");
    await opened.expectClean();
    for (const path of [
      "sync?tab=matrix",
      "sync?tab=queue",
      "sync?tab=apps",
      "sync/in-mem/playground",
      "sync/new/in-mem",
    ]) {
      await opened.visit(path);
      await opened.page.getByRole("heading", { level: 1 }).waitFor();
      await opened.expectClean();
    }
    await opened.close();
  });

  it("fits a phone in dark mode", async () => {
    const opened = await suite().open({ theme: "dark", path: "sync", refusals: EMPTY_LISTS });
    await opened.page.getByRole("table", { name: "Destinations" }).getByText("playground").waitFor();
    await opened.shot("sync-board-dark");
    await opened.page.setViewportSize(PHONE);
    await opened.page.getByRole("table", { name: "Destinations" }).getByText("playground").waitFor();
    await opened.shot("sync-board-phone");
    await opened.expectClean();
    for (const path of ["sync?tab=matrix", "sync/in-mem/playground", "sync/new/cloud-a-sm"]) {
      await opened.visit(path);
      await opened.page.getByRole("heading", { level: 1 }).waitFor();
      await opened.shot(`${path.replaceAll(/\W/g, "-")}-phone`);
      await opened.expectClean();
      expect(await opened.page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    }
    await opened.close();
  });
});
