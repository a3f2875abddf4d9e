import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { sender } from "../../src/providers/outcome.ts";
import { MARKER, pipelineVariables } from "../../src/sync/destinations/pipeline-variables/adapter.ts";
import { type SharedCloudB, startSharedCloudB } from "../doubles/cloud-b-kv/shared.ts";
import { PipelineAccount, type PipelineDouble, startPipelineVariables } from "../doubles/pipeline-variables/server.ts";
import { bodyOf } from "../doubles/pipeline-variables/stand-in.ts";
import { objectOf } from "../support/adapter-calls.ts";
import { driverOf } from "../support/adapter-driver.ts";

/** Beyond the contract of every adapter (destination-contract.test.ts). */

let cloudB: SharedCloudB;
let double: PipelineDouble;
let account = new PipelineAccount();

beforeAll(async () => {
  cloudB = await startSharedCloudB();
  double = await startPipelineVariables((token) => cloudB.double.verify(token));
});
afterAll(() => Promise.all([double.close(), cloudB.double.close()]));
beforeEach(() => {
  account = double.open();
});

const at = driverOf(
  pipelineVariables,
  () => double,
  () => bodyOf(account),
  () => ({ CLOUD_B_LOGIN_URL: cloudB.double.url }),
);
const held = (name: string) => account.variables.get(name)?.value;
const context = () => ({ settings: { PIPELINE_VARIABLES_URL: double.url }, send: sender({ deadlineMs: 5000 }) });
const connection = () => pipelineVariables.connection.parse(bodyOf(account));

describe("a write of the group", () => {
  it("keeps the variables of others with their values and flags, and its description", async () => {
    account.variables.set("TOKEN", { value: "theirs", isSecret: true, isReadOnly: true });
    account.description = "By hand";
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(Object.fromEntries(account.variables)).toEqual({
      REGION: { value: "eu" },
      TOKEN: { value: "theirs", isSecret: true, isReadOnly: true },
    });
    expect(account.description).toBe("By hand");
  });

  it("is one for many variables, which the marker names", async () => {
    const objects = ["A", "B", "C"].map((name) => objectOf(name));
    await pipelineVariables.batch?.putMany(objects, connection(), context());
    expect(account.writes).toBe(1);
    expect(account.variables.get(MARKER)).toEqual({ value: "A,B,C" });
    const gone = ["A", "B"].map((name) => ({ name, reference: "written", ownedOnly: true }));
    await pipelineVariables.batch?.removeMany(gone, connection(), context());
    expect([account.writes, held(MARKER), [...account.variables.keys()].sort()]).toEqual([
      2,
      "C",
      ["C", "REGION", MARKER],
    ]);
  });

  it("leaves the marker in a group that would be empty, which the provider refuses", async () => {
    account.variables.clear();
    account.variables.set(MARKER, { value: "-" });
    await at.put();
    expect(await at.remove()).toEqual({ outcome: "ok" });
    expect(Object.fromEntries(account.variables)).toEqual({ [MARKER]: { value: "-" } });
  });

  it("replaces a variable whose name differs by case, and is not owned before", async () => {
    account.variables.set(at.name.toLowerCase(), { value: "theirs", isSecret: true });
    expect(await at.put({ updatePolicy: "owned-only" })).toMatchObject({ code: "not_owned" });
    expect(await at.put()).toMatchObject({ outcome: "ok" });
    expect([...account.variables.keys()].filter((name) => name.toUpperCase() === at.name)).toEqual([at.name]);
  });

  it("that another writer undoes is repeated", async () => {
    const before = account.variables;
    account.onWritten = () => {
      account.variables = before;
      account.touch();
      account.onWritten = () => undefined;
    };
    expect(await at.put()).toMatchObject({ outcome: "external", code: "conflict" });
    expect(await at.put({ unsureSince: 1 })).toMatchObject({ outcome: "ok" });
    expect(held(at.name)).toBe("hunter2-hunter2");
  });

  it("that another writer follows is not", async () => {
    account.onWritten = () => {
      account.variables.set("NEXT", { value: "theirs" });
      account.touch();
    };
    expect(await at.put()).toMatchObject({ outcome: "ok" });
  });

  it("is refused for a group that is linked to a key vault", async () => {
    account.isLinked = true;
    expect(await at.put()).toMatchObject({ outcome: "client", code: "not_writable" });
    expect(account.writes).toBe(0);
  });
});

describe("a push of unknown outcome under owned-only", () => {
  it("is recognised by the marker, although its value cannot be read", async () => {
    account.fail("lost", 2);
    expect(await at.put({ updatePolicy: "owned-only" })).toMatchObject({ outcome: "unknown" });
    expect(await at.put({ updatePolicy: "owned-only", unsureSince: 1 })).toMatchObject({ outcome: "ok" });
    expect(await at.inspect("written")).toEqual({ outcome: "ok", state: "present", owned: true });
  });
});

describe("a login", () => {
  const application = (secret?: string) => {
    const { tenant_id, client_id, client_secret } = cloudB.double.account;
    account.application = client_id;
    return { access_token: "", tenant_id, client_id, client_secret: secret ?? client_secret };
  };

  it("by an application has the audience of Azure DevOps", async () => {
    expect(await at.put({}, application())).toMatchObject({ outcome: "ok" });
    expect(await at.probe(application("wrong"))).toMatchObject({ outcome: "client", code: "auth_failed" });
    account.application = "another";
    expect(await at.probe({ ...application(), client_id: "another" })).toMatchObject({ outcome: "client" });
  });

  it("that is answered with a page to sign in is refused", async () => {
    const send = sender({ deadlineMs: 5000 });
    const withoutHeader: typeof send = ([url, init]) => {
      const headers = new Headers(init.headers);
      headers.delete("x-tfs-fedauthredirect");
      return send([url, { ...init, headers }]);
    };
    const wrong = pipelineVariables.connection.parse({ ...bodyOf(account), access_token: "wrong" });
    expect(await pipelineVariables.probe(wrong, { ...context(), send: withoutHeader })).toMatchObject({
      outcome: "client",
      code: "auth_failed",
    });
  });

  it.each([
    [{ access_token: "" }, ["access_token"]],
    [{ tenant_id: "t" }, ["tenant_id"]],
    [{ access_token: "", tenant_id: "t" }, ["client_id", "client_secret"]],
    [
      { access_token: "", tenant_id: "t", client_id: "c", client_secret: "s", identity_token_audience: "a" },
      ["identity_token_audience"],
    ],
    [{ variable_group_id: "prod" }, ["variable_group_id"]],
    [{ organization: "a/b" }, ["organization"]],
  ])("refuses the fields %j", (changed, fields) => {
    expect(at.refused(changed)).toEqual(fields);
  });
});
