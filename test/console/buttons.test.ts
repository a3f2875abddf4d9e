import { expect, it } from "vitest";
import { type Console, describeConsole } from "./support/console.ts";

/* Buttons of a token that may look at everything and change nothing. */

const READER = `
path "*" { capabilities = ["read", "list"] }
path "sys/snapshot" { capabilities = ["deny"] }
path "azure/creds/*" { capabilities = ["deny"] }
namespace "*" { policy = "read" }
node { policy = "read" }
agent { policy = "read" }
operator { policy = "read" }
plugin { policy = "read" }
`;

/** A row is a screen, a button or menu item on it, and the right that it names. */
type Row = readonly [screen: string, action: RegExp, right: string];

const ROWS: readonly Row[] = [
  ["secrets", /^Enable engine$/, "sys/mounts/*: update"],
  // With several engines a menu of them.
  ["secrets", /^(New secret|In secret\/)$/, "secret/data/*: update"],
  ["secrets/secret", /^New secret$/, "secret/data/*: update"],
  ["secrets/secret", /^Move to another path$/, "sys/remount: update"],
  ["secrets/secret", /^Disable the engine$/, "sys/mounts/secret: delete"],
  ["secrets/secret/at/app/api", /^Write a new version$/, "secret/data/app/api: update"],
  ["secrets/secret/at/app/api", /^Delete the newest version$/, "secret/data/app/api: delete"],
  ["secrets/secret/at/app/api", /^Delete the secret$/, "secret/metadata/app/api: delete"],
  ["secrets/secret/at/app/api?tab=destinations", /^Sync to a destination$/, "associations/set: update"],
  ["secrets/secret/at/app/database?tab=destinations", /^Stop syncing$/, "associations/remove: update"],
  ["secrets/secret/at/app/api?tab=versions", /^Destroy$/, "secret/destroy/app/api: update"],
  ["secrets/secret/at/app/api?tab=metadata", /^Change the metadata$/, "secret/metadata/app/api: update"],
  ["sync", /^Create destination$/, "sys/sync/destinations/*/*: update"],
  ["sync", /^Sync a secret$/, "associations/set: update"],
  ["sync", /^Pause all syncing$/, "sys/sync/config: patch"],
  ["sync?tab=apps", /^Add application$/, "sys/sync/repo-host-apps/*: update"],
  ["sync?tab=queue", /^Set capacity$/, "sys/sync/config: patch"],
  ["sync/new/in-mem", /^Create destination$/, "sys/sync/destinations/in-mem/*: update"],
  ["sync/in-mem/playground", /^Verify$/, "sys/sync/destinations/in-mem/playground/verify: update"],
  ["sync/in-mem/playground", /^Edit$/, "sys/sync/destinations/in-mem/playground: patch"],
  ["sync/in-mem/playground", /^Delete destination$/, "sys/sync/destinations/in-mem/playground: delete"],
  ["sync/in-mem/playground?tab=rules", /^Add rule$/, "rules/*: update"],
  ["credentials", /^Enable engine$/, "sys/mounts/*: update"],
  ["credentials?tab=issuer", /^Rotate key$/, "identity/oidc/key/default/rotate: update"],
  ["credentials/azure", /^Create role$/, "azure/roles/*: update"],
  ["credentials/azure", /^Issue credentials$/, "azure/creds/reader: read"],
  ["credentials/azure", /^Disable engine$/, "sys/mounts/azure: delete"],
  ["credentials/azure?tab=config", /^Rotate root secret now$/, "azure/rotate-root: update"],
  ["credentials/azure?tab=leases", /^Revoke by prefix$/, "sys/leases/revoke-prefix/azure"],
  ["credentials/azure/reader", /^Issue credentials$/, "azure/creds/reader: read"],
  ["credentials/azure/reader", /^Edit$/, "azure/roles/reader: update"],
  ["credentials/azure/reader", /^Delete role$/, "azure/roles/reader: delete"],
  ["storage", /^Create host volume$/, "namespace:host-volume-create"],
  ["storage", /^Create CSI volume$/, "namespace:csi-write-volume"],
  ["storage", /^Register a host volume$/, "namespace:host-volume-register"],
  ["storage/host/VOLUME", /^Delete$/, "namespace:host-volume-delete"],
  ["storage/host/VOLUME", /^Change capacity$/, "namespace:host-volume-create"],
  ["nodes", /^Join a node$/, "node:write"],
  ["nodes/node/NODE", /^Make ineligible$/, "node:write"],
  ["nodes/node/NODE", /^Drain$/, "node:write"],
  ["nodes/node/NODE", /^Purge the node$/, "node:write"],
  ["access", /^Write a policy$/, "sys/policies/acl/*: update"],
  ["access?tab=tokens", /^Create token$/, "auth/token/create: update"],
  ["access?tab=token-roles", /^Create token role$/, "auth/token/roles/*: update"],
  ["access?tab=methods", /^Enable a method$/, "sys/auth/*: update"],
  ["access?tab=identities", /^Create entity$/, "identity/entity/name/*: update"],
  ["access?tab=identities", /^Create group$/, "identity/group/name/*: update"],
  ["access?tab=limits", /^Create rate limit$/, "sys/quotas/rate-limit/*: update"],
  ["access?tab=limits", /^Create lease limit$/, "sys/quotas/lease-count/*: update"],
  ["access?tab=namespaces", /^Create namespace$/, "sys/namespaces/*: update"],
  ["notifications?tab=rules", /^Add rule$/, "sys/notifications/rules/*: update"],
  ["notifications?tab=channels", /^Add channel$/, "sys/notifications/channels/*: update"],
  ["notifications?tab=channels", /^Test$/, "sys/notifications/channels/console-buttons/test: update"],
  ["notifications?tab=channels", /^Edit$/, "sys/notifications/channels/console-buttons: update"],
  ["notifications?tab=channels", /^Delete$/, "sys/notifications/channels/console-buttons: delete"],
];

