import { expect, it } from "vitest";
import { CANARY, type Console, describeConsole, type Suite } from "./support/console.ts";
import { servePages } from "./support/long-lists.ts";

const PHONE = { width: 360, height: 740 };

const click = (opened: Console, name: string) => opened.page.getByRole("button", { name, exact: true }).click();
/** A page reads its volume once more between the deletion and the way back to the list. */
const GONE = /404 GET \/v1\/volume/;
const dialog = (opened: Console) => opened.page.getByRole("dialog");
const nameField = (opened: Console) => dialog(opened).getByLabel(/^Name( required)?$/);

interface Placed {
  readonly node: string;
  readonly source: string;
  readonly kind: "host" | "csi";
  readonly status?: "running" | "complete";
}

/** Reports a job of this id whose one allocation uses a volume. */
async function report(suite: Suite, id: string, { node, source, kind, status = "running" }: Placed): Promise<void> {
  const request = { Type: kind, Name: "data", Source: source, Sticky: kind === "host" };
  const access = kind === "csi" ? { AccessMode: "single-node-writer", AttachmentMode: "file-system" } : {};
  const groups = [{ Name: "g", Count: 1, Volumes: { data: { ...request, ...access } } }];
  const job = { ID: id, Name: id, Type: "service", Status: "running", Version: 0, TaskGroups: groups };
  const name = `${id}.g[0]`;
  const alloc = { ID: idOf(id), Name: name, JobID: id, JobVersion: 0, TaskGroup: "g", NodeID: node };
  await suite.call("PUT", "cluster/objects", [
    { Topic: "Job", Type: "JobRegistered", Payload: { Job: job } },
    {
      Topic: "Allocation",
      Type: "AllocationUpdated",
      Payload: { Allocation: { ...alloc, DesiredStatus: "run", ClientStatus: status } },
    },
  ]);
}

/** The same id for the same name. */
const idOf = (name: string): string =>
  `${Buffer.from(name.padEnd(4, "-")).toString("hex").slice(-8)}-0000-4000-8000-000000000000`;

async function csiVolume(suite: Suite, id: string): Promise<void> {
  const RequestedCapabilities = [{ AccessMode: "single-node-writer", AttachmentMode: "file-system" }];
  const volume = { ID: id, Name: id, PluginID: "dir", RequestedCapabilities };
  await suite.call("PUT", `volume/csi/${id}/create`, { Volumes: [volume] });
}

