import { expect, it } from "vitest";
import { describeConsole } from "./support/console.ts";

/** Parts of screens that read something of their own. */
const PARTS = [
  "secrets/secret",
  "secrets/secret/at/app/database",
  "sync?tab=matrix",
  "sync?tab=queue",
  "sync?tab=apps",
  "sync/in-mem/playground",
  "credentials?tab=issuer",
  "events?tab=service",
  "storage?tab=csi",
  "storage?tab=plugins",
  "storage?tab=claims",
  "nodes?tab=jobs",
  "nodes?tab=agents",
  "nodes?tab=join-tokens",
  "access?tab=tokens",
  "access?tab=methods",
  "access?tab=identities",
  "access?tab=check",
  "audit?kind=action",
];
/** All addresses of screens, as the navigation has them. */
const SCREENS = [
  "",
  "secrets",
  "sync",
  "credentials",
  "events",
  "storage",
  "nodes",
  "access",
  "notifications",
  "audit",
];

describeConsole("the frame", (suite) => {
  it("is used with the keyboard alone", async () => {
    const opened = await suite().open();
    const { page } = opened;
    await page.keyboard.press("Control+k");
    await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("role"))).toBe("combobox");
    await page.keyboard.type("secr");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Secrets" }).waitFor();
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Secrets");
    await page.getByRole("row").filter({ hasText: "secret/" }).first().waitFor();
    const isOnRow = () => page.evaluate(() => document.activeElement?.textContent?.startsWith("secret/"));
    // Into the table, then down to the row: other tests enable engines, too.
    const isInTable = () => page.evaluate(() => document.activeElement?.tagName === "TR");
    for (let presses = 0; presses < 8 && !(await isInTable()); presses++) await page.keyboard.press("Tab");
    for (let presses = 0; presses < 20 && !(await isOnRow()); presses++) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("treeitem", { name: "app" }).waitFor();
    await page.getByRole("treeitem", { name: "app" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.getByRole("treeitem", { name: "database" }).waitFor();
    for (let presses = 0; presses < 2; presses++) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "app/database" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("finds screens by other words, forms, and objects by name, in a box that stays in its place", async () => {
    await suite().call("PUT", "cluster/objects", [
      { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: "frame-billing", Name: "frame-billing" } } },
    ]);
    const opened = await suite().open();
    const { page } = opened;
    const option = (name: string | RegExp) => page.getByRole("option", { name });
    await page.keyboard.press("Control+k");
    const field = page.getByRole("combobox");
    const top = async (): Promise<number | undefined> => (await field.boundingBox())?.y;
    const before = await top();
    await field.fill("volume");
    await option("Storage").waitFor();
    await option("Create host volume").waitFor();
    await field.fill("destin");
    await option("Create destination").waitFor();
    await field.fill("frame-bill");
    await option(/^frame-billing job/).waitFor();
    expect(await top()).toBe(before);
    await opened.shot("palette");
    await opened.expectClean();
    await field.fill("playground");
    await option(/^playground destination/).click();
    await page.getByRole("heading", { name: "playground", level: 1 }).waitFor();
    await page.keyboard.press("Control+k");
    await field.fill("create host");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "Create a host volume" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("finds each tab of each screen, and namespaces, engines, limits and notification rules by name", async () => {
    await suite().call("POST", "sys/namespaces/frame-team");
    await suite().call("POST", "sys/quotas/rate-limit/frame-rate", { rate: 100_000 });
    await suite().call("POST", "sys/quotas/lease-count/frame-leases", { max_leases: 100_000 });
    const opened = await suite().open();
    const { page } = opened;
    // Rules and channels are the deployment's, and other tests count them.
    for (const kind of ["rule", "channel"])
      await page.route(`**/v1/sys/notifications/${kind}s?list=true`, (route) =>
        route.fulfill({ json: { data: { keys: [`frame-${kind}`], key_info: {} } } }),
      );
    const wrong: string[] = [];
    const rows: readonly (readonly [words: string, address: string])[] = [
      ["frame-team namespace", "?ns=frame-team"],
      ["azure/ engine", "credentials/azure"],
      ["frame-rate rate limit", "access?tab=limits"],
      ["frame-leases lease limit", "access?tab=limits"],
      ["frame-rule notification rule", "notifications?tab=rules"],
      ["frame-channel", "notifications?tab=channels"],
      ["secrets by destination", "sync?tab=matrix"],
      ["queue", "sync?tab=queue"],
      ["github apps", "sync?tab=apps"],
      ["identity issuer", "credentials?tab=issuer"],
      ["subscription", "events?tab=subscribe"],
      ["events of secrets", "events?tab=service"],
      ["csi volumes", "storage?tab=csi"],
      ["plugins", "storage?tab=plugins"],
      ["sticky claims", "storage?tab=claims"],
      ["jobs", "nodes?tab=jobs"],
      ["agents", "nodes?tab=agents"],
      ["join tokens", "nodes?tab=join-tokens"],
      ["tokens", "access?tab=tokens"],
      ["token roles", "access?tab=token-roles"],
      ["auth methods", "access?tab=methods"],
      ["identities", "access?tab=identities"],
      ["limits", "access?tab=limits"],
      ["namespaces", "access?tab=namespaces"],
      ["what may", "access?tab=check"],
      ["notification rules", "notifications?tab=rules"],
      ["channels", "notifications?tab=channels"],
      ["webhooks", "events?tab=webhooks"],
    ];
    const here = () => page.evaluate(() => (location.pathname + location.search).slice("/ui/".length));
    // The first tab of a screen is the screen's own entry.
    const screens = page.getByRole("navigation").first().getByRole("link");
    for (const address of await screens.evaluateAll((all) => all.map((one) => one.getAttribute("href") ?? ""))) {
      if (!address.startsWith("/ui/")) continue;
      await opened.visit(address.slice("/ui/".length));
      await page.locator("#main").getByRole("heading", { level: 1 }).waitFor();
      const tabs = page.locator("#main").getByRole("tab");
      for (let at = 1; at < (await tabs.count()); at++) {
        await tabs.nth(at).click();
        const tab = await here();
        if (!rows.some(([, known]) => known === tab)) wrong.push(`no entry for ${tab}`);
      }
    }
    for (const [words, address] of rows) {
      await opened.visit("");
      await page.keyboard.press("Control+k");
      await page.getByRole("dialog").getByRole("combobox").fill(words);
      const [start = ""] = words.split(" ");
      const first = page.getByRole("option").first();
      await expect.poll(async () => (await first.textContent())?.toLowerCase(), { message: words }).toContain(start);
      await page.keyboard.press("Enter");
      await expect.poll(here, { message: words }).toBe(address);
    }
    expect(wrong).toEqual([]);
    await suite().call("DELETE", "sys/quotas/rate-limit/frame-rate");
    await suite().call("DELETE", "sys/quotas/lease-count/frame-leases");
    await opened.close();
  });

  it("opens each kind of object that it finds, also of another namespace", async () => {
    const node = "f0a1e000-0000-4000-8000-000000000000";
    const reported = (Topic: string, Type: string, object: object) => ({ Topic, Type, Payload: { [Topic]: object } });
    await suite().call("PUT", "cluster/objects", [
      reported("Node", "NodeRegistration", { ID: node, Name: "kinds-node", Status: "ready", NodePool: "default" }),
      reported("Job", "JobRegistered", { ID: "kinds-job", Name: "kinds-job", Type: "service", TaskGroups: [] }),
    ]);
    const RequestedCapabilities = [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }];
    const volume = { ID: "kinds-csi", Name: "kinds-csi", PluginID: "dir", RequestedCapabilities };
    await suite().call("PUT", "volume/csi/kinds-csi/create", { Volumes: [volume] });
    await suite().call("PUT", "sys/policies/acl/kinds-policy", { policy: 'path "a" { capabilities = ["read"] }' });
    await suite().call("POST", "sys/mounts/kinds-aws", { type: "cloud-a" });
    // Without a configuration, tests beside this one would meet a 404 in their list of engines.
    await suite().call("POST", "kinds-aws/config/root", { access_key: "AKIAKINDS", secret_key: "kinds" });
    const role = { credential_type: "assumed_role", role_arns: ["arn:aws:iam::123456789012:role/kinds"] };
    await suite().call("POST", "kinds-aws/roles/kinds-role", role);
    await suite().call("PUT", "sys/namespaces/kinds-team");
    await suite().call("POST", "sys/mounts/kv", { type: "kv", options: { version: "2" } }, { namespace: "kinds-team" });
    await suite().call("POST", "kv/data/kinds-secret", { data: { a: "1" } }, { namespace: "kinds-team" });
    const opened = await suite().open({ refusals: [/404 GET \/v1\/(sys\/leases\/lookup\/)?kinds-aws\//] });
    const { page } = opened;
    for (const [name, kind, path] of [
      ["kinds-node", "node", `nodes/node/${node}`],
      ["kinds-job", "job", "nodes/job/kinds-job"],
      ["kinds-csi", "CSI volume", "storage/csi/kinds-csi"],
      ["kinds-policy", "policy", "access"],
      ["kinds-role", "role in kinds-aws", "credentials/kinds-aws/kinds-role"],
      ["kinds-secret", "secret in kv of kinds-team", "secrets/kv/at/kinds-secret"],
    ] as const) {
      await page.keyboard.press("Control+k");
      const field = page.getByRole("combobox");
      const found = page.getByRole("option", { name: `${name} ${kind}`, exact: true });
      // The index follows a write within a second.
      await expect
        .poll(
          async () => {
            await field.fill("kinds");
            await field.fill(name);
            return found.count();
          },
          { interval: 700, message: name },
        )
        .toBe(1);
      await found.click();
      await expect.poll(() => new URL(page.url()).pathname).toBe(`/ui/${path}`);
      await page.getByText(name).first().waitFor();
      // A policy is opened itself, not the list that has it.
      if (kind === "policy") await page.getByRole("heading", { name: `Policy ${name}` }).waitFor();
      await opened.expectClean();
      if (kind === "policy") await page.keyboard.press("Escape");
    }
    expect(new URL(page.url()).searchParams.get("ns")).toBe("kinds-team");
    await page.keyboard.press("Control+k");
    expect(await page.getByRole("option").first().textContent()).toMatch(/^kinds-secretsecret in kv of kinds-team$/);
    await page.keyboard.press("Escape");
    await opened.close();
    await suite().call("DELETE", "sys/mounts/kinds-aws");
  });

  it("opens secrets with any name, and roles of each kind", async () => {
    const opened = await suite().open({ refusals: [/404 GET/] });
    const { page } = opened;
    const hit = (type: string, name: string, mount: string, path: string) => {
      return { type, name, mount, path, namespace: "" };
    };
    const hits = [
      hit("secret", "kinds/100%", "secret/", "secret/data/kinds/100%"),
      hit("role", "kept", "azure/", "azure/static-roles/kept"),
      hit("role", "usual", "azure/", "azure/roles/usual"),
    ];
    await page.route("**/v1/sys/search?*type=secret*", (route) =>
      route.fulfill({ json: { data: { hits, next: "", not_searched: [] } } }),
    );
    for (const [name, path] of [
      ["kinds/100% secret in secret", "secrets/secret/at/kinds/100%25"],
      ["kept role in azure", "credentials/azure/static-roles%2Fkept"],
      ["usual role in azure", "credentials/azure/usual"],
    ] as const) {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("kinds");
      await page.getByRole("option", { name, exact: true }).click();
      await expect.poll(() => new URL(page.url()).pathname).toBe(`/ui/${path}`);
    }
    await opened.close();
  });

  it("finds secrets by name, and keeps what was opened and favourites in the browser", async () => {
    await suite().call("POST", "secret/data/frame/payments-key", { data: { a: "1" } });
    const opened = await suite().open({ isNewProfile: true });
    const { page } = opened;
    const field = page.getByRole("combobox");
    const options = page.getByRole("option");
    await page.keyboard.press("Control+k");
    await field.fill("payments");
    const found = options.filter({ hasText: "frame/payments-key" });
    // The index of names follows a write within a second.
    await expect
      .poll(
        async () => {
          await field.fill("payment");
          await field.fill("payments");
          return found.count();
        },
        { interval: 700 },
      )
      .toBe(1);
    await opened.expectClean();
    await opened.shot("palette-search");
    await found.click();
    await page.getByRole("heading", { name: "frame/payments-key" }).waitFor();
    await page.keyboard.press("Control+k");
    expect(await options.first().textContent()).toMatch(/^frame\/payments-keysecret in secret$/);
    await page.keyboard.press("Control+b");
    await options.first().getByText("secret in secret, favourite").waitFor();
    await opened.expectClean();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "frame/payments-key" }).waitFor();
    const kept = await page.evaluate(() => Object.values(localStorage).join(" "));
    expect(kept).not.toContain(suite().bench.token);
    await page.keyboard.press("Control+k");
    await field.fill("forget recent");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Control+k");
    expect(await options.first().textContent()).not.toContain("payments");
    await page.keyboard.press("Escape");
    // Links count as well.
    await opened.visit("secrets/secret");
    await page.getByRole("treeitem", { name: "app" }).click();
    await page.getByRole("treeitem", { name: "database" }).click();
    await page.getByRole("heading", { name: "app/database" }).waitFor();
    await page.keyboard.press("Control+k");
    expect(await options.first().textContent()).toMatch(/^app\/databasesecret in secret$/);
    await opened.close();
  });

  it("is as tall as its window, and closes the commands with Escape", async () => {
    const opened = await suite().open({ path: "secrets" });
    const { page } = opened;
    await page.getByRole("link", { name: "secret/" }).waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollHeight - innerHeight)).toBe(0);
    await page.getByRole("link", { name: "Skip to the content" }).press("Enter");
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("main");
    await page.getByRole("button", { name: "Commands of this screen" }).click();
    const dock = page.getByRole("complementary", { name: "Commands" });
    await dock.waitFor();
    await page.keyboard.press("Escape");
    await dock.waitFor({ state: "detached" });
    await opened.close();
  });

  it("switches both kinds of namespaces, and keeps them in the address", async () => {
    await suite().call("PUT", "sys/namespaces/console-a");
    await suite().call("PUT", "sys/namespaces/b", undefined, { namespace: "console-a" });
    await suite().call("PUT", "namespace", { Name: "console-batch" });
    // A list without entries is answered with 404.
    const opened = await suite().open({ path: "secrets", refusals: [/404 GET/] });
    const { page } = opened;
    const open = () => page.getByRole("button", { name: /^Namespaces:/ }).click();
    await open();
    await page.getByRole("button", { name: "Show the namespaces in console-a" }).click();
    await opened.expectClean();
    await opened.shot("namespaces");
    await page.getByRole("button", { name: "console-a/b", exact: true }).click();
    await open();
    await page.getByRole("button", { name: "console-batch" }).click();
    await page.getByText("No secrets engine yet").waitFor();
    await expect.poll(() => new URL(page.url()).search).toBe("?ns=console-a%2Fb&cluster=console-batch");
    await page.getByRole("link", { name: "Overview" }).click();
    await expect.poll(() => new URL(page.url()).search).toBe("?ns=console-a%2Fb&cluster=console-batch");
    await page.goBack();
    await page.getByText("No secrets engine yet").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows what it has sent as commands that work in a shell", async () => {
    const opened = await suite().open({ path: "secrets/secret/at/app/database" });
    const { page } = opened;
    await page.getByRole("button", { name: "Commands of this screen" }).click();
    const dock = page.getByRole("complementary", { name: "Commands" });
    await dock
      .getByText('curl -s -H "X-Orch-Token: $SALLYPORT_TOKEN" "$SALLYPORT_ADDR/v1/secret/metadata/app/database"')
      .waitFor();
    await dock.getByRole("button", { name: "vault and nomad" }).click();
    await dock.getByText("vault kv metadata get -mount=secret app/database").waitFor();
    await opened.expectClean();
    await opened.shot("commands");
    await opened.close();
  });

  it("shows no broken page to a token that may do nearly nothing, on any screen", async () => {
    const token = await suite().tokenWith("console-nothing", 'path "cubbyhole/*" { capabilities = ["read"] }');
    const opened = await suite().open({ token, refusals: [/40[34]/] });
    for (const screen of [...SCREENS, ...PARTS]) {
      await opened.visit(screen);
      await opened.page.locator("h1").waitFor();
      await opened.page.waitForLoadState("networkidle");
      await opened.expectClean();
    }
    await opened.close();
  });

  it("says so while the service does not answer, and goes on when it does", async () => {
    const opened = await suite().open({ path: "secrets", refusals: [/net::/] });
    const { page, context } = opened;
    await page.getByRole("link", { name: "secret/" }).waitFor();
    await context.setOffline(true);
    await page.getByRole("link", { name: "secret/" }).click();
    await page.getByText("The service does not answer").first().waitFor();
    await opened.expectClean();
    await context.setOffline(false);
    await page.getByRole("button", { name: "Try again" }).first().click();
    await page.getByRole("treeitem", { name: "app" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("says that it is loading on a slow network, and shows each part when it comes", async () => {
    const opened = await suite().open({ isNewProfile: true });
    const { page, context } = opened;
    await page.getByText("Needs attention").waitFor();
    const network = await context.newCDPSession(page);
    const slow = { offline: false, latency: 2_000, downloadThroughput: 50_000, uploadThroughput: 50_000 };
    await network.send("Network.emulateNetworkConditions", slow);
    await opened.visit("nodes");
    await page.locator(".loading").first().waitFor();
    await page.getByRole("table", { name: "Nodes" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("fits a phone and a large screen, light and dark", async () => {
    const opened = await suite().open({ viewport: { width: 360, height: 900 } });
    const { page } = opened;
    for (const screen of SCREENS) {
      await opened.visit(screen);
      await page.locator("h1").waitFor();
      await page.waitForLoadState("networkidle");
      for (const width of [360, 3840]) {
        await page.setViewportSize({ width, height: 900 });
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
          const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          await expect.poll(overflow, { message: `${screen} ${width}` }).toBeLessThanOrEqual(0);
          await opened.expectClean();
        }
      }
    }
    await opened.close();
  });

  it("shows the login before the API answers", async () => {
    const opened = await suite().open({ token: null, isNewProfile: true });
    const { page } = opened;
    const loginButton = page.getByRole("button", { name: "Log in", exact: true });
    await loginButton.waitFor();
    await page.route("**/v1/**", () => undefined);
    await page.reload();
    await loginButton.waitFor();
    await opened.close();
  });
});
