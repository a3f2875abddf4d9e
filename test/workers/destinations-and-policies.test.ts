import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import * as z from "zod";
import { NAMESPACE_CAPABILITIES } from "../../src/contracts/cluster-rights.ts";
import { destinationTypes } from "../../src/sync/destinations/index.ts";
import { eventsOf } from "./access.ts";
import { del, get, list, mountKv, send } from "./client.ts";
import { cloudA } from "./sync-cloud-a.ts";
import {
  association,
  cloudABody,
  eventually,
  makeDestination,
  objects,
  removeAssociation,
  setAssociation,
  write,
} from "./sync-helpers.ts";

/** Promises of docs/internals/coverage.md that no other file proves. */

const AT = "/sys/sync/destinations";
const post = (path: string, body: unknown) => send("POST", path, body);

let accessor = "";
beforeEach(async () => {
  await cloudA.begin();
  ({ accessor } = await mountKv());
  await write("app", { a: 1 });
});

const nameOf = (secret: string) => `vault/${accessor}/${secret}`;
const statusOf = async (destination: string, secret = "app") => (await association(destination, secret))?.sync_status;

describe("a destination", () => {
  // Proves: B.cloud-a-sm.write, B.dest.name
  it("is created and updated with POST, and requires the name in its path", async () => {
    const made = await post(`${AT}/cloud-a-sm/d`, cloudABody({ name: "other" }));
    expect([made.status, made.body.data.name]).toEqual([200, "d"]);
    const updated = await post(`${AT}/cloud-a-sm/d`, { secret_name_template: "x/{{ .SecretPath }}" });
    expect(updated.status).toBe(200);
    expect((await get(`${AT}/cloud-a-sm/d`)).body.data).toMatchObject({
      name: "d",
      options: { secret_name_template: "x/{{ .SecretPath }}" },
    });
    for (const nameless of [`${AT}/cloud-a-sm`, `${AT}/cloud-a-sm/`]) {
      expect((await post(nameless, cloudABody({ name: "other" }))).status, nameless).toBe(405);
    }
    expect((await list(`${AT}/cloud-a-sm`)).body.data.keys).toEqual(["d"]);
  });

  // Proves: B.sync.destination-identity
  it("is identified by type and name", async () => {
    for (const [type, name] of [
      ["cloud-a-sm", "d"],
      ["in-mem", "d"],
      ["in-mem", "e"],
    ] as const) {
      await makeDestination(type, name);
    }
    await setAssociation("in-mem/d", "app");
    expect(await statusOf("in-mem/d")).toBe("SYNCED");
    expect([await statusOf("cloud-a-sm/d"), await statusOf("in-mem/e")]).toEqual([undefined, undefined]);
    await del(`${AT}/cloud-a-sm/d`);
    expect((await get(`${AT}/cloud-a-sm/d`)).status).toBe(404);
    for (const other of ["in-mem/d", "in-mem/e"]) expect((await get(`${AT}/${other}`)).status).toBe(200);
  });

  // Proves: B.dest.type-known, E.conv.type-names
  it("requires an existing type in every path with a type", async () => {
    await makeDestination("in-mem", "d");
    const secret = { mount: "kv", secret_name: "app" };
    for (const type of ["cloud-z", "in-mem2", "IN-MEM", "constructor"]) {
      const answers = [
        await get(`${AT}/${type}/d`),
        await post(`${AT}/${type}/d`, {}),
        await del(`${AT}/${type}/d`),
        await get(`${AT}/${type}/d/associations`),
        await post(`${AT}/${type}/d/associations/set`, secret),
        await post(`${AT}/${type}/d/associations/remove`, secret),
        await list(`${AT}/${type}`),
      ];
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
    }
    expect((await list(AT)).body.data.key_info).toEqual({ "in-mem/": ["d"] });
  });

  // Proves: B.cloud-a-sm.secret_name_template, B.dest.secret_name_template.default, E.conv.empty-default
  it("has its type's default template when the template is absent or empty", async () => {
    const template = (answer: Awaited<ReturnType<typeof get>>) => answer.body.data.options.secret_name_template;
    for (const type of ["cloud-a-sm", "in-mem"]) {
      const standard = "vault/{{ .MountAccessor }}/{{ .SecretPath }}";
      expect(template(await makeDestination(type, "omitted"))).toBe(standard);
      const empty = type === "in-mem" ? {} : cloudABody();
      expect(template(await makeDestination(type, "empty", { ...empty, secret_name_template: "" }))).toBe(standard);
      await makeDestination(type, "emptied", { ...empty, secret_name_template: "x/{{ .SecretPath }}" });
      expect(template(await makeDestination(type, "emptied", { secret_name_template: "" }))).toBe(standard);
      await setAssociation(`${type}/emptied`, "app");
      expect((await association(`${type}/emptied`, "app"))?.["external_name"]).toBe(nameOf("app"));
    }
  });

  // Proves: B.cloud-a-sm.custom_tags
  it("of cloud-a-sm adds its tags to the built-in one, accepts a map of texts only, and has none by default", async () => {
    const marker = { "hashicorp:vault": "" };
    const tags = async () => (await cloudA.secrets())[0]?.tags;
    await makeDestination("cloud-a-sm", "d");
    expect((await get(`${AT}/cloud-a-sm/d`)).body.data.options.custom_tags).toEqual({});
    await setAssociation("cloud-a-sm/d", "app");
    expect(await tags()).toEqual(marker);
    await makeDestination("cloud-a-sm", "d", { custom_tags: { team: "pay", stage: "" } });
    await setAssociation("cloud-a-sm/d", "app");
    expect(await tags()).toEqual({ ...marker, team: "pay", stage: "" });
    for (const wrong of [{ team: { a: "b" } }, { team: ["a"] }, 7, true]) {
      const refused = await post(`${AT}/cloud-a-sm/d`, { custom_tags: wrong });
      expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("custom_tags")]);
    }
  });

  // Proves: B.cloud-a-sm.region, E.auth.2.default-chain
  it("of cloud-a-sm requires only fields that the deployment does not set, and the error names them", async () => {
    const bare = await post(`${AT}/cloud-a-sm/d`, {});
    expect([bare.status, bare.body.errors]).toEqual([400, [expect.stringContaining("region")]]);
    const keyless = await post(`${AT}/cloud-a-sm/d`, { region: "eu-west-1" });
    expect([keyless.status, keyless.body.errors]).toEqual([400, [expect.stringContaining("access_key_id")]]);
    expect((await get(`${AT}/cloud-a-sm/d`)).status).toBe(404);
    expect(await cloudA.requests()).toEqual([]);
  });

  // Proves: B.cloud-a-sm.role_arn, B.cloud-a-sm.role_arn.session
  it("of cloud-a-sm acts as its role only, and fails if the role does not trust it", async () => {
    const role = "arn:aws:iam::123456789012:role/sync";
    await makeDestination("cloud-a-sm", "d", cloudABody({ role_arn: role, external_id: crypto.randomUUID() }));
    await setAssociation("cloud-a-sm/d", "app");
    expect(await association("cloud-a-sm/d", "app")).toMatchObject({
      sync_status: "CLIENT_SIDE_ERROR",
      error_code: "permission_denied",
    });
    expect(await cloudA.requests()).toMatchObject([{ operation: "AssumeRole", subject: role, status: 403 }]);
  });

  // Proves: B.cloud-a-sm.external_id.own
  it("of cloud-a-sm has its own external id", async () => {
    const role_arn = "arn:aws:iam::123456789012:role/sync";
    const [one, two] = [crypto.randomUUID(), crypto.randomUUID()];
    await makeDestination("cloud-a-sm", "one", cloudABody({ role_arn, external_id: one }));
    await makeDestination("cloud-a-sm", "two", cloudABody({ role_arn, external_id: two }));
    for (const [name, id] of [
      ["one", one],
      ["two", two],
    ]) {
      expect((await get(`${AT}/cloud-a-sm/${name}`)).body.data.connection_details.external_id).toBe(id);
    }
  });

  // Proves: B.dest.read.obfuscated, E.auth.2.obfuscated
  it.each([...destinationTypes.values()])("of $type masks every field whose name denotes a secret", (type) => {
    const { properties = {} } = z.toJSONSchema(type.connection, { io: "input", unrepresentable: "any" });
    const secret = Object.keys(properties).filter((field) =>
      /(?<!is_)secret(?!s_location|_type)|token(?!_ttl|_type)|credential|password|private|(access|api)_key/.test(field),
    );
    expect(type.sensitive).toEqual(expect.arrayContaining(secret));
    if (type.kind === "remote") expect(secret).not.toEqual([]);
  });

  // Proves: B.state.delete.refused, E.errors.2
  it("with associations is not deleted with purge=false, the default", async () => {
    await makeDestination("cloud-a-sm", "d");
    await setAssociation("cloud-a-sm/d", "app");
    for (const query of ["", "?purge=false"]) {
      const refused = await del(`${AT}/cloud-a-sm/d${query}`);
      expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining("an association")]);
    }
    expect(await statusOf("cloud-a-sm/d")).toBe("SYNCED");
    expect(await cloudA.value(nameOf("app"))).toBe('{"a":1}');
  });
});

