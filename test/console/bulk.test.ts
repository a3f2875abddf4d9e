import { expect, it } from "vitest";
import { CANARY, describeConsole, type Suite } from "./support/console.ts";

/** A name that does harm as markup, without slashes, which make folders. */
const HARMFUL = CANARY.replaceAll("/", "");

/** Writes secrets below the folder, over what an earlier run has left. */
async function prepare(suite: Suite, folder: string, names: readonly string[]): Promise<void> {
  await suite.call("POST", "sys/mounts/console-bulk", { type: "kv", options: { version: "2" } });
  for (const name of names) {
    for (const path of [
      `secret/metadata/${folder}/`,
      "console-bulk/metadata/copied/",
      `console-bulk/metadata/${folder}/`,
    ])
      await suite.call("DELETE", path + encodeURIComponent(name));
    await suite.call("POST", `secret/data/${folder}/${encodeURIComponent(name)}`, { data: { value: `of ${name}` } });
  }
}

const read = (suite: Suite, path: string) =>
  suite.call("GET", path).then(
    (answer) => (answer as { data: { data: Record<string, string> } }).data.data["value"],
    (failure: Error) => /: (\d{3}) /.exec(failure.message)?.[1],
  );

describeConsole("bulk actions", (suite) => {
  it("copies and moves what it has previewed, and overwrites nothing", async () => {
    const folder = "console/bulk/copied-from";
    await prepare(suite(), folder, ["one", "two", "three", HARMFUL]);
    await suite().call("POST", "console-bulk/data/copied/two", { data: { value: "another" } });
    // Another person's secret with the same values, and metadata of their own.
    await suite().call("POST", "console-bulk/data/copied/three", { data: { value: "of three" } });
    const owned = (owner: string) => ({ custom_metadata: { owner } });
    await suite().call("POST", "console-bulk/metadata/copied/three", owned("them"));
    for (const name of ["one", "three"]) await suite().call("POST", `secret/metadata/${folder}/${name}`, owned("us"));
    const ownerOf = async (path: string): Promise<unknown> =>
      ((await suite().call("GET", path)) as { data: { custom_metadata: unknown } }).data.custom_metadata;
    const opened = await suite().open({ path: `secrets/secret/many/${folder}`, refusals: [/400 POST/, /404 GET/] });
    const { page } = opened;
    await page.getByRole("button", { name: "Select all 4" }).click();
    await page.getByText("; 4 selected").waitFor();
    await opened.expectClean();
    await opened.shot("bulk-select");
    await page.getByRole("button", { name: "Copy", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("To the engine").selectOption("console-bulk");
    await dialog.getByLabel("Into the folder").fill("copied");
    await dialog.getByText("→ console-bulk/copied/one").waitFor();
    await opened.expectClean();
    await opened.shot("bulk-preview");
    await dialog.getByRole("button", { name: "Copy 4 secrets" }).click();
    await page.getByText("3 done, 1 refused, 0 left").waitFor();
    const outcome = (name: string) => page.getByRole("row").filter({ hasText: `${folder}/${name}` });
    await outcome("two").getByText("the target exists, and was not changed").waitFor();
    await outcome("one").getByText("Done").waitFor();
    await opened.expectClean();
    await opened.shot("bulk-outcomes");
    await outcome("three").getByText("the target had the same values, and keeps its own metadata").waitFor();
    expect(await ownerOf("console-bulk/metadata/copied/three")).toEqual({ owner: "them" });
    expect(await ownerOf("console-bulk/metadata/copied/one")).toEqual({ owner: "us" });
    expect(await read(suite(), "console-bulk/data/copied/one")).toBe("of one");
    expect(await read(suite(), "console-bulk/data/copied/two")).toBe("another");
    expect(await read(suite(), `secret/data/${folder}/one`)).toBe("of one");
    await page.getByRole("button", { name: "Close", exact: true }).click();

    // A move finds its own copy of an earlier attempt, and goes on.
    // Its metadata was not written yet then.
    await suite().call("POST", "console-bulk/metadata/copied/one", { custom_metadata: {} });
    for (const name of ["one", "two", "three"]) await page.getByLabel(`Select ${folder}/${name}`).check();
    await page.getByRole("button", { name: "Move", exact: true }).click();
    await dialog.getByLabel("To the engine").selectOption("console-bulk");
    await dialog.getByLabel("Into the folder").fill("copied");
    await dialog.getByRole("button", { name: "Move 3 secrets" }).click();
    await page.getByText("1 done, 2 refused, 0 left").waitFor();
    await outcome("one").getByText("the target had the same values").waitFor();
    await outcome("three")
      .getByText(/keeps its own metadata; the source was kept$/)
      .waitFor();
    expect(await ownerOf("console-bulk/metadata/copied/one")).toEqual({ owner: "us" });
    expect(await ownerOf("console-bulk/metadata/copied/three")).toEqual({ owner: "them" });
    expect(await read(suite(), `secret/data/${folder}/one`)).toBe("404");
    expect(await read(suite(), `secret/data/${folder}/two`)).toBe("of two");
    await page.getByRole("button", { name: "Close", exact: true }).click();

    await page.getByRole("button", { name: "Select all 3" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await dialog.getByLabel(/^With all versions/).check();
    await dialog.getByLabel(/3/).fill("3");
    await dialog.getByRole("button", { name: "Delete 3 secrets" }).click();
    await page.getByText("3 done, 0 refused, 0 left").waitFor();
    for (const name of ["two", "three"])
      await expect(suite().call("GET", `secret/metadata/${folder}/${name}`)).rejects.toThrow("404");
    await opened.close();
  });

  it("moves and copies secrets of an engine of version 1, which has no check-and-set", async () => {
    await suite().call("POST", "sys/mounts/console-plain", { type: "kv" });
    await suite().call("POST", "sys/mounts/console-bulk", { type: "kv", options: { version: "2" } });
    await suite().call("DELETE", "console-bulk/metadata/from-plain/one");
    for (const name of ["one", "two"]) {
      await suite().call("POST", `console-plain/from/${name}`, { value: `of ${name}` });
      await suite().call("DELETE", `console-plain/to/${name}`);
    }
    await suite().call("POST", "console-plain/to/two", { value: "another" });
    const opened = await suite().open({ path: "secrets/console-plain/many/from", refusals: [/404 GET/] });
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    const transfer = async (verb: string, mount: string, folder: string, count: string) => {
      await page.getByRole("button", { name: /^Select all/ }).click();
      await page.getByRole("button", { name: verb, exact: true }).click();
      await dialog.getByLabel("To the engine").selectOption(mount);
      await dialog.getByLabel("Into the folder").fill(folder);
      await dialog.getByRole("button", { name: `${verb} ${count}` }).click();
    };
    await transfer("Move", "console-plain", "to", "2 secrets");
    await page.getByText("1 done, 1 refused, 0 left").waitFor();
    await page.getByText("the target exists, and was not changed").waitFor();
    const plain = (path: string) =>
      suite()
        .call("GET", `console-plain/${path}`)
        .then(
          (answer) => (answer as { data: { value: string } }).data.value,
          (failure: Error) => /: (\d{3}) /.exec(failure.message)?.[1],
        );
    expect(await Promise.all(["from/one", "to/one", "from/two", "to/two"].map(plain))).toEqual([
      "404",
      "of one",
      "of two",
      "another",
    ]);
    await page.getByRole("button", { name: "Close", exact: true }).click();
    // From version 1 to version 2.
    await transfer("Copy", "console-bulk", "from-plain", "1 secret");
    await page.getByText("1 done, 0 refused, 0 left").waitFor();
    expect(await read(suite(), "console-bulk/data/from-plain/two")).toBe("of two");
    await opened.expectClean();
    await opened.close();
  });

  it("continues after a reload with what is left, and stores no value in the tab", async () => {
    const folder = "console/bulk/continued";
    const names = Array.from({ length: 12 }, (_, at) => `item-${at}`);
    await prepare(suite(), folder, names);
    const opened = await suite().open({
      path: `secrets/secret/many/${folder}`,
      refusals: [/404 GET/, /ERR_/],
      isNewProfile: true,
    });
    const { page } = opened;
    await page.getByLabel("Secrets by name").fill("item-");
    await page.getByRole("button", { name: "Select all 12" }).click();
    await page.getByRole("button", { name: "Move", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("To the engine").selectOption("console-bulk");
    await dialog.getByLabel("Into the folder").fill(folder);
    // The service goes away after some items.
    let writes = 0;
    await page.route("**/v1/console-bulk/data/**", (route) =>
      route.request().method() === "POST" && ++writes > 5 ? route.abort() : route.continue(),
    );
    await dialog.getByRole("button", { name: "Move 12 secrets" }).click();
    await page.getByText("The action was interrupted").waitFor();
    await page.getByRole("button", { name: /^Continue with [1-9]\d* left$/ }).waitFor();
    expect(await page.evaluate("JSON.stringify(sessionStorage)")).not.toContain("of item-");
    await opened.expectClean();
    await page.unrouteAll();
    await page.reload();
    await opened.logIn(suite().bench.token);
    await page.getByRole("button", { name: /^Continue with [1-9]\d* left$/ }).click();
    await page.getByText("12 done, 0 refused, 0 left").waitFor();
    await opened.expectClean();
    for (const name of names) {
      expect([name, await read(suite(), `console-bulk/data/${folder}/${name}`)]).toEqual([name, `of ${name}`]);
      expect([name, await read(suite(), `secret/data/${folder}/${name}`)]).toEqual([name, "404"]);
    }
    await opened.close();
  });

  it("says which items the rights refuse, and deletes and syncs the others", async () => {
    const folder = "console/bulk/by-rights";
    await prepare(suite(), folder, ["mine", "theirs"]);
    await suite().call("POST", "sys/sync/destinations/in-mem/console-bulk", {});
    const token = await suite().tokenWith(
      "console-bulk",
      `path "secret/metadata/*" { capabilities = ["list"] }
       path "secret/data/${folder}/mine" { capabilities = ["read", "delete"] }
       path "sys/sync/destinations" { capabilities = ["list"] }
       path "sys/sync/destinations/in-mem/console-bulk/associations/set" { capabilities = ["update"] }`,
    );
    const opened = await suite().open({ token, path: `secrets/secret/many/${folder}`, refusals: [/403 /] });
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    const select = async (): Promise<void> => {
      await page.getByLabel(`Select ${folder}/mine`).check();
      await page.getByLabel(`Select ${folder}/theirs`).check();
    };
    await select();
    await page.getByRole("button", { name: "Sync", exact: true }).click();
    await dialog.getByLabel("Destination").selectOption("in-mem/console-bulk");
    await dialog.getByRole("button", { name: "Sync 2 secrets" }).click();
    await page.getByText("1 done, 1 refused, 0 left").waitFor();
    const objects = await suite().call("GET", "sys/sync/destinations/in-mem/console-bulk/objects");
    expect(JSON.stringify(objects)).toContain(`${folder}/mine`);
    expect(JSON.stringify(objects)).not.toContain(`${folder}/theirs`);
    await opened.expectClean();
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await select();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await dialog.getByLabel(/^With all versions/).check();
    expect(await dialog.getByRole("button", { name: "Delete 2 secrets" }).isDisabled()).toBe(true);
    await dialog.getByLabel(/^With all versions/).uncheck();
    await dialog.getByRole("button", { name: "Delete 2 secrets" }).click();
    await page.getByText("1 done, 1 refused, 0 left").waitFor();
    await page
      .getByRole("row")
      .filter({ hasText: `${folder}/theirs` })
      .getByText(/permission denied/i)
      .waitFor();
    await opened.expectClean();
    expect(await read(suite(), `secret/data/${folder}/mine`)).toBe("404");
    expect(await read(suite(), `secret/data/${folder}/theirs`)).toBe("of theirs");
    await opened.close();
  });
});
