import { exportSPKI } from "jose";
import { expect, it } from "vitest";
import { type Answer, get, put, send } from "./client.ts";
import { CLIENT, newCluster, newIssuer, newProvider, podClaims } from "./issuers.ts";

/** The guides whose commands run here, as the command line client and curl send them. */
const guides = import.meta.glob<string>("../../docs/guides/log-in-*.md", {
  query: "?raw",
  import: "default",
  eager: true,
});
const NOBODY = { token: null };
const CLI = "http://localhost:8250/oidc/callback";

/** The text of a guide without its tour, which the smoke test runs. */
const textOf = (guide: string): string =>
  (guides[`../../docs/guides/${guide}.md`] ?? "").replace(/^## Tour\n.*?(?=^## )/ms, "");

/** The commands of a guide, one line each, with values for what the reader fills in. */
function commandsOf(guide: string, values: Readonly<Record<string, string>>): string[] {
  const text = textOf(guide);
  const blocks = [...text.matchAll(/```console\n(.*?)```/gs)].map(([, block = ""]) => block);
  const lines = blocks.flatMap((block) => block.replaceAll("\\\n", " ").split("\n"));
  const commands = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
  return commands.map((command) =>
    Object.entries(values).reduce((filled, [name, value]) => filled.replaceAll(name, value), command),
  );
}

/** Runs `vault auth enable [-path=PATH] TYPE` and `vault write PATH FIELD=VALUE …`. */
async function vault(command: string): Promise<Answer> {
  const words = [...command.matchAll(/(?:[^\s']|'[^']*')+/g)].map(([word]) => word.replaceAll("'", ""));
  const [, verb, path = "", ...fields] = words;
  if (verb === "auth") {
    const type = fields.at(-1) ?? "";
    return put(`/v1/sys/auth/${/^-path=(.+)$/.exec(fields[0] ?? "")?.[1] ?? type}`, { type });
  }
  expect(verb).toBe("write");
  const body = fields.map((field) => [field.slice(0, field.indexOf("=")), field.slice(field.indexOf("=") + 1)]);
  return put(`/v1/${path}`, Object.fromEntries(body), path.endsWith("/login") ? NOBODY : undefined);
}

/** Runs the `vault` commands of a guide; the answer to the last one. */
async function runAll(commands: readonly string[]): Promise<Answer | null> {
  let last: Answer | null = null;
  for (const command of commands.filter((one) => /^vault (auth|write) /.test(one))) {
    last = await vault(command);
    expect(last.status, `${command}: ${last.text}`).toBeLessThan(300);
  }
  return last;
}

const policiesOf = (answer: Answer | null) => answer?.body?.auth?.policies;

it("the guide for logins by signed tokens yields a token", async () => {
  const issuer = await newIssuer("guide");
  const claims = { sub: "job", aud: "https://sallyport.example", repository: "acme/app", ref: "refs/heads/main" };
  const values = { "https://token.actions.githubusercontent.com": issuer.url, $TOKEN: await issuer.sign(claims) };
  expect(policiesOf(await runAll(commandsOf("log-in-with-jwt", values)))).toEqual(["app-readers", "default"]);
});

it("the guide for logins from Kubernetes yields a token", async () => {
  const cluster = await newCluster("guide", []);
  const values = {
    "@issuer-0.pem": `'${await exportSPKI(cluster.publicKey)}'`,
    $TOKEN: await cluster.sign(podClaims()),
  };
  expect(policiesOf(await runAll(commandsOf("log-in-from-kubernetes", values)))).toEqual(["app-readers", "default"]);
});

it("the guide for logins through Cloudflare Access yields a token, for people and for service tokens", async () => {
  const issuer = await newIssuer("guide-access");
  const guide = "log-in-through-cloudflare-access";
  const values = {
    "https://TEAM.cloudflareaccess.com/cdn-cgi/access/certs": `${issuer.url}/keys`,
    "https://TEAM.cloudflareaccess.com": issuer.url,
  };
  const commands = commandsOf(guide, values);
  await runAll(commands.filter((command) => !command.endsWith("@people.json")));
  expect(commands).toContain("vault write auth/access/role/people @people.json");
  const [people = {}, machines = {}, ...others] = [...textOf(guide).matchAll(/```json\n(.*?)```/gs)].map(
    ([, block = ""]) => JSON.parse(block.replace("AUDIENCE", "tag").replace("CLIENT-ID", "id")),
  );
  expect(others).toEqual([]);
  for (const [role, name, claims] of [
    [people, "people", { email: "ann@example.com", country: "DE" }],
    [machines, "machines", { common_name: "id.access" }],
  ] as const) {
    expect((await put(`/v1/auth/access/role/${name}`, role)).status).toBe(204);
    const headers = { "Cf-Access-Jwt-Assertion": await issuer.sign({ ...claims, sub: "", aud: ["tag"] }) };
    const answer = await put("/v1/auth/access/login", { role: name }, { ...NOBODY, headers });
    expect(policiesOf(answer), answer.text).toEqual(["default", name]);
  }
});

it("the guide for logins of people yields a token, by the command line client and by curl", async () => {
  const provider = await newProvider("guide", [CLI]);
  const commands = commandsOf("log-in-people-with-oidc", {
    "https://login.example": provider.url,
    "oidc_client_secret=-": `oidc_client_secret='${CLIENT.oidc_client_secret}'`,
    "'$NONCE'": "of-this-client",
    $NONCE: "of-this-client",
    $SALLYPORT_ADDR: "",
  });
  await runAll(commands);
  expect(commands).toContain("vault login -method=oidc");
  const [begin = "", complete = "", ...others] = commands.filter((command) => command.startsWith("curl "));
  expect(others).toEqual([]);
  const [, body = "", path = ""] = /-d '(.*)' +(\S+)$/.exec(begin) ?? [];
  const begun = await send("POST", path, body, NOBODY);
  expect(begun.status, begun.text).toBe(200);
  const { code = "", state = "" } = await provider.visit(begun.body.data.auth_url);
  const [, callback = ""] = /"(\S+)"$/.exec(complete) ?? [];
  const answer = await get(callback.replace("$STATE", encodeURIComponent(state)).replace("$CODE", code), NOBODY);
  expect(policiesOf(answer), answer.text).toEqual(["app-readers", "default"]);
});
