import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { FAILING_PLUGIN, HOLDING_PLUGIN, NAME_TAKEN, problems, request, TestNode } from "./agent-dhv-node.ts";

let node: TestNode;
beforeEach(() => {
  node = new TestNode();
});
afterEach(() => node.remove());

it("refuses a second volume with the name of a volume that exists or is being created, and accepts it after a failed creation", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  const volumes = node.start();
  const [first, second] = [request({ pluginId: "p", name: "db" }), request({ name: "db", namespace: "other" })];
  node.flag("create.hold");
  const making = volumes.create(first);
  await vi.waitFor(() => expect(node.calls()).toHaveLength(1));
  expect(await volumes.create(second)).toEqual(NAME_TAKEN);
  expect(await volumes.register({ ...second, hostPath: node.root })).toMatchObject({ ok: false });
  node.unflag("create.hold");
  await making;
  expect(await volumes.create(second)).toEqual(NAME_TAKEN);
  expect(await node.start().create(second)).toEqual(NAME_TAKEN);
  expect(node.volumes()).toEqual([first.id]);

  expect(await volumes.delete(first)).toEqual({ ok: true });
  node.plugin("p", FAILING_PLUGIN);
  node.flag("create.fail");
  expect(await volumes.create(first)).toMatchObject({ ok: false, outcome: "failed" });
  expect(await volumes.create(second)).toMatchObject({ ok: true });
});

it("keeps a name when an update fails, and frees it when the volume is renamed or deleted", async () => {
  node.plugin("p", FAILING_PLUGIN);
  const volumes = node.start();
  const first = request({ pluginId: "p", name: "db" });
  await volumes.create(first);

  node.flag("create.fail");
  expect(await volumes.create(first)).toMatchObject({ ok: false });
  expect(await volumes.create({ ...first, name: "renamed" })).toMatchObject({ ok: false });
  expect(await volumes.create(request({ name: "db" }))).toEqual(NAME_TAKEN);
  expect(await problems(volumes)).toEqual({ [first.id]: undefined });
  const other = request({ name: "renamed" });
  expect(await volumes.create(other)).toMatchObject({ ok: true });
  node.unflag("create.fail");

  expect(await volumes.create({ ...first, name: "renamed" })).toEqual(NAME_TAKEN);
  expect(await volumes.create({ ...first, name: "db-2" })).toMatchObject({ ok: true });
  expect(await volumes.create(request({ name: "db-2" }))).toEqual(NAME_TAKEN);
  expect(await volumes.create(request({ name: "db" }))).toMatchObject({ ok: true });
  await volumes.delete(first);
  expect(await volumes.create(request({ name: "db-2" }))).toMatchObject({ ok: true });
});

it("runs operations of one volume in sequence and of different volumes concurrently", async () => {
  node.plugin("p", HOLDING_PLUGIN);
  const volumes = node.start();
  const [slow, other] = [request({ pluginId: "p" }), request()];
  node.flag("create.hold");
  const order: string[] = [];
  const said = (name: string) => () => order.push(name);
  const all = [
    volumes.create(slow).then(said("created")),
    volumes.delete(slow).then(said("deleted")),
    volumes.create(slow).then(said("created again")),
  ];
  expect(await volumes.create(other)).toMatchObject({ ok: true });
  expect(await volumes.delete(other)).toEqual({ ok: true });
  expect(order).toEqual([]);
  node.unflag("create.hold");
  await Promise.all(all);
  expect(order).toEqual(["created", "deleted", "created again"]);
  expect(node.calls()).toEqual([
    `create ${slow.id}`,
    `delete ${slow.id} ${join(node.volumesDir, slow.id)}`,
    `create ${slow.id}`,
  ]);
  expect(node.volumes()).toEqual([slow.id]);
});

it("gives a name to one of many concurrent creations", async () => {
  const volumes = node.start();
  const made = await Promise.all(Array.from({ length: 20 }, () => volumes.create(request({ name: "db" }))));
  expect(made.filter(({ ok }) => ok)).toHaveLength(1);
  expect(node.volumes()).toHaveLength(1);
});

it("creates, records and restores many volumes concurrently", async () => {
  const volumes = node.start();
  const wanted = Array.from({ length: 100 }, () => request());
  await Promise.all(wanted.map((volume) => volumes.create(volume)));
  expect(node.volumes()).toEqual(wanted.map(({ id }) => id).sort());
  const again = node.start();
  await again.restore();
  expect((await again.volumes()).map(({ id, problem }) => [id, problem])).toEqual(
    wanted.map(({ id }) => [id, undefined]).sort(),
  );
  expect(readdirSync(join(node.stateDir, "host-volumes"))).toHaveLength(100);
});
