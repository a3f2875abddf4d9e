import { afterAll, beforeAll, expect, it } from "vitest";
import { producer } from "../../../src/credentials/engines/https-producer/client.ts";
import type { Held, Vars } from "../../../src/credentials/engines/https-producer/cloud.ts";
import { DefinitionBody } from "../../../src/credentials/engines/https-producer/document.ts";
import { sender } from "../../../src/providers/outcome.ts";
import { examples } from "../../support/producer-examples.ts";
import { judgeExchanges } from "../../support/published-api.ts";
import type { ProviderName } from "./account.ts";
import { published } from "./published.ts";
import { type ProducerView, startProducers } from "./server.ts";

// The calls of each worked definition, and the answers of its double, are valid by the facts that the provider publishes.

let double: Awaited<ReturnType<typeof startProducers>>;
beforeAll(async () => {
  double = await startProducers();
});
afterAll(() => double.close());

const DAY_MS = 86_400_000;
const marker = "sp-0123456789abcdef0123456789abcdef";

it.each(Object.keys(examples) as ProviderName[])("%s is called and answers as its provider publishes", async (name) => {
  const control = async (path: string, body: object) =>
    (await fetch(`${double.url}/_double/${path}`, { method: "POST", body: JSON.stringify(body) })).json();
  const view = (await control("accounts", { provider: name })) as ProducerView;
  const { example, own } = examples[name];
  const { secrets, vars } = own(view) as { secrets: Vars; vars: Vars };
  const url = double.url + new URL(example.url).pathname.replace(/\/$/, "");
  const definition = DefinitionBody.parse(example.producer);
  const account = { url, secrets, vars, definition, signingSecret: "" };
  const calls = producer(account, sender({ deadlineMs: 20_000 }));
  const judge = judgeExchanges(published[name], ({ pathname }) => !pathname.startsWith("/_double/"));
  const object = { marker, vars };
  const expires = Date.now() + DAY_MS;
  const held = (ids: Held["ids"]): Held => ({ ...object, ids, lag: 0 });

  expect(await calls.find(object)).toEqual({ ok: true, value: [] });
  const made = await calls.create({ ...object, expires });
  if (!made.ok) throw new Error(JSON.stringify([made, judge.faults]));
  const { ids, data } = made.value;
  expect(await calls.find(object)).toEqual({ ok: true, value: [ids] });
  expect(await calls.verify(data)).toMatchObject({ ok: true });
  expect(await calls.renew(held(ids), expires + DAY_MS)).toMatchObject({ ok: true });
  expect(await calls.revoke(JSON.stringify(held(ids)))).toMatchObject({ ok: true });
  expect(await calls.revoke(JSON.stringify(held(ids)))).toMatchObject({ failure: { code: "not_found" } });
  const wrong = Object.fromEntries(Object.keys(secrets).map((each) => [each, "wrong"]));
  if (name !== "snowflake") {
    const refused = await producer({ ...account, secrets: wrong }, sender({ deadlineMs: 20_000 })).find(object);
    expect(refused).toMatchObject({ failure: { code: "auth_failed" } });
  }
  if (definition.root) {
    const root = { marker: "sp-fedcba9876543210fedcba9876543210", vars, root: true } as const;
    expect(await calls.self(vars)).toMatchObject({ ok: true });
    const next = await calls.create({ ...root, expires });
    if (!next.ok) throw new Error(JSON.stringify([next, judge.faults]));
    expect(await calls.use(root, next.value.data)).toMatchObject({ ok: true });
    expect(await calls.revoke(JSON.stringify({ ...root, ids: next.value.ids, lag: 0 }))).toMatchObject({ ok: true });
  }
  judge.stop();
  expect(judge.faults).toEqual([]);
  expect(judge.seen.size).toBeGreaterThan(1);
});
