import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import bitbucketBody from "../../examples/destinations/bitbucket-variables.json" with { type: "json" };
import databricksBody from "../../examples/destinations/databricks-secret-scope.json" with { type: "json" };
import dopplerBody from "../../examples/destinations/doppler-config.json" with { type: "json" };
import infisicalBody from "../../examples/destinations/infisical-environment.json" with { type: "json" };
import type { Granularity } from "../../src/contracts/sync-tasks.ts";
import { checkTemplate, normalise, render, type TemplateFields } from "../../src/sync/associations/naming.ts";
import { https } from "../../src/sync/destinations/https/adapter.ts";
import { MARKER_TEXT } from "../../src/sync/destinations/variables.ts";
import type { AccountDouble } from "../doubles/http-double.ts";
import { WorkedAccount } from "../doubles/https/worked/account.ts";
import * as bitbucket from "../doubles/https/worked/bitbucket.ts";
import * as databricks from "../doubles/https/worked/databricks.ts";
import * as doppler from "../doubles/https/worked/doppler.ts";
import * as infisical from "../doubles/https/worked/infisical.ts";
import { driverOf } from "../support/adapter-driver.ts";
import { judgeExchanges, type PublishedApi } from "../support/published-api.ts";

// The worked examples of docs/guides/sync.md: each request body of examples/destinations against a strict double of its
// API, whose exchanges are valid by the API's published facts.

interface Example {
  readonly name: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly start: () => Promise<AccountDouble<WorkedAccount>>;
  readonly published: PublishedApi;
  /** The state of an object that another hand has written. */
  readonly drift: "changed" | "present";
  readonly isMarked: boolean;
  /** The name of a place that the credentials may not see. */
  readonly elsewhere: (text: string) => string;
}

const examples: readonly Example[] = [
  {
    name: "Bitbucket",
    body: bitbucketBody,
    start: bitbucket.startDouble,
    published: bitbucket.published,
    drift: "present",
    isMarked: false,
    elsewhere: (text) => text.replace("/acme/web/", "/acme/other/"),
  },
  {
    name: "Databricks",
    body: databricksBody,
    start: databricks.startDouble,
    published: databricks.published,
    drift: "changed",
    isMarked: false,
    elsewhere: (text) => text.replace('"prod"', '"other"').replace("scope=prod", "scope=other"),
  },
  {
    name: "Doppler",
    body: dopplerBody,
    start: doppler.startDouble,
    published: doppler.published,
    drift: "changed",
    isMarked: false,
    elsewhere: (text) => text.replace('"prd"', '"other"').replace("config=prd", "config=other"),
  },
  {
    name: "Infisical",
    body: infisicalBody,
    start: infisical.startDouble,
    published: infisical.published,
    drift: "changed",
    isMarked: true,
    elsewhere: (text) => text.replace("PROJECT", "OTHER"),
  },
];

const NAME = "APP_PASSWORD";
const type = { ...https, description: { ...https.description, sampleName: NAME, settings: [] } };

