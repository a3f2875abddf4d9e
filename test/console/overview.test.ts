import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { RELEASE } from "../../src/platform/version.ts";
import { CANARY, describeConsole } from "./support/console.ts";

describeConsole("overview", (suite) => {
  it("shows the health of the service with figures of each part", async () => {
    const opened = await suite().open();
    const { page } = opened;
    await page.getByRole("link", { name: /^Nodes .*node/ }).waitFor();
    await page.getByText("Needs attention").waitFor();
    await page.getByText(`version ${RELEASE}`).waitFor();
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
    await expect.poll(() => new URL(page.url()).pathname).toBe("/ui/sync/cloud-a-sm/console-broken");
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

  it("says when the own token ends within a quarter of an hour", async () => {
    const { auth } = (await suite().call("POST", "auth/token/create", { ttl: "10m", policies: ["root"] })) as {
      auth: { client_token: string };
    };
    const opened = await suite().open({ token: auth.client_token });
    await opened.page.getByText(/Your token ends in (9|10) min/).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("lists failures and work that waits, each with a link, with harmful names as text", async () => {
    const opened = await suite().open();
    const { page } = opened;
    const gauge = (Name: string, Value: number, Labels: object = {}) => ({ Name: `sallyport_${Name}`, Labels, Value });
    const destination = { destination: `in-mem/${CANARY}`, status: "CLIENT_SIDE_ERROR" };
    const Gauges = [
      gauge("sync_associations", 3, destination),
      gauge("leases", 2, { state: "irrevocable" }),
      gauge("nodes", 1, { status: "down" }),
      gauge("sync_paused", 1),
      gauge("sync_pending", 7),
      gauge("csi_plugin_instances", 1, { plugin: CANARY, role: "controller", health: "unhealthy" }),
      gauge("outbox_oldest_age_seconds", 300),
    ];
    await page.route("**/v1/metrics*", (route) =>
      route.fulfill({ json: { Timestamp: "", Gauges, Points: [], Counters: [], Samples: [] } }),
    );
    await opened.visit("secrets");
    await opened.visit("");
    await page.getByText("3 failing, 3 warnings").waitFor();
    await page.getByRole("link", { name: /3 secrets at in-mem/ }).waitFor();
    await page.getByRole("link", { name: "2 leases could not be revoked." }).waitFor();
    await page.getByRole("link", { name: "1 node is down." }).waitFor();
    await page.getByText("An effect waits for delivery since 5 min.").waitFor();
    await page.getByRole("link", { name: "changes on their way to destinations" }).waitFor();
    await opened.shot("overview-failing");
    await opened.expectClean();
    await opened.close();
  });

  it("goes on by itself after the service was away", async () => {
    const opened = await suite().open({ refusals: [/net::/] });
    const { page } = opened;
    await page.getByText("Needs attention").waitFor();
    await page.route("**/v1/**", (route) => route.abort("connectionrefused"));
    await page.getByText("The service does not answer").first().waitFor();
    await opened.expectClean();
    await page.unroute("**/v1/**");
    await expect.poll(() => page.getByText("The service does not answer").count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("takes a snapshot with its size shown, and restores one with what is sent and left", async () => {
    const opened = await suite().open({ refusals: [/409 POST \/v1\/sys\/snapshot/] });
    const { page } = opened;
    // A real snapshot would freeze the writes of the tests beside this one.
    let isLate = true;
    await page.route("**/v1/sys/snapshot", async (route) => {
      if (route.request().method() === "GET") {
        await expect.poll(() => isLate).toBe(false);
        return route.fulfill({ body: `sallyport-snapshot 1\n${"x".repeat(2 * 1024 * 1024)}` });
      }
      return route.fulfill({ status: 409, json: { errors: [`objects: the deployment is not empty ${CANARY}`] } });
    });
    await page.getByRole("button", { name: "Take a snapshot" }).click();
    await page.getByRole("button", { name: "Take the snapshot" }).click();
    await page.getByText(/received; the end is not known/).waitFor();
    await opened.expectClean();
    const download = page.waitForEvent("download");
    isLate = false;
    expect((await download).suggestedFilename()).toMatch(/^sallyport-.*\.snapshot$/);
    await page.getByText("The snapshot is complete: 2 MiB.").first().waitFor();
    await page.getByRole("button", { name: "Restore one" }).click();
    const buffer = Buffer.from("sallyport-snapshot 1\n");
    const file = { name: "a.snapshot", mimeType: "application/octet-stream", buffer };
    await page.getByLabel(/^Snapshot/).setInputFiles(file);
    await page.getByRole("button", { name: "Restore the snapshot" }).click();
    await page.getByText("objects: the deployment is not empty").waitFor();
    await opened.shot("overview-restore");
    await opened.expectClean();
    await opened.close();
  });

  it("rebuilds the lists and says how many objects they have", async () => {
    const opened = await suite().open();
    const { page } = opened;
    // Cards that appear above move the button.
    await page.waitForLoadState("networkidle");
    await page.getByRole("button", { name: "Rebuild the lists" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Rebuild the lists" }).click();
    await page
      .getByText(/destinations? and .* are listed/)
      .first()
      .waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("offers no upkeep to a token without the right", async () => {
    const token = await suite().tokenWith("console-no-upkeep", 'path "secret/*" { capabilities = ["list"] }');
    const opened = await suite().open({ token, refusals: [/403/] });
    await opened.page.getByText("Needs attention").waitFor();
    await opened.page.waitForLoadState("networkidle");
    expect(await opened.page.getByText("Backup and lists").count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });
});