/** Reads, choices of what is shown, and forms that end at a button of the table. */
const HARMLESS =
  /^(Refresh|Copy|Reveal|Hide|Show|As |Select|Compare|Read |Search|Follow|Start|Stop|Pause$|Resume|Filter|Check|Open|More |Older|Newer|Load|Clear|Close|Back|Cancel|All |Remove |Export|Download|Settings of the engine|Share once|Look up|Find |Light|Dark|Sort|New rule|Register$|Try again|Add a |Previous|Next|Who read)/;

/** Opens a list of roles, of which the token may use some; follows a topic that it may be able to see. */
const CHOOSES =
  /^(credentials(\?.*)? Issue credentials|events (Job|Allocation|Evaluation|Deployment|HostVolume|CSIVolume|Node))$/;

interface Seen {
  readonly name: string;
  /** The title of a button that is barred; null for one that can be used. */
  readonly lacks: string | null;
}

/** All buttons of a screen with the items of its menus. */
async function buttonsOf({ page }: Console): Promise<Seen[]> {
  const main = page.locator("#main");
  const read = (selector: string) =>
    main.locator(selector).evaluateAll((all) =>
      all
        .filter((one) => one.checkVisibility() && !(one as HTMLButtonElement).disabled)
        .map((one) => ({
          name: (one.getAttribute("aria-label") ?? one.textContent ?? "").trim(),
          lacks: one.getAttribute("aria-disabled") === "true" ? (one.getAttribute("title") ?? "") : null,
        })),
    );
  const seen = await read("button:not([role]):not([aria-haspopup], [aria-pressed], th button), a.button");
  for (const menu of await main.locator("button[aria-haspopup=menu]").all()) {
    const items = main.locator("[role=menuitem]");
    // A screen that is drawn again closes its menus; the next look tries again.
    if ((await menu.getAttribute("aria-expanded")) !== "true") await menu.click();
    await items.first().waitFor({ timeout: 10_000 });
    seen.push(...(await read("[role=menuitem]")));
    await page.keyboard.press("Escape");
    await items.first().waitFor({ state: "hidden", timeout: 10_000 });
  }
  return seen;
}

