import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import type { AccessControl } from "../../src/objects/access-control.ts";
import { type Answer, lines, put, send } from "./client.ts";
import { storeDeliveries } from "./stored-rows.ts";

type Options = Parameters<typeof send>[3];

/** Creates a token. @returns its `auth` block; fails the test on a refusal */
export async function issue(body: object = {}, options?: Options): Promise<Answer["body"]> {
  const created = await send("POST", "/v1/auth/token/create", body, options);
  if (created.status !== 200) throw new Error(`token refused: ${created.text}`);
  return created.body.auth;
}

/** Writes policies by name; fails the test on a refusal. */
export async function policies(documents: Readonly<Record<string, string>>, options?: Options): Promise<void> {
  for (const [name, policy] of Object.entries(documents)) {
    const written = await put(`/v1/sys/policies/acl/${name}`, { policy }, options);
    if (written.status !== 204) throw new Error(`policy refused: ${written.text}`);
  }
}

export const path = (pattern: string, ...capabilities: string[]): string =>
  `path "${pattern}" { capabilities = ${JSON.stringify(capabilities)} }\n`;

/** A token with exactly these rules, without the default policy. */
export async function holderOf(rules: string, more: object = {}): Promise<Answer["body"]> {
  const name = `p-${crypto.randomUUID()}`;
  await policies({ [name]: rules });
  return issue({ policies: [name], no_default_policy: true, ...more });
}

/** All events of a topic so far, in order. A line without events marks the end of the backlog. */
export async function eventsOf(topic: string): Promise<Answer["body"][]> {
  const response = await exports.default.fetch(`https://x/v1/event/stream?topic=${topic}`, {
    headers: { "X-Orch-Token": "root" },
  });
  const events: Answer["body"][] = [];
  for await (const line of lines(response.body)) {
    if (line.Events.length === 0) return events;
    events.push(...line.Events);
  }
  return events;
}

/** A new stub on each call, because a stub of an aborted object stays broken. */
export const accessObject = () => env.ACCESS_CONTROL.getByName("main") as DurableObjectStub<AccessControl>;

/** Every row of every table, as text. */
export const dump = (): Promise<string> =>
  runInDurableObject(accessObject(), (object, { storage: { sql } }) => {
    storeDeliveries(object);
    return sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
      )
      .toArray()
      .flatMap(({ name }) => sql.exec(`SELECT * FROM "${name}"`).toArray())
      .flatMap((row) => Object.values(row))
      .map((value) => (value instanceof ArrayBuffer ? Buffer.from(value).toString("latin1") : String(value)))
      .join("\n");
  });
