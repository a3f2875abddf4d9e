import { expect, it } from "vitest";
import { describeConsole } from "./support/console.ts";

const DENIED = [/403 /];

/** The words for a missing right, and those that would be false: nothing was seen. */
const TOLD = /may not |may have no right|that your token may see/;
const FALSE = /\bNo [a-zA-Z ]+ yet\b|has joined|in this namespace$|Everything works/;
/** Forms that ask for a path or a token before they read, and documents without a right. */
const NEEDS_NO_RIGHT = /^(What may a token do\?|Subscription|Identity issuer|\/ui\/guides$)/;

describeConsole("a token that may not look", (suite) => {
  it("is told so by the overview, which does not say that everything works", async () => {
    const token = await suite().tokenWith("console-blind", 'path "nothing" { capabilities = ["read"] }');
    const opened = await suite().open({ token, refusals: DENIED });
    const { page } = opened;
    await page.getByText("Not everything can be seen").waitFor();
    await page.getByText("Your token may not see the figures of the deployment (sys/metrics: read).").waitFor();
    await page.getByText(/^Not known: failures of sync/).waitFor();
    expect(await page.getByText("Everything works").count()).toBe(0);
    expect(await page.getByText("Create a destination").count()).toBe(0);
    await opened.shot("rights-overview");
    await opened.expectClean();
    await opened.close();
  });

  it("is shown the figures by either right to them", async () => {
    const token = await suite().tokenWith("console-figures", 'path "sys/metrics" { capabilities = ["read"] }');
    const opened = await suite().open({ token, refusals: DENIED });
    await opened.page
      .getByRole("link", { name: /^Sync / })
      .first()
      .waitFor();
    // The figures alone are not the whole picture.
    await opened.page
      .getByText("Your token may not see active notifications (sys/notifications/active: read).")
      .waitFor();
    expect(await opened.page.getByText("may not see").count()).toBe(1);
    expect(await opened.page.getByText("Everything works").count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("reads figures and notifications, and is told of nothing that it cannot see", async () => {
    const right = (path: string) => `path "${path}" { capabilities = ["read"] }`;
    const policy = `${right("sys/metrics")} ${right("sys/notifications/active")}`;
    const opened = await suite().open({
      token: await suite().tokenWith("console-all-figures", policy),
      refusals: DENIED,
    });
    await opened.page
      .getByRole("link", { name: /^Sync / })
      .first()
      .waitFor();
    await opened.page.locator(".overview-verdict").waitFor();
    expect(await opened.page.getByText("may not see").count()).toBe(0);
    expect(await opened.page.getByText("Not everything can be seen").count()).toBe(0);
    await opened.close();
  });

  it("is told by each screen which right it lacks, and not that nothing is there", async () => {
    const token = await suite().tokenWith("console-blind", 'path "nothing" { capabilities = ["read"] }');
    const opened = await suite().open({ token, refusals: DENIED });
    const { page } = opened;
    const screens: readonly (readonly [path: string, text: RegExp])[] = [
      ["sync", /may not see destinations \(sys\/sync\/destinations: list\)/],
      ["sync?tab=matrix", /may not see destinations \(sys\/sync\/destinations: list\)/],
      ["sync?tab=apps", /may not see applications \(sys\/sync\/repo-host-apps: list\)/],
      ["access", /may not see policies \(sys\/policies\/acl: list\)/],
      ["access?tab=tokens", /may not see tokens \(auth\/token\/accessors: list, sudo\)/],
      ["access?tab=methods", /may not see [a-z ]+ \(sys\/auth: read\)/],
      ["nodes", /may not see nodes \(GET \/v1\/nodes: node:read\)/],
      ["nodes?tab=jobs", /may not see jobs \(GET \/v1\/jobs: namespace:list-jobs\)/],
      ["nodes?tab=agents", /may not see [a-z ]+ \(GET \/v1\/agents: node:read\)/],
      ["storage", /No host volume that your token may see/],
      ["storage?tab=csi", /may not see CSI volumes \(GET \/v1\/volumes: [a-z:, -]+\)/],
      ["storage?tab=plugins", /may not see CSI plugins \(GET \/v1\/plugins: [a-z: -]+\)/],
      ["audit", /may not see [a-z ]+ \(sys\/audit\/[a-z]+: [a-z]+\)|may not/],
      ["secrets", /your token may have no right below it/],
      ["credentials", /your token may have no right below it/],
    ];
    const wrong: string[] = [];
    for (const [path, text] of screens) {
      await opened.visit(path);
      const main = page.locator("#main");
      const isTold = await main
        .getByText(text)
        .first()
        .waitFor()
        .then(
          () => true,
          () => false,
        );
      const shown = (await main.textContent()) ?? "";
      if (!isTold || /\bNo [a-zA-Z ]+ yet\b|has joined|in this namespace$/.test(shown)) wrong.push(`${path}: ${shown}`);
    }
    expect(wrong).toEqual([]);
    await opened.visit("access");
    await page.getByRole("link", { name: "Check what your token may do" }).click();
    await expect.poll(() => page.getByLabel("Paths").inputValue()).toContain("sys/policies/acl");
    await opened.expectClean();
    await opened.close();
  });

  it("is told so on every tab of every screen, also of later ones", async () => {
    const token = await suite().tokenWith("console-blind", 'path "nothing" { capabilities = ["read"] }');
    const opened = await suite().open({ token, refusals: [...DENIED, /404 /] });
    const { page } = opened;
    const main = page.locator("#main");
    const screens = await page
      .getByRole("navigation")
      .first()
      .getByRole("link")
      .evaluateAll((links) => links.map((link) => link.getAttribute("href") ?? ""));
    expect(screens.filter((address) => address.startsWith("/ui/")).length).toBeGreaterThan(9);
    const silent: string[] = [];
    const look = async (place: string) => {
      const text = async () => (await main.textContent()) ?? "";
      const isTold = await expect
        .poll(text)
        .toMatch(TOLD)
        .then(
          () => true,
          () => false,
        );
      const shown = await text();
      if (!isTold || FALSE.test(shown)) silent.push(`${place}: ${shown}`);
    };
    for (const address of screens.filter((address) => address.startsWith("/ui/"))) {
      await opened.visit(address.slice("/ui/".length));
      await main.getByRole("heading", { level: 1 }).waitFor();
      const tabs = await main.getByRole("tab").allTextContents();
      if (tabs.length === 0 && !NEEDS_NO_RIGHT.test(address)) await look(address);
      for (const [at, tab] of tabs.entries()) {
        if (NEEDS_NO_RIGHT.test(tab)) continue;
        await main.getByRole("tab").nth(at).click();
        await look(`${address} ${tab}`);
      }
    }
    expect(silent).toEqual([]);
    await opened.close();
  });

  it("is told by Ctrl K what was not searched, and while it searches", async () => {
    const token = await suite().tokenWith("console-blind", 'path "nothing" { capabilities = ["read"] }');
    const opened = await suite().open({ token, refusals: DENIED });
    const { page } = opened;
    await page.route("**/v1/search/fuzzy", async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 500));
      await route.continue();
    });
    await page.keyboard.press("Control+K");
    await page.getByRole("combobox").fill("zzzz");
    await page.getByRole("dialog").getByText("Searching …").waitFor();
    expect(await page.getByText("Nothing found.").count()).toBe(0);
    await page.getByText(/Nothing found\. Not searched: .*destinations \(.*which your token may not see\./).waitFor();
    await opened.expectClean();
    await opened.close();
  });
});
