import { describe, expect, it } from "vitest";
import type { Send } from "../../../providers/outcome.ts";
import { normalise } from "../../associations/naming.ts";
import { repoHost } from "./adapter.ts";

const minimal = { access_token: "ghp_1", repository_owner: "acme", repository_name: "web" };
const organization = {
  access_token: "ghp_1",
  secrets_location: "organization",
  organization_name: "acme",
  organization_visibility: "private",
};

describe("connection fields", () => {
  it.each([
    ["the least", minimal, minimal],
    [
      "an id as text, and cleared fields",
      { ...minimal, access_token: "", app_name: "sync-bot", installation_id: "4711", environment_name: "", extra: 1 },
      {
        app_name: "sync-bot",
        installation_id: 4711,
        repository_owner: "acme",
        repository_name: "web",
      },
    ],
    ["an id as a number", { ...minimal, app_name: "b", installation_id: 7 }, { installation_id: 7, app_name: "b" }],
    ["an environment", { ...minimal, environment_name: "eu/früh" }, { environment_name: "eu/früh" }],
    ["an organization", organization, organization],
    [
      "selected repositories as one text, duplicates and all",
      { ...organization, organization_visibility: "selected", selected_repository_names: "web, api,web,," },
      { selected_repository_names: ["web", "api"] },
    ],
    [
      "a server of one's own",
      { ...minimal, enterprise_url: "https://git.example.com/api/v3/" },
      { enterprise_url: "https://git.example.com/api/v3/" },
    ],
    [
      "a server on loopback",
      { ...minimal, enterprise_url: "http://127.0.0.1:8080" },
      { enterprise_url: "http://127.0.0.1:8080" },
    ],
  ])("accept %s", (_what, given, expected) => {
    const parsed = repoHost.connection.parse(given);
    expect(parsed).toMatchObject(expected);
    expect(Object.values(parsed)).not.toContain("");
    expect(parsed).not.toHaveProperty("extra");
    // A merge sends the connection of an earlier read back, so the schema must accept its own output.
    expect(repoHost.connection.parse(parsed)).toEqual(parsed);
  });

  it.each<[string, Record<string, unknown>, string]>([
    ["no credentials", { ...minimal, access_token: "" }, "access_token, or app_name with installation_id, is required"],
    ["half an application", { ...minimal, app_name: "b" }, "must be given together"],
    ["an id with letters", { ...minimal, app_name: "b", installation_id: "x1" }, "positive whole number"],
    ["an id with a fraction", { ...minimal, app_name: "b", installation_id: 1.5 }, "positive whole number"],
    ["no repository", { access_token: "t", repository_owner: "acme" }, "is required unless secrets_location"],
    ["an owner in the name", { ...minimal, repository_name: "acme/web" }, "without the owner"],
    ["a path for a name", { ...minimal, repository_name: ".." }, "must be the name alone"],
    ["a path for an environment", { ...minimal, environment_name: ".." }, "not . or .."],
    ["an unknown location", { ...minimal, secrets_location: "environment" }, "must be repository or organization"],
    ["an organization's field", { ...minimal, organization_name: "acme" }, "only for secrets_location organization"],
    ["a repository's field", { ...organization, environment_name: "e" }, "only for secrets_location repository"],
    ["no visibility", { ...organization, organization_visibility: "" }, "is required when secrets_location"],
    ["a list too many", { ...organization, selected_repository_names: ["web"] }, "and only then"],
    ["no list", { ...organization, organization_visibility: "selected" }, "and only then"],
    ["a token with a space", { ...minimal, access_token: "a b" }, "without spaces"],
    ["http", { ...minimal, enterprise_url: "http://git.example.com" }, "https"],
    ["a path", { ...minimal, enterprise_url: "https://git.example.com/x" }, "nothing but a host"],
    ["credentials in the URL", { ...minimal, enterprise_url: "https://a:b@git.example.com" }, "nothing but a host"],
    ["a list for a text", { ...minimal, access_token: ["x"] }, "must be a text"],
  ])("refuse %s", (_what, given, message) => {
    const { error } = repoHost.connection.safeParse(given);
    expect(error?.issues.map((issue) => issue.message).join("; ")).toContain(message);
  });

  it("default to the repository, and resolve to an origin", () => {
    const parsed = repoHost.connection.parse({ ...minimal, enterprise_url: "https://git.example.com/api/v3/" });
    expect(parsed).not.toHaveProperty("secrets_location");
    const used = {
      ...minimal,
      secrets_location: "repository",
      application: "actions",
      enterprise_url: "https://git.example.com",
    };
    expect(repoHost.resolve?.(parsed)).toEqual(used);
    expect(repoHost.resolve?.(repoHost.connection.parse(organization))).toEqual({
      ...organization,
      application: "actions",
    });
  });

  it("show the application's name nested, too", () => {
    const parsed = repoHost.connection.parse({ ...minimal, app_name: "sync-bot", installation_id: 1 });
    expect(repoHost.appOf?.(parsed)).toBe("sync-bot");
    expect(repoHost.shown?.(parsed)).toEqual({ app_config: { app_name: "sync-bot" } });
    const plain = repoHost.connection.parse(minimal);
    expect([repoHost.appOf?.(plain), repoHost.shown?.(plain)]).toEqual([null, {}]);
  });
});

