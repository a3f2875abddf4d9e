import { afterAll, beforeAll, expect, it } from "vitest";
import { type ReceivedMessage, startMessageServices } from "../doubles/message-services/server.ts";
import { CANARY, describeConsole } from "./support/console.ts";

/** Empty lists, and the template that is refused. */
const EMPTY = [/404 GET \/v1\/sys\/notifications/, /400 POST \/v1\/sys\/notifications\/rules\/console-backup/];

let services: Awaited<ReturnType<typeof startMessageServices>>;
beforeAll(async () => {
  services = await startMessageServices();
});
afterAll(() => services.close());

const received = async (): Promise<ReceivedMessage[]> =>
  (await fetch(`${services.url}/_double/console`)).json() as Promise<ReceivedMessage[]>;

describeConsole("notifications", (suite) => {
  it("adds a channel and tests it, adds a rule, and shows what it found, also on the overview", async () => {
    const opened = await suite().open({ path: "notifications?tab=channels", refusals: EMPTY });
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Add channel" }).click();
    await dialog.getByLabel("Name").fill("console-ops");
    await dialog.getByLabel("Service").selectOption({ label: "Slack" });
    await dialog.getByLabel(/^URL required$/).fill(`${services.url}/console/slack/T0001/B0001/token`);
    await opened.expectClean();
    await opened.shot("notifications-channel");
    await dialog.getByRole("button", { name: "Save channel" }).click();
    const row = page.getByRole("row", { name: /console-ops/ });
    await row.getByRole("button", { name: "Test" }).click();
    await page.getByText("The test of console-ops was delivered.").last().waitFor();
    await row.getByText("No failure so far").waitFor();
    expect(await page.getByText("B0001").count()).toBe(0);
    await opened.expectClean();

    await page.getByRole("tab", { name: "Rules" }).click();
    await page.getByRole("button", { name: "Add rule" }).click();
    await dialog.getByLabel("Name").fill("console-backup");
    await dialog.getByLabel("Condition").selectOption({ label: "A backup is missing" });
    await dialog.getByLabel("console-ops").check();
    await dialog.getByLabel("Within", { exact: true }).fill("1s");
    await dialog.getByText("More settings").click();
    await dialog.getByLabel("Title", { exact: true }).fill(CANARY.replaceAll("{{7*7}}", "{{nothing}}"));
    await dialog.getByLabel("Group by").selectOption("subject");
    // Hours that are not now, since a message is waited for.
    const [from, to] = [6, 7].map((ahead) => `${String((new Date().getUTCHours() + ahead) % 24).padStart(2, "0")}:00`);
    const quiet = dialog.getByRole("group", { name: "Quiet hours" });
    await quiet.getByLabel("From").fill(String(from));
    await quiet.getByLabel("To").fill(String(to));
    await dialog.getByRole("button", { name: "Save rule" }).click();
    await dialog.getByText("{{nothing}} is unknown").first().waitFor();
    await dialog.getByLabel("Title", { exact: true }).fill(CANARY.replaceAll("{{7*7}}", "{{rule}}"));
    await opened.expectClean();
    expect(await dialog.getByLabel("Recovery").isChecked()).toBe(true);
    await opened.shot("notifications-rule");
    await dialog.getByRole("button", { name: "Save rule" }).click();
    await page.getByRole("row", { name: /console-backup/ }).waitFor();
    const saved = (await suite().call("GET", "sys/notifications/rules/console-backup")) as { data: object };
    expect(saved.data).toMatchObject({ group_by: "subject", quiet_hours: { from, to } });

    await page.getByRole("tab", { name: "Active" }).click();
    const active = page.getByRole("row", { name: /A backup is missing.*snapshot/ });
    await active.getByText("Active", { exact: true }).waitFor();
    await opened.expectClean();
    await opened.shot("notifications-active");
    await expect.poll(async () => (await received()).length).toBe(2);
    expect((await received()).map(({ fault }) => fault)).toEqual([null, null]);
    await opened.visit("");
    await page.getByText(/^Rule console-backup: snapshot/).waitFor();
    expect(await page.getByText("Everything works").count()).toBe(0);
    await opened.expectClean();

    await opened.visit("notifications?tab=rules");
    await page.getByRole("button", { name: "Actions of console-backup" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await dialog.getByRole("button", { name: "Delete rule" }).click();
    await page.getByText("No rule yet").waitFor();
    await opened.visit("notifications?tab=channels");
    await page.getByRole("button", { name: "Actions of console-ops" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await dialog.getByRole("button", { name: "Delete channel" }).click();
    await page.getByText("No channel yet").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("forgets what a channel could not deliver", async () => {
    const opened = await suite().open({ path: "notifications?tab=channels" });
    const { page } = opened;
    const channel = { name: "lost", type: "slack", url: "https://hooks.example/…", paused: null, last_error: null };
    let dead_letters = 2;
    await page.route("**/v1/sys/notifications/channels?list=true", (route) =>
      route.fulfill({ json: { data: { keys: ["lost"], key_info: { lost: { ...channel, dead_letters } } } } }),
    );
    await page.route("**/v1/sys/notifications/channels/lost/resume", (route) => {
      dead_letters = 0;
      return route.fulfill({ status: 204 });
    });
    await opened.visit("notifications?tab=channels");
    await page.getByText("2 messages not delivered").waitFor();
    await page.getByRole("button", { name: "Actions of lost" }).click();
    await page.getByRole("menuitem", { name: "Forget what was not delivered" }).click();
    await page.getByText("No failure so far").waitFor();
    await page.getByRole("button", { name: "Actions of lost" }).click();
    expect(await page.getByRole("menuitem", { name: "Forget what was not delivered" }).count()).toBe(0);
    await opened.close();
  });

  it("asks for the fields of the chosen service, and fits a phone", async () => {
    const opened = await suite().open({
      path: "notifications?tab=channels",
      refusals: EMPTY,
      viewport: { width: 360, height: 740 },
    });
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Add channel" }).click();
    for (const [service, fields] of [
      ["PagerDuty", ["URL", "Integration key required"]],
      ["Microsoft Teams", ["URL required"]],
      ["Webhook", ["URL required", "Signing secret required"]],
      ["E-mail by Postmark", ["URL", "Server token required", "From required", "To required"]],
    ] as const) {
      await dialog.getByLabel("Service").selectOption({ label: service });
      for (const name of ["URL", "Signing secret", "Integration key", "Server token", "From", "To"])
        for (const field of [name, `${name} required`])
          expect([service, field, await dialog.getByLabel(field, { exact: true }).count()]).toEqual([
            service,
            field,
            fields.includes(field as never) ? 1 : 0,
          ]);
      await opened.expectClean();
    }
    await opened.close();
  });

  it("says which right a token lacks", async () => {
    const token = await suite().tokenWith("console-no-rules", 'path "nothing" { capabilities = ["read"] }');
    const opened = await suite().open({ token, path: "notifications", refusals: [/403 /] });
    await opened.page.getByText(/may not see active notifications \(sys\/notifications\/active: read\)/).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("waits for a read that takes longer than the time between two", async () => {
    const opened = await suite().open({ isNewProfile: true, refusals: EMPTY });
    const { page } = opened;
    const answer = Promise.withResolvers<void>();
    const channel = { name: "console-slow", type: "slack", url: "…", paused: null, last_error: null, dead_letters: 0 };
    let reads = 0;
    await page.route("**/v1/sys/notifications/channels?list=true", async (route) => {
      reads++;
      await answer.promise;
      await route.fulfill({ json: { data: { keys: [channel.name], key_info: { [channel.name]: channel } } } });
    });
    await page.clock.install();
    await opened.visit("notifications?tab=channels");
    await expect.poll(() => reads).toBe(1);
    for (let times = 0; times < 3; times++) await page.clock.fastForward(11_000);
    answer.resolve();
    await page.getByRole("row", { name: /console-slow/ }).waitFor();
    expect(reads).toBe(1);
    await page.clock.fastForward(11_000);
    await expect.poll(() => reads).toBe(2);
    await opened.close();
  });
});
