import { afterEach, expect, it, vi } from "vitest";
import { arrange, CANARY, cases, leastBody } from "./bad-input.ts";
import { get, mountKv, put } from "./client.ts";
import { clock } from "./clock.ts";
import { deployment } from "./deployment.ts";
import { creds, mountEngine, openTenant, writeRole } from "./engine-helpers.ts";
import { examples } from "./examples.ts";
import { eventually, makeDestination, setAssociation } from "./sync-helpers.ts";

clock.moves = true;

afterEach(() => void vi.useRealTimers());

/** Everything that is printed, and everything that a sink is given. */
function everything(): { readonly texts: string[]; readonly bucket: R2Bucket } {
  const texts: string[] = [];
  for (const method of ["log", "info", "warn", "error", "debug"] as const) {
    vi.spyOn(console, method).mockImplementation((...words: unknown[]) => void texts.push(words.map(String).join(" ")));
  }
  const bucket = { put: async (_key: string, text: string) => void texts.push(text) };
  return { texts, bucket: bucket as unknown as R2Bucket };
}

const AT_ONCE = 25;

/** Headers with canary secrets: clients may send secrets anywhere but in the path. */
const headers = {
  "X-Orch-CSI-Secrets": `password=${CANARY}`,
  "X-Orch-Namespace": "",
  "Idempotency-Key": CANARY,
  "User-Agent": CANARY,
  Cookie: CANARY,
};
const query = new URLSearchParams(
  ["secrets", "filter", "prefix", "node", "topic", "plugin_id", "namespace", CANARY].map((name) => [
    name,
    `${CANARY} x`,
  ]),
);

it("no route audits or logs a request's content besides its path", async () => {
  await arrange();
  const { texts, bucket } = everything();
  const ask = deployment({ AUDIT_BUCKET: bucket, AUDIT_ON_FAILURE: "closed" });
  const asked = cases.flatMap(({ name, route, path }) => {
    const method = route.verb === "LIST" ? "GET" : route.verb;
    const least = route.body && !route.raw ? leastBody(route.body, examples[name]?.body) : {};
    const secret = Object.fromEntries(Object.keys(least).map((field) => [field, CANARY]));
    const send = (body: object, token: string, more: string) =>
      ask(`${path}?${route.verb === "LIST" ? "list=true&" : ""}${more}`, {
        method,
        token,
        unread: true,
        leaves: true,
        headers: { ...headers, "Content-Type": "application/json" },
        ...(method !== "GET" && { body: { ...body, [CANARY]: CANARY } }),
      });
    return [
      () => send(secret, "root", query.toString()),
      () => send(least, "root", `canary=${CANARY}`),
      () => send(least, CANARY, query.toString()),
    ];
  });
  for (let at = 0; at < asked.length; at += AT_ONCE)
    await Promise.all(asked.slice(at, at + AT_ONCE).map((one) => one()));
  const answers = () => texts.join("\n").match(/"kind":"answer"/g)?.length ?? 0;
  // One each in the log and in the bucket.
  await eventually(() => expect(answers()).toBeGreaterThanOrEqual(2 * asked.length));
  expect(texts.filter((text) => text.includes(CANARY))).toEqual([]);
});

it("no issued token, secret or credential is logged", async () => {
  const { texts, bucket } = everything();
  const send = deployment({ AUDIT_BUCKET: bucket });
  const ask = (path: string, asked?: Parameters<typeof send>[1]) => send(path, { leaves: true, ...asked });
  await mountKv();
  const made = JSON.parse((await ask("/v1/auth/token/create", { method: "PUT", body: { policies: ["root"] } })).text);
  const token: string = made.auth.client_token;
  const acl = JSON.parse((await ask("/v1/acl/token", { method: "PUT", body: { Name: "n", Type: "management" } })).text);
  const join = JSON.parse((await ask("/v1/agent/tokens", { method: "POST", body: {} })).text);
  await ask("/v1/kv/data/app", { method: "PUT", token, body: { data: { password: CANARY } } });
  expect((await ask("/v1/kv/data/app", { token })).text).toContain(CANARY);
  expect((await ask("/v1/nodes", { token: acl.SecretID })).status).toBe(200);
  await ask("/v1/auth/token/lookup", { method: "PUT", body: { token } });
  await ask("/v1/auth/token/lookup-self", { token: acl.SecretID });
  await makeDestination("in-mem", "d");
  await setAssociation("in-mem/d", "app");
  await eventually(() => expect(texts.some((text) => text.includes("secret-synced"))).toBe(true));
  const tenant = await openTenant();
  await mountEngine(tenant);
  await writeRole("app", { application_object_id: tenant.existing_application.object_id });
  const issued = await creds("app", { token });
  expect(issued.status).toBe(200);
  await ask("/v1/auth/token/revoke", { method: "PUT", body: { token } });
  expect((await get("/v1/sys/mounts", { token })).status).toBe(403);
  await put("/v1/sys/audit-hash", { input: CANARY });
  await eventually(() => expect(texts.join().match(/revoke/g)?.length).toBeGreaterThanOrEqual(3));
  const given = [
    CANARY,
    token,
    acl.SecretID,
    join.SecretID,
    join.Token,
    issued.body.data.client_secret,
    tenant.client_secret,
  ];
  for (const secret of given.filter((each) => each !== undefined)) {
    expect(secret.length).toBeGreaterThan(10);
    expect(texts.filter((text) => text.includes(secret))).toEqual([]);
  }
});
