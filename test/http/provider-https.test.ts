import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { https } from "../../src/sync/destinations/https/adapter.ts";
import { renderBody, renderUrl } from "../../src/sync/destinations/https/template.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { HttpsAccount, startHttps } from "../doubles/https/server.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

const secret = `whsec_${Buffer.from("a-key-of-thirty-two-bytes-for-it").toString("base64")}`;
let double: AccountDouble<HttpsAccount>;
let account = new HttpsAccount();

beforeAll(async () => {
  double = await startHttps();
});
afterAll(() => double.close());
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  { ...https, description: { ...https.description, settings: [] } },
  () => double,
  () => ({
    url: `${double.url}/api/secrets/{{ .Name }}`,
    headers: { authorization: `Bearer ${account.token}` },
  }),
);
const inspected = () => ({ inspect_url: `${double.url}/api/secrets/{{ .Name }}` });
const read = { inspect_url: "https://a.example/{{ .Name }}", url: "https://a.example/{{ .Name }}" };
const collection = () => ({ url: `${double.url}/api/secrets`, method: "POST" });

describe("put", () => {
  it("sends name and value as JSON, with the same id for a repeat and another for another intent", async () => {
    const value = '"quoted" {{ .Name | raw }} $& \n é';
    expect(await at.put({ value })).toEqual({ outcome: "ok", reference: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(account.objects.get(at.name)).toMatchObject({ value });
    const ids = [account.last?.headers["idempotency-key"]];
    for (const idempotencyToken of ["intent-1", "intent-2"]) {
      await at.put({ value, idempotencyToken });
      ids.push(account.last?.headers["idempotency-key"]);
    }
    expect(ids[1]).toBe(ids[0]);
    expect(ids[2]).not.toBe(ids[0]);
  });

  it("sends the same id for a repeat of a removal", async () => {
    const ids: unknown[] = [];
    for (const idempotencyToken of ["removal-1", "removal-1", "removal-2"]) {
      await at.remove({}, { idempotencyToken });
      ids.push(account.last?.headers["idempotency-key"]);
    }
    expect(ids[1]).toBe(ids[0]);
    expect(ids[2]).not.toBe(ids[0]);
  });

  it("signs requests by Standard Webhooks", async () => {
    account.signingSecret = secret;
    expect(await at.put()).toMatchObject({ outcome: "client", code: "auth_failed" });
    expect(await at.put({}, { signing_secret: secret })).toMatchObject({ outcome: "ok" });
    expect(await at.remove({ signing_secret: secret })).toEqual({ outcome: "ok" });
  });

  it("fails when the answer's member for success is not true", async () => {
    expect(await at.put({}, { success_pointer: "/success" })).toMatchObject({ outcome: "ok" });
    expect(await at.put({}, { success_pointer: "/data/ok" })).toMatchObject({ outcome: "client", code: "refused" });
  });

  it.each(["owned-only", "if-not-exists"] as const)(
    "refuses the policy %s without an inspect URL",
    async (updatePolicy) => {
      expect(await at.put({ updatePolicy })).toMatchObject({ outcome: "client", code: "policy_unsupported" });
      expect(account.writes).toBe(0);
      expect(await at.put({ updatePolicy }, inspected())).toMatchObject({ outcome: "ok" });
    },
  );

  it("refuses a request beyond 256 KiB", async () => {
    const body = '{"name":{{ .Name | json }},"value":{{ .Value | json }}}';
    const value = "\u0001".repeat(60_000);
    expect(await at.put({ value }, { body })).toMatchObject({ outcome: "client", code: "value_too_large" });
    expect(account.writes).toBe(0);
  });
});

describe("remove and inspect", () => {
  it("use the method, URL and body of removals, or leave the object", async () => {
    await at.put();
    expect(await at.remove({ delete_method: "none" })).toEqual({ outcome: "ok" });
    expect(account.objects.size).toBe(1);
    const other = { ...collection(), delete_url: `${double.url}/api/secrets/{{ .Name }}` };
    expect(await at.remove(other)).toEqual({ outcome: "ok" });
    expect(account.objects.size).toBe(0);
    const posted = {
      delete_method: "POST",
      delete_url: `${double.url}/api/secrets`,
      delete_body: '{"name":{{ .Name | json }},"value":null}',
    };
    expect(await at.remove(posted)).toEqual({ outcome: "ok" });
    expect(account.last?.body.toString()).toBe(`{"name":"${at.name}","value":null}`);
  });

  it("find an object present without an inspect URL, and by ETag or version with one", async () => {
    expect(await at.inspect("written")).toMatchObject({ state: "present" });
    const put = await at.put({}, inspected());
    const reference = put.outcome === "ok" ? (put.reference ?? "") : "";
    expect(await at.inspect(reference, inspected())).toMatchObject({ state: "unchanged" });
    expect(await at.inspect("written", inspected())).toMatchObject({ state: "present" });
    account.write(at.name, "theirs");
    expect(await at.inspect(reference, inspected())).toMatchObject({ state: "changed" });
  });
});

describe("templates", () => {
  it("encode by place", () => {
    const value = "a&b=ü";
    expect(renderBody("name={{ .Name | url }}&value={{.Value|url}}", { name: "a/b", value })).toBe(
      "name=a%2Fb&value=a%26b%3D%C3%BC",
    );
    expect(renderBody("{{ .Value | base64 }}", { name: "", value })).toBe("YSZiPcO8");
    expect(renderUrl("https://a.example/x/{{ .Name }}?of={{ .Name }}", { name: "p/q?r" })).toBe(
      "https://a.example/x/p%2Fq%3Fr?of=p%2Fq%3Fr",
    );
    for (const name of [".", ".."]) expect(renderUrl("https://a.example/x/{{ .Name }}", { name })).toBeNull();
  });
});

describe("the connection", () => {
  it.each([
    [{ url: "https://{{ .Name }}.example.com/" }, "url"],
    [{ url: "https://a.example:{{ .Name }}/" }, "url"],
    [{ url: "https://a.example/?v={{ .Value }}" }, "url"],
    [{ url: "https://user:word@a.example/" }, "url"],
    [{ url: "ftp://a.example/" }, "url"],
    [{ url: "" }, "url"],
    [{ delete_url: "https://b.example/" }, "delete_url"],
    [{ body: "{{ .Value }}" }, "body"],
    [{ body: "{{ .Token | json }}" }, "body"],
    [{ delete_body: "{{ .Value | json }}" }, "delete_body"],
    [{ headers: { Host: "b.example" } }, "headers"],
    [{ headers: { "X-Forwarded-For": "1" } }, "headers"],
    [{ headers: { "cf-connecting-ip": "1" } }, "headers"],
    [{ headers: { a: "b\r\nc: d" } }, "headers"],
    [{ signing_secret: "whsec_short" }, "signing_secret"],
    [{ success_pointer: "success" }, "success_pointer"],
    [{ url: "https://a.example/{{ .Id }}" }, "url"],
    [{ body: "{{ .Id | json }}" }, "body"],
    [{ change_url: "https://b.example/" }, "change_url"],
    [{ change_method: "PUT" }, "change_method"],
    [{ change_body: "{}" }, "change_body"],
    [{ id_pointer: "/id" }, "id_pointer"],
    [{ name_pointer: "/name" }, "name_pointer"],
    [{ value_pointer: "/value" }, "value_pointer"],
    [{ owner_pointer: "/owner" }, "owner_pointer"],
    [{ ...read, owner_pointer: "/owner", body: "{}" }, "body"],
    [{ ...read, list_pointer: "/items" }, "list_pointer"],
    [{ ...read, next_pointer: "/next" }, "next_pointer"],
    [{ ...read, delete_url: "https://a.example/{{ .Id }}" }, "delete_url"],
  ])("refuses %j", (changed, field) => expect(at.refused(changed)).toContain(field));

  it("is refused for a host that the operator does not list", async () => {
    const url = "https://api.example.com/{{ .Name }}";
    expect(https.checkSettings?.(https.connection.parse({ url }), {})).toContain("SYNC_ALLOWED_HOSTS");
    expect(await at.put({}, { url })).toMatchObject({ outcome: "client", code: "host_not_allowed" });
    expect(await at.probe({ url })).toMatchObject({ outcome: "client", code: "host_not_allowed" });
  });
});
