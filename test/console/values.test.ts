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
    await page.getByLabel("Value of odd", { exact: true }).focus();
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
