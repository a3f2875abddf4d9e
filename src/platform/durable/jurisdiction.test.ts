import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { importsBelow } from "../../../test/style/imports.ts";
import { storedObject } from "../../rpc/stored-objects.ts";
import { accessControl, eventRelay, kvStore, readReplica } from "../../rpc/stubs.ts";
import { objectStub } from "./jurisdiction.ts";

/** The local runtime has no jurisdictions, so a stand-in records how stubs are made. */
function standIn() {
  const asked: unknown[][] = [];
  const namespace = (jurisdiction: string | null) => ({
    getByName: (...given: unknown[]) => {
      asked.push([jurisdiction, ...given]);
      return {};
    },
    jurisdiction: (name: string) => namespace(name),
  });
  return { asked, namespace: namespace(null) as unknown as DurableObjectNamespace };
}

const BINDINGS = ["ACCESS_CONTROL", "KV_STORE", "EVENT_RELAY", "READ_REPLICA"];

function deployment(settings: Record<string, string>) {
  const { asked, namespace } = standIn();
  const env = { ...settings, ...Object.fromEntries(BINDINGS.map((name) => [name, namespace])) } as unknown as Env;
  return { asked, env };
}

function everyKindOfStub(env: Env): void {
  accessControl(env);
  kvStore(env, "mount");
  storedObject(env, { kind: "kv-store", name: "mount" });
  eventRelay(env, "weur-0");
  readReplica(env, "enam-0", "enam");
}

it.each(["eu", "us", "fedramp", "fedramp-high"])("makes every stub in the jurisdiction %s, without a hint", (name) => {
  const { asked, env } = deployment({ JURISDICTION: name });
  everyKindOfStub(env);
  expect(asked).toEqual([
    [name, "main"],
    [name, "mount"],
    [name, "mount"],
    [name, "weur-0"],
    [name, "enam-0"],
  ]);
});

it.each([{}, { JURISDICTION: "none" }])("makes stubs without a jurisdiction for the settings %j", (settings) => {
  const { asked, env } = deployment(settings);
  everyKindOfStub(env);
  expect(asked.map(([jurisdiction]) => jurisdiction)).toEqual([null, null, null, null, null]);
  expect(asked.at(-1)).toEqual([null, "enam-0", { locationHint: "enam" }]);
});

it("creates objects at LOCATION_HINT, but read replicas near their callers", () => {
  const { asked, env } = deployment({ LOCATION_HINT: "apac" });
  everyKindOfStub(env);
  const hints = asked.map(([, name, options]) => [name, (options as { locationHint: string }).locationHint]);
  expect(hints).toEqual([
    ["main", "apac"],
    ["mount", "apac"],
    ["mount", "apac"],
    ["weur-0", "apac"],
    ["enam-0", "enam"],
  ]);
});

it("refuses an unknown hint by the name of the setting", () => {
  const { env } = deployment({ LOCATION_HINT: "moon" });
  expect(() => objectStub(env, env.ACCESS_CONTROL, "main")).toThrow("LOCATION_HINT");
});

it("refuses an unknown jurisdiction by the name of the setting", () => {
  const { env } = deployment({ JURISDICTION: "mars" });
  expect(() => objectStub(env, env.ACCESS_CONTROL, "main")).toThrow("JURISDICTION");
});

it("is the only place that makes a stub or the id of an object", () => {
  const files = new Set(importsBelow("src").map(({ from }) => from));
  const makers = [...files].filter((file) =>
    /\.(getByName|idFromName|idFromString|newUniqueId)\(/.test(readFileSync(file, "utf8")),
  );
  expect(files.size).toBeGreaterThan(400);
  expect(makers).toEqual(["src/platform/durable/jurisdiction.ts"]);
});
