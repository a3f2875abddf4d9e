import { afterEach, expect, it, vi } from "vitest";
import { EventLog } from "../../src/worker.ts";
import { del, put } from "./client.ts";
import { closeAll, openStream } from "./streams.ts";

/* The topic `Namespace`: changes of the cluster API's namespaces, for holders of any capability in them. */

afterEach(closeAll);

const namespace = async (name: string, Description = "") =>
  expect((await put("/v1/namespace", { Name: name, Description })).status).toBe(200);

async function reader(rules: string): Promise<string> {
  expect((await put("/v1/acl/policy/reader", { Rules: rules })).status).toBe(200);
  const made = await put("/v1/acl/token", { Type: "client", Policies: ["reader"] });
  return made.body.SecretID;
}

type Stream = Awaited<ReturnType<typeof openStream>>;

/** The next events of a stream, up to a number. */
async function next(stream: Stream, count: number) {
  const events = [];
  while (events.length < count) events.push(...(await stream.nextLine()).Events);
  return events.map(({ Type, Key, Namespace, Payload, Index }) => {
    const { Namespace: object } = Payload as unknown as { Namespace: { Description: string; ModifyIndex: number } };
    const { Description, ModifyIndex } = object;
    return { Type, Key, Namespace, Description, isCurrent: Index === ModifyIndex };
  });
}

const upserted = (name: string, Description = "") => ({
  Type: "NamespaceUpserted",
  Key: name,
  Namespace: name,
  Description,
  isCurrent: true,
});

it("publishes each write with the namespace as it is then, and its last state when it ends", async () => {
  const stream = await openStream("?topic=Namespace&namespace=*");
  await namespace("prod", "first");
  await namespace("prod", "second");
  expect((await del("/v1/namespace/prod")).status).toBe(200);
  expect(await next(stream, 3)).toEqual([
    upserted("prod", "first"),
    upserted("prod", "second"),
    { ...upserted("prod", "second"), Type: "NamespaceDeleted", isCurrent: false },
  ]);
});

it("filters by name and by namespace", async () => {
  const byName = await openStream("?topic=Namespace:b&namespace=*");
  await namespace("a");
  await namespace("b");
  expect(await next(byName, 1)).toEqual([upserted("b")]);
  const inA = await openStream("?topic=Namespace&namespace=a");
  await namespace("b", "not in a");
  await namespace("a", "in a");
  expect(await next(inA, 2)).toEqual([upserted("a"), upserted("a", "in a")]);
});

it("requires any capability in the namespace", async () => {
  await namespace("prod");
  await namespace("other");
  const token = await reader(
    'namespace "prod" { capabilities = ["list-jobs"] }\nnamespace "other" { policy = "deny" }',
  );
  const stream = await openStream("?topic=Namespace&namespace=prod", { token });
  await namespace("prod", "seen");
  expect((await next(stream, 2)).map(({ Description }) => Description)).toEqual(["", "seen"]);
  for (const query of ["&namespace=other", "", "&namespace=*"]) {
    const refused = await openStream(`?topic=Namespace${query}`, { token });
    expect([query, refused.response.status]).toEqual([query, 403]);
  }
});

it("publishes once when the log fails after it has stored the line", async () => {
  const append = EventLog.prototype.append;
  vi.spyOn(EventLog.prototype, "append").mockImplementationOnce(async function (this: EventLog, ...given) {
    await append.apply(this, given);
    throw new Error("the answer was lost");
  });
  await namespace("once");
  vi.restoreAllMocks();
  await namespace("later");
  const stream = await openStream("?topic=Namespace&namespace=*");
  expect(await next(stream, 2)).toEqual([upserted("once"), upserted("later")]);
});

it("publishes nothing for a write that is refused", async () => {
  const stream = await openStream("?topic=Namespace&namespace=*");
  expect((await put("/v1/namespace", { Name: "no spaces" })).status).toBe(400);
  expect((await del("/v1/namespace/default")).status).toBe(400);
  expect((await del("/v1/namespace/none")).status).toBe(404);
  await namespace("last");
  expect(await next(stream, 1)).toEqual([upserted("last")]);
});
