import { expect, it } from "vitest";
import { describeConsole } from "./support/console.ts";

describeConsole("the tree of secrets", (suite) => {
  it("sends nothing for an address that leads to another path", async () => {
    const opened = await suite().open();
    const { page } = opened;
    const sent: string[] = [];
    page.on("request", (request) => sent.push(new URL(request.url()).pathname));
    for (const path of ["..%2F..%2Fazure%2Fcreds%2Freader", "app%2F..%2F..%2F..%2Fsys%2Fmounts"]) {
      await opened.visit(`secrets/secret/at/${path}`);
      await page.getByRole("heading", { name: decodeURIComponent(path) }).waitFor();
      await page
        .getByText(/asks for another path. Nothing was sent\.$/)
        .first()
        .waitFor();
    }
    expect(sent.filter((path) => /azure\/creds|sys\/mounts$/.test(path))).toEqual([]);
    await opened.expectClean();
    await opened.close();
  });

  it("shows what the policies name in the selected namespace, and not what they name in the root namespace", async () => {
    const namespace = "console-rules";
    await suite().call("PUT", `sys/namespaces/${namespace}`);
    await suite().call("POST", "sys/mounts/secret", { type: "kv", options: { version: "2" } }, { namespace });
    await suite().call("PUT", "secret/data/team/one", { data: { a: "1" } }, { namespace });
    const token = await suite().tokenWith(
      "console-rules-reader",
      `path "${namespace}/secret/metadata/team/*" { capabilities = ["list"] }
       path "secret/metadata/of-root/*" { capabilities = ["list"] }
       path "${namespace}/sys/internal/ui/*" { capabilities = ["read"] }`,
    );
    const opened = await suite().open({ token, path: `secrets/secret?ns=${namespace}`, refusals: [/403 /] });
    const { page } = opened;
    await page.getByRole("treeitem", { name: "team/" }).click();
    await page.getByRole("treeitem", { name: "one" }).waitFor();
    expect(await page.getByRole("treeitem", { name: "of-root" }).count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("reads a closed folder again when it is opened after all was read again", async () => {
    await suite().call("DELETE", "secret/metadata/console-tree/later");
    await suite().call("POST", "secret/data/console-tree/one", { data: { a: "1" } });
    const opened = await suite().open({ path: "secrets/secret" });
    const { page } = opened;
    const item = (name: string) => page.getByRole("treeitem", { name, exact: true });
    await item("console-tree/").click();
    await item("one").waitFor();
    await item("console-tree/").click();
    await item("one").waitFor({ state: "hidden" });
    await suite().call("POST", "secret/data/console-tree/later", { data: { a: "1" } });
    await page.getByRole("button", { name: "More about the engine" }).click();
    await page.getByRole("menuitem", { name: "Read the tree again" }).click();
    await item("console-tree/").click();
    await item("later").waitFor();
    await opened.close();
  });

  it("reads the next page of a folder once, however often it is asked for", async () => {
    const opened = await suite().open();
    const { page } = opened;
    const name = (at: number): string => `secret-${String(at).padStart(4, "0")}`;
    const more = Promise.withResolvers<void>();
    let pages = 0;
    await page.route("**/v1/secret/metadata?**", async (route) => {
      const isSecond = new URL(route.request().url()).searchParams.has("after");
      if (isSecond && ++pages > 0) await more.promise;
      const keys = Array.from({ length: isSecond ? 2 : 1_000 }, (_, at) => name(isSecond ? 1_000 + at : at));
      await route.fulfill({ json: { data: { keys } } });
    });
    await opened.visit("secrets/secret");
    await page.getByRole("treeitem", { name: name(0) }).focus();
    await page.keyboard.press("End");
    for (let clicks = 0; clicks < 3; clicks++) await page.getByText("Show more").click();
    more.resolve();
    await page.getByRole("treeitem", { name: name(1_001) }).waitFor();
    expect(pages).toBe(1);
    expect(await page.getByRole("treeitem", { name: name(1_001) }).count()).toBe(1);
    await opened.close();
  });

  it("keeps a folder that could not be read for another try, and does not call it refused", async () => {
    const folder = "console-many";
    for (const path of ["one", "inner/two"])
      await suite().call("POST", `secret/data/${folder}/${path}`, { data: { a: "1" } });
    const opened = await suite().open({ refusals: [/503 GET/] });
    const { page } = opened;
    await page.route(`**/v1/secret/metadata/${folder}/inner?**`, (route) =>
      route.fulfill({ status: 503, json: { errors: ["at its limit"] } }),
    );
    await opened.visit(`secrets/secret/many/${folder}`);
    await page.getByText("Not all names could be read").waitFor();
    await page.getByText("1 folder left, whose secrets are not in the list.").waitFor();
    expect(await page.getByText("may not be listed").count()).toBe(0);
    await opened.expectClean();
    await page.unrouteAll();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByLabel(`Select ${folder}/inner/two`).waitFor();
    await page.getByText("Not all names could be read").waitFor({ state: "hidden" });
    await opened.close();
  });
});
