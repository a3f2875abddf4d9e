import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { edited, inField, replaced } from "../../console/src/lib/raw-text.ts";
import { CANARY, type Console, describeConsole } from "./support/console.ts";

const dialog = (opened: Console) => opened.page.getByRole("dialog");
const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();

const PEM = ["-----BEGIN PRIVATE KEY-----", "MC4CAQAwBQYDK2VwBCIEIA", "-----END PRIVATE KEY-----", ""].join("\n");
const ODD = `first\r\nsecond\rthird\n\tindented  \n\n${CANARY} ünïcödé 🔑\n`;

describe("texts with their line ends", () => {
  it.each([
    ["a\r\nb\r\nc", "a\nbb\nc", "a\r\nbb\r\nc"],
    ["a\r\nb", "a\nb\n", "a\r\nb\n"],
    ["a\r\n\r\nb", "a\nb", "a\r\nb"],
    ["a\rb", "", ""],
    ["", "x\ny", "x\ny"],
    ["aa", "aaa", "aaa"],
  ])("%j edited to %j is %j", (raw, field, expected) => {
    expect(edited(raw, field)).toBe(expected);
    expect(inField(expected)).toBe(field);
  });

  it("replaces a part of the field by what was pasted", () => {
    expect(replaced("a\r\nb\r\nc", 2, 3, "x\r\ny")).toBe("a\r\nx\r\ny\r\nc");
    expect(replaced("a\rb", 0, 3, "")).toBe("");
  });
});

async function paste({ page }: Console, label: string, text: string): Promise<void> {
  await page.evaluate((copied) => navigator.clipboard.writeText(copied), text);
  await page.getByLabel(label, { exact: true }).focus();
  await page.keyboard.press("Control+V");
}

