import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { freePort, LocalService } from "../smoke/local-service.ts";
import { CANARY, type Console, describeConsole, type Suite } from "./support/console.ts";
import { StreamProxy } from "./support/stream-proxy.ts";

/** Reports a job with this id, which is an event. */
const report = (suite: Suite, id: string, extra: object = {}): Promise<unknown> =>
  suite.call("PUT", "cluster/objects", [
    { Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: id, Name: id, Type: "service", ...extra } } },
  ]);

/** Opens the events behind a proxy of the stream. */
async function openBehind(suite: Suite, proxy: StreamProxy, refusals: readonly RegExp[] = []): Promise<Console> {
  const opened = await suite.open({ token: null, refusals });
  await opened.page.goto(`${proxy.url}/ui/events`);
  await opened.logIn(suite.bench.token);
  await opened.page.getByText("Live", { exact: false }).first().waitFor();
  return opened;
}

describeConsole("events", (suite) => {
  it("shows the backlog and each new event, and hostile names as text", async () => {
    await report(suite(), "backlog-plain");
    const opened = await suite().open({ path: "events" });
    const { page } = opened;
    await page.getByRole("row").filter({ hasText: "backlog-plain" }).first().waitFor();
    await report(suite(), "arrives-now");
    await page.getByRole("row").filter({ hasText: "arrives-now" }).waitFor();
    // Other tests make events, too: a smaller picture stays below the limit, however many rows it has.
    await page.setViewportSize({ width: 1280, height: 720 });
    await opened.picture("console-events");
    await report(suite(), `hostile-${CANARY}`, { StatusDescription: CANARY });
    await page.getByRole("row").filter({ hasText: "hostile-<img" }).first().click();
    await page
      .getByRole("region", { name: /^Event / })
      .getByText("JobRegistered")
      .first()
      .waitFor();
    await opened.shot("events-details");
    await opened.expectClean();
    await page.getByRole("link", { name: "Open the object" }).click();
    await page.waitForURL(/\/ui\/nodes\/job\/hostile-/);
    await opened.close();
  });

  it("shows when an event happened where its object says so, and no rate of the backlog", async () => {
    const SubmitTime = Date.UTC(2025, 4, 6, 12, 34, 56) * 1e6;
    await report(suite(), "with-a-time", { SubmitTime });
    await report(suite(), "without-a-time");
    const opened = await suite().open({ path: "events" });
    const row = (text: string) => opened.page.getByRole("row").filter({ hasText: text }).first();
    await row("with-a-time")
      .getByText(/^6 May \d\d:34:56$/)
      .waitFor();
    await row("without-a-time")
      .getByText(/^after (\d\d:\d\d:\d\d|6 May \d\d:34:56)$/)
      .waitFor();
    await opened.page.getByText("Live", { exact: true }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("filters by topic, key and namespace, and searches the buffered events", async () => {
    await suite().call("PUT", "namespace/events-other", { Name: "events-other" });
    await report(suite(), "followed");
    await report(suite(), "left-out");
    await suite().call("PUT", "cluster/objects", [
      { Topic: "Job", Type: "JobRegistered", Namespace: "events-other", Payload: { Job: { ID: "far-away" } } },
    ]);
    const opened = await suite().open({ path: "events" });
    const { page } = opened;
    const rows = page.getByRole("table", { name: "Events" }).getByRole("row");
    await rows.filter({ hasText: "left-out" }).first().waitFor();
    expect(await rows.filter({ hasText: "far-away" }).count()).toBe(0);
    await page.getByLabel("Search in what is kept").fill("FOLLOWED");
    await expect.poll(() => rows.filter({ hasText: "left-out" }).count()).toBe(0);
    await page.getByLabel("Search in what is kept").fill("");
    await page.getByLabel("Topic", { exact: true }).selectOption("Job");
    await page.getByLabel("Key of the object").fill("followed");
    await page.getByRole("button", { name: "Add filter" }).click();
    await page.getByText("Job:followed").waitFor();
    await expect.poll(() => rows.filter({ hasText: "left-out" }).count()).toBe(0);
    await rows.filter({ hasText: "followed" }).first().waitFor();
    await opened.shot("events-filter");
    await page.getByRole("button", { name: "Remove the filter Job:followed" }).click();
    await page.getByLabel("Namespace of the events").selectOption("*");
    await rows.filter({ hasText: "far-away" }).first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("follows the topics of secrets, destinations, leases and engines, and leads to their objects", async () => {
    // The engine may have no leases yet, and other tests may delete roles that its screen has just listed.
    const opened = await suite().open({
      path: "events",
      refusals: [/404 GET \/v1\/(sys\/leases|azure\/roles\/|events-aws\/)/],
    });
    const { page } = opened;
    const role = `events-${Date.now()}`;
    const topic = page.getByLabel("Topic", { exact: true });
    for (const name of ["Secret", "Sync", "Lease"]) await topic.selectOption(name);
    await topic.selectOption("Engine");
    await page.getByRole("button", { name: "Add filter" }).click();
    await suite().call("POST", `azure/roles/${role}`, {
      azure_roles: '[{"role_name":"Reader","scope":"/subscriptions/1"}]',
    });
    await expect
      .poll(() =>
        page
          .getByRole("row")
          .filter({ hasText: /NodeRegistration|ACLPolicy|JobRegistered/ })
          .count(),
      )
      .toBe(0);
    const row = page.getByRole("row").filter({ hasText: role }).first();
    await row.click();
    await page.getByRole("link", { name: "Open the object" }).click();
    await page.waitForURL(/\/ui\/credentials\/azure/);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await opened.expectClean();
    // The object is in a namespace of its own, which the event has in its payload.
    const namespace = "console-events";
    await suite().call("PUT", `sys/namespaces/${namespace}`);
    await suite().call("POST", "sys/mounts/events-aws", { type: "cloud-a" }, { namespace });
    await opened.visit("events");
    await topic.selectOption("Engine");
    await page.getByRole("button", { name: "Add filter" }).click();
    const root = { access_key: "AKIAEVENTS", secret_key: "events" };
    await suite().call("POST", "events-aws/config/root", root, { namespace });
    await page
      .getByRole("row")
      .filter({ hasText: `${namespace}/events-aws/` })
      .first()
      .click();
    await page.getByRole("link", { name: "Open the object" }).click();
    await page.waitForURL(({ pathname, search }) => pathname + search === `/ui/credentials/events-aws?ns=${namespace}`);
    await page.getByText("Configured", { exact: true }).waitFor();
    await opened.close();
    await suite().call("DELETE", `azure/roles/${role}`);
  });

  it("pauses, resumes at the index, and moves through the rows by keyboard", async () => {
    await report(suite(), "before-pause");
    const opened = await suite().open({ path: "events" });
    const { page } = opened;
    const row = (text: string) => page.getByRole("row").filter({ hasText: text });
    await row("before-pause").first().waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await report(suite(), "while-paused");
    await page.getByText("Paused").waitFor();
    expect(await row("while-paused").count()).toBe(0);
    await page.getByRole("button", { name: /^Resume at \d+$/ }).click();
    await row("while-paused").waitFor();
    expect(await row("before-pause").count()).toBe(1);
    await row("while-paused").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: /^Event / }).waitFor();
    await report(suite(), "while-reading");
    // The nodes of the service may have reported something, too.
    await page.getByRole("button", { name: /^\d+ new, show$/ }).click();
    await row("while-reading").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("resumes after a lost connection without missing a line, and reports a gap", async () => {
    const proxy = await StreamProxy.start(suite().bench.url);
    const opened = await openBehind(suite(), proxy, [/503 GET \/v1\/event\/stream/, /ERR_\w+ GET \/v1\/event\/stream/]);
    const { page } = opened;
    await report(suite(), "before-loss");
    await page.getByRole("row").filter({ hasText: "before-loss" }).waitFor();
    proxy.isAway = true;
    proxy.cut();
    await page.getByText(/next attempt in/).waitFor();
    await opened.shot("events-away");
    await report(suite(), "during-loss");
    proxy.isAway = false;
    await page.getByRole("row").filter({ hasText: "during-loss" }).waitFor();
    await page.getByText(/Reconnected after .* nothing is missing/).waitFor();
    expect(Number(proxy.asked.at(-1))).toBeGreaterThan(1);
    proxy.oldestIndex = 1_000_000;
    proxy.cut();
    await page.getByText(/Gap: Index(es)? .* left the service's buffer/).waitFor();
    await opened.shot("events-gap");
    await opened.expectClean();
    await opened.close();
    await proxy.close();
  });

  it("stays smooth at 1,000 lines a second, with a bounded buffer", { timeout: 300_000 }, async () => {
    const proxy = await StreamProxy.start(suite().bench.url);
    proxy.linesPerSecond = 1000;
    const opened = await openBehind(suite(), proxy);
    const { page } = opened;
    const devtools = await opened.context.newCDPSession(page);
    // Time of the processor, not of the clock: other tests may have the machine at the same moment.
    await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
    const processorSeconds = async (): Promise<number> => {
      const { metrics } = await devtools.send("Performance.getMetrics");
      return metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN;
    };
    const lastIndex = async (): Promise<number> =>
      Number(/index (\d+)/.exec((await page.locator(".events-bar").textContent()) ?? "")?.[1] ?? 0);
    const received = (least: number) => expect.poll(lastIndex, { timeout: 90_000 }).toBeGreaterThan(least);
    await received(500);
    const [begin, from] = [await processorSeconds(), await lastIndex()];
    await received(11_000);
    const [end, to] = [await processorSeconds(), await lastIndex()];
    const perSecondOfStream = ((end - begin) * 1000) / (to - from);
    console.log(`${to - from} lines: ${perSecondOfStream.toFixed(3)} s of the processor for 1,000 lines`);
    // The rest of each second is free for the person.
    expect(perSecondOfStream).toBeLessThan(0.7);
    await page.getByText(/older dropped from this page/).waitFor();
    await page.getByText("10,000 rows kept").waitFor();
    expect(await page.locator("[aria-label='Events'] tr").count()).toBeLessThan(100);
    await page.getByLabel("Search in what is kept").fill("shop.web[42]");
    await page.getByText(/\d+ of [\d,]+ rows kept/).waitFor();
    await page.locator("tr[data-at='3']").click();
    await page.getByRole("region", { name: /^Event / }).waitFor();
    await opened.shot("events-1000");
    await opened.expectClean();
    await opened.close();
    await proxy.close();
  });

  it("shows which topics a token with few rights may follow", async () => {
    const token = await suite().tokenWith("events-few", 'namespace "default" { capabilities = ["read-job"] }');
    const opened = await suite().open({ path: "events", token, refusals: [/403 GET \/v1\//] });
    const { page } = opened;
    await page.getByText("Your token may not follow all topics").waitFor();
    await opened.shot("events-denied");
    await opened.expectClean();
    await page.getByRole("button", { name: "Job", exact: true }).click();
    await page.getByText("Live").waitFor();
    await report(suite(), "may-be-seen");
    await page.getByRole("row").filter({ hasText: "may-be-seen" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("resumes at its index after a restart of the service", async () => {
    const dir = await mkdtemp(join(tmpdir(), "sallyport-console-restart-"));
    const [port, settings] = [await freePort(), { STATE_DIR: join(dir, "state"), AGENT: "0", SEED: "0" }];
    const first = await new LocalService(process.cwd(), port, settings).ready();
    const { token } = first;
    const tell = (id: string): Promise<unknown> =>
      fetch(`${first.baseUrl}/v1/cluster/objects`, {
        method: "PUT",
        headers: { "X-Orch-Token": token },
        body: JSON.stringify([{ Topic: "Job", Type: "JobRegistered", Payload: { Job: { ID: id } } }]),
      });
    const opened = await suite().open({
      token: null,
      refusals: [/(ERR_\w+|503|502) GET \/v1\//],
    });
    const { page } = opened;
    await page.goto(`${first.baseUrl}/ui/events`);
    await opened.logIn(token);
    await tell("before-restart");
    await page.getByRole("row").filter({ hasText: "before-restart" }).waitFor();
    first.signal("SIGTERM", "npm");
    await page.getByText(/next attempt in/).waitFor();
    await first.exit;
    const second = await new LocalService(process.cwd(), port, settings).ready();
    await tell("after-restart");
    await page.getByRole("row").filter({ hasText: "after-restart" }).waitFor({ timeout: 30_000 });
    await page.getByText(/Reconnected after .* nothing is missing/).waitFor();
    expect(await page.getByRole("row").filter({ hasText: "before-restart" }).count()).toBe(1);
    await opened.expectClean();
    await opened.close();
    second.signal("SIGTERM", "npm");
    await second.exit;
    rmSync(dir, { recursive: true, force: true });
  }, 240_000);

  it("fits a phone and follows the preference for dark mode", async () => {
    await report(suite(), "seen-on-a-phone");
    const opened = await suite().open({ path: "events", viewport: { width: 360, height: 740 } });
    await opened.page.getByRole("row").filter({ hasText: "seen-on-a-phone" }).first().waitFor();
    await opened.page.getByRole("columnheader", { name: "Time" }).waitFor();
    await opened.shot("events-360");
    const width = await opened.page.evaluate(() => document.documentElement.scrollWidth);
    expect(width).toBeLessThanOrEqual(360);
    await opened.expectClean();
    await opened.close();
    const dark = await suite().open({ path: "events", theme: "dark" });
    await dark.page.getByRole("row").filter({ hasText: "seen-on-a-phone" }).first().waitFor();
    await dark.shot("events-dark");
    await dark.expectClean();
    await dark.close();
  });

  it("subscribes to changes of secrets by type and filter, and shows no value", async () => {
    const write = (path: string) => suite().call("POST", `secret/data/${path}`, { data: { key: "not-to-be-shown" } });
    const opened = await suite().open({ path: "events?tab=subscribe", refusals: [/400 GET/] });
    const { page } = opened;
    await page.getByText("Not subscribed").first().waitFor();
    await page.getByLabel("Event types").fill("kv-v2/data-*");
    await page.getByLabel("Filter").fill("nothing ==");
    await page.getByRole("button", { name: "Subscribe", exact: true }).click();
    await page
      .getByRole("alert")
      .getByText(/Error subscribing/)
      .waitFor();
    await opened.expectClean();
    await page.getByLabel("Filter").fill('data_path matches "^secret/data/subscribed/followed"');
    await page.getByRole("button", { name: "Subscribe", exact: true }).click();
    await page.getByText("Subscribed", { exact: true }).waitFor();
    await write("subscribed/left-out");
    await write(`subscribed/${encodeURIComponent(`followed ${CANARY.replaceAll("/", "")}`)}`);
    const row = page.getByRole("row").filter({ hasText: "subscribed/followed" });
    await row.getByText("kv-v2/data-write", { exact: true }).waitFor();
    expect(await page.getByText("subscribed/left-out").count()).toBe(0);
    expect(await page.getByText("not-to-be-shown").count()).toBe(0);
    await opened.shot("events-subscription");
    await opened.expectClean();
    await page.getByRole("button", { name: "Unsubscribe" }).click();
    await page.getByText("Not subscribed").first().waitFor();
    await write("subscribed/followed-later");
    expect(await page.getByText("subscribed/followed-later").count()).toBe(0);
    await opened.close();
  });

  it("names the right that a subscription lacks", async () => {
    const token = await suite().tokenWith("console-no-events", 'path "nothing" { capabilities = ["read"] }');
    const opened = await suite().open({ token, path: "events?tab=subscribe", refusals: [/403 /] });
    await opened.page.getByRole("button", { name: "Subscribe", exact: true }).click();
    await opened.page.getByText(/may not see event notifications \(sys\/events\/subscribe\/kv\*: read\)/).waitFor();
    await opened.expectClean();
    await opened.close();
  });
});
