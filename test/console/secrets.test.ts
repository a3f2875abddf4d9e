import { expect, it } from "vitest";
import { CANARY, type Console, describeConsole } from "./support/console.ts";

/** Opens a secret of the seeds. */
const DATABASE = "secrets/secret/at/app/database";

describeConsole("secrets", (suite) => {
  const openSecret = (path: string, refusals: RegExp[] = []): Promise<Console> => suite().open({ path, refusals });

  it("navigates from the engines through the tree to a secret", async () => {
    const opened = await suite().open({ path: "secrets" });
    const { page } = opened;
    await page.getByRole("link", { name: "secret/" }).click();
    await page.getByRole("treeitem", { name: "app" }).click();
    await page.getByRole("treeitem", { name: "database" }).click();
    await page.getByRole("heading", { name: "app/database" }).waitFor();
    await expect.poll(() => new URL(page.url()).pathname).toBe(`/ui/${DATABASE}`);
    await opened.expectClean();
    await opened.picture("console-secrets");
    await opened.close();
  });

  it("hides values until they are revealed, and copies hidden values", async () => {
    await suite().call("PUT", "secret/data/console/masked", { data: { password: "correct horse" } });
    const opened = await openSecret("secrets/secret/at/console/masked");
    const { page } = opened;
    await page.getByRole("rowheader", { name: "password" }).waitFor();
    expect(await page.content()).not.toContain("correct horse");
    await page.getByRole("button", { name: "Copy password" }).click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("correct horse");
    await page.getByRole("button", { name: "Reveal password" }).click();
    await page.getByText("correct horse").waitFor();
    await page.getByRole("button", { name: "Hide password" }).click();
    expect(await page.content()).not.toContain("correct horse");
    await opened.expectClean();
    await opened.close();
  });

  it("writes, patches, compares, deletes, undeletes and destroys versions", async () => {
    await suite().call("DELETE", "secret/metadata/console/flow");
    const opened = await suite().open({ path: "secrets/secret", refusals: [/400 POST \/v1\/secret\/data/] });
    const { page } = opened;
    await page.getByRole("button", { name: "New secret" }).click();
    await page.getByRole("dialog").getByLabel("Path").fill("console/flow");
    await page.getByLabel("Name of key 1", { exact: true }).fill("user");
    await page.getByLabel("Value of user", { exact: true }).fill("ann");
    await page.getByRole("button", { name: "Add key" }).click();
    await page.getByLabel("Name of key 2", { exact: true }).fill("password");
    await page.getByLabel("Value of password", { exact: true }).fill("first");
    await opened.expectClean();
    await page.getByRole("button", { name: "Write the secret" }).click();
    await page.getByRole("heading", { name: "console/flow" }).waitFor();

    await page.getByRole("button", { name: "Write a new version" }).click();
    await page.getByLabel("Value of password", { exact: true }).fill("second");
    await page.getByLabel(/^Send only what changed/).check();
    await page.getByText("As a command").click();
    expect(await page.getByRole("dialog").textContent()).not.toContain("second");
    await page.getByRole("button", { name: "Write the new version" }).click();
    await page.getByRole("tab", { name: "Versions 2" }).click();
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText("1 key is the same").waitFor();
    await page.getByRole("button", { name: "Reveal the values" }).click();
    await page.getByText("first", { exact: true }).waitFor();
    await opened.expectClean();
    await opened.shot("secrets-versions");

    const act = async (version: number, action: string) => {
      await page.getByRole("button", { name: `Actions of version ${version}` }).click();
      await page.getByRole("menuitem", { name: action }).click();
    };
    await act(1, "Roll back to this version");
    await suite().call("POST", "secret/data/console/flow", { data: { user: "ben" } });
    await page.getByRole("button", { name: "Roll back to version 1" }).click();
    await page.getByText("Another version was written meanwhile.").waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("row", { name: /^3, newest Live/ }).waitFor();
    // The comparison of the versions before is no longer shown.
    expect(await page.getByText("1 key is the same").count()).toBe(0);
    await act(1, "Roll back to this version");
    await page.getByRole("button", { name: "Roll back to version 1" }).click();
    await page.getByRole("row", { name: /^4, newest Live .* root/ }).waitFor();
    expect(await suite().call("GET", "secret/data/console/flow")).toMatchObject({
      data: { data: { user: "ann", password: "first" } },
    });
    // Any two versions.
    for (const [from, to, text] of [
      ["1", "4", "Versions 1 and 4 hold the same"],
      ["2", "3", "0 keys are the same"],
    ] as const) {
      await page.getByLabel("From", { exact: true }).selectOption(from);
      await page.getByLabel("To", { exact: true }).selectOption(to);
      await page.getByRole("button", { name: "Compare" }).click();
      await page.getByText(text).waitFor();
    }
    await page.getByRole("button", { name: "Reveal the values" }).click();
    for (const text of ["ann", "ben", "second"]) await page.getByText(text, { exact: true }).waitFor();
    await act(1, "Delete");
    await page.getByRole("button", { name: "Delete version 1" }).click();
    await page.getByRole("row", { name: /^1 Deleted by root/ }).waitFor();
    await act(1, "Undelete");
    await page.getByRole("row", { name: /^1 Live/ }).waitFor();
    await act(1, "Destroy");
    await page.getByRole("button", { name: "Destroy version 1" }).click();
    await page.getByRole("row", { name: /^1 Destroyed/ }).waitFor();
    await opened.expectClean();

    await page.getByRole("button", { name: "More about the secret" }).click();
    await page.getByRole("menuitem", { name: "Delete the secret" }).click();
    const verb = page.getByRole("dialog").getByRole("button", { name: "Delete the secret" });
    expect(await verb.isEnabled()).toBe(false);
    await page.getByLabel("Type flow to confirm").fill("flow");
    await expect.poll(() => verb.isEnabled()).toBe(true);
    await opened.expectClean();
    await verb.click();
    await page.getByText("Select a secret").waitFor();
    await opened.close();
  });

  it("does not overwrite a concurrent change of the secret", async () => {
    await suite().call("PUT", "secret/data/console/guarded", { data: { a: "1" } });
    const opened = await openSecret("secrets/secret/at/console/guarded", [/400 POST/]);
    const { page } = opened;
    await page.getByRole("button", { name: "Write a new version" }).click();
    await suite().call("PUT", "secret/data/console/guarded", { data: { a: "2" } });
    await page.getByLabel("Value of a", { exact: true }).fill("3");
    await page.getByRole("button", { name: "Write the new version" }).click();
    await page.getByText("check-and-set parameter did not match the current version").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("keeps the types and digits of non-text values", async () => {
    await suite().call("DELETE", "secret/metadata/console/types");
    await suite().call("PUT", "secret/data/console/types", { data: { text: "a" } });
    const big = '{"data":{"big":123456789012345678901234567890,"list":[1,2],"text":"a"}}';
    await fetch(`${suite().bench.url}/v1/secret/data/console/types`, {
      method: "POST",
      headers: { "X-Orch-Token": suite().bench.token },
      body: big,
    });
    const opened = await openSecret("secrets/secret/at/console/types");
    const { page } = opened;
    await page.getByRole("button", { name: "Write a new version" }).click();
    await page.getByLabel("Value of text", { exact: true }).fill("b");
    await page.getByRole("button", { name: "Write the new version" }).click();
    await page.getByText(/^Version 3, written/).waitFor();
    const read = await fetch(`${suite().bench.url}/v1/secret/data/console/types`, {
      headers: { "X-Orch-Token": suite().bench.token },
    });
    expect(await read.text()).toContain('"data":{"big":123456789012345678901234567890,"list":[1,2],"text":"b"}');
    await opened.expectClean();
    await opened.close();
  });

  it("shows names, values and metadata with markup as text", async () => {
    const name = CANARY.replaceAll("/", "⁄");
    await suite().call("PUT", `secret/data/console/${encodeURIComponent(name)}`, { data: { [CANARY]: CANARY } });
    await suite().call("POST", `secret/metadata/console/${encodeURIComponent(name)}`, {
      custom_metadata: { canary: CANARY.slice(0, 512) },
    });
    const opened = await suite().open({ path: "secrets/secret" });
    const { page } = opened;
    await page.getByRole("treeitem", { name: "console" }).click();
    await page.getByRole("treeitem", { name: "<img" }).click();
    await page.getByRole("button", { name: "Reveal all" }).click();
    await page.getByRole("button", { name: "As JSON", exact: true }).click();
    await page.getByRole("tab", { name: "Metadata" }).click();
    await page.getByText("canary", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Commands of this screen" }).click();
    await opened.expectClean();
    await page.getByRole("searchbox").fill("<img");
    await page.getByRole("link", { name: "<img" }).first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows where a secret is synced to, and syncs it to another destination", async () => {
    await suite().call("POST", "sys/sync/destinations/in-mem/second-memory", {});
    const association = { mount: "secret", secret_name: "app/database" };
    await suite().call("POST", "sys/sync/destinations/in-mem/second-memory/associations/remove", association);
    const opened = await openSecret(`${DATABASE}?tab=destinations`);
    const { page } = opened;
    await page.getByRole("heading", { name: "playground" }).waitFor();
    await page.getByRole("button", { name: "Sync to a destination" }).click();
    await page
      .getByRole("dialog")
      .getByLabel(/^Destination/)
      .selectOption("in-mem/second-memory");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText("Create", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Sync secret" }).click();
    await page.getByRole("heading", { name: "second-memory" }).waitFor();
    await page.getByText("By hand").first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows when a secret expires, and lists those that do, the earliest first", async () => {
    const day = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
    for (const [name, expires_at] of [
      ["later", day(90)],
      ["past", day(-2.5)],
      ["soon", day(3.5)],
    ] as const) {
      await suite().call("PUT", `secret/data/console/expiring/${name}`, { data: { a: "1" } });
      await suite().call("PUT", `secret/metadata/console/expiring/${name}`, { custom_metadata: { expires_at } });
    }
    const opened = await suite().open({ path: "secrets/secret/at/console/expiring/past" });
    const { page } = opened;
    await page.getByText("Expired 2 d ago").waitFor();
    await page.getByLabel("Only those that expire").check();
    const rows = page.getByRole("list", { name: "Secrets that expire" }).getByRole("link");
    await expect.poll(() => rows.allTextContents()).toHaveLength(3);
    expect((await rows.allTextContents()).map((text) => /(past|soon|later)/.exec(text)?.[0])).toEqual([
      "past",
      "soon",
      "later",
    ]);
    await opened.expectClean();
    await opened.shot("secrets-expiring");
    await rows.nth(1).click();
    await page
      .getByRole("article")
      .getByText(/^Expires in 3 d/)
      .waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows the folders and secrets that the policies name to a token that may not list the engine", async () => {
    await suite().call("PUT", "secret/data/console/named/one", { data: { a: "1" } });
    const token = await suite().tokenWith(
      "console-named-reader",
      'path "secret/data/app/database" { capabilities = ["read"] } path "secret/metadata/console/named/*" { capabilities = ["list"] }',
    );
    const opened = await suite().open({ token, path: "secrets/secret", refusals: [/403 GET/] });
    const { page } = opened;
    await page.getByRole("treeitem", { name: "console/named/" }).click();
    await page.getByRole("treeitem", { name: "one" }).waitFor();
    await page.getByRole("button", { name: "More about the engine" }).click();
    await page.getByRole("menuitem", { name: "Compare with others" }).click();
    expect(await page.getByLabel("On the left, in secret/").inputValue()).toBe("console/named");
    await opened.visit("secrets/secret");
    await page.getByRole("treeitem", { name: "app/database" }).click();
    await page.getByRole("rowheader", { name: "password" }).waitFor();
    await page.getByRole("tab", { name: "Metadata" }).click();
    await page.getByText("permission denied").first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("moves and renames a secret of either version, and overwrites none", async () => {
    await suite().call("POST", "sys/mounts/console-renamed", { type: "kv" });
    for (const path of ["secret/metadata/console/named", "secret/metadata/console/other", "console-renamed/named"])
      await suite().call("DELETE", path);
    await suite().call("POST", "secret/data/console/name", { data: { word: "w" } });
    await suite().call("POST", "secret/metadata/console/name", { custom_metadata: { owner: "ann" } });
    await suite().call("POST", "secret/data/console/taken", { data: { word: "another" } });
    const opened = await openSecret("secrets/secret/at/console/name", [/400 POST/, /404 GET/]);
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    const move = dialog.getByRole("button", { name: "Move the secret" });
    await page.getByRole("button", { name: "More about the secret" }).click();
    await page.getByRole("menuitem", { name: "Move or rename" }).click();
    expect(await move.isDisabled()).toBe(true);
    await dialog.getByLabel(/^New path/).fill("console/taken");
    await move.click();
    await dialog.getByText("the target exists, and was not changed").waitFor();
    await dialog.getByLabel(/^New path/).fill("console/named");
    await opened.expectClean();
    await move.click();
    await page.getByRole("heading", { name: "console/named" }).waitFor();
    await page.getByRole("tab", { name: "Metadata" }).click();
    await page.getByText("ann").waitFor();
    await expect(suite().call("GET", "secret/metadata/console/name")).rejects.toThrow("404");
    // To an engine of version 1, and back to another name.
    for (const [engine, path, open] of [
      ["console-renamed", "named", () => page.getByRole("menuitem", { name: "Move or rename" }).click()],
      ["secret", "console/other", () => page.getByRole("button", { name: "Move or rename" }).click()],
    ] as const) {
      if (engine === "console-renamed") await page.getByRole("button", { name: "More about the secret" }).click();
      await open();
      await dialog.getByLabel("To the engine").selectOption(engine);
      await dialog.getByLabel(/^New path/).fill(path);
      await move.click();
      await page.getByRole("heading", { name: path, exact: true }).waitFor();
      await expect.poll(() => new URL(page.url()).pathname).toBe(`/ui/secrets/${engine}/at/${path}`);
    }
    await expect(suite().call("GET", "console-renamed/named")).rejects.toThrow("404");
    await expect(suite().call("GET", "secret/data/console/other")).resolves.toMatchObject({
      data: { data: { word: "w" } },
    });
    await opened.expectClean();
    await opened.close();
  });

  it("syncs the folder that was opened last by a rule, which the page of a secret names", async () => {
    await suite().call("POST", "sys/sync/destinations/in-mem/folder-memory", {});
    await suite().call("POST", "secret/data/console-folder/one", { data: { a: "1" } });
    const opened = await suite().open({
      path: "secrets/secret",
      refusals: [/404 GET .*\/rules\/secret-console-folder$/],
    });
    const { page } = opened;
    // Before a folder is opened it is the whole engine, and the form says so.
    await page.getByRole("treeitem", { name: "console-folder" }).waitFor();
    await page.getByRole("button", { name: "More about the engine" }).click();
    await page.getByRole("menuitem", { name: "Sync the whole engine by a rule" }).click();
    const whole = page.getByRole("dialog", { name: "Sync secret/ by a rule" });
    expect(await whole.getByLabel("Match all").isChecked()).toBe(true);
    expect(await whole.getByLabel("Match all").isVisible()).toBe(true);
    await page.keyboard.press("Escape");
    await page.getByRole("treeitem", { name: "console-folder" }).click();
    await page.getByRole("button", { name: "More about the engine" }).click();
    await page.getByRole("menuitem", { name: "Sync console-folder/ by a rule" }).click();
    const dialog = page.getByRole("dialog", { name: "Sync secret/console-folder/ by a rule" });
    await dialog.getByLabel(/^Destination/).selectOption("in-mem/folder-memory");
    await expect.poll(() => dialog.getByLabel(/^Name required$/).inputValue()).toBe("secret-console-folder");
    await dialog.getByRole("button", { name: "Preview" }).click();
    await dialog.getByText("Matches 1 secret: 1 create.").waitFor();
    await opened.expectClean();
    await dialog.getByRole("button", { name: "Save rule" }).click();
    await dialog.waitFor({ state: "hidden" });
    await suite().call("POST", "secret/data/console-folder/later", { data: { a: "1" } });
    await expect
      .poll(async () => JSON.stringify(await suite().call("GET", "sys/sync/destinations/in-mem/folder-memory/objects")))
      .toContain("console-folder/later");
    // A second rule of that name would replace the first one.
    await page.getByRole("button", { name: "More about the engine" }).click();
    await page.getByRole("menuitem", { name: "Sync console-folder/ by a rule" }).click();
    await dialog.getByLabel(/^Destination/).selectOption("in-mem/folder-memory");
    await dialog.getByRole("button", { name: "Save rule" }).click();
    await dialog.getByText("There is a rule secret-console-folder already.").waitFor();
    await page.keyboard.press("Escape");
    await opened.visit("secrets/secret/at/console-folder/later?tab=destinations");
    await page.getByText("Rule secret-console-folder", { exact: true }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("asks for a path where the policies name no folder", async () => {
    const token = await suite().tokenWith("console-pattern", 'path "secret/data/app/*" { capabilities = ["read"] }');
    const opened = await suite().open({ token, path: "secrets/secret", refusals: [/403 GET/] });
    await opened.page.getByLabel("Path of the secret").fill("app/database");
    await opened.page.getByRole("button", { name: "Open the secret" }).click();
    await opened.page.getByRole("rowheader", { name: "password" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("reads a secret of a version 1 engine and of another namespace", async () => {
    await suite().call("PUT", "sys/namespaces/console-team");
    await suite().call("POST", "sys/mounts/plain", { type: "kv" }, { namespace: "console-team" });
    await suite().call("POST", "plain/registry", { user: "ci" }, { namespace: "console-team" });
    const opened = await suite().open({ path: "secrets?ns=console-team" });
    const { page } = opened;
    await page.getByRole("link", { name: "plain/" }).click();
    await page.getByRole("treeitem", { name: "registry" }).click();
    await page.getByRole("rowheader", { name: "user" }).waitFor();
    await expect.poll(() => new URL(page.url()).searchParams.get("ns")).toBe("console-team");
    await opened.expectClean();
    await opened.close();
  });

  it("scrolls through a folder of 100 000 names with few rows in the page", async () => {
    const opened = await suite().open();
    const { page } = opened;
    const keys = Array.from({ length: 100_000 }, (_, at) => `secret-${String(at).padStart(6, "0")}`);
    await page.route("**/v1/secret/metadata?**", (route) => route.fulfill({ json: { data: { keys } } }));
    await opened.visit("secrets/secret");
    await page.getByRole("treeitem", { name: "secret-000000" }).focus();
    await page.keyboard.press("End");
    await page.getByRole("treeitem").last().waitFor();
    await page.getByText("secret-099999").waitFor();
    expect(await page.getByRole("treeitem").count()).toBeLessThan(100);
    await page.route("**/v1/sys/search?**", (route) => {
      const q = new URL(route.request().url()).searchParams.get("q") ?? "";
      const hits = keys.filter((name) => name.includes(q)).map((name) => ({ type: "secret", name, mount: "secret/" }));
      return route.fulfill({ json: { data: { hits, next: "", not_searched: [] } } });
    });
    await page.getByRole("searchbox").fill("secret-0777");
    await page.getByRole("link", { name: "secret-077700" }).waitFor();
    await opened.close();
  });
});
