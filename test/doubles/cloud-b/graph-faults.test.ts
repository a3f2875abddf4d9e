import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type AzureDouble, startAzure } from "./azure.ts";
import { type Driver, graphResource, memberOf, openAccount, read, refusal } from "./azure-driver.ts";
import type { AzureOptions, LagKind } from "./azure-types.ts";

// Injected delays and faults of the double of Microsoft Graph, tested with plain requests.

let now = Date.now();
let double: AzureDouble;
let one: Driver;

beforeAll(async () => {
  double = await startAzure({ now: () => now });
});
afterAll(() => double.close());
beforeEach(() => {
  one = openAccount(double);
});

const missing = [404, "Request_ResourceNotFound"];
const bad = [400, "Request_BadRequest"];
const createApplication = () => one.createApplication();
const createPrincipal = () => one.createPrincipal();

describe("replication delays", () => {
  const lagging = (kind: LagKind, more: AzureOptions = {}) =>
    openAccount(double, { ...more, lags: { [kind]: { requests: 1 } } });

  it("hide a new application by its id, in lists, and from its principal", async () => {
    one = lagging("application");
    const { id } = await createApplication();
    expect(refusal(await one.graph(`POST /applications/${id}/addPassword`, {}))).toEqual(missing);
    expect((await one.graph(`POST /applications/${id}/addPassword`, {})).status).toBe(200);
    await createApplication();
    const named = "GET /applications?$filter=displayName eq 'new'";
    expect((await one.graph(named)).body.value).toHaveLength(1);
    expect((await one.graph(named)).body.value).toHaveLength(2);
    const create = async (by: Driver) => {
      const { appId } = await by.createApplication();
      return [
        await by.graph("POST /servicePrincipals", { appId }),
        await by.graph("POST /servicePrincipals", { appId }),
      ];
    };
    const [all, again] = await create(one);
    expect([all, again].map((answer) => answer?.status)).toEqual([400, 201]);
    expect(all?.body.error.code).toBe("NoBackingApplicationObject");
    const [owned] = await create(lagging("application", { permissions: ["Application.ReadWrite.OwnedBy"] }));
    expect(owned).toMatchObject({ status: 403, body: { error: { message: expect.stringContaining("local tenant") } } });
  });

  it("hide a new principal, also as a member", async () => {
    one = lagging("principal");
    const { principal } = await createPrincipal();
    const add = () => one.graph(`POST /groups/${one.group("developers")}/members/$ref`, memberOf(principal.id));
    const refused = await add();
    expect(refusal(refused)).toEqual(missing);
    expect(refused.body.error.message).toContain("does not exist or one of its queried reference-property objects");
    expect((await add()).status).toBe(204);
  });

  it("show removed passwords, deleted items and used names", async () => {
    one = openAccount(double, {
      lags: { passwordInGraph: { requests: 1 }, deletedItem: { ms: 1000 }, principalName: { requests: 1 } },
    });
    const { application, principal } = await createPrincipal();
    const { keyId } = (await one.graph(`POST /servicePrincipals/${principal.id}/addPassword`, {})).body;
    const remove = () => one.graph(`POST /servicePrincipals/${principal.id}/removePassword`, { keyId });
    expect(refusal(await remove())).toEqual(bad);
    expect((await remove()).status).toBe(204);
    await one.graph(`DELETE /servicePrincipals/${principal.id}`);
    const create = () => one.graph("POST /servicePrincipals", { appId: application.appId });
    expect(refusal(await create())).toEqual([409, "Request_MultipleObjectsWithSameKeyValue"]);
    expect((await create()).status).toBe(201);
    const purge = () => one.graph(`DELETE /directory/deletedItems/${principal.id}`);
    expect(refusal(await purge())).toEqual(missing);
    now += 1000;
    expect((await purge()).status).toBe(204);
  });
});

describe("faults", () => {
  const group = () => one.graph(`GET /groups/${one.group("developers")}`);

  it("apply to their operation, with the given skip and count", async () => {
    one.account.fault({
      operation: "GetGroup",
      skip: 1,
      count: 2,
      fault: "error",
      status: 429,
      code: "TooManyRequests",
      headers: { "retry-after": "7" },
    });
    const answers = [await group(), await one.graph("GET /groups"), await group(), await group(), await group()];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429, 429, 200]);
    expect(answers[2]?.headers.get("retry-after")).toBe("7");
    expect(answers[2]?.body.error).toMatchObject({ code: "TooManyRequests", innerError: {} });
  });

  it("drop the response after the change, or the request before it", async () => {
    const create = () => createApplication();
    const { applications } = one.everything();
    one.account.fault({ operation: "CreateApplication", fault: "drop" });
    await expect(create()).rejects.toThrow();
    expect(one.everything().applications).toEqual(applications);
    one.account.fault({ operation: "CreateApplication", fault: "apply-then-drop" });
    await expect(create()).rejects.toThrow();
    one.account.fault({
      operation: "CreateApplication",
      fault: "apply-then-error",
      status: 503,
      code: "serviceNotAvailable",
    });
    expect(await create()).toMatchObject({ error: { code: "serviceNotAvailable" } });
    expect(one.everything().applications).toHaveLength(applications.length + 2);
  });

  it("delay a request, and perform it after its client has left", async () => {
    one.account.fault({ operation: "CreateApplication", fault: "delay", ms: 500 });
    const token = await one.tokenFor(graphResource);
    const leaving = new AbortController();
    const sent = one.graph("POST /applications", { displayName: "late" }, { token, signal: leaving.signal });
    await vi.waitFor(() => expect(one.account.log.at(-1)?.operation).toBe("CreateApplication"));
    leaving.abort();
    await expect(sent).rejects.toThrow();
    await vi.waitFor(() => expect(one.everything().applications.at(-1)?.displayName).toBe("late"));
  });

  it("apply to one account, for any address", async () => {
    const control = (path: string, body?: unknown) =>
      read(
        fetch(`${double.armUrl}/_double/${path}?account=${one.details.account}`, {
          method: body === undefined ? "GET" : "POST",
          ...(body !== undefined && { body: JSON.stringify(body) }),
        }),
      );
    await control("faults", { operation: "GetGroup", fault: "raw", status: 502, body: "<html>" });
    expect((await openAccount(double).graph(`GET /groups/${crypto.randomUUID()}`)).status).toBe(404);
    expect(await group()).toMatchObject({ status: 502, body: "<html>" });
    expect((await control("requests")).body.at(-1)).toMatchObject({ operation: "GetGroup", status: 502 });
    expect((await control("call", { change: "CreateGroup", displayName: "late" })).body).toEqual({
      id: expect.any(String),
    });
    expect((await control("call", { change: "DeleteGroup", id: "x" })).status).toBe(400);
    expect((await control("everything")).body).toEqual(JSON.parse(JSON.stringify(one.everything())));
    const opened = await read(
      fetch(`${double.graphUrl}/_double/accounts`, { method: "POST", body: '{"permissions":[]}' }),
    );
    expect(opened.body).toMatchObject({ graph_url: double.graphUrl, client_secret: expect.any(String) });
  });
});
