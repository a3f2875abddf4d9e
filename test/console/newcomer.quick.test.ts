import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import { type Console, describeConsole } from "./support/console.ts";
import { providerBody } from "./support/providers.ts";

/** A person who has read nothing: does what the page shows, and counts each click and each field. */
class Newcomer {
  readonly #opened: Console;
  steps = 0;

  constructor(opened: Console) {
    this.#opened = opened;
  }

  /** Presses a button, a link, a tab or a row that is in sight. */
  async press(name: string | RegExp): Promise<void> {
    this.steps++;
    const options = { name, exact: typeof name === "string" };
    const found = await this.#find((scope) =>
      scope
        .getByRole("button", options)
        .or(scope.getByRole("link", options))
        .or(scope.getByRole("tab", options))
        .or(scope.getByRole("row", options)),
    );
    await found.click();
  }

  async fill(label: string | RegExp, text: string): Promise<void> {
    this.steps++;
    const found = await this.#find((scope) => scope.getByLabel(label));
    await found.fill(text);
  }

  /** In the dialog, as long as one is open. */
  async #find(of: (scope: Page | Locator) => Locator): Promise<Locator> {
    const { page } = this.#opened;
    const dialog = page.getByRole("dialog");
    let found: Locator | undefined;
    const look = async (): Promise<boolean> => {
      const visible = of((await dialog.count()) > 0 ? dialog : page).filter({ visible: true });
      found = visible.first();
      return (await visible.count()) > 0;
    };
    await expect.poll(look).toBe(true);
    return found as Locator;
  }

  /** A dialog may open later than the next step begins, with a button named like the one that opens it. */
  async dialog(): Promise<void> {
    await this.#opened.page.getByRole("dialog").waitFor();
  }

  async see(text: string | RegExp): Promise<void> {
    await this.#opened.page.getByText(text).filter({ visible: true }).first().waitFor();
  }
}

/*
 * The four things that a newcomer tries in the playground, from the log-in on. The number of steps is held, because a
 * test cannot hold the seconds of a person: a step takes one or two.
 */
describeConsole("a newcomer", (suite) => {
  const begin = async (refusals: readonly RegExp[] = []) => {
    const opened = await suite().open({ token: null, refusals });
    const person = new Newcomer(opened);
    await person.fill(/^Token/, suite().bench.token);
    await person.press("Log in");
    await person.see("First steps");
    return { opened, person };
  };

  it("creates a destination, syncs a secret, and sees it arrive in the live events", async () => {
    const { opened, person } = await begin();
    await person.press("Sync");
    await person.press("Create destination");
    await person.press(/^In memory/);
    await person.fill(/^Name/, "my-first");
    await person.press("Create destination");
    await person.see("my-first is created");
    await person.press("Sync a secret");
    await person.fill(/^Path of the secret/, "app/api");
    await person.press("Sync secret");
    await person.see("Synced");
    await person.press("Events");
    await person.press("Secrets and sync");
    await person.see("synced app/api → in-mem/my-first");
    await opened.shot("newcomer-events");
    expect(person.steps).toBeLessThanOrEqual(12);
    await opened.expectClean();
    await opened.close();
  });

  it("issues and revokes a credential", async () => {
    // A role without leases.
    const { opened, person } = await begin([/404 GET \/v1\/sys\/leases/]);
    await person.press("Credentials");
    await person.press(/^azure/);
    await person.press("reader");
    await person.press("Issue credentials");
    await person.dialog();
    await person.press("Issue credentials");
    await person.see(/client.secret/i);
    await opened.shot("newcomer-issued");
    await person.press("Revoke now");
    await person.see(/revoked/i);
    expect(person.steps).toBeLessThanOrEqual(10);
    await opened.expectClean();
    await opened.close();
  });

  it("makes and deletes a volume", async () => {
    const { opened, person } = await begin([/404 GET \/v1\/volume\/host/]);
    await person.press("Storage");
    await person.press("Create host volume");
    await person.fill(/^Name/, "my-volume");
    await person.press("Create volume");
    await person.see("ready");
    await person.press("Delete");
    await person.fill("Type my-volume to confirm", "my-volume");
    await person.press("Delete the volume");
    await person.see("The volume my-volume is deleted.");
    expect(person.steps).toBeLessThanOrEqual(9);
    await opened.expectClean();
    await opened.close();
  });

  it("finds out why a push failed", async () => {
    const body = providerBody(suite().bench, "cloud-a-sm");
    const at = "sys/sync/destinations/cloud-a-sm/my-account";
    await suite().call("POST", at, { ...body, secret_access_key: "wrong" });
    await suite().call("POST", `${at}/associations/set`, { mount: "secret", secret_name: "app/api" });
    const { opened, person } = await begin();
    await person.press(/1 secret at cloud-a-sm\/my-account/);
    await person.see(/the secret access key does not belong to the access key/);
    await opened.shot("newcomer-failure");
    expect(person.steps).toBeLessThanOrEqual(4);
    await opened.expectClean();
    await opened.close();
    await suite().call("DELETE", `${at}?force_delete=true`);
  });
});