describeConsole("values", (suite) => {
  const dataOf = async (path: string) =>
    ((await suite().call("GET", `secret/data/${path}`)) as { data: { data: unknown } }).data.data;

  it("writes what was pasted into hidden fields, to the byte", async () => {
    await suite().call("DELETE", "secret/metadata/console/values");
    const opened = await suite().open({ path: "secrets/secret" });
    const { page } = opened;
    await click(opened, "New secret");
    await dialog(opened).getByLabel("Path").fill("console/values");
    for (const [at, name] of ["pem", "odd", "tabs"].entries()) {
      if (at > 0) await click(opened, "Add key");
      await page.getByLabel(`Name of key ${at + 1}`, { exact: true }).fill(name);
    }
    const pem = page.getByLabel("Value of pem", { exact: true });
    await paste(opened, "Value of pem", PEM);
    await paste(opened, "Value of odd", ODD);
    await page.getByLabel("Value of tabs", { exact: true }).fill("\ta\t\n b \n\n");
    const look = (element: HTMLElement | SVGElement) =>
      getComputedStyle(element).getPropertyValue("-webkit-text-security");
    expect(await pem.evaluate(look)).toBe("disc");
    await opened.shot("values-hidden");
    await opened.expectClean();
    await click(opened, "Reveal the value of pem");
    expect(await pem.evaluate(look)).toBe("none");
    await click(opened, "Write the secret");
    await page.getByRole("heading", { name: "console/values" }).waitFor();
    expect(await dataOf("console/values")).toEqual({ pem: PEM, odd: ODD, tabs: "\ta\t\n b \n\n" });

    await click(opened, "Write a new version");
    const odd = page.getByLabel("Value of odd", { exact: true });
    // Until the dialog is open the field takes no focus.
    await odd.waitFor();
    await odd.focus();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("more");
    await click(opened, "Write the new version");
    await page.getByRole("tab", { name: "Versions 2" }).waitFor();
    expect(await dataOf("console/values")).toEqual({ pem: PEM, odd: `${ODD}more`, tabs: "\ta\t\n b \n\n" });
    await opened.expectClean();
    await opened.close();
  });

  it("reads a value from a file, and refuses one that is no text", async () => {
    await suite().call("DELETE", "secret/metadata/console/file");
    const opened = await suite().open({ path: "secrets/secret" });
    const { page } = opened;
    await click(opened, "New secret");
    await dialog(opened).getByLabel("Path").fill("console/file");
    await page.getByLabel("Name of key 1", { exact: true }).fill("key");
    const choose = async (buffer: Buffer) => {
      const chosen = page.waitForEvent("filechooser");
      await click(opened, "Read the value of key from a file");
      await (await chosen).setFiles({ name: "key.pem", mimeType: "application/x-pem-file", buffer });
    };
    await choose(Buffer.from([0xff, 0xfe, 0x00]));
    await page.getByText("key.pem is not UTF-8 text").first().waitFor();
    await choose(Buffer.from(`\ufeff${ODD}`));
    await expect.poll(() => page.getByLabel("Value of key", { exact: true }).inputValue()).toContain("second");
    await click(opened, "Write the secret");
    await page.getByRole("heading", { name: "console/file" }).waitFor();
    expect(await dataOf("console/file")).toEqual({ key: `\ufeff${ODD}` });
    await opened.expectClean();
    await opened.close();
  });

  it("writes values that are pasted as .env or YAML, and adds those of a file", async () => {
    await suite().call("DELETE", "secret/metadata/console/formats");
    const opened = await suite().open({ path: "secrets/secret" });
    const { page } = opened;
    await click(opened, "New secret");
    await dialog(opened).getByLabel("Path").fill("console/formats");
    await click(opened, ".env");
    await page.getByLabel("Values as .env").fill("USER=app # note\nnothing");
    await click(opened, "Write the secret");
    await page.getByText("Line 2 must be KEY=VALUE.").first().waitFor();
    await page.getByLabel("Values as .env").fill("USER=app\nNOTE=1\nUSER=other");
    await click(opened, "Write the secret");
    await page.getByText("Line 3 has a key of an earlier line.").first().waitFor();
    await page.getByLabel("Values as .env").fill("USER=app # note\nNOTE='two\nlines'");
    await click(opened, "YAML");
    expect(await page.getByLabel("Values as YAML").inputValue()).toBe('USER: "app"\nNOTE: "two\\nlines"\n');
    const choose = async (name: string, text: string) => {
      const chosen = page.waitForEvent("filechooser");
      await click(opened, "Add values from a file");
      await (await chosen).setFiles({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
    };
    await choose("more.yaml", `USER: worker\n${JSON.stringify(CANARY)}: |\n  one\n  two\n`);
    await expect.poll(() => page.getByLabel("Values as YAML").inputValue()).toContain("worker");
    await click(opened, "Keys and values");
    await page.getByLabel(`Value of ${CANARY}`, { exact: true }).waitFor();
    await choose("broken.json", '{"USER": ');
    await page.getByText("The JSON must be an object.").first().waitFor();
    await opened.expectClean();
    await opened.shot("values-formats");
    await click(opened, "Write the secret");
    await page.getByRole("heading", { name: "console/formats" }).waitFor();
    expect(await dataOf("console/formats")).toEqual({ USER: "worker", NOTE: "two\nlines", [CANARY]: "one\ntwo\n" });
    await opened.close();
  });

  it("writes all values after a deletion, guarded by the version that was read, and no value without a name", async () => {
    await suite().call("DELETE", "secret/metadata/console/gone");
    await suite().call("POST", "secret/data/console/gone", { data: { old: "1" } });
    await suite().call("DELETE", "secret/data/console/gone");
    const opened = await suite().open({ path: "secrets/secret", refusals: [/404 GET/] });
    const { page } = opened;
    // Another person's write comes between the two reads.
    await page.route("**/v1/secret/metadata/console/gone", async (route) => {
      const response = await route.fetch();
      const answer = (await response.json()) as { data: object };
      await route.fulfill({ response, json: { ...answer, data: { ...answer.data, current_version: 7 } } });
    });
    await opened.visit("secrets/secret/at/console/gone");
    await page.getByText("Version 1 is deleted").waitFor();
    await click(opened, "Write a new version");
    await dialog(opened).getByText("Only if version 1 is still the newest").waitFor();
    expect(
      await dialog(opened)
        .getByLabel(/^Send only what changed/)
        .count(),
    ).toBe(0);
    const name = page.getByLabel("Name of key 1", { exact: true });
    await page.getByLabel("Value of key 1", { exact: true }).fill("2");
    await click(opened, "Write the new version");
    const problem = () => name.evaluate((field) => (field as HTMLInputElement).validationMessage);
    expect(await problem()).toBe("A value has no name.");
    await name.fill("new");
    await click(opened, "Add key");
    await page.getByLabel("Name of key 2", { exact: true }).fill("new");
    expect(await problem()).toBe("The name new is there twice.");
    await page.getByLabel("Name of key 2", { exact: true }).fill("");
    await click(opened, "Write the new version");
    await dialog(opened).waitFor({ state: "hidden" });
    expect(await dataOf("console/gone")).toEqual({ new: "2" });
    await opened.expectClean();
    await opened.close();
  });

  it("sends a null for a removed member of a value when only changes are sent", async () => {
    await suite().call("POST", "secret/data/console/nested", { data: { conf: { a: 1, b: { c: 2 } }, other: "x" } });
    const opened = await suite().open({ path: "secrets/secret/at/console/nested" });
    const { page } = opened;
    await click(opened, "Write a new version");
    await page.getByLabel(/^Send only what changed/).check();
    await page.getByLabel("Value of other", { exact: true }).fill("y");
    await page.getByLabel("Value of conf", { exact: true }).fill('{"b": {"d": null}}');
    await click(opened, "Write the new version");
    await dialog(opened).getByText("conf.b.d is null, which a patch takes for its removal.").waitFor();
    await page.getByLabel("Value of conf", { exact: true }).fill('{"b": {}}');
    await click(opened, "Write the new version");
    await dialog(opened).waitFor({ state: "hidden" });
    expect(await dataOf("console/nested")).toEqual({ conf: { b: {} }, other: "y" });
    await opened.close();
  });

  it("hides again after a minute what was revealed, all at once or one by one", async () => {
    await suite().call("POST", "secret/data/console/minute", { data: { word: "correct horse" } });
    const opened = await suite().open({ path: "secrets/secret/at/console/minute", isNewProfile: true });
    const { page } = opened;
    await page.clock.install();
    const later = async (): Promise<void> => {
      await page.getByText("correct horse").waitFor();
      // The timer begins with the next frame.
      await page.clock.runFor(200);
      await page.clock.fastForward(50_000);
      await page.getByText("correct horse").waitFor();
      await page.clock.fastForward(11_000);
      await page.getByText("correct horse").waitFor({ state: "hidden" });
    };
    await click(opened, "Reveal word");
    await later();
    await click(opened, "Reveal all");
    await later();
    await click(opened, "Write a new version");
    await click(opened, "Reveal the value of word");
    const value = page.getByLabel("Value of word", { exact: true });
    const isVeiled = () => value.evaluate((element) => element.classList.contains("veiled"));
    await expect.poll(isVeiled).toBe(false);
    await page.clock.runFor(200);
    await page.clock.fastForward(61_000);
    await expect.poll(isVeiled).toBe(true);
    await opened.close();
  });

  it("copies values as .env, JSON and YAML, and exports a folder that it may read", async () => {
    await suite().call("PUT", "secret/data/console/export/one", { data: { A: "1", B: "it's" } });
    await suite().call("PUT", "secret/data/console/export/two", { data: { A: "2", C: CANARY } });
    const opened = await suite().open({ path: "secrets/secret/at/console/export/one", refusals: [/403 GET/] });
    const { page } = opened;
    const copied = async (format: string): Promise<string> => {
      await click(opened, "Copy all");
      await page.getByRole("menuitem", { name: `As ${format}`, exact: true }).click();
      await page.getByText(`All values are copied as ${format}.`).first().waitFor();
      return page.evaluate(() => navigator.clipboard.readText());
    };
    expect(await copied(".env")).toBe(`A=1\nB="it's"\n`);
    expect(await copied("JSON")).toBe('{\n  "A": "1",\n  "B": "it\'s"\n}');
    expect(await copied("YAML")).toBe(`A: "1"\nB: "it's"\n`);

    await opened.visit("secrets/secret/many/console/export");
    const exported = async (format: string): Promise<string> => {
      await page.getByRole("button", { name: "Export", exact: true }).click();
      await dialog(opened).getByLabel("Format").selectOption(format);
      await opened.expectClean();
      const saved = page.waitForEvent("download");
      await click(opened, "Save the file");
      const file = await saved;
      expect(file.suggestedFilename()).toBe(`export${format === ".env" ? ".env" : `.${format.toLowerCase()}`}`);
      return readFileSync(await file.path(), "utf8");
    };
    await page.getByRole("button", { name: "Select all 2" }).click();
    expect(JSON.parse(await exported("JSON"))).toEqual({
      "console/export/one": { A: "1", B: "it's" },
      "console/export/two": { A: "2", C: CANARY },
    });
    await page.getByRole("button", { name: "Export", exact: true }).click();
    await dialog(opened).getByLabel("Format").selectOption(".env");
    await click(opened, "Save the file");
    const refusal = dialog(opened).getByRole("alert");
    await refusal.getByText("A is in console/export/one and in console/export/two. Use JSON or YAML.").waitFor();
    expect(await refusal.getByText("Refused").count()).toBe(1);
    await click(opened, "Cancel");
    await page.getByLabel("Select console/export/two").uncheck();
    expect(await exported(".env")).toBe(`A=1\nB="it's"\n`);

    const token = await suite().tokenWith(
      "console-export",
      'path "secret/metadata/*" { capabilities = ["list"] } path "secret/data/console/export/one" { capabilities = ["read"] }',
    );
    await opened.close();
    const limited = await suite().open({ token, path: "secrets/secret/many/console/export", refusals: [/403 /] });
    await limited.page.getByRole("button", { name: "Select all 2" }).click();
    await limited.page.getByRole("button", { name: "Export", exact: true }).click();
    await limited.page.getByRole("button", { name: "Save the file" }).click();
    await limited.page.getByText("Your token may not read 1 secret, such as console/export/two.").waitFor();
    await limited.close();
  });

  it("hides keys of accounts and applications, and keeps their lines", async () => {
    const opened = await suite().open({ path: "sync/new/cloud-c-sm", refusals: [/404 GET .*repo-host-apps/] });
    const { page } = opened;
    const key = page.getByLabel(/^Key of the service account/);
    const json = JSON.stringify({ type: "service_account", private_key: PEM }, null, 2);
    await key.fill(json);
    expect(await key.inputValue()).toBe(json);
    expect(await key.evaluate((element) => element.classList.contains("veiled"))).toBe(true);
    await click(opened, "Reveal: Key of the service account");
    expect(await key.evaluate((element) => element.classList.contains("veiled"))).toBe(false);
    await opened.expectClean();
    await opened.visit("sync?tab=apps");
    await click(opened, "Add application");
    const pem = dialog(opened).getByLabel(/^Private key/);
    await pem.fill(PEM);
    expect(await pem.inputValue()).toBe(PEM);
    expect(await pem.evaluate((element) => element.classList.contains("veiled"))).toBe(true);
    await opened.expectClean();
    await opened.close();
  });
});