describeConsole("a token that may change nothing", (suite) => {
  it("finds each button barred that it may not use, with the missing right", async () => {
    const bench = suite();
    const token = await bench.tokenWith("console-reader", READER);
    const { Volume } = (await bench.call("PUT", "volume/host/create", {
      Volume: { Name: `console-buttons-${Date.now()}`, PluginID: "mkdir" },
    })) as { Volume: { ID: string; NodeID: string } };
    const opened = await bench.open({ token, refusals: [/403 /, /404 /] });
    // Channels are the deployment's, and other tests count them.
    const channel = { name: "console-buttons", type: "slack", paused: null, last_error: null, dead_letters: 0 };
    await opened.page.route("**/v1/sys/notifications/channels?list=true", (route) =>
      route.fulfill({ json: { data: { keys: [channel.name], key_info: { [channel.name]: channel } } } }),
    );
    const wrong: string[] = [];
    for (const place of new Set([...ROWS.map(([screen]) => screen), "", "events", "events?tab=service", "audit"])) {
      await opened.visit(place.replace("VOLUME", Volume.ID).replace("NODE", Volume.NodeID));
      const wanted = ROWS.filter(([screen]) => screen === place);
      const missing = async () => {
        const seen = await buttonsOf(opened);
        const open = seen.filter(
          ({ name, lacks }) => lacks === null && !HARMLESS.test(name) && !CHOOSES.test(`${place} ${name}`),
        );
        const lost = wanted.filter(
          ([, action, right]) => !seen.some(({ name, lacks }) => action.test(name) && lacks?.includes(right)),
        );
        return [...lost.map(([, action, right]) => `${action} ${right}`), ...open.map(({ name }) => `open: ${name}`)];
      };
      await expect
        .poll(missing, { timeout: 60_000 })
        .toEqual([])
        .catch(async () => wrong.push(`${place}: ${(await missing()).join("; ")}`));
    }
    expect(wrong).toEqual([]);
    await opened.expectClean();
    await opened.close();
  });

  it("is told the right by a click, and nothing is sent or opened", async () => {
    const token = await suite().tokenWith("console-reader", READER);
    const opened = await suite().open({ token, path: "secrets", refusals: [/403 /, /404 /] });
    const button = opened.page.getByRole("button", { name: "Enable engine" });
    await expect.poll(() => button.getAttribute("aria-disabled")).toBe("true");
    await button.press("Enter");
    await opened.page.getByRole("region", { name: "Messages" }).getByText("(sys/mounts/*: update)").waitFor();
    expect(await opened.page.getByRole("dialog").count()).toBe(0);
    await opened.close();
  });

  it("is told the path of an auth method as a policy has it, and may use a button that it may", async () => {
    await suite().call("POST", "sys/auth/console-jwt", { type: "jwt" });
    const rules = 'path "sys/auth/console-jwt" { capabilities = ["read", "sudo"] }';
    const all = 'path "*" { capabilities = ["read", "list"] }';
    const configures = 'path "auth/console-jwt/config" { capabilities = ["update"] }';
    for (const [policies, lacks] of [
      [`${rules} ${all}`, "auth/console-jwt/config: update"],
      [`${rules} ${all} ${configures}`, null],
    ] as const) {
      const token = await suite().tokenWith("console-methods", policies);
      const opened = await suite().open({ token, path: "access/method/console-jwt", refusals: [/403 /, /404 /] });
      const { page } = opened;
      await page.getByRole("button", { name: "More actions" }).click();
      const disable = page.getByRole("menuitem", { name: "Disable this method" });
      await expect.poll(() => disable.getAttribute("title")).toContain("sys/auth/console-jwt: delete");
      const title = await page.getByRole("button", { name: "Configure" }).getAttribute("title");
      if (lacks === null) expect(title).toBeNull();
      else expect(title).toContain(lacks);
      await opened.close();
    }
    await suite().call("DELETE", "sys/auth/console-jwt");
  });

  it("may use a button whose right a rule for some names grants", async () => {
    const rules = `path "sys/policies/acl/team-*" { capabilities = ["create", "update"] }`;
    const token = await suite().tokenWith("console-team", `${rules} path "*" { capabilities = ["read", "list"] }`);
    const opened = await suite().open({ token, path: "access?tab=methods", refusals: [/403 /, /404 /] });
    const { page } = opened;
    const barred = page.getByRole("button", { name: "Enable a method" });
    await expect.poll(() => barred.getAttribute("aria-disabled")).toBe("true");
    await opened.visit("access?tab=policies");
    await page.getByRole("button", { name: "Write a policy" }).click();
    await page.getByLabel("Name").fill("others");
    const save = page.getByRole("button", { name: "Save policy" });
    await expect.poll(() => save.getAttribute("title")).toContain("sys/policies/acl/others: update");
    await page.getByLabel("Name").fill("team-a");
    await expect.poll(() => save.getAttribute("aria-disabled")).toBe(null);
    await opened.close();
  });

  it("may use a button once its right is granted, whatever characters its path has", async () => {
    const name = "console/granted@a:b?c=d";
    await suite().call("POST", `secret/data/${encodeURIComponent(name).replaceAll("%2F", "/")}`, { data: { a: "1" } });
    const reads = 'path "*" { capabilities = ["read", "list"] }';
    const token = await suite().tokenWith("console-granted", reads);
    const opened = await suite().open({ token, path: "secrets/secret", refusals: [/403 /, /404 /] });
    const { page } = opened;
    await opened.visit(`secrets/secret/at/${name.split("/").map(encodeURIComponent).join("/")}?tab=metadata`);
    const change = page.getByRole("button", { name: "Change the metadata" });
    await expect.poll(() => change.getAttribute("title")).toContain(`secret/metadata/${name}: update`);
    await suite().call("PUT", "sys/policies/acl/console-granted", {
      policy: `${reads} path "secret/metadata/${name}" { capabilities = ["read", "create", "update"] }`,
    });
    // A click has the right asked for again; the service may know the former rules for a moment.
    await expect
      .poll(async () => {
        if ((await change.getAttribute("aria-disabled")) === "true") await change.press("Enter");
        return change.getAttribute("aria-disabled");
      })
      .toBe(null);
    await opened.close();
  });
});
