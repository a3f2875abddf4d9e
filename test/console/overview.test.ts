import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { CANARY, describeConsole } from "./support/console.ts";

describeConsole("overview", (suite) => {
  it("shows the health of the service with figures of each part", async () => {
    const opened = await suite().open();
    const { page } = opened;
    await page.getByRole("link", { name: /^Nodes .*node/ }).waitFor();
    await page.getByText("Needs attention").waitFor();
    await opened.expectClean();
    await opened.picture("console-overview");
    await opened.close();
  });

  it("links a failure to its destination", async () => {
    const body = JSON.parse(readFileSync(`${suite().bench.providers}/cloud-a-sm.json`, "utf8")) as Record<
      string,
      string
    >;
    const at = "sys/sync/destinations/cloud-a-sm/console-broken";
    await suite().call("PUT", "secret/data/console/broken", { data: { a: "1" } });
    await suite().call("POST", at, { ...body, secret_access_key: "wrong" });
    await suite().call("POST", `${at}/associations/set`, { mount: "secret", secret_name: "console/broken" });
    const opened = await suite().open({ refusals: [/404 GET/] });
    const { page } = opened;
    const finding = page.getByRole("link", { name: /1 secret at cloud-a-sm\/console-broken/ });
    await finding.waitFor();
    await opened.expectClean();
    await finding.click();
    expect(new URL(page.url()).pathname).toBe("/ui/sync/cloud-a-sm/console-broken");
    await page.getByRole("heading", { level: 1 }).waitFor();
    await opened.visit("secrets/secret/at/console/broken?tab=destinations");
    await page
      .getByText(/signature|credentials|security token/i)
      .first()
      .waitFor();
    await page.getByRole("heading", { level: 1 }).waitFor();
    await opened.expectClean();
    await opened.close();
    await suite().call("DELETE", `${at}?force_delete=true`);
  });

  it("shows the cause when the service is sealed or degraded", async () => {
    const opened = await suite().open({ refusals: [/503 GET \/v1\/sys\/health/] });
    const { page } = opened;
    const health = (await suite().call("GET", "sys/health")) as Record<string, unknown>;
    await page.route("**/v1/sys/health*", (route) =>
      route.fulfill({ status: 503, json: { ...health, sealed: true, sealed_because: CANARY, degraded: ["listings"] } }),
    );
    await opened.visit("secrets");
    await opened.visit("");
    await page.getByText("Secrets cannot be opened").waitFor();
    await page.getByText("Listings").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("counts the first steps until they are done or dismissed", async () => {
    const opened = await suite().open();
    const { page } = opened;
    await page.getByRole("heading", { name: /^First steps: \d of 6 done/ }).waitFor();
    await page.getByRole("button", { name: "Close the first steps" }).click();
    await opened.visit("secrets");
    await opened.visit("");
    await page.getByText("Needs attention").waitFor();
    expect(await page.getByText("First steps").count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });
});
