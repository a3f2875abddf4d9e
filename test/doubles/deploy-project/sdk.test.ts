import { VercelCore } from "@vercel/sdk/core.js";
import { projectsCreateProjectEnv } from "@vercel/sdk/funcs/projectsCreateProjectEnv.js";
import { projectsEditProjectEnv } from "@vercel/sdk/funcs/projectsEditProjectEnv.js";
import { projectsFilterProjectEnvs } from "@vercel/sdk/funcs/projectsFilterProjectEnvs.js";
import { projectsGetProject } from "@vercel/sdk/funcs/projectsGetProject.js";
import { projectsGetProjectEnv } from "@vercel/sdk/funcs/projectsGetProjectEnv.js";
import { projectsRemoveProjectEnv } from "@vercel/sdk/funcs/projectsRemoveProjectEnv.js";
import {
  type CreateProjectEnv11,
  type CreateProjectEnv21,
  CreateProjectEnvResponseBody$inboundSchema as createAnswer,
  CreateProjectEnvRequestBody$outboundSchema as createBody,
} from "@vercel/sdk/models/createprojectenvop.js";
import {
  EditProjectEnvResponseBody$inboundSchema as editAnswer,
  EditProjectEnvRequestBody$outboundSchema as editBody,
} from "@vercel/sdk/models/editprojectenvop.js";
import { FilterProjectEnvsResponseBody$inboundSchema as listAnswer } from "@vercel/sdk/models/filterprojectenvsop.js";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Send } from "../../../src/providers/outcome.ts";
import { type DeployProjectDouble, startDeployProject } from "./api.ts";
import { Fixture, referenceOf, value } from "./fixture.ts";

// The vendor's own client accepts the double's answers, and its schemas accept our adapter's requests: so neither the
// double nor the adapter is only our own misreading of the protocol.

let double: DeployProjectDouble;
let at: Fixture;
let client: VercelCore;

beforeAll(async () => {
  double = await startDeployProject();
});
afterAll(() => double.close());
beforeEach(() => {
  at = new Fixture(double);
  client = new VercelCore({ serverURL: double.url, bearerToken: at.account.accessToken });
});

const project = () => ({ idOrName: at.account.teamProjectId, teamId: at.account.teamId });
const variable: CreateProjectEnv11 & CreateProjectEnv21 = {
  key: "K",
  value: "V",
  type: "sensitive",
  target: ["production"],
  comment: "c",
};

describe("the vendor's client with the double", () => {
  it("creates, updates, reads and deletes a variable", async () => {
    const created = await projectsCreateProjectEnv(client, { ...project(), upsert: "true", requestBody: [variable] });
    expect(created.value).toMatchObject({ created: [{ key: "K", target: ["production"] }], failed: [] });
    const [{ id } = { id: "" }] = at.secrets();
    const edited = await projectsEditProjectEnv(client, { ...project(), id, requestBody: { value: "2" } });
    expect(edited.value).toMatchObject({ id, key: "K", type: "sensitive" });
    const read = await projectsGetProjectEnv(client, { ...project(), id });
    expect(read.value).toMatchObject({ id, key: "K" });
    const removed = await projectsRemoveProjectEnv(client, { ...project(), id });
    expect(removed.value).toMatchObject({ id });
    expect(at.secrets()).toEqual([]);
  });

  it("reads a variable that was created alone, and failures within a batch", async () => {
    const requestBody: CreateProjectEnv11 = { ...variable, type: "encrypted" };
    const alone = await projectsCreateProjectEnv(client, { ...project(), requestBody });
    expect(alone.value).toMatchObject({ created: { key: "K", type: "encrypted" }, failed: [] });
    const both = await projectsCreateProjectEnv(client, {
      ...project(),
      requestBody: [variable, { ...variable, key: "L" }],
    });
    expect(both.value).toMatchObject({ created: [{ key: "L" }], failed: [{ error: { code: "ENV_CONFLICT" } }] });
  });

  it.each([{}, { pageSize: 1 }])("reads the list of an account with %j", async (options) => {
    at = new Fixture(double, options);
    client = new VercelCore({ serverURL: double.url, bearerToken: at.account.accessToken });
    at.human({ key: "A", target: ["production"], type: "plain" });
    at.human({ key: "B", target: ["preview"], gitBranch: "main" });
    const listed = await projectsFilterProjectEnvs(client, { idOrName: at.account.projectId });
    expect(listed.ok).toBe(true);
    expect(listed.value).toMatchObject({ envs: expect.arrayContaining([expect.objectContaining({ key: "B" })]) });
  });

  it("reads the project", async () => {
    const read = await projectsGetProject(client, project());
    expect(read.value).toMatchObject({ id: at.account.teamProjectId, accountId: at.account.teamId });
  });

  it("parses errors", async () => {
    const missing = await projectsEditProjectEnv(client, { ...project(), id: "none", requestBody: { value: "2" } });
    expect(missing.error).toMatchObject({ statusCode: 404 });
    const stranger = new VercelCore({ serverURL: double.url, bearerToken: "wrong" });
    expect((await projectsFilterProjectEnvs(stranger, project())).error).toMatchObject({ statusCode: 403 });
  });
});

