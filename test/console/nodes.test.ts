import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { CANARY, type Console, describeConsole, type Suite } from "./support/console.ts";
import { servePages } from "./support/long-lists.ts";

const PHONE = { width: 360, height: 740 };
const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();
const dialog = (opened: Console) => opened.page.getByRole("dialog");

/** Nodes that are reported, so that no test takes the one agent away from another test. */
const idOf = (number: number): string => `c0${number.toString(16).padStart(6, "0")}-0000-4000-8000-000000000000`;

const report = (suite: Suite, events: readonly object[]) => suite.call("PUT", "cluster/objects", events);

const nodeEvent = (ID: string, Name: string) => ({
  Topic: "Node",
  Type: "NodeRegistration",
  Payload: { Node: { ID, Name, Status: "ready", Datacenter: "dc1", NodePool: "default" } },
});

const jobEvent = (ID: string, more: object = {}) => ({
  Topic: "Job",
  Type: "JobRegistered",
  Payload: {
    Job: { ID, Name: ID, Type: "service", Status: "running", Version: 0, TaskGroups: [{ Name: "g" }], ...more },
  },
});

const placed = (number: number, NodeID: string, ClientStatus = "running", more: object = {}) => ({
  Topic: "Allocation",
  Type: "AllocationUpdated",
  Payload: {
    Allocation: {
      ID: idOf(number),
      Name: `console.g[${number}]`,
      JobID: "console-job",
      JobVersion: 0,
      TaskGroup: "g",
      NodeID,
      DesiredStatus: "run",
      ClientStatus,
      ...more,
    },
  },
});

