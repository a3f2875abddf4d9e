import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { cloudCSm } from "./adapter.ts";

const pkcs8 = (bits: number) =>
  generateKeyPairSync("rsa", { modulusLength: bits }).privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const key = {
  type: "service_account",
  project_id: "acme-prod",
  private_key_id: "0123456789abcdef",
  private_key: pem,
  client_email: "sync@acme-prod.iam.gserviceaccount.com",
  token_uri: "https://oauth2.googleapis.com/token",
};

const parse = (given: unknown) => cloudCSm.connection.safeParse(given);
function parsed(given: unknown) {
  const { success, data, error } = parse(given);
  if (!success) throw new Error(error.message);
  return data;
}
const mistakes = (given: unknown): string =>
  parse(given)
    .error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`)
    .join("; ") ?? "";

describe("connection", () => {
  it("accepts the key file as text or object, and its own output", () => {
    expect(parsed({ credentials: JSON.stringify(key) })).toEqual({ credentials: key });
    expect(parsed({ credentials: key })).toEqual({ credentials: key });
    expect(parsed(parsed({ credentials: key, project_id: "acme-test" }))).toEqual({
      credentials: key,
      project_id: "acme-test",
    });
  });

  it("drops other fields of the key file", () => {
    expect(parsed({ credentials: { ...key, client_id: "1", universe_domain: "googleapis.com" } })).toEqual({
      credentials: key,
    });
  });

  it("accepts a private key with line breaks as backslash and n, or as CR LF", () => {
    for (const breaks of ["\\n", "\r\n"]) {
      const credentials = { ...key, private_key: pem.replaceAll("\n", breaks) };
      expect(parsed({ credentials })).toEqual({ credentials: key });
    }
  });

  it("defaults to Google's token endpoint and accepts a missing key id", () => {
    const { token_uri: _uri, private_key_id: _id, ...rest } = key;
    const { private_key_id: _, ...expected } = key;
    expect(parsed({ credentials: rest })).toEqual({ credentials: expected });
  });

  it.each(["acme-prod", "a12345", "123456789012", 123456789012, "example.com:acme-prod"])(
    "accepts the project %s",
    (project_id) => {
      expect(parsed({ credentials: key, project_id })).toMatchObject({ project_id: String(project_id) });
    },
  );

  it.each([
    "acme",
    "Acme-prod",
    "acme-prod-",
    "1acme-prod",
    "acme/prod",
    "a".repeat(31),
    "example.com:",
    "a b c d e f",
  ])("refuses the project %s and names the rule", (project_id) => {
    expect(mistakes({ credentials: key, project_id })).toMatch(/^project_id: must be a project id \(6 to 30/);
  });

  it("clears project_id with an empty text, and requires a project", () => {
    expect(parsed({ credentials: key, project_id: "" })).toEqual({ credentials: key });
    const { project_id: _, ...without } = key;
    expect(mistakes({ credentials: without })).toBe(
      "project_id: is required, because the key in credentials does not name its project",
    );
    expect(parsed({ credentials: without, project_id: "acme-prod" })).toMatchObject({ project_id: "acme-prod" });
  });

  it.each<[string, unknown, RegExp]>([
    ["nothing", undefined, /^credentials: is required/],
    ["an empty text", "", /^credentials: is required/],
    ["a file path", "@/home/me/key.json", /^credentials: begins with @: send the content of the file/],
    ["text that is not JSON", "hunter2{", /^credentials: must be the JSON content/],
    ["a list", [key], /^credentials: must be the JSON content/],
    [
      "a workload identity file",
      { type: "external_account", token_url: "https://evil.example" },
      /external_account is not supported$/,
    ],
    [
      "another type",
      { ...key, type: "hunter2" },
      /^credentials: must be the key of a service account \(type service_account\)$/,
    ],
    [
      "no e-mail address",
      { ...key, client_email: "hunter2" },
      /client_email must be the service account's e-mail address/,
    ],
    ["no private key", { ...key, private_key: undefined }, /private_key must be a text/],
    ["a private key in PKCS#1", { ...key, private_key: privateKey.export({ type: "pkcs1", format: "pem" }) }, /PKCS#8/],
    ["a damaged private key", { ...key, private_key: pem.replace(/\n.{20}/, "\n") }, /PKCS#8/],
    ["a private key of 1024 bits", { ...key, private_key: pkcs8(1024) }, /at least 2048 bits/],
    [
      "a key of the wrong type",
      { ...key, private_key: generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }) },
      /RSA/,
    ],
    ["a token_uri that is not a URL", { ...key, token_uri: "hunter2" }, /token_uri must be a URL/],
    ["a bad project in the key", { ...key, project_id: "hunter2!" }, /project_id in the key must be a project id/],
  ])("refuses %s without quoting it", (_what, credentials, message) => {
    expect(mistakes({ credentials })).toMatch(message);
    expect(mistakes({ credentials })).not.toMatch(/hunter2|evil|BEGIN PRIVATE KEY-/);
  });
});

describe("checkSettings", () => {
  const check = (token_uri: string, settings = {}) =>
    cloudCSm.checkSettings?.(parsed({ credentials: { ...key, token_uri } }), settings) ?? null;

  it.each(["https://oauth2.googleapis.com/token", "https://accounts.google.com/o/oauth2/token"])("allows %s", (uri) => {
    expect(check(uri)).toBeNull();
  });

  it.each([
    "http://oauth2.googleapis.com/token",
    "https://oauth2.googleapis.com:8443/token",
    "https://oauth2.googleapis.com.evil.example/token",
    "https://evil.example/oauth2.googleapis.com",
    "http://127.0.0.1/token",
  ])("refuses %s unless the deployment names the token endpoint", (uri) => {
    expect(check(uri)).toMatch(/^credentials: token_uri must be an https address of oauth2\.googleapis\.com/);
    expect(check(uri, { CLOUD_C_TOKEN_URL: "http://127.0.0.1:1/token" })).toBeNull();
  });
});

describe("checkChange", () => {
  const change = (before: object, after: object) => cloudCSm.checkChange?.(parsed(before), parsed(after)) ?? null;
  const other = { ...key, project_id: "other-project" };

  it("accepts a new key for the same project", () => {
    expect(change({ credentials: key }, { credentials: { ...key, client_email: "b@c.example" } })).toBeNull();
    expect(change({ credentials: key }, { credentials: other, project_id: "acme-prod" })).toBeNull();
  });

  it.each<[string, object, object]>([
    ["the field", { credentials: key }, { credentials: key, project_id: "other-project" }],
    ["a cleared field", { credentials: key, project_id: "other-project" }, { credentials: key }],
    ["a new key", { credentials: key }, { credentials: other }],
  ])("refuses another project by %s", (_how, before, after) => {
    expect(change(before, after)).toMatch(/^field "project_id" cannot be updated: the project must stay /);
  });
});

describe("checkTags", () => {
  const check = (tags: Record<string, string>) => cloudCSm.checkTags?.({ ...tags, "hashicorp:vault": "" }) ?? null;

  it("accepts tags that can be converted to labels", () => {
    expect(
      check({ Team: "Payments & Co", "a.b/c": "", größe: "Ü", [`k${"x".repeat(62)}`]: "v".repeat(63) }),
    ).toBeNull();
  });

  it.each<[string, Record<string, string>, RegExp]>([
    ["an empty key", { "": "x" }, /must begin with a letter/],
    ["a key that begins with a digit", { "1st": "x" }, /the key "1st" must begin with a letter/],
    ["a key of 64 characters", { [`k${"x".repeat(63)}`]: "" }, /at most 63 characters/],
    ["a value of 64 characters", { k: "v".repeat(64) }, /the value of "k" must be at most 63 characters/],
    ["a value of 129 bytes", { k: "字".repeat(43) }, /128 bytes/],
    ["two keys that become one label", { "a.b": "1", "A-B": "2" }, /"a\.b" and "A-B" would be the same label a-b/],
    ["a key that becomes the marker", { "hashicorp-vault": "no" }, /the same label hashicorp-vault/],
    [
      "65 tags with the marker",
      Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`k${at}`, ""])),
      /at most 64/,
    ],
  ])("refuses %s", (_what, tags, message) => {
    expect(check(tags)).toMatch(message);
  });
});
