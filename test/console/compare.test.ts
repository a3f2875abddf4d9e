import { expect, it } from "vitest";
import { CANARY, describeConsole, type Suite } from "./support/console.ts";

type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>;

async function write(suite: Suite, mount: string, folder: string, secrets: Secrets, namespace = ""): Promise<void> {
  for (const [name, data] of Object.entries(secrets)) {
    await suite.call("DELETE", `${mount}/metadata/${folder}/${name}`, undefined, { namespace });
    if (Object.keys(data).length > 0)
      await suite.call("POST", `${mount}/data/${folder}/${name}`, { data }, { namespace });
  }
}

const read = async (suite: Suite, path: string, namespace = ""): Promise<unknown> =>
  ((await suite.call("GET", path, undefined, { namespace })) as { data: { data: unknown } }).data.data;

describeConsole("compare", (suite) => {
  it("shows missing and different keys of two folders, and copies across what was seen", async () => {
    await write(suite(), "secret", "console/left", {
      same: { key: "1" },
      differs: { equal: "x", other: CANARY, mine: "only here" },
      "in/folder": { a: "b" },
    });
    await write(suite(), "secret", "console/right", {
      same: { key: "1" },
      differs: { equal: "x", other: "right value" },
      extra: { k: "v" },
      "in/folder": {},
    });
    const opened = await suite().open({
      path: "secrets/secret/compare/console/left",
      refusals: [/404 (GET|LIST)/, /400 POST \/v1\/secret\/data/],
    });
    const { page } = opened;
    await page.getByLabel("On the right, folder or secret").fill("console/r");
    await page.getByRole("option", { name: "console/right/", exact: true }).waitFor();
    await page.getByLabel("On the right, folder or secret").fill("console/rihgt");
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    await page.getByText("3 differences, 0 secrets are the same; no secret in secret/console/rihgt").waitFor();
    await page.getByLabel("On the right, folder or secret").fill("console/right");
    await page.getByRole("button", { name: "Compare", exact: true }).click();
    await page.getByText("3 differences, 1 secret is the same", { exact: true }).waitFor();
    const row = (name: string) => page.getByRole("row").filter({ hasText: name });
    await row("in/folder").getByText("Only on the left").waitFor();
    await row("extra").getByText("Only on the right").waitFor();
    await row("differs").getByText("2 keys").waitFor();
    await opened.expectClean();
    await opened.shot("compare");

    await row("differs").click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("missing").waitFor();
    expect(await page.content()).not.toContain("right value");
    expect(await dialog.getByText("equal", { exact: true }).count()).toBe(0);
    await opened.expectClean();
    await dialog.getByRole("button", { name: "Reveal the values" }).click();
    await dialog.getByText("right value").waitFor();
    await dialog.getByText(CANARY).waitFor();
    await opened.expectClean();
    await opened.shot("compare-secret");

    // A write between the look and the copy is not overwritten.
    await suite().call("POST", "secret/data/console/right/differs", {
      data: { equal: "x", other: "changed meanwhile" },
    });
    await dialog.getByRole("button", { name: "Copy other to the right" }).click();
    await dialog.getByText(/check-and-set/).waitFor();
    expect(await read(suite(), "secret/data/console/right/differs")).toEqual({
      equal: "x",
      other: "changed meanwhile",
    });
    await dialog.getByText("changed meanwhile").waitFor();
    await dialog.getByRole("button", { name: "Copy mine to the right" }).click();
    await dialog.getByText("missing").waitFor({ state: "hidden" });
    expect(await read(suite(), "secret/data/console/right/differs")).toEqual({
      equal: "x",
      other: "changed meanwhile",
      mine: "only here",
    });
    await dialog.getByRole("button", { name: "Copy all to the left" }).click();
    await dialog.getByText("Both sides have the same values.").waitFor();
    for (const side of ["left", "right"])
      expect(await dialog.getByRole("button", { name: `Copy all to the ${side}` }).isDisabled()).toBe(true);
    await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
    await page.getByText("2 differences, 2 secrets are the same").waitFor();
    await row("in/folder").click();
    await dialog.getByRole("button", { name: "Copy all to the right" }).click();
    await dialog.getByText("Both sides have the same values.").waitFor();
    expect(await read(suite(), "secret/data/console/right/in/folder")).toEqual({ a: "b" });
    await opened.expectClean();
    await opened.close();
  });

  it("compares with another namespace by an address, and fits a phone", async () => {
    const namespace = "console-compare";
    await suite().call("POST", `sys/namespaces/${namespace}`, {});
    await suite().call("POST", "sys/mounts/kv", { type: "kv", options: { version: "2" } }, { namespace });
    await write(suite(), "kv", "app", { db: { user: "there" } }, namespace);
    await write(suite(), "secret", "console/here", { db: { user: "here" } });
    const opened = await suite().open({
      path: `secrets/secret/compare/console/here?with=kv&at=app&of=${namespace}`,
      refusals: [/404 (GET|LIST)/],
      viewport: { width: 360, height: 740 },
    });
    const { page } = opened;
    await page.getByText("1 difference, 0 secrets are the same").waitFor();
    await page.getByRole("row").filter({ hasText: "db" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Copy user to the right" }).click();
    await dialog.getByText("Both sides have the same values.").waitFor();
    expect(await read(suite(), "kv/data/app/db", namespace)).toEqual({ user: "here" });
    await opened.expectClean();
    await opened.close();
  });

  it("says what the token may not read, and does not call it the same", async () => {
    await write(suite(), "secret", "console/one", { open: { k: "v" }, closed: { k: "v" } });
    await write(suite(), "secret", "console/two", { open: { k: "v" }, closed: { k: "v" } });
    const token = await suite().tokenWith(
      "console-compare",
      `path "secret/metadata/*" { capabilities = ["list"] }
       path "secret/data/console/one/*" { capabilities = ["read"] }
       path "secret/data/console/two/open" { capabilities = ["read"] }`,
    );
    const opened = await suite().open({
      token,
      path: "secrets/secret/compare/console/one?with=secret&at=console/two",
      refusals: [/40[34] /],
    });
    const { page } = opened;
    await page.getByText("0 differences, 1 secret is the same; 1 secret not readable on a side").waitFor();
    const row = page.getByRole("row").filter({ hasText: "closed" });
    await row.getByText("Not readable").waitFor();
    await opened.expectClean();
    await opened.close();
  });
});