describe.each(examples)("$name", ({ body, start, published, drift, isMarked, elsewhere }) => {
  let double: AccountDouble<WorkedAccount>;
  let account = new WorkedAccount();
  let judge: ReturnType<typeof judgeExchanges>;
  beforeAll(async () => {
    double = await start();
    judge = judgeExchanges(published);
  });
  afterAll(async () => {
    judge.stop();
    await double.close();
  });
  beforeEach(() => {
    account = double.open();
  });

  const own = ["granularity", "secret_name_template"];
  const texts = (change = (text: string) => text) =>
    Object.fromEntries(
      Object.entries(body)
        .filter(([field]) => !own.includes(field))
        .map(([field, value]) => {
          const text = String(value).replace(/^https:\/\/[^/]+/, double.url);
          return [field, change(text)];
        }),
    );
  const authorized = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
  const at = driverOf(
    type,
    () => double,
    () => ({ ...texts(), ...authorized(account.token) }),
  );
  const stored = () => account.objects.get(NAME)?.value;
  const referenceOf = (put: Awaited<ReturnType<typeof at.put>>) =>
    put.outcome === "ok" ? (put.reference ?? null) : null;

  it("is a valid create body, whose template yields names that the API accepts", () => {
    const { granularity, secret_name_template: template, ...connection } = body;
    expect(https.connection.safeParse(connection).error).toBeUndefined();
    const checked = checkTemplate(String(template), granularity as Granularity);
    if (!checked.ok) throw new Error(checked.message);
    expect(checked.warning).toBeNull();
    const fields = { SecretPath: "app/data-base", SecretKey: "password" } as TemplateFields;
    const name = normalise(render(checked.template, fields), https.naming);
    expect(name).toMatch(/^(APP_DATA_BASE_PASSWORD|app\.data-base\.password)$/);
  });

  it("creates, changes and removes an object by exchanges that the API documents", async () => {
    for (const other of ["A", "B", "C"]) account.write(other, "theirs");
    const put = await at.put({ value: "one" });
    expect(put).toMatchObject({ outcome: "ok" });
    expect(stored()).toBe("one");
    const { id } = account.objects.get(NAME) ?? {};
    const changed = await at.put({ value: "two", knownToExist: true, reference: referenceOf(put) });
    expect(changed).toMatchObject({ outcome: "ok" });
    expect([stored(), account.objects.get(NAME)?.id]).toEqual(["two", id]);
    expect(await at.probe()).toEqual({ outcome: "ok" });
    expect(await at.remove({}, { reference: referenceOf(changed) ?? "" })).toEqual({ outcome: "ok" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect([...account.objects.keys()]).toEqual(["A", "B", "C"]);
    expect(judge.faults).toEqual([]);
  });

  it("has one object after a creation whose answer is lost, and after a removal by another hand", async () => {
    account.fail("lost", 1);
    expect(await at.put({ value: "one" })).toMatchObject({ outcome: "unknown" });
    expect(await at.put({ value: "one", unsureSince: 1 })).toMatchObject({ outcome: "ok" });
    expect([...account.objects.keys()]).toEqual([NAME]);
    account.objects.clear();
    expect(await at.put({ value: "two", knownToExist: true })).toMatchObject({ outcome: "ok" });
    expect(stored()).toBe("two");
  });

  it("leaves a foreign object by its policy, and takes it over by replace", async () => {
    account.write(NAME, "theirs");
    expect(await at.put({ updatePolicy: "owned-only" })).toMatchObject({ code: "not_owned" });
    expect(await at.put({ updatePolicy: "if-not-exists" })).toMatchObject({ outcome: "ok", left: true });
    expect(await at.remove({}, { ownedOnly: true })).toEqual({ outcome: "ok" });
    expect(stored()).toBe("theirs");
    expect(await at.inspect(null)).toMatchObject({ state: "present", owned: isMarked ? false : null });
    expect(await at.put({ value: "ours" })).toMatchObject({ outcome: "ok" });
    expect(stored()).toBe("ours");
    expect(await at.inspect(null)).toMatchObject({ state: "present", owned: isMarked ? true : null });
    if (isMarked) expect(account.objects.get(NAME)?.comment).toBe(MARKER_TEXT);
    expect(await at.remove({}, { ownedOnly: true, reference: "any" })).toEqual({ outcome: "ok" });
    expect(account.objects.size).toBe(0);
  });

  it("creates and changes by owned-only, also after a lost answer", async () => {
    account.fail("lost", 1);
    const put = await at.put({ value: "one", updatePolicy: "owned-only" });
    const again =
      put.outcome === "ok" ? put : await at.put({ value: "one", updatePolicy: "owned-only", unsureSince: 1 });
    expect(again).toMatchObject({ outcome: "ok" });
    const known = { knownToExist: true, reference: referenceOf(again), updatePolicy: "owned-only" } as const;
    expect(await at.put({ value: "two", ...known })).toMatchObject({ outcome: "ok" });
    expect([stored(), account.objects.size]).toEqual(["two", 1]);
  });

  it("changes nothing with a wrong key or in another place, and waits when it is throttled", async () => {
    expect(await at.put({}, authorized("wrong"))).toMatchObject({ outcome: "client", code: "auth_failed" });
    expect(await at.probe(authorized("wrong"))).toMatchObject({ outcome: "client", code: "auth_failed" });
    const other = texts(elsewhere);
    for (const done of [at.put({}, other), at.probe(other), at.remove(other), at.inspect(null, other)]) {
      expect(await done).toMatchObject({ outcome: "client", code: "not_found" });
    }
    account.fail("throttled", 1);
    expect(await at.put()).toMatchObject({ outcome: "external", code: "throttled", retryAfterMs: 1000 });
    expect(account.objects.size).toBe(0);
    expect(judge.faults).toEqual([]);
  });

  it(`shows another hand's write as ${drift}, and its removal as absent`, async () => {
    const reference = referenceOf(await at.put({ value: "one" }));
    expect(await at.inspect(reference, {}, "one")).toMatchObject({
      state: drift === "present" ? "present" : "unchanged",
    });
    account.write(NAME, "theirs", MARKER_TEXT);
    expect(await at.inspect(reference, {}, "one")).toMatchObject({ state: drift });
    account.objects.clear();
    expect(await at.inspect(reference, {}, "one")).toMatchObject({ state: "absent" });
  });

  it("shows no value in an outcome, a reference or a message", async () => {
    const value = "canary-1f7e";
    const outcomes = [await at.put({ value }), await at.inspect("any", {}, value)];
    account.fail("forbidden", 1);
    outcomes.push((await at.put({ value, knownToExist: true })) as never);
    expect(JSON.stringify(outcomes)).not.toContain(value);
  });
});

describe("Infisical under a policy of approvals", () => {
  it("is refused, for writes and removals", async () => {
    const double = await infisical.startDouble();
    const account = double.open();
    const at = driverOf(
      type,
      () => double,
      () => ({
        ...JSON.parse(JSON.stringify(infisicalBody).replaceAll("https://app.infisical.com", double.url)),
        headers: { authorization: `Bearer ${account.token}` },
      }),
    );
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    account.asksForApproval = true;
    expect(await at.put({ value: "two", knownToExist: true })).toMatchObject({ outcome: "client", code: "refused" });
    expect(await at.remove()).toMatchObject({ outcome: "client", code: "refused" });
    expect(account.objects.size).toBe(1);
    await double.close();
  });
});
