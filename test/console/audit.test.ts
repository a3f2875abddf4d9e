import { expect, it } from "vitest";
import { CANARY, type Console, describeConsole } from "./support/console.ts";
import { providerBody } from "./support/providers.ts";

const PHONE = { width: 360, height: 740 };
const dialog = (opened: Console) => opened.page.getByRole("dialog");
const lines = (opened: Console) => opened.page.getByRole("table", { name: "Lines of the audit log" });

describeConsole("audit", (suite) => {
  it("finds what was done to a secret, by whom, and leads to the secret and to the other lines of the token", async () => {
    await suite().call("PUT", "secret/data/console/audited", { data: { a: "1" } });
    const opened = await suite().open({ path: "audit" });
    const { page } = opened;
    await page.getByLabel("Lines with this text").fill("console/audited");
    const row = lines(opened).getByRole("row", { name: /PUT secret\/data\/console\/audited/ });
    await row.waitFor();
    await row.getByText("200", { exact: true }).waitFor();
    await opened.expectClean();
    await opened.shot("console-audit");
    await row.click();
    await dialog(opened)
      .getByRole("group", { name: "the line as JSON" })
      .getByText(/"mount":\s*"secret\/"/)
      .waitFor();
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Lines of this token" }).click();
    await lines(opened)
      .getByRole("row", { name: /GET sys\/audit\/lines/ })
      .first()
      .waitFor();
    await page.getByLabel("Lines with this text").fill("console/audited");
    await row.click();
    await dialog(opened).getByRole("link", { name: "Open the object" }).click();
    await page.getByText("console/audited").first().waitFor();
    await expect.poll(() => new URL(page.url()).pathname).toBe("/ui/secrets/secret/at/console/audited");
    await opened.close();
  });

  it("shows actions of the service with their counts, and refusals in the words of the log", async () => {
    const opened = await suite().open({ path: "audit?kind=action" });
    const { page } = opened;
    await suite().call("POST", "sys/sync/destinations/in-mem/console-audited", {});
    await suite().call("PUT", "secret/data/console/audited-push", { data: { a: "1" } });
    const body = { mount: "secret", secret_name: "console/audited-push" };
    await suite().call("POST", "sys/sync/destinations/in-mem/console-audited/associations/set", body);
    await page.getByLabel("Lines with this text").fill("in-mem/console-audited");
    await expect
      .poll(async () => {
        await page.getByRole("button", { name: "Refresh" }).click();
        return await lines(opened)
          .getByText(/^synced console\/audited-push/)
          .count();
      })
      .toBeGreaterThan(0);
    await lines(opened).getByText("1 pushed, 0 failed").first().waitFor();
    await expect(suite().call("GET", "secret/data/console/nothing-here")).rejects.toThrow("404");
    await page.getByRole("button", { name: "Requests", exact: true }).click();
    await page.getByLabel("Lines with this text").fill("nothing-here");
    await lines(opened).getByText("404 nothing there").first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("says why a push failed, also in the live events", async () => {
    const at = "sys/sync/destinations/cloud-a-sm/console-audited";
    await suite().call("POST", at, { ...providerBody(suite().bench, "cloud-a-sm"), secret_access_key: "wrong" });
    await suite().call("POST", `${at}/associations/set`, { mount: "secret", secret_name: "app/api" });
    const opened = await suite().open({ path: "events?tab=service" });
    const { page } = opened;
    await page.getByLabel("Lines with this text").fill("cloud-a-sm/console-audited");
    const row = lines(opened).getByRole("row", { name: "sync failed app/api → cloud-a-sm/console-audited" }).first();
    await row.getByText(/0 pushed, 1 failed: .*the secret access key does not belong/).waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    await opened.shot("audit-failed");
    await opened.expectClean();
    await row.click();
    await dialog(opened)
      .getByText(/does not belong to the access key/)
      .waitFor();
    await opened.expectClean();
    await opened.close();
    await suite().call("DELETE", `${at}?force_delete=true`);
  });

  it("names who did it, hides the reads of the reader, and keeps to a range of time", async () => {
    const token = await suite().tokenWith(
      "console-auditor",
      'path "secret/data/*" { capabilities = ["create", "update"] }',
    );
    await suite().call("POST", "secret/data/console/by-another", { data: { a: "1" } }, { token });
    await suite().call("GET", "secret/data/console/by-another");
    const opened = await suite().open({ path: "secrets/secret/at/console/by-another" });
    const { page } = opened;
    await page.getByRole("button", { name: "More about the secret" }).click();
    await page.getByRole("menuitem", { name: "Who read and wrote it" }).click();
    expect(await page.getByLabel("Lines with this text").inputValue()).toBe("secret/data/console/by-another");
    const row = (verb: string) => lines(opened).getByRole("row", { name: `${verb} secret/data/console/by-another` });
    await row("POST").getByText("token", { exact: true }).waitFor();
    expect(await row("GET").count()).toBe(0);
    await page.getByLabel("Reads", { exact: true }).selectOption("With all reads");
    await row("GET").first().getByText("root (you)").waitFor();
    await page.getByLabel("Reads", { exact: true }).selectOption("Writes only");
    await expect.poll(() => row("GET").count()).toBe(0);
    await row("POST").waitFor();
    await opened.expectClean();
    await page.getByLabel("Until").fill("2020-01-01T00:00");
    await page.getByText("No line has this text").waitFor();
    await expect.poll(() => new URL(page.url()).searchParams.get("until")).toBe("2020-01-01T00:00");
    await opened.expectClean();
    await opened.close();
  });

  it("says how to keep lines where no bucket is bound, and what to try where nothing is found", async () => {
    const opened = await suite().open({ path: "audit" });
    const { page } = opened;
    await page.getByText("These are the last 1,000 lines only").waitFor();
    await page.getByLabel("Lines with this text").fill(CANARY);
    await page.getByText("No line has this text").waitFor();
    await opened.expectClean();
    await page.getByLabel("Lines with this text").fill(suite().bench.token);
    await page.getByText("No line holds a token.").waitFor();
    expect(page.url()).not.toContain(suite().bench.token);
    await opened.expectClean();
    await opened.close();
  });

  it("goes on in a bucket whose first objects hold nothing, and shows harmful paths as text", async () => {
    const opened = await suite().open();
    const { page } = opened;
    const line = {
      level: "audit",
      kind: "answer",
      time: "2026-03-04T05:06:07.089Z",
      requestId: CANARY,
      area: "secrets",
    };
    const told = { ...line, method: "GET", path: `/v1/${CANARY}/%zz`, route: CANARY, namespace: CANARY, mount: CANARY };
    const found = { ...told, accessor: CANARY, policies: [CANARY], status: 500, error: CANARY };
    await page.route("**/v1/sys/audit/lines*", (route) => {
      const isSecond = new URL(route.request().url()).searchParams.get("cursor") === "later";
      const data = { source: "bucket", lines: isSecond ? [found] : [], searched: 300, next: isSecond ? "" : "later" };
      return route.fulfill({ json: { data } });
    });
    await opened.visit("audit");
    await page.getByText("600 lines searched").waitFor();
    await lines(opened).getByRole("row").nth(1).click();
    await dialog(opened).getByText(CANARY, { exact: true }).first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows the refusal to a token without sudo", async () => {
    const token = await suite().tokenWith("console-no-audit", 'path "sys/audit/lines" { capabilities = ["read"] }');
    const opened = await suite().open({ token, path: "audit", refusals: [/403 GET/] });
    await opened.page.getByText("permission denied").first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("fits a telephone, in the dark", async () => {
    const opened = await suite().open({ path: "audit", viewport: PHONE, theme: "dark" });
    await lines(opened).waitFor();
    const what = await lines(opened).getByRole("columnheader", { name: "What" }).boundingBox();
    expect(what?.width).toBeGreaterThan(200);
    await opened.shot("audit-phone");
    await opened.expectClean();
    await opened.close();
  });
});