describe("an association", () => {
  const at = (what: "set" | "remove", destination = "in-mem/m") => `${AT}/${destination}/associations/${what}`;
  beforeEach(async () => {
    await makeDestination("in-mem", "m");
  });

  // Proves: B.assoc.remove, B.assoc.set
  it("is set and removed with POST", async () => {
    expect((await setAssociation("in-mem/m", "app")).body.data.sync_operation_counters).toEqual({ SYNCED: 1 });
    expect(await objects("m")).toEqual({ [nameOf("app")]: '{"a":1}' });
    expect((await removeAssociation("in-mem/m", "app")).body.data.sync_operation_counters).toEqual({ UNSYNCED: 1 });
    expect(await objects("m")).toEqual({});
    expect(await association("in-mem/m", "app")).toBeUndefined();
  });

  // Proves: B.sync.association-identity
  it("covers one secret: neither its neighbours nor one with the same name in another mount", async () => {
    const other = await mountKv("other");
    await send("POST", "/v1/other/data/app", { data: { a: "other" } });
    await write("app/b", { a: "below" });
    await makeDestination("in-mem", "n");
    await setAssociation("in-mem/m", "app");
    expect(await objects("m")).toEqual({ [nameOf("app")]: '{"a":1}' });
    await setAssociation("in-mem/m", "app", "other");
    const both = { [nameOf("app")]: '{"a":1}', [`vault/${other.accessor}/app`]: '{"a":"other"}' };
    expect(await objects("m")).toEqual(both);
    const { body } = await get(`${AT}/in-mem/m/associations`);
    expect(Object.keys(body.data.associated_secrets).sort()).toEqual(
      [`${accessor}/app`, `${other.accessor}/app`].sort(),
    );
    await removeAssociation("in-mem/m", "app");
    expect(await objects("m")).toEqual({ [`vault/${other.accessor}/app`]: '{"a":"other"}' });
    expect(await objects("n")).toEqual({});
  });

  // Proves: B.assoc.remove.mount-required, B.assoc.remove.secret_name-required, B.assoc.set.mount-required,
  // B.assoc.set.secret_name-required
  it.each(["set", "remove"] as const)("requires mount and secret_name as texts: %s", async (what) => {
    const whole = { mount: "kv", secret_name: "app" };
    await setAssociation("in-mem/m", "app");
    for (const field of ["mount", "secret_name"] as const) {
      for (const wrong of [undefined, null, "", 7, ["kv"]]) {
        const refused = await post(at(what), { ...whole, [field]: wrong });
        expect([refused.status, refused.body.errors[0]]).toEqual([400, expect.stringContaining(field)]);
      }
    }
    expect(await statusOf("in-mem/m")).toBe("SYNCED");
  });

  // Proves: B.state.set.again
  it("set again is the same association with the same remote object", async () => {
    await makeDestination("cloud-a-sm", "d");
    const row = () =>
      runInDurableObject(env.SYNC_DESTINATION.getByName("cloud-a-sm/d"), (_object, { storage: { sql } }) =>
        sql.exec("SELECT a.rowid, id, seed, external_name FROM associations a JOIN copies ON association = id").one(),
      );
    await setAssociation("cloud-a-sm/d", "app");
    const before = await row();
    await setAssociation("cloud-a-sm/d", "app");
    expect(await row()).toEqual(before);
    const { body } = await get(`${AT}/cloud-a-sm/d/associations`);
    expect(Object.keys(body.data.associated_secrets)).toEqual([`${accessor}/app`]);
    const operations = (await cloudA.requests()).map(({ operation }) => operation);
    expect(operations.filter((operation) => /Create|Delete/.test(operation))).toEqual(["CreateSecret"]);
    expect(await cloudA.secrets()).toHaveLength(1);
  });

  // Proves: B.state.set.again.retries
  it("set again retries a failed push", async () => {
    await makeDestination("cloud-a-sm", "d");
    await cloudA.fault({ fault: "error", type: "AccessDeniedException", operation: "CreateSecret" });
    const set = await setAssociation("cloud-a-sm/d", "app");
    expect(set.body.data.sync_operation_counters).toEqual({ CLIENT_SIDE_ERROR: 1 });
    expect(await cloudA.secrets()).toEqual([]);
    await setAssociation("cloud-a-sm/d", "app");
    await eventually(async () => expect(await statusOf("cloud-a-sm/d")).toBe("SYNCED"));
    expect(await cloudA.value(nameOf("app"))).toBe('{"a":1}');
  });
});