describe("hosts", () => {
  const check = (url: string | undefined, hosts?: string) => {
    const settings = hosts === undefined ? {} : { SYNC_ALLOWED_HOSTS: hosts };
    const given = url === undefined ? minimal : { ...minimal, enterprise_url: url };
    return repoHost.checkSettings?.(repoHost.connection.parse(given), settings) ?? null;
  };

  it("are allowed when listed by the deployment or part of ghe.com", () => {
    expect(check(undefined)).toBeNull();
    expect(check("https://acme.ghe.com")).toBeNull();
    expect(check("https://git.example.com", "a.example.com, GIT.example.com")).toBeNull();
    expect(check("https://git.example.com", "*.example.com")).toBeNull();
    expect(check("https://git.example.com")).toContain("git.example.com");
    for (const url of [
      "https://evilghe.com",
      "https://ghe.com.evil.test",
      "https://notexample.com",
      "https://example.com",
    ]) {
      expect(check(url, "*.example.com")).toContain("SYNC_ALLOWED_HOSTS");
    }
  });

  it.each([
    [undefined, {}, "https://api.github.com"],
    [undefined, { REPO_HOST_URL: "http://127.0.0.1:1/" }, "http://127.0.0.1:1"],
    ["https://acme.ghe.com", { REPO_HOST_URL: "http://127.0.0.1:1" }, "https://api.acme.ghe.com"],
    ["https://api.acme.ghe.com", {}, "https://api.acme.ghe.com"],
    ["https://git.example.com:8443", { SYNC_ALLOWED_HOSTS: "git.example.com" }, "https://git.example.com:8443/api/v3"],
  ])("for %s with %o are called at %s", async (enterprise_url, settings, base) => {
    const seen: string[] = [];
    const send: Send = async ([url]) => {
      seen.push(url);
      return { ok: true, response: new Response(null, { status: 204 }), text: "" };
    };
    const connection = repoHost.connection.parse({ ...minimal, ...(enterprise_url && { enterprise_url }) });
    const object = { name: "A", reference: null, ownedOnly: false };
    if (repoHost.kind === "remote") await repoHost.remove(object, connection, { settings, send });
    expect(seen).toEqual([`${base}/repos/acme/web/actions/secrets/A`]);
  });
});

describe("names", () => {
  it.each([
    ["VAULT_kv_1_app/db", "VAULT_KV_1_APP_DB"],
    ["1st", "_1ST"],
    ["a-b.c", "A_B_C"],
  ])("normalises %s to %s", (name, spelt) => expect(normalise(name, repoHost.naming)).toBe(spelt));

  it("are case-insensitive, and GITHUB_ is reserved", () => {
    expect(repoHost.naming.collisionKey?.("a")).toBe(repoHost.naming.collisionKey?.("A"));
    expect(repoHost.naming.refuse?.("GITHUB_TOKEN")).toContain("GITHUB_");
    expect(repoHost.naming.refuse?.("MY_GITHUB_TOKEN")).toBeNull();
  });
});
