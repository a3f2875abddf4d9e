import { describe, expect, it } from "vitest";
import { normalise } from "../../associations/naming.ts";
import { deployProject } from "./adapter.ts";

const { connection, naming } = deployProject;
const base = { access_token: "token", project_id: "prj_1", deployment_environments: "production" };
const parse = (changed: Record<string, unknown>) => connection.safeParse({ ...base, ...changed });
const messages = (changed: Record<string, unknown>) =>
  parse(changed).error?.issues.map(({ path, message }) => `${path.join(".")} ${message}`);

describe("the connection", () => {
  it.each<[unknown, string[]]>([
    ["production", ["production"]],
    ["production, development,", ["production", "development"]],
    [
      ["production", "preview", "production"],
      ["production", "preview"],
    ],
    [
      ["production", " development", "preview"],
      ["production", "development", "preview"],
    ],
  ])("parses %j to environments without duplicates in a fixed order", (given, environments) => {
    const { data } = parse({ deployment_environments: given });
    expect(data).toEqual({ ...base, deployment_environments: environments });
    expect(data && deployProject.resolve?.(data).deployment_environments).toEqual([...environments].sort());
  });

  it("accepts numbers as text, drops unknown fields and clears the team with an empty text", () => {
    expect(parse({ access_token: 12_345, team_id: "team_1", other: 1 }).data).toEqual({
      access_token: "12345",
      project_id: "prj_1",
      team_id: "team_1",
      deployment_environments: ["production"],
    });
    expect(parse({ team_id: "" }).data).not.toHaveProperty("team_id");
  });

  const token = "access_token must be 1 to 512 printable characters without spaces";
  const project = "project_id must be the project's id or name: 1 to 100 letters, digits or characters of ._-";
  const environments = "deployment_environments must name one or more of development, preview, production";
  it.each<[Record<string, unknown>, string]>([
    [{ access_token: undefined }, token],
    [{ access_token: "" }, token],
    [{ access_token: "two words" }, token],
    [{ access_token: { a: 1 } }, token],
    [{ project_id: undefined }, project],
    [{ project_id: "a/b" }, project],
    [{ project_id: ".." }, project],
    [{ team_id: "a&b" }, "team_id must be at most 100 letters, digits or characters of _-"],
    [{ team_id: ["a"] }, "team_id must be at most 100 letters, digits or characters of _-"],
    [{ deployment_environments: undefined }, environments],
    [{ deployment_environments: "" }, environments],
    [{ deployment_environments: [] }, environments],
    [{ deployment_environments: ["Production"] }, environments],
    [{ deployment_environments: 3 }, environments],
    [{ deployment_environments: [3] }, environments],
  ])("refuses %j with the rule", (changed, message) => {
    expect(messages(changed)).toEqual([message]);
  });
});

describe("names", () => {
  it.each([
    ["vault/kv_1/app/db-url", "vault_kv_1_app_db_url"],
    ["1password", "_1password"],
    ["Größe", "Gr__e"],
  ])("normalises %s to %s", (name, spelt) => expect(normalise(name, naming)).toBe(spelt));

  it("are at most 256 characters, underscore before a digit included", () => {
    const name = normalise("1".repeat(300), naming);
    expect(name).toMatch(/^_1+[0-9a-f]{8}$/);
    expect(name).toHaveLength(256);
  });

  it("are refused when the provider reserves them", () => {
    expect(naming.refuse?.("TZ")).toBe("TZ is reserved by the provider.");
    expect(naming.refuse?.("AWS_REGION")).toBeNull();
  });
});