describe("our adapter's traffic against the vendor's schemas", () => {
  /** Everything that goes out and comes back. */
  function recorder(through: Send) {
    const seen: { method: string; url: URL; headers: Record<string, string>; sent: unknown; answered: unknown }[] = [];
    const send: Send = async (request) => {
      const answer = await through(request);
      const [url, { method = "", headers, body }] = request;
      seen.push({
        method,
        url: new URL(url),
        headers: headers as Record<string, string>,
        sent: typeof body === "string" ? JSON.parse(body) : null,
        answered: answer.ok ? JSON.parse(answer.text) : null,
      });
      return answer;
    };
    return { seen, send };
  }

  it("every request and response body matches the vendor's models", async () => {
    const context = at.context();
    const { seen, send } = recorder(context.send);
    const recorded = { ...context, send };
    const reference = referenceOf(await at.put({}, at.connection("preview", "production"), recorded));
    at.human({ key: "DB", target: ["development"] });
    await at.put({ reference }, at.connection("development", "production"), recorded);
    const models = { POST: [createBody, createAnswer], PATCH: [editBody, editAnswer] } as const;
    for (const { method, sent, answered } of seen) {
      if (method === "GET") expect(listAnswer.safeParse(answered).error).toBeUndefined();
      if (method !== "POST" && method !== "PATCH") continue;
      const [body, answer] = models[method];
      // The schema rejects fields that the API does not have.
      expect(body.parse(sent)).toEqual(sent);
      if (!isError(answered)) expect(answer.safeParse(answered).error).toBeUndefined();
    }
    expect(seen.map(({ method }) => method)).toEqual(["GET", "POST", "PATCH", "GET", "PATCH", "DELETE", "PATCH"]);
  });

  it("requests equal those of the vendor's client", async () => {
    const context = at.context();
    const { seen, send } = recorder(context.send);
    const to = { ...at.connection(), project_id: at.account.teamProjectId, team_id: at.account.teamId };
    const reference = referenceOf(await at.put({}, to, { ...context, send }));
    await at.put({ reference }, to, { ...context, send });
    const [{ id } = { id: "" }] = at.secrets();
    const [list, create, edit] = seen;
    const path = `/projects/${to.project_id}/env`;
    const team = `?teamId=${to.team_id}`;
    expect(list?.url.href).toBe(`${double.url}/v10${path}${team}`);
    expect(create?.url.href).toBe(`${double.url}/v10${path}${team}&upsert=true`);
    expect(edit?.url.href).toBe(`${double.url}/v9${path}/${id}${team}`);
    expect([list?.method, create?.method, edit?.method]).toEqual(["GET", "POST", "PATCH"]);
    const authorization = `Bearer ${to.access_token}`;
    expect(list?.headers).toEqual({ accept: "application/json", authorization });
    const withBody = { "content-type": "application/json", accept: "application/json", authorization };
    expect(create?.headers).toEqual(withBody);
    expect(edit?.headers).toEqual(withBody);
    expect(Object.keys(create?.sent as object)).toEqual(["key", "value", "type", "target", "comment"]);
    expect(create?.sent).toMatchObject({ key: "DB", value, type: "encrypted", target: ["production"] });
  });
});

const isError = (answer: unknown) => typeof answer === "object" && answer !== null && "error" in answer;
