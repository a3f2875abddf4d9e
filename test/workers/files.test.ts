import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { MAX_FILE_BYTES } from "../../src/sync/configuration/file-limits.ts";
import { resolveFile } from "../../src/sync/configuration/files.ts";
import { itRows } from "../support/rows.ts";
import { mountKv, put } from "./client.ts";
import { openCloudC } from "./sync-doubles.ts";
import { setAssociation, write } from "./sync-helpers.ts";

/** docs/guides/sync.md: `credentials` as `@path`. */

const bucket = env.FILES as R2Bucket;

beforeEach(async () => {
  await bucket.put("gcp.json", '{"of":"the root"}');
  await bucket.put("team-a/gcp.json", '{"of":"the team"}');
  await bucket.put("team-a/keys/gcp.json", "deep");
});

const read = (value: string, namespace = "", where: Env = env) => resolveFile(where, namespace, value);

describe("a file named after @", () => {
  itRows([
    ["", "@gcp.json", '{"of":"the root"}'],
    ["", "@/gcp.json", '{"of":"the root"}'],
    ["", "@///team-a/gcp.json", '{"of":"the team"}'],
    ["team-a/", "@gcp.json", '{"of":"the team"}'],
    ["team-a/", "@/gcp.json", '{"of":"the team"}'],
    ["team-a/", "@keys/gcp.json", "deep"],
    ["team-a/keys/", "@gcp.json", "deep"],
  ])("is read from the folder of the namespace %j: %s", async (namespace, value, content) => {
    expect(await read(value, namespace)).toEqual({ ok: true, value: content });
  });

  it("loses only a byte order mark", async () => {
    await bucket.put("bom", "\uFEFF {}\r\n");
    expect(await read("@bom")).toEqual({ ok: true, value: " {}\r\n" });
  });

  it("may hold 1 MiB and no more", async () => {
    await bucket.put("big", new Uint8Array(MAX_FILE_BYTES).fill(97));
    expect(await read("@big")).toEqual({ ok: true, value: "a".repeat(MAX_FILE_BYTES) });
    await bucket.put("big", new Uint8Array(MAX_FILE_BYTES + 1));
    expect(await read("@big")).toEqual({
      ok: false,
      reason: "invalid",
      message: "credentials: the object big in the bucket FILES is larger than 1 MiB",
    });
  });

  it("must be UTF-8 text", async () => {
    await bucket.put("binary", new Uint8Array([0xff, 0xfe]));
    expect(await read("@binary")).toEqual({
      ok: false,
      reason: "invalid",
      message: "credentials: the object binary in the bucket FILES is not UTF-8 text",
    });
  });

  it("that is absent returns 400 with bucket and key", async () => {
    expect(await read("@nope.json", "team-a/")).toEqual({
      ok: false,
      reason: "invalid",
      message: "credentials: the bucket FILES holds no object team-a/nope.json",
    });
  });

  it("returns 400 with bucket and key when no bucket is bound", async () => {
    const { FILES: _, ...without } = env;
    expect(await read("@gcp.json", "team-a/", without)).toEqual({
      ok: false,
      reason: "invalid",
      message: "credentials: no bucket is bound as FILES, where team-a/gcp.json was to be read",
    });
  });
});

describe("a file over HTTP", () => {
  const DESTINATION = "/v1/sys/sync/destinations/cloud-c-sm/d";

  // Proves: B.cloud-c-sm.credentials.file
  it("gives a destination its credentials", async () => {
    const { body, values } = await openCloudC();
    await bucket.put("keys/project.json", `\uFEFF${body["credentials"]}`);
    const made = await put(DESTINATION, { credentials: "@keys/project.json" });
    expect(made.status, made.text).toBe(200);
    expect(made.body.data.connection_details.credentials).toBe("*****");
    await mountKv();
    await write("app", { password: "p1" });
    const set = await setAssociation("cloud-c-sm/d", "app");
    expect(set.status, set.text).toBe(200);
    expect(Object.values(await values()).join(" ")).toContain("p1");
  });

  it("reads the file of the caller's namespace, and never returns its content", async () => {
    await put("/v1/sys/namespaces/team-a", {});
    const headers = { "X-Orch-Namespace": "team-a" };
    const there = await put(DESTINATION, { credentials: "@keys/gcp.json" }, { headers });
    expect(there.status).toBe(400);
    expect(there.body.errors[0]).toMatch(/^credentials: must be /);
    expect(there.text).not.toContain("deep");
    const elsewhere = await put(DESTINATION, { credentials: "@team-a/keys/gcp.json" }, { headers });
    expect([elsewhere.status, elsewhere.body.errors]).toEqual([
      400,
      ["credentials: the bucket FILES holds no object team-a/team-a/keys/gcp.json"],
    ]);
  });
});

describe("a path after @", () => {
  itRows(["@", "@/", "@..", "@../gcp.json", "@/../gcp.json", "@keys/../../gcp.json", "@a//b", "@a/", "@./gcp.json"])(
    "is refused for an invalid segment: %s",
    async (value) => {
      expect(await read(value, "team-a/")).toEqual({
        ok: false,
        reason: "invalid",
        message: "credentials: a path after @ has no empty segments, and none that are . or ..",
      });
    },
  );

  itRows(["@a\0b", "@a\nb", "@a\u007fb", "@a\u0085b", "@a\ud800b"])(
    "is refused with a control character: %j",
    async (value) => {
      expect(await read(value)).toMatchObject({
        ok: false,
        reason: "invalid",
        message: expect.stringMatching(/control/),
      });
    },
  );

  it("is limited to the length of a key, namespace included", async () => {
    await bucket.put(`team-a/${"é".repeat(508)}`, "long");
    expect(await read(`@${"é".repeat(508)}`, "team-a/")).toEqual({ ok: true, value: "long" });
    expect(await read(`@${"é".repeat(509)}`, "team-a/")).toMatchObject({ ok: false, reason: "invalid" });
  });
});