describeConsole("storage", (suite) => {
  it("creates a host volume from a form, shows it on its node, and deletes it after its name was typed", async () => {
    const opened = await suite().open({ path: "storage", refusals: [GONE] });
    const { page } = opened;
    await click(opened, "Create host volume");
    await dialog(opened)
      .getByLabel(/^Name( required)?$/)
      .fill("console-host");
    await dialog(opened).getByLabel("Capacity, at least").fill("20 GiB");
    await dialog(opened).getByLabel("Capacity, at most").fill("5 GiB");
    await dialog(opened).getByText("Less than the least capacity, 20 GiB.").waitFor();
    expect(await dialog(opened).getByRole("button", { name: "Create volume" }).isDisabled()).toBe(true);
    for (const bound of ["least", "most"]) await dialog(opened).getByLabel(`Capacity, at ${bound}`).fill("");
    await opened.shot("storage-create-host");
    await opened.expectClean();
    await click(opened, "Create volume");
    await page.getByRole("heading", { name: "console-host", level: 1 }).waitFor();
    await page.getByText("ready", { exact: true }).first().waitFor();
    await opened.shot("storage-host");
    await opened.expectClean();
    await click(opened, "Delete");
    await dialog(opened).getByRole("textbox").fill("console-host");
    await click(opened, "Delete the volume");
    await page.getByRole("heading", { name: "Storage", level: 1 }).waitFor();
    await expect.poll(() => page.getByRole("link", { name: "console-host" }).count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("keeps the fields of a list's other entries when one is removed, and refuses names that are there twice", async () => {
    const opened = await suite().open({ path: "storage?tab=csi&new=csi" });
    await dialog(opened)
      .getByLabel(/^Plugin/)
      .selectOption("dir");
    await dialog(opened).getByText("More settings").click();
    const fields = dialog(opened).getByRole("group", { name: "Required" });
    for (const name of ["first", "second"]) {
      await fields.getByRole("button", { name: "Add to required" }).click();
      await fields.getByRole("button", { name: "Add segment" }).last().click();
      await fields.getByLabel("Name of segment 1").last().fill(name);
    }
    await fields.getByRole("button", { name: "Remove entry 1 of Required" }).click();
    const names = fields.getByLabel("Name of segment 1");
    await expect.poll(() => names.count()).toBe(1);
    expect(await names.inputValue()).toBe("second");
    await fields.getByRole("button", { name: "Add segment" }).click();
    await fields.getByLabel("Name of segment 2").fill("second");
    await fields.getByText("The name second is there twice.").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("creates a CSI volume and a snapshot of it, and shows the plugin's health", async () => {
    const opened = await suite().open({ path: "storage?tab=csi" });
    const { page } = opened;
    await click(opened, "Create CSI volume");
    await dialog(opened)
      .getByLabel(/^Name( required)?$/)
      .fill("console-csi");
    await dialog(opened)
      .getByLabel(/^Plugin/)
      .selectOption("dir");
    await click(opened, "Create volume");
    await page.getByRole("heading", { name: "console-csi", level: 1 }).waitFor();
    await opened.shot("storage-csi");
    await opened.expectClean();
    await opened.visit("storage?tab=plugins");
    await page.getByRole("link", { name: "dir", exact: true }).click();
    await page.getByRole("heading", { name: "dir", level: 1 }).waitFor();
    await opened.shot("storage-plugin");
    await opened.expectClean();
    await opened.close();
  });

  it("changes a host volume's capacity, and refuses to delete it while an allocation holds a sticky claim on it", async () => {
    const { Volume } = (await suite().call("PUT", "volume/host/create", {
      Volume: { Name: "console-sticky", PluginID: "mkdir" },
    })) as { Volume: { ID: string; NodeID: string } };
    const placed = { node: Volume.NodeID, source: "console-sticky", kind: "host" } as const;
    await report(suite(), "console-sticky-job", placed);
    const opened = await suite().open({ path: `storage/host/${Volume.ID}`, refusals: [/4\d\d DELETE/, GONE] });
    const { page } = opened;
    await page
      .getByRole("table", { name: "Sticky claims of the volume" })
      .getByRole("link", { name: "console-sticky-job" })
      .waitFor();
    await page
      .getByRole("table", { name: "Allocations" })
      .getByText(/console-sticky-job\.g/)
      .waitFor();
    await opened.shot("storage-host-claimed");
    await opened.expectClean();
    await click(opened, "Delete");
    await dialog(opened).getByRole("textbox").fill("console-sticky");
    await click(opened, "Delete the volume");
    await dialog(opened).getByRole("alert").waitFor();
    await opened.shot("storage-host-refused");
    await opened.expectClean();
    await click(opened, "Cancel");
    await opened.visit("storage?tab=claims");
    await click(opened, "Delete the claim on console-sticky");
    await dialog(opened).getByRole("button", { name: "Delete the claim" }).click();
    await expect.poll(() => page.getByRole("link", { name: "console-sticky-job" }).count()).toBe(0);
    await report(suite(), "console-sticky-job", { ...placed, status: "complete" });
    await opened.visit(`storage/host/${Volume.ID}`);
    await click(opened, "Change capacity");
    await dialog(opened).getByLabel("Capacity, at least").fill("2 GiB");
    await dialog(opened).getByRole("button", { name: "Change capacity" }).click();
    await page.getByText("2 GiB").first().waitFor();
    await opened.expectClean();
    await click(opened, "Delete");
    await dialog(opened).getByRole("textbox").fill("console-sticky");
    await click(opened, "Delete the volume");
    await page.getByRole("heading", { name: "Storage", level: 1 }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("says in the agent's words why a directory cannot be registered", async () => {
    const opened = await suite().open({ path: "storage", refusals: [/[45]\d\d PUT \/v1\/volume\/host\/register/] });
    const { page } = opened;
    await click(opened, "Register");
    await page.getByRole("menuitem", { name: "Register a host volume" }).click();
    await nameField(opened).fill("console-registered");
    // The one node with an agent is chosen already.
    await expect
      .poll(() =>
        dialog(opened)
          .getByLabel(/^Node required/)
          .locator("option:checked")
          .textContent(),
      )
      .toMatch(/^local-/);
    await dialog(opened)
      .getByLabel(/^Path on the node/)
      .fill("/etc");
    await click(opened, "Register volume");
    await dialog(opened)
      .getByText(/registerRoots|not allowed|outside|below/i)
      .last()
      .waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("creates a CSI volume with capacity and parameters, expands it, and makes another one of its snapshot", async () => {
    const opened = await suite().open({ path: "storage?tab=csi" });
    const { page } = opened;
    await click(opened, "Create CSI volume");
    await nameField(opened).fill("console-grows");
    await dialog(opened)
      .getByLabel(/^Plugin/)
      .selectOption("dir");
    await dialog(opened).getByLabel("Capacity, at least").fill("10");
    await dialog(opened).getByText("A number with a unit, such as 10 GiB or 500 MB.").waitFor();
    await dialog(opened).getByLabel("Capacity, at least").fill("1 GiB");
    await opened.expectClean();
    await click(opened, "Create volume");
    await page.getByRole("heading", { name: "console-grows", level: 1 }).waitFor();
    await page.getByText("1 GiB").first().waitFor();
    await click(opened, "Expand");
    await dialog(opened).getByLabel("Capacity, at least").fill("3 GiB");
    await opened.expectClean();
    await dialog(opened).getByRole("button", { name: "Change capacity" }).click();
    await page.getByText("3 GiB").first().waitFor();
    await click(opened, "Take snapshot");
    await dialog(opened).getByLabel("Name").fill("console-snap");
    await dialog(opened).getByRole("button", { name: "Take snapshot" }).click();
    const snapshots = page.getByRole("table", { name: "Snapshots" });
    await snapshots.getByText("ready", { exact: true }).first().waitFor();
    await opened.shot("storage-snapshots");
    await opened.expectClean();
    await snapshots
      .getByRole("button", { name: /^Actions of the snapshot/ })
      .first()
      .click();
    await page.getByRole("menuitem", { name: "Make a volume of it" }).click();
    await nameField(opened).fill("console-restored");
    await dialog(opened).getByLabel("Capacity, at least").fill("3 GiB");
    await dialog(opened).getByRole("button", { name: "Create volume" }).click();
    await page.getByRole("heading", { name: "console-restored", level: 1 }).waitFor();
    await page.getByText("From snapshot").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("deregisters a CSI volume, finds it at the provider, and registers it again", async () => {
    await csiVolume(suite(), "console-known");
    const { ExternalID: externalId } = (await suite().call("GET", "volume/csi/console-known")) as {
      ExternalID: string;
    };
    const opened = await suite().open({ path: "storage/csi/console-known", refusals: [GONE] });
    const { page } = opened;
    await page.getByText("schedulable", { exact: true }).waitFor();
    await click(opened, "More actions");
    await page.getByRole("menuitem", { name: "Deregister", exact: true }).click();
    await click(opened, "Deregister the volume");
    await page.getByRole("heading", { name: "Storage", level: 1 }).waitFor();
    await opened.visit("storage/plugin/dir?tab=external");
    const row = page.getByRole("table", { name: "Volumes at the provider" }).getByRole("row", { name: externalId });
    await row.waitFor();
    await opened.shot("storage-external");
    await opened.expectClean();
    await row.getByRole("button", { name: "Register" }).click();
    await nameField(opened).fill("console-known");
    await click(opened, "Register volume");
    await page.getByRole("heading", { name: "console-known", level: 1 }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows the claims of a CSI volume with its operations, and the holder when a deletion is refused", async () => {
    await csiVolume(suite(), "console-claimed");
    const nodes = (await suite().call("GET", "nodes?per_page=50")) as { ID: string; Name: string }[];
    const local = nodes.find(({ Name }) => Name.startsWith("local-"))?.ID ?? "";
    const placed = { node: local, source: "console-claimed", kind: "csi" } as const;
    await report(suite(), "console-csi-job", placed);
    const opened = await suite().open({ path: "storage/csi/console-claimed", refusals: [/409 DELETE/] });
    const { page } = opened;
    const claims = page.getByRole("table", { name: /claims/i }).first();
    await claims
      .getByText(/taken|published|ready|in use/i)
      .first()
      .waitFor();
    await opened.picture("console-storage");
    await opened.expectClean();
    await click(opened, "Delete");
    await dialog(opened).getByRole("textbox").fill("console-claimed");
    await click(opened, "Delete the volume");
    await dialog(opened)
      .getByText(/held by allocation .* on node .* \(published\)/)
      .waitFor();
    await opened.expectClean();
    await click(opened, "Cancel");
    await report(suite(), "console-csi-job", { ...placed, status: "complete" });
    await expect.poll(() => claims.getByRole("row").count()).toBeLessThanOrEqual(1);
    await opened.expectClean();
    await opened.close();
  });

  it("shows an operation under way with its method and age until the plugin has answered", async () => {
    await csiVolume(suite(), "console-operating");
    const opened = await suite().open();
    const { page } = opened;
    let isUnderWay = true;
    const operation = { ID: CANARY, Method: "csi.controller.expand", State: "running", Phase: "running" };
    await page.route("**/v1/volume/csi/console-operating/operations*", async (route) => {
      const answer = await route.fetch();
      const known = (await answer.json()) as object[];
      const made = { ...operation, NodeID: CANARY, CreateTime: "2026-11-25T12:00:00Z", Error: CANARY, Attempts: 2 };
      await route.fulfill({ json: isUnderWay ? [made, ...known] : known });
    });
    await opened.visit("storage/csi/console-operating");
    const operations = page.getByRole("table", { name: /operations/i });
    await operations
      .getByRole("row", { name: /csi\.controller\.expand/ })
      .getByText("under way")
      .waitFor();
    await opened.shot("storage-operations");
    await opened.expectClean();
    isUnderWay = false;
    await expect.poll(() => operations.getByText("under way").count()).toBe(0);
    await opened.close();
  });

  it("lists the volumes of one namespace or of all", async () => {
    await suite().call("PUT", "namespace/console-storage", {});
    await suite().call("PUT", "volume/host/create?namespace=console-storage", {
      Volume: { Name: "console-elsewhere", PluginID: "mkdir" },
    });
    const opened = await suite().open({ path: "storage" });
    const { page } = opened;
    await page.getByRole("heading", { name: "Storage", level: 1 }).waitFor();
    expect(await page.getByText("console-elsewhere").count()).toBe(0);
    await opened.visit("storage?cluster=*");
    const row = page.getByRole("row", { name: /console-elsewhere/ });
    await row.getByText("console-storage").waitFor();
    await opened.expectClean();
    await row.getByRole("link", { name: "console-elsewhere" }).click();
    await page.getByRole("heading", { name: "console-elsewhere", level: 1 }).waitFor();
    await expect.poll(() => new URL(page.url()).searchParams.get("of")).toBe("console-storage");
    await page.getByText("ready", { exact: true }).first().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("keeps a list of 100,000 volumes smooth, and shows harmful names as text", async () => {
    const opened = await suite().open();
    const { page } = opened;
    await servePages(page, "**/v1/volumes?*type=host*", 100_000, (at) => ({
      ID: `${at.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`,
      Name: at % 50 === 0 ? `${CANARY}${at}` : `volume-${at}`,
      Namespace: "default",
      NodePool: "default",
      NodeID: "n",
      PluginID: "mkdir",
      State: "ready",
      CapacityBytes: 1,
      CreateTime: 1,
      ModifyTime: 1,
      CreateIndex: 1,
      ModifyIndex: 1,
    }));
    await opened.visit("storage");
    const table = page.getByRole("table", { name: "Host volumes" });
    await table.getByText(`${CANARY}0`).waitFor();
    // Each press goes to the end of what was read, which reads the next pages.
    await table.getByRole("row").nth(1).focus();
    for (let read = 0; read < 5; read++) {
      await page.keyboard.press("End");
      await expect.poll(() => table.locator("tbody tr").last().isVisible()).toBe(true);
    }
    expect(await table.locator("tbody tr").count()).toBeLessThan(150);
    await opened.expectClean();
    await opened.close();
  });

  it("forgets that a later page could not be read once the list is read again", async () => {
    const opened = await suite().open({ refusals: [/503 GET \/v1\/volumes/] });
    const { page } = opened;
    await servePages(page, "**/v1/volumes?*type=host*", 400, (at) => ({
      ID: `${at.toString(16).padStart(8, "0")}-0000-4000-8000-000000000000`,
      Name: `volume-${at}`,
      Namespace: "default",
      NodeID: "n",
      PluginID: "mkdir",
      State: "ready",
      CapacityBytes: 1,
      CreateTime: 1,
      ModifyTime: 1,
    }));
    let failures = 0;
    await page.route(/\/v1\/volumes\?.*next_token/, (route) => {
      failures++;
      return route.fulfill({ status: 503, json: { errors: ["at its limit"] } });
    });
    await opened.visit("storage");
    const table = page.getByRole("table", { name: "Host volumes" });
    await table.getByText("volume-0", { exact: true }).waitFor();
    await table.getByRole("row").nth(1).focus();
    await page.keyboard.press("End");
    await page.getByText("at its limit").waitFor();
    expect(failures).toBeLessThan(4);
    await page.unroute(/\/v1\/volumes\?.*next_token/);
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("at its limit").waitFor({ state: "hidden" });
    await opened.close();
  });

  it("shows the service's refusal to a token that may no longer create volumes", async () => {
    const token = await suite().tokenWith("console-storage-reader", 'namespace "default" { policy = "write" }');
    const opened = await suite().open({ token, path: "storage", refusals: [/403/] });
    const { page } = opened;
    // The console has asked for its rights before they change.
    await page.route("**/v1/acl/capabilities/self*", (route) =>
      route.fulfill({ json: { Capabilities: ["namespace:host-volume-create"] } }),
    );
    await click(opened, "Create host volume");
    await nameField(opened).fill("console-forbidden");
    await suite().tokenWith("console-storage-reader", 'namespace "default" { policy = "read" }');
    await click(opened, "Create volume");
    await dialog(opened)
      .getByText(/permission denied/i)
      .first()
      .waitFor();
    await page.getByText("As a command").last().waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("fits a telephone, in the dark", async () => {
    const opened = await suite().open({ path: "storage", viewport: PHONE, theme: "dark" });
    await opened.page.getByRole("heading", { name: "Storage", level: 1 }).waitFor();
    await opened.page.waitForLoadState("networkidle");
    await opened.shot("storage-phone");
    await opened.expectClean();
    await opened.close();
  });
});