describeConsole("nodes and jobs", (suite) => {
  it("shows a node with its agent, its history and its volumes' plugins", async () => {
    const opened = await suite().open({ path: "nodes" });
    const { page } = opened;
    await page
      .getByRole("table", { name: "Nodes" })
      .getByRole("link", { name: /^local-/ })
      .first()
      .click();
    await page.getByText("connected", { exact: true }).waitFor();
    await page
      .getByRole("table", { name: "Events of the node" })
      .getByText(/registered/i)
      .first()
      .waitFor();
    await page.getByText("The node as JSON").click();
    await page
      .getByRole("group", { name: "the node as JSON" })
      .getByText(/plugins\.host_volume\.mkdir/)
      .first()
      .waitFor();
    await opened.shot("nodes-node");
    await opened.expectClean();
    await opened.close();
  });

  it("shows the resources, the attributes and the volumes of a node", async () => {
    const node = idOf(0xe1);
    const reported = nodeEvent(node, "console-details");
    const { Payload } = reported as unknown as { Payload: { Node: Record<string, unknown> } };
    Object.assign(Payload.Node, {
      Attributes: { "kernel.name": "linux", "cpu.arch": CANARY },
      Meta: { rack: "r7" },
      NodeResources: {
        Cpu: { CpuShares: 4_800, TotalCpuCores: 2, ReservableCpuCores: null },
        Memory: { MemoryMB: 3_072 },
        Disk: { DiskMB: 0 },
      },
    });
    await report(suite(), [reported]);
    const [agent] = (await suite().call("GET", "agents")) as { NodeID: string }[];
    const volume = { Name: "console-on-node", PluginID: "mkdir", NodeID: agent?.NodeID };
    await suite().call("PUT", "volume/host/create", { Volume: volume });
    const opened = await suite().open({ path: `nodes/node/${node}` });
    const { page } = opened;
    const resources = page.locator("section", { has: page.getByRole("heading", { name: "Resources" }) });
    await resources.getByText("4,800 MHz").waitFor();
    await resources.getByText("3 GiB").waitFor();
    // An amount that was not reported is absent, not zero.
    expect(await resources.getByText("Disk").count()).toBe(0);
    await page.getByText("No volume is on this node").waitFor();
    const attributes = page.locator("section", { has: page.getByRole("heading", { name: "Attributes" }) });
    await attributes.getByText("meta.rack").waitFor();
    await attributes.getByText(CANARY).waitFor();
    await page.getByLabel("Filter attributes").fill("kernel");
    await expect.poll(() => attributes.getByRole("term").count()).toBe(1);
    await opened.expectClean();
    await opened.visit(`nodes/node/${agent?.NodeID}`);
    await page.getByRole("link", { name: "console-on-node" }).click();
    await page.getByRole("heading", { name: "console-on-node" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("finds nodes by a part of the name or the ID, in any case and of any length", async () => {
    await report(suite(), [nodeEvent(idOf(0xf1), "console-Filtered"), nodeEvent(idOf(0xf2), `other ${CANARY}`)]);
    const opened = await suite().open({ path: "nodes" });
    const rows = opened.page.getByRole("table", { name: "Nodes" }).getByRole("row");
    const field = opened.page.getByLabel("Nodes by name or ID");
    for (const text of ["FILTER", "0000f1-", "c00000f1-0"]) {
      await field.fill(text);
      await expect.poll(async () => [text, (await rows.allTextContents()).length]).toEqual([text, 2]);
      expect(await rows.nth(1).textContent()).toContain("console-Filtered");
    }
    await field.fill(`OTHER ${CANARY}`);
    await expect.poll(() => rows.nth(1).textContent()).toContain(`other ${CANARY}`);
    await field.fill('no"such\\node');
    await opened.page.getByText("No node has this in its name or ID").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows a connected agent as seen now", async () => {
    const opened = await suite().open({ path: "nodes?tab=agents" });
    const row = opened.page.getByRole("row").filter({ hasText: "connected" }).first();
    await row.getByText("now", { exact: true }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("makes a node ineligible, drains it, shows what is left, and ends when the last allocation has ended", async () => {
    const node = idOf(1);
    await report(suite(), [nodeEvent(node, "console-drained"), placed(1, node), placed(2, node)]);
    const opened = await suite().open({ path: `nodes/node/${node}` });
    const { page } = opened;
    await click(opened, "Make ineligible");
    await click(opened, "Make the node ineligible");
    await page.getByText("ineligible", { exact: true }).first().waitFor();
    await click(opened, "Drain");
    await dialog(opened).getByLabel("Allocations that stay").selectOption({ label: "wait as long as it takes" });
    await opened.expectClean();
    await click(opened, "Drain the node");
    await page.getByText("Allocations moved away: 0 of 2 done, 2 left").waitFor();
    await report(suite(), [placed(1, node, "complete")]);
    await page.getByText("Allocations moved away: 1 of 2 done, 1 left").waitFor();
    await opened.shot("nodes-drain");
    await opened.expectClean();
    await click(opened, "End the drain");
    await dialog(opened).getByRole("button", { name: "End the drain" }).click();
    await page.getByText("eligible", { exact: true }).first().waitFor();
    await click(opened, "Drain");
    await click(opened, "Drain the node");
    await page.getByText("This node is being drained").waitFor();
    await report(suite(), [placed(2, node, "complete")]);
    await page.getByText("Last drain").waitFor();
    await page.getByText("complete", { exact: true }).first().waitFor();
    await opened.expectClean();
    await click(opened, "Make eligible");
    await click(opened, "Make the node eligible");
    await page.getByText("eligible", { exact: true }).first().waitFor();
    await click(opened, "More actions");
    await page.getByRole("menuitem", { name: "Purge the node" }).click();
    await dialog(opened).getByRole("textbox").fill("console-drained");
    await click(opened, "Purge the node");
    await page.getByRole("heading", { name: "Nodes and jobs", level: 1 }).waitFor();
    await expect.poll(() => page.getByRole("link", { name: "console-drained" }).count()).toBe(0);
    await opened.close();
  });

  it("shows a reported job with its allocations and deployment, and an allocation, with harmful texts as text", async () => {
    const node = idOf(3);
    await report(suite(), [
      nodeEvent(node, `console ${CANARY}`),
      jobEvent("console-shop", { StatusDescription: CANARY, Meta: { [CANARY]: CANARY } }),
      placed(3, node, "failed", { JobID: "console-shop", ClientDescription: CANARY, Name: `console-shop.g ${CANARY}` }),
      placed(4, node, "running", { JobID: "console-shop" }),
      {
        Topic: "Deployment",
        Type: "DeploymentStatusUpdate",
        Payload: { Deployment: { ID: idOf(5), JobID: "console-shop", Status: "failed", StatusDescription: CANARY } },
      },
    ]);
    const opened = await suite().open({ path: "nodes?tab=jobs" });
    const { page } = opened;
    await page.getByRole("link", { name: "console-shop", exact: true }).click();
    await page.getByRole("heading", { name: "console-shop", level: 1 }).waitFor();
    const allocations = page.getByRole("table", { name: "Allocations" });
    await allocations.getByText("failed", { exact: true }).waitFor();
    await page.getByRole("table", { name: "Deployments" }).getByText("failed", { exact: true }).waitFor();
    await opened.shot("nodes-job");
    await opened.expectClean();
    await allocations.getByRole("link", { name: /console-shop\.g / }).click();
    await page.getByRole("heading", { name: "Allocation", level: 1 }).waitFor();
    await page.getByText(CANARY, { exact: true }).first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("leads from an event to its job, node and allocation", async () => {
    const node = idOf(6);
    await report(suite(), [nodeEvent(node, "console-evented"), jobEvent("console-evented"), placed(6, node)]);
    const opened = await suite().open({ path: "events?topics=Job:console-evented" });
    const { page } = opened;
    await page.getByText("JobRegistered").first().click();
    await page.getByRole("link", { name: "Open the object" }).click();
    await page.getByRole("heading", { name: "console-evented", level: 1 }).waitFor();
    await expect.poll(() => new URL(page.url()).pathname).toBe("/ui/nodes/job/console-evented");
    await opened.expectClean();
    await opened.close();
  });

  it("revokes a join token that was not used", async () => {
    await suite().call("POST", "agent/tokens", { Name: "console-unused" });
    const opened = await suite().open({ path: "nodes?tab=join-tokens" });
    const row = opened.page.getByRole("row", { name: /console-unused/ });
    await row.getByText("unused", { exact: true }).waitFor();
    await opened.expectClean();
    await row.getByRole("button", { name: "Revoke" }).click();
    await click(opened, "Revoke the token");
    await expect.poll(() => row.count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("lists the jobs of one namespace or of all", async () => {
    await suite().call("PUT", "namespace/console-jobs", {});
    await report(suite(), [{ ...jobEvent("console-far"), Namespace: "console-jobs" }]);
    const opened = await suite().open({ path: "nodes?tab=jobs" });
    const { page } = opened;
    await page.getByRole("table", { name: "Jobs" }).getByText("shop", { exact: true }).waitFor();
    expect(await page.getByText("console-far").count()).toBe(0);
    await opened.visit("nodes?tab=jobs&cluster=*");
    await page
      .getByRole("row", { name: /console-far/ })
      .getByText("console-jobs")
      .waitFor();
    await page.getByRole("link", { name: "console-far" }).click();
    await page.getByRole("heading", { name: "console-far", level: 1 }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("keeps a list of 100,000 nodes smooth", async () => {
    const opened = await suite().open();
    const { page } = opened;
    await servePages(page, /\/v1\/nodes\?.*per_page=200/, 100_000, (at) => ({
      ID: idOf(at),
      Name: `node-${at}`,
      Status: "ready",
      StatusDescription: "",
      Drain: false,
      Version: "",
      SchedulingEligibility: "eligible",
      NodePool: "default",
      Datacenter: "dc1",
      NodeClass: "",
    }));
    await opened.visit("nodes");
    const table = page.getByRole("table", { name: "Nodes" });
    await table.getByText("node-0", { exact: true }).waitFor();
    await table.getByRole("row").nth(1).focus();
    for (const last of ["node-199", "node-399", "node-599"]) {
      // The end is further away once the next page is there.
      const isAtEnd = async (): Promise<boolean> => {
        await page.keyboard.press("End");
        return table.getByText(last, { exact: true }).isVisible();
      };
      await expect.poll(isAtEnd, { timeout: 30_000 }).toBe(true);
    }
    expect(await table.locator("tbody tr").count()).toBeLessThan(150);
    await opened.expectClean();
    await opened.close();
  });

  it("shows the refusal to a token that may no longer drain nodes", async () => {
    const node = idOf(7);
    await report(suite(), [nodeEvent(node, "console-kept")]);
    const token = await suite().tokenWith("console-node-reader", 'node { policy = "write" }');
    const opened = await suite().open({ token, path: `nodes/node/${node}`, refusals: [/403/] });
    // The console has asked for its rights before they change.
    await opened.page.route("**/v1/acl/capabilities/self*", (route) =>
      route.fulfill({ json: { Capabilities: ["node:write"] } }),
    );
    await suite().tokenWith("console-node-reader", 'node { policy = "read" }');
    await click(opened, "Drain");
    await click(opened, "Drain the node");
    await dialog(opened)
      .getByText(/permission denied/i)
      .first()
      .waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("prints the line that joins a node, and says when the node has joined", async () => {
    const opened = await suite().open({ path: "nodes" });
    await click(opened, "Join a node");
    await dialog(opened).getByLabel("Name of the node").fill("console-node");
    await click(opened, "Create join token");
    const line =
      (await dialog(opened).getByRole("group", { name: "the line that joins the node" }).textContent()) ?? "";
    expect(line).toContain(`"service":"${suite().bench.url}"`);
    await dialog(opened).getByText("Waiting for the node").waitFor();
    await opened.expectClean();
    const token = /echo '([^']+)' \| sudo install -m 600/.exec(line)?.[1] ?? "";
    const PublicKey = randomBytes(32).toString("base64");
    await suite().call("POST", "agent/join", { Token: token, PublicKey, Name: "console-node" });
    await dialog(opened).getByText("The node has joined").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("fits a telephone, in the dark", async () => {
    const opened = await suite().open({ path: "nodes", viewport: PHONE, theme: "dark" });
    await opened.page.getByRole("table", { name: "Nodes" }).waitFor();
    await opened.shot("nodes-phone");
    await opened.expectClean();
    await opened.close();
  });
});
