import { afterAll, beforeAll, expect, it } from "vitest";
import { type ReceivedDelivery, startWebhookReceiver } from "../doubles/webhook-receiver.ts";
import { CANARY, describeConsole } from "./support/console.ts";

let receiver: Awaited<ReturnType<typeof startWebhookReceiver>>;
beforeAll(async () => {
  receiver = await startWebhookReceiver();
});
afterAll(() => receiver.close());

const OTHER_SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

describeConsole("webhooks", (suite) => {
  it("adds a signed webhook, shows its failure, pauses, resumes, changes and deletes it", async () => {
    const hook = `${receiver.url}/_double/console`;
    const expectSecret = (secret: string) => fetch(hook, { method: "PUT", body: JSON.stringify({ secret }) });
    const emit = (name: string) => {
      const job = { ID: name, Name: CANARY, Type: "service", Status: "running" };
      return suite().call("PUT", "cluster/objects", [{ Topic: "Job", Type: "JobRegistered", Payload: { Job: job } }]);
    };
    const received = async () => (await (await fetch(hook)).json()) as ReceivedDelivery[];
    const opened = await suite().open({ path: "events?tab=webhooks", refusals: [/400 PUT \/v1\/event/] });
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Add webhook" }).click();
    await dialog.getByLabel(/^Name\b/).fill("console-hook");
    await dialog.getByRole("textbox", { name: /^URL/ }).fill(`${receiver.url}/console`);
    await dialog.getByLabel("Topics", { exact: true }).fill("Jobs:web");
    await dialog.getByRole("button", { name: "Save webhook" }).click();
    await dialog.getByText("did you mean Job?").first().waitFor();
    await dialog.getByLabel("Topics", { exact: true }).fill("Job:console-web\nDeployment");
    await expectSecret(await dialog.getByLabel("Signing secret", { exact: true }).inputValue());
    await opened.expectClean();
    await opened.shot("events-webhook");
    await dialog.getByRole("button", { name: "Save webhook" }).click();
    const row = page.getByRole("row", { name: /console-hook/ });
    await row.getByText("Job:console-web, Deployment").waitFor();
    expect(await page.getByText("whsec_").count()).toBe(0);

    await emit("console-web");
    await emit("console-other");
    await expect.poll(async () => (await received()).map(({ fault }) => fault)).toEqual([null]);
    expect((await received())[0]?.body).not.toContain("console-other");
    await expectSecret(OTHER_SECRET);
    await emit("console-web");
    await row.getByText(/failed attempt/).waitFor();
    await row.getByText(/401/).waitFor();
    await opened.expectClean();
    await opened.shot("events-webhooks");

    await row.getByRole("button", { name: "Pause", exact: true }).click();
    await row.getByText("Paused: requested").waitFor();
    await page.getByRole("button", { name: "Actions of console-hook" }).click();
    await page.getByRole("menuitem", { name: "Edit" }).click();
    expect(await dialog.getByLabel("Signing secret", { exact: true }).inputValue()).toBe("");
    await dialog.getByLabel("Topics", { exact: true }).fill("");
    await dialog.getByLabel("Signing secret", { exact: true }).fill(OTHER_SECRET);
    await dialog.getByRole("button", { name: "Save webhook" }).click();
    await dialog.waitFor({ state: "detached" });
    await row.getByRole("button", { name: "Resume", exact: true }).click();
    await expect.poll(async () => (await received()).at(-1)?.fault).toBe(null);
    await expect.poll(async () => (await received()).length).toBeGreaterThan(2);
    await row.getByText(/^Up to \d+/).waitFor();
    // Without topics all are delivered.
    expect(await row.textContent()).toContain("console-hook");

    await page.getByRole("button", { name: "Actions of console-hook" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    await dialog.getByRole("button", { name: "Delete subscription" }).click();
    await page.getByText("No webhook yet").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("says which right a token lacks, and fits a phone", async () => {
    const token = await suite().tokenWith("console-no-hooks", 'path "secret/*" { capabilities = ["read"] }');
    const viewport = { width: 360, height: 740 };
    const opened = await suite().open({ token, path: "events?tab=webhooks", refusals: [/403 /], viewport });
    await opened.page.getByText(/may not see webhooks/i).waitFor();
    await opened.expectClean();
    await opened.close();
  });
});