describe("the event stream", () => {
  const open = async (topic: string, rules: string) => {
    await send("POST", "/v1/acl/policy/p", { Rules: rules });
    const made = await send("POST", "/v1/acl/token", { Name: "t", Type: "client", Policies: ["p"] });
    // HEAD is answered as GET is, without the stream itself, which would have no end.
    const { status } = await send("HEAD", `/v1/event/stream?topic=${topic}`, undefined, { token: made.body.SecretID });
    return status;
  };
  const others = NAMESPACE_CAPABILITIES.filter((capability) => capability !== "read-job" && capability !== "deny");

  // Proves: E.auth.4.Allocation, E.auth.4.Deployment, E.auth.4.Evaluation, E.auth.4.Job
  it.each(["Job", "Allocation", "Deployment", "Evaluation"])("shows %s to read-job only", async (topic) => {
    expect(await open(topic, 'namespace "default" { capabilities = ["read-job"] }')).toBe(200);
    const rest = `namespace "default" { capabilities = ${JSON.stringify(others)} } node { policy = "write" } operator { policy = "write" }`;
    expect(await open(topic, rest)).toBe(403);
  });

  // Proves: C.event.FilterKeys
  it("has every field of an event, with filter keys as a list of texts or null", async () => {
    const job = {
      Topic: "Job",
      Type: "JobRegistered",
      Key: "web",
      Namespace: "default",
      Payload: { Job: { ID: "web" } },
    };
    const events = [
      { ...job, FilterKeys: ["web", "eval-1"] },
      { ...job, FilterKeys: null },
    ];
    const [Index] = await env.EVENT_LOG.getByName("log").append("promises", [{ seq: 1, events }]);
    expect(await eventsOf("Job:web")).toEqual(events.map((event) => ({ ...event, Index })));
  });
});
