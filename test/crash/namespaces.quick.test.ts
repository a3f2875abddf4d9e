import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { accessControl } from "../../src/rpc/stubs.ts";
import { del, get, put } from "../workers/client.ts";
import { clock } from "../workers/clock.ts";
import { byItself } from "../workers/clock-and-alarms.ts";
import { addNode, ask, ScriptedNodes } from "../workers/host-volumes.ts";
import { attempt, both, cut } from "./crash-point.ts";

clock.moves = true;

const passing = (check: () => Promise<void>) => byItself({ mounts: [], destinations: [] }, check);

describe("DELETE namespace/:name", () => {
  it.each([...both("AccessControl", "deleteClusterNamespace"), ...both("ClusterRegistry", "endNamespace")])(
    "is completed or rolled back automatically after a crash in %s.%s (%s)",
    async (...where) => {
      new ScriptedNodes();
      await addNode(1);
      await put("/v1/namespace/x", {});
      const happened = cut(where);
      const answered = await attempt(del("/v1/namespace/x"));
      expect(happened()).toBe(true);
      const begun = answered !== null || where[0] === "ClusterRegistry" || where[2] === "after";
      await passing(async () => {
        expect((await get("/v1/namespace/x")).status).toBe(begun ? 404 : 200);
      });
      // A later namespace of the name is open for volumes, and so is one whose deletion never began.
      await passing(async () => expect((await put("/v1/namespace/x", {})).status).toBe(200));
      const made = await ask({ Namespace: "x" });
      expect([made.status, made.text]).toEqual([200, expect.any(String)]);
      expect((await del("/v1/namespace/x")).status).toBe(400);
      expect((await accessControl(env).clusterNamespaceId("x")).ok).toBe(true);
    },
  );
});

describe("DELETE sys/namespaces/:name", () => {
  it.each([...both("AccessControl", "deleteNamespace"), ...both("SyncControl", "endNamespace")])(
    "is completed or rolled back automatically after a crash in %s.%s (%s)",
    async (...where) => {
      const id = (await put("/v1/sys/namespaces/x", {})).body.data.id;
      const happened = cut(where);
      const answered = await attempt(del("/v1/sys/namespaces/x"));
      expect(happened()).toBe(true);
      const begun = answered !== null || where[0] === "SyncControl" || where[2] === "after";
      await passing(async () => {
        expect((await get("/v1/sys/namespaces/x")).status).toBe(begun ? 404 : 200);
      });
      await passing(async () => expect((await put("/v1/sys/namespaces/x", {})).status).toBe(200));
      expect((await get("/v1/sys/namespaces/x")).body.data.id === id).toBe(!begun);
      // It takes content, which keeps it.
      const there = { headers: { "X-Orch-Namespace": "x" } };
      expect((await put("/v1/sys/mounts/kv", { type: "kv-v2" }, there)).status).toBe(204);
      expect((await put("/sys/sync/destinations/in-mem/d", {}, there)).status).toBe(200);
      expect((await del("/v1/sys/namespaces/x")).status).toBe(400);
    },
  );
});
