import { expect, it, vi } from "vitest";
import { CANARY, describeConsole, type Suite } from "./support/console.ts";

const ID = "5bc4c1a8-0000-4000-8000-00000000000";
const [DEPLOYMENT, NODE, ALLOCATION, EVALUATION] = [`${ID}1`, `${ID}2`, `${ID}3`, `${ID}4`];

/** Markup wherever the service takes a text from a person, a scheduler or a provider. */
async function plant(suite: Suite): Promise<string> {
  const name = encodeURIComponent(CANARY);
  const policy = 'path "*" { capabilities = ["read", "list"] }';
  await suite.call("PUT", "sys/policies/acl/markup", { policy: `# ${CANARY}\n${policy}` });
  await suite.call("POST", "sys/mounts/markup", { type: "kv", description: CANARY, options: { version: "2" } });
  await suite.call("POST", `markup/data/${name}`, { data: { [CANARY]: CANARY } });
  await suite.call("POST", `markup/metadata/${name}`, { custom_metadata: { owner: CANARY } });
  await suite.call("POST", "sys/auth/markup", { type: "approle", description: CANARY });
  await suite.call("POST", "identity/entity", { name: CANARY, metadata: { [CANARY]: CANARY }, policies: ["markup"] });
  await suite.call("POST", "identity/group", { name: CANARY, metadata: { note: CANARY } });
  await suite.call("POST", "sys/sync/destinations/in-mem/markup", { custom_tags: { [CANARY]: CANARY } });
  await suite.call("POST", "sys/sync/destinations/in-mem/markup/rules/markup", {
    mount: "markup",
    path_prefix: CANARY,
    metadata_selector: { [CANARY]: CANARY },
  });
  await suite.call("PUT", "acl/policy/markup-description", {
    Description: CANARY,
    Rules: 'node { policy = "read" }',
  });
  await suite.call("PUT", "namespace/markup", { Description: CANARY, Meta: { note: CANARY } });
  await suite.call("POST", "sys/sync/destinations/in-mem/markup/associations/set", {
    mount: "markup",
    secret_name: CANARY,
  });
  const job = { ID: CANARY, Name: CANARY, Type: "service", Status: "running", StatusDescription: CANARY };
  const deployment = { ID: DEPLOYMENT, JobID: CANARY, Status: "failed" };
  const node = { ID: NODE, Name: CANARY, Datacenter: CANARY, NodeClass: CANARY, Status: "ready" };
  const evaluation = { ID: EVALUATION, JobID: CANARY, Type: "service", Status: "failed" };
  const allocation = {
    ID: ALLOCATION,
    Name: CANARY,
    NodeID: NODE,
    NodeName: CANARY,
    JobID: CANARY,
    TaskGroup: CANARY,
    ClientStatus: "failed",
    ClientDescription: CANARY,
    TaskStates: {
      [CANARY]: { State: "dead", Failed: true, Events: [{ Type: CANARY, DisplayMessage: CANARY, Time: 1 }] },
    },
  };
  await suite.call("PUT", "cluster/objects", [
    {
      Topic: "Node",
      Type: "NodeRegistration",
      Payload: { Node: { ...node, Attributes: { [CANARY]: CANARY }, Meta: { [CANARY]: CANARY } } },
    },
    { Topic: "Job", Type: "JobRegistered", Payload: { Job: job } },
    {
      Topic: "Evaluation",
      Type: "EvaluationUpdated",
      Payload: { Evaluation: { ...evaluation, StatusDescription: CANARY } },
    },
    { Topic: "Allocation", Type: "AllocationUpdated", Payload: { Allocation: allocation } },
    {
      Topic: "Deployment",
      Type: "DeploymentStatusUpdate",
      Payload: { Deployment: { ...deployment, StatusDescription: CANARY } },
    },
  ]);
  const { auth } = (await suite.call("POST", "auth/token/create", {
    policies: ["markup"],
    display_name: CANARY,
    meta: { [CANARY]: CANARY },
    ttl: "1h",
  })) as { auth: { accessor: string } };
  return auth.accessor;
}

