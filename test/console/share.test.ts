import { expect, it } from "vitest";
import { CANARY, type Console, describeConsole } from "./support/console.ts";

const NAME = "console/shared";
/** The second opening of a link. */
const SPENT = [/400 POST \/v1\/sys\/wrapping\//];

/** Makes a link on the secret's page, and returns it. */
async function shareOf({ page }: Console, life?: string): Promise<string> {
  await page.getByRole("button", { name: "More about the secret" }).click();
  await page.getByRole("menuitem", { name: "Share once" }).click();
  const dialog = page.getByRole("dialog");
  if (life) await dialog.getByLabel("The link ends after").selectOption({ label: life });
  await dialog.getByRole("button", { name: "Make the link" }).click();
  await dialog.getByRole("heading", { name: "The link is made" }).waitFor();
  return (await dialog.locator(".secrets-link").textContent()) ?? "";
}

describeConsole("share once", (suite) => {
  /** The receiver: a browser of its own, without a session. */
  async function receive(url: string, refusals: readonly RegExp[] = []) {
    const opened = await suite().open({ token: null, refusals, isNewProfile: true });
    const sent: string[] = [];
    opened.page.on("request", (request) => sent.push(`${request.url()} ${JSON.stringify(request.headers())}`));
    await opened.page.goto(url);
    await opened.page.getByRole("heading", { name: "A shared secret" }).waitFor();
    return { opened, sent };
  }

  it("shows the values to the first receiver without a log-in, and tells the second one", async () => {
    await suite().call("PUT", `secret/data/${NAME}`, { data: { password: CANARY, user: "ann" } });
    const sender = await suite().open({ path: `secrets/secret/at/${NAME}` });
    const url = await shareOf(sender, "1 hour");
    const { hash } = new URL(url);
    expect(hash).toMatch(/^#hvs\.\w+~\d+$/);
    await sender.expectClean();
    await sender.shot("share-link");
    // The list of commands shows neither the link nor its token.
    const token = hash.slice(1).split("~")[0] ?? "";
    await sender.page.getByRole("button", { name: "Done" }).click();
    await sender.page.getByRole("button", { name: "Commands of this screen" }).click();
    expect(await sender.page.content()).not.toContain(token);
    await sender.close();

    const { opened, sent } = await receive(url);
    const { page } = opened;
    await page.getByText(`secret/data/${NAME}`).waitFor();
    expect(page.url()).not.toContain(token);
    await opened.expectClean();
    await opened.shot("share-receive");
    // A look at the link leaves it closed.
    expect(await page.getByRole("rowheader", { name: "password" }).count()).toBe(0);
    await page.getByRole("button", { name: "Open the secret" }).click();
    await page.getByRole("rowheader", { name: "password" }).waitFor();
    expect(await page.content()).not.toContain("onerror");
    await page.getByRole("button", { name: "Reveal all" }).click();
    await page.getByText(CANARY).waitFor();
    expect(await page.getByText("created_time").count()).toBe(0);
    expect(sent.filter((line) => line.includes(token))).toEqual([]);
    expect(await page.evaluate("JSON.stringify([localStorage, sessionStorage])")).not.toContain(token);
    await opened.expectClean();
    await opened.shot("share-opened");
    await opened.close();

    const second = await receive(url, SPENT);
    await second.opened.page.getByText("The link was opened before, or was revoked.").waitFor();
    await second.opened.expectClean();
    await second.opened.close();
  });

  it("says that a link has ended, and that an address has none", async () => {
    const { opened } = await receive(`${suite().bench.url}/ui/open#hvs.AAAAAAAAAAAAAAAAAAAAAAAA~1760000000`, SPENT);
    await opened.page.getByText("The link has ended").waitFor();
    expect(await opened.page.getByText("opened before, or").count()).toBe(0);
    await opened.expectClean();
    await opened.page.goto(`${suite().bench.url}/ui/open`);
    await opened.page.getByText("This address has no link any more").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("revokes a link, of a namespace, too", async () => {
    await suite().call("POST", "sys/namespaces/console-share", {});
    const at = { namespace: "console-share" };
    await suite().call("POST", "sys/mounts/kv", { type: "kv", options: { version: "2" } }, at);
    await suite().call("PUT", "kv/data/one", { data: { key: "in a namespace" } }, at);
    const sender = await suite().open({ path: "secrets/kv/at/one?ns=console-share" });
    const open = await receive(await shareOf(sender));
    await open.opened.page.getByRole("button", { name: "Open the secret" }).click();
    await open.opened.page.getByRole("button", { name: "Reveal all" }).click();
    await open.opened.page.getByText("in a namespace").waitFor();
    await open.opened.close();
    await sender.page.getByRole("button", { name: "Done" }).click();

    const url = await shareOf(sender);
    await sender.page.getByRole("button", { name: "Revoke the link" }).click();
    await sender.page.getByText("The link is revoked.").last().waitFor();
    await sender.expectClean();
    await sender.close();
    const { opened } = await receive(url, SPENT);
    await opened.page.getByText("The link was opened before, or was revoked.").waitFor();
    await opened.close();
  });
});
