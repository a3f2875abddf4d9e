import { expect, it, vi } from "vitest";
import { type Console, describeConsole, type Suite } from "./support/console.ts";

const dialog = (opened: Console) => opened.page.getByRole("dialog");
const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();

interface Secret {
  readonly path: string;
  readonly title: string;
  readonly what: string;
  /** Ends with the secret in the dialog. */
  readonly make: (opened: Console) => Promise<void>;
  readonly before?: (suite: Suite) => Promise<unknown>;
}

const SECRETS: Readonly<Record<string, Secret>> = {
  "a token": {
    path: "access?tab=tokens",
    title: "The token is created",
    what: "the token",
    make: async (opened) => {
      await click(opened, "Create token");
      // With many policies their names are written.
      const box = dialog(opened).getByRole("checkbox", { name: "default", exact: true });
      const text = dialog(opened).getByRole("textbox", { name: /^Policies/ });
      await box.or(text).waitFor();
      // The names may arrive only now, and take the place of the text.
      await vi.waitFor(async () =>
        (await box.count()) > 0 ? box.check({ timeout: 1_000 }) : text.fill("default", { timeout: 1_000 }),
      );
      await dialog(opened).getByRole("button", { name: "Create token" }).click();
      await dialog(opened).getByText("The token is shown here only").waitFor();
    },
  },
  "a join token": {
    path: "nodes",
    title: "The join token is created",
    what: "the join token",
    make: async (opened) => {
      await click(opened, "Join a node");
      await click(opened, "Create join token");
      await dialog(opened).getByText("Waiting for the node").waitFor();
    },
  },
  "a secret ID": {
    path: "access/method/once-approle",
    title: "Role once",
    what: "the secret ID",
    before: async (suite) => {
      await suite.call("POST", "sys/auth/once-approle", { type: "approle" });
      await suite.call("POST", "auth/once-approle/role/once", { token_policies: ["default"] });
    },
    make: async (opened) => {
      await opened.page.getByRole("cell", { name: "once" }).click();
      await click(opened, "Create secret ID");
      await dialog(opened).getByText("Secret ID, shown here only").waitFor();
    },
  },
};

describeConsole("secrets that are shown once", (suite) => {
  it.each(Object.entries(SECRETS))("asks before %s is lost by a key, the back button or a link", async (_, secret) => {
    await secret.before?.(suite());
    // A token of another suite may end between the list of tokens and the look at it.
    const opened = await suite().open({ path: "", refusals: [/^400 POST \/v1\/auth\/token\/lookup-accessor$/] });
    const { page } = opened;
    await opened.visit(secret.path);
    await secret.make(opened);
    await dialog(opened).getByRole("heading", { name: secret.title, exact: true }).waitFor();
    await opened.expectClean();
    const asks = dialog(opened).getByText(`Close? Nothing shows ${secret.what} again.`);
    const isAsked = async (): Promise<void> => {
      await asks.waitFor();
      await click(opened, "Keep it open");
      await asks.waitFor({ state: "detached" });
      await dialog(opened).getByRole("heading", { name: secret.title, exact: true }).waitFor();
      await expect.poll(() => page.url()).toContain(secret.path.split("?")[0]);
    };
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await isAsked();
    await page.mouse.click(4, 4);
    await page.keyboard.press("Escape");
    await isAsked();
    await page.evaluate("history.back()");
    await isAsked();
    await opened.visit("sync");
    await isAsked();
    expect(await page.evaluate("!dispatchEvent(new Event('beforeunload', { cancelable: true }))")).toBe(true);
    await dialog(opened).getByRole("button", { name: "Close", exact: true }).first().click();
    await asks.waitFor();
    await opened.expectClean();
    await page.locator(".dialog-ask").getByRole("button", { name: "Close" }).click();
    await dialog(opened).waitFor({ state: "detached" });
    await page.evaluate("history.back()");
    await expect.poll(() => page.url()).not.toContain(secret.path.split("?")[0]);
    await opened.close();
  });
});