describeConsole("markup in texts", (suite) => {
  it("is shown as text on every screen, in titles, dialogs, messages and errors", async () => {
    const accessor = await plant(suite());
    const name = encodeURIComponent(CANARY);
    const opened = await suite().open({ refusals: [/40\d /] });
    const { page } = opened;
    const screens = [
      "",
      // First, before other events take the places of these.
      "events",
      "events?tab=service",
      "secrets",
      "secrets/markup",
      `secrets/markup/at/${name}`,
      `secrets/markup/at/${name}?tab=versions`,
      `secrets/markup/at/${name}?tab=metadata`,
      `secrets/markup/at/${name}?tab=destinations`,
      "sync",
      "sync?tab=matrix",
      "sync/in-mem/markup",
      "sync/in-mem/markup?tab=objects",
      "credentials",
      `credentials/${name}`,
      `events?topics=Job:${name}`,
      "nodes?tab=jobs",
      `nodes/job/${name}`,
      "nodes",
      `nodes/node/${NODE}`,
      `nodes/allocation/${ALLOCATION}`,
      `nodes/node/${name}`,
      `storage/host/${name}`,
      `storage/plugin/${name}`,
      "access?tab=policies",
      `access?tab=tokens&accessor=${accessor}`,
      "access?tab=methods",
      "access?tab=identities",
      `access/method/${name}`,
      `audit?q=${name}`,
      name,
    ];
    // A screen without the text proves nothing. These show figures, other names, or that nothing has the name.
    const others = ["", "sync", "credentials", "access?tab=policies"];
    const absent = [`nodes/node/${name}`, `storage/host/${name}`, `audit?q=${name}`, name];
    const without: string[] = [];
    const showsMarkup = async (): Promise<boolean> =>
      (await page.locator("body").textContent())?.includes("<img src=x onerror=") ?? false;
    for (const path of screens) {
      await opened.visit(path);
      // The screen before it may still be shown.
      await page.waitForTimeout(400);
      await opened.shown();
      if (![...others, ...absent].includes(path))
        await vi.waitFor(async () => expect(await showsMarkup(), path).toBe(true)).catch(() => without.push(path));
      // A button that was clicked is called Hide, and one of them reveals all others.
      const reveal = page.getByRole("button", { name: /^Reveal/ });
      while ((await reveal.count()) > 0) await reveal.first().click();
      const found = await page.evaluate(() => [
        document.querySelectorAll("img, main script, dialog script").length,
        (globalThis as unknown as { canaries: number }).canaries,
        (globalThis as unknown as { violations: string[] }).violations.length,
      ]);
      expect(found, path).toEqual([0, 0, 0]);
      const close = page.getByRole("dialog").getByRole("button", { name: "Close", exact: true });
      if (await close.count()) await close.first().click();
    }
    expect(without).toEqual([]);
    for (const [path, row] of [
      ["access?tab=policies&q=markup", /^markup$/],
      ["access?tab=identities", "<img"],
    ] as const) {
      await opened.visit(path);
      await page.getByText(row).first().click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("<img").or(dialog.locator("textarea")).first().waitFor();
      await page.keyboard.press("Escape");
    }
    await page.keyboard.press("Control+K");
    await page.getByRole("combobox").fill("<img");
    await page.getByRole("option").filter({ hasText: "<img" }).first().waitFor();
    await page.keyboard.press("Escape");
    await opened.expectClean();
    await opened.close();
  });

  it("is shown as text in each error of the service", async () => {
    const opened = await suite().open({ refusals: [/[45]\d\d /] });
    const { page } = opened;
    for (const status of [400, 403, 404, 409, 429, 500, 503]) {
      await page.route("**/v1/sys/policies/acl*", (route) =>
        route.fulfill({ status, json: { errors: [CANARY], request_id: CANARY } }),
      );
      await opened.visit("access");
      await page.getByText(CANARY).first().waitFor();
      await page.unrouteAll();
      await opened.visit("nodes");
    }
    for (const body of [CANARY, `"${CANARY}"`, `{"errors": "${"x".repeat(3)}"}`]) {
      await page.route("**/v1/sys/policies/acl*", (route) =>
        route.fulfill({ status: 502, contentType: "text/html", body }),
      );
      await opened.visit("access");
      await page.getByText("The service has failed").waitFor();
      await page.unrouteAll();
      await opened.visit("nodes");
    }
    await opened.expectClean();
    await opened.close();
  });
});
