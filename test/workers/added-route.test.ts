import { createExecutionContext, env } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { helpOn } from "../../src/routes/help.ts";
import { handlerOf } from "../../src/routes/server/handle.ts";
import { RouteTable } from "../../src/routes/server/route.ts";
import { authRoutes, clusterRoutes, mountTable, secretsRoutes } from "../../src/routes/table.ts";
import { greetings } from "../made-up-route/openapi.ts";
import { greetingRoutes } from "../made-up-route/routes.ts";
import { issue, policies } from "./access.ts";
import { examplesOf } from "./examples.ts";

/** The line of `src/routes/table.ts`, and that of `src/openapi/operations/index.ts`. */
const secretsTable = new RouteTable([...secretsRoutes.routes, ...greetingRoutes]);
const described = [greetings];

const tables = { secrets: secretsTable, mounts: mountTable, auth: authRoutes, cluster: clusterRoutes };
const handle = handlerOf({ tables, help: helpOn });

async function greet(body: unknown, token = "root") {
  const headers = { "X-Orch-Token": token };
  const request = new Request("https://x/v1/sys/greetings/en", { method: "POST", headers, body: JSON.stringify(body) });
  const response = await handle(request, env, createExecutionContext());
  return { status: response.status, body: (await response.json()) as { data: unknown; errors?: string[] } };
}

describe("a route that is added with a folder and two lines", () => {
  const [[name, example] = ["", undefined]] = Object.entries(examplesOf(described));

  it("answers, and is described with its example", async () => {
    expect((await greet(example?.body)).body.data).toEqual({ text: "en: hello app" });
    const text = JSON.stringify(openApiDocument(described, [{ routes: greetingRoutes, mount: "" }]).paths);
    expect(text).toContain(`"example":${JSON.stringify(example?.body)}`);
  });

  it("has rows of rights and of bad input by its example", async () => {
    expect([name, example?.right]).toEqual(["POST /v1/sys/greetings/:language", "update"]);
    await policies({ greeter: 'path "sys/greetings/*" { capabilities = ["update"] }' });
    const may = await issue({ policies: ["greeter"] });
    const mayNot = await issue({ policies: ["default"] });
    expect((await greet(example?.body, may.client_token)).status).toBe(200);
    expect((await greet(example?.body, mayNot.client_token)).status).toBe(403);
    const refused = await greet({ ...example?.body, name: 1 });
    expect([refused.status, refused.body.errors?.join()]).toEqual([400, expect.stringContaining("name")]);
  });
});
