import { exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { type Answer, del, get, mountKv, patch, put, send } from "./client.ts";
import { ShiftedClock } from "./clock.ts";

/** docs/internals/wire/vault.md, KV version 2: writing, reading, deleting and patching versions. */

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/;
const NOTHING = '{"errors":[]}';
const value = async (path: string) => (await get(`/v1/kv/data/${path}`)).body.data.data;
const write = (path: string, data: unknown, options?: unknown) => put(`/v1/kv/data/${path}`, { data, options });
const errors = (answer: Answer): string[] => [`${answer.status}`, ...(answer.body?.errors ?? [])];

beforeEach(async () => {
  await mountKv();
});

describe("a write", () => {
  it("returns the complete envelope, byte for byte", async () => {
    const answer = await write("a", { k: "v" });
    const { request_id: id, data } = answer.body;
    expect(data.created_time).toMatch(TIME);
    expect(answer.text).toBe(
      `{"request_id":"${id}","lease_id":"","renewable":false,"lease_duration":0,"data":{"created_time":"${data.created_time}",` +
        '"custom_metadata":null,"deletion_time":"","destroyed":false,"version":1},"wrap_info":null,"warnings":null,' +
        '"auth":null,"mount_type":"kv"}',
    );
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(answer.headers.get("Content-Type")).toBe("application/json");
    expect(answer.headers.get("Cache-Control")).toBe("no-store");
  });

  it("numbers versions from 1 and keeps earlier ones", async () => {
    for (const n of [1, 2, 3]) expect((await write("a", { n })).body.data.version).toBe(n);
    expect((await get("/v1/kv/data/a?version=2")).body.data).toMatchObject({
      data: { n: 2 },
      metadata: { version: 2 },
    });
    expect(await value("a")).toEqual({ n: 3 });
  });

  it("accepts PUT and POST, with any content type or none", async () => {
    for (const [method, type] of [
      ["PUT", ""],
      ["POST", ""],
      ["POST", "application/json"],
      ["PUT", "application/x-www-form-urlencoded"],
      ["POST", "text/plain"],
    ] as const) {
      const headers: Record<string, string> = type === "" ? {} : { "Content-Type": type };
      expect((await send(method, "/v1/kv/data/a", '{"data":{"k":1}}', { headers })).status, `${method} ${type}`).toBe(
        200,
      );
    }
  });

  it("is accepted with and without the prefix /v1", async () => {
    await put("/kv/data/a", { data: { k: 1 } });
    expect((await get("/kv/data/a")).body.data.data).toEqual({ k: 1 });
  });

  itRows([
    ["nothing", ""],
    ["null", "null"],
    ["an empty object", "{}"],
    ["null as data", '{"data":null}'],
    ["only options", '{"options":{"cas":0}}'],
  ])("with %s for a body is refused: no data provided", async (_name, body) => {
    expect(errors(await put("/v1/kv/data/a", body))).toEqual(["400", "no data provided"]);
  });

  itRows(['{"data":"x"}', '{"data":[1]}', '{"data":5}', '{"data":1.10}', "data=x"])(
    "with %s is refused: data must be an object",
    async (body) => {
      expect(errors(await put("/v1/kv/data/a", body))).toEqual(["400", "data: must be an object"]);
    },
  );

  itRows(['{"data":', '{"data":{}} x', "[1]", '{"data":{"a":01}}'])(
    "with the malformed body %s is 400",
    async (body) => {
      expect((await put("/v1/kv/data/a", body)).status).toBe(400);
      expect((await get("/v1/kv/data/a")).status).toBe(404);
    },
  );

  it("never repeats the caller's data in an error", async () => {
    expect((await put("/v1/kv/data/a", '{"data":{"p":"canary-secret",}}')).text).not.toContain("canary");
    expect((await put("/v1/kv/data/a", '{"data":"canary-secret"}')).text).not.toContain("canary");
  });

  it("accepts an empty object as data", async () => {
    expect((await write("a", {})).status).toBe(200);
    expect((await get("/v1/kv/data/a")).text).toContain('"data":{"data":{},"metadata":{');
  });

  it("warns of unknown fields and writes the secret", async () => {
    const { status, body } = await put("/v1/kv/data/a", { data: { k: 1 }, options: { other: 1 }, more: true });
    expect([status, body.data.version]).toEqual([200, 1]);
    expect(body.warnings).toEqual(["Endpoint ignored these unrecognized parameters: [more options.other]"]);
    const { status: settled, body: told } = await put("/v1/kv/metadata/a", { max_version: 3 });
    expect([settled, told.mount_type, told.warnings]).toEqual([
      200,
      "kv",
      ["Endpoint ignored these unrecognized parameters: [max_version]", "max_version: did you mean max_versions?"],
    ]);
    expect((await put("/v1/kv/metadata/a", { max_versions: 3 })).status).toBe(204);
  });

  it("accepts a body of exactly 1 MiB, reads it back whole, and refuses one byte more with 413", async () => {
    const around = '{"data":{"k":""}}'.length;
    const text = "x".repeat(1024 * 1024 - around);
    expect((await put("/v1/kv/data/a", `{"data":{"k":"${text}"}}`)).status).toBe(200);
    expect((await value("a")).k).toBe(text);
    expect((await put("/v1/kv/data/a", `{"data":{"k":"${text}x"}}`)).status).toBe(413);
    expect((await get("/v1/kv/data/a")).body.data.metadata.version).toBe(1);
  });
});

describe("a read", () => {
  it("returns the complete envelope with the data as written", async () => {
    await put("/v1/kv/data/a", '{ "data" : {"b": 1,"a":[true,null]} }');
    const answer = await get("/v1/kv/data/a");
    const created = answer.body.data.metadata.created_time;
    expect(answer.text).toBe(
      `{"request_id":"${answer.body.request_id}","lease_id":"","renewable":false,"lease_duration":0,"data":{"data":{"b":1,"a":[true,null]},` +
        `"metadata":{"created_time":"${created}","custom_metadata":null,"deletion_time":"","destroyed":false,"version":1}},` +
        '"wrap_info":null,"warnings":null,"auth":null,"mount_type":"kv"}',
    );
  });

  it("of an absent path returns 404 with an empty list of errors", async () => {
    expect(await get("/v1/kv/data/none")).toMatchObject({ status: 404, text: NOTHING });
    await write("a", { k: 1 });
    expect(await get("/v1/kv/data/a?version=2")).toMatchObject({ status: 404, text: NOTHING });
  });

  it("treats version 0 and an empty version as the newest, and returns 400 for other texts", async () => {
    await write("a", { n: 1 });
    await write("a", { n: 2 });
    for (const query of ["?version=0", "?version=", ""]) {
      expect((await get(`/v1/kv/data/a${query}`)).body.data.data).toEqual({ n: 2 });
    }
    for (const wrong of ["x", "-1", "1.5", "1e3"]) {
      expect(errors(await get(`/v1/kv/data/a?version=${wrong}`))).toEqual([
        "400",
        "version: must be a number, 0 or more",
      ]);
    }
  });

  it("by HEAD has the status and no body", async () => {
    await write("a", { n: 1 });
    expect(await send("HEAD", "/v1/kv/data/a")).toMatchObject({ status: 200, text: "" });
    expect(await send("HEAD", "/v1/kv/data/none")).toMatchObject({ status: 404, text: "" });
  });
});

describe("check-and-set", () => {
  const mismatch = ["400", "check-and-set parameter did not match the current version"];

  it("accepts a write only when the version matches, as number or text", async () => {
    expect((await write("a", { n: 1 }, { cas: 0 })).status).toBe(200);
    expect(errors(await write("a", { n: 2 }, { cas: 0 }))).toEqual(mismatch);
    expect(errors(await write("a", { n: 2 }, { cas: 2 }))).toEqual(mismatch);
    expect((await write("a", { n: 2 }, { cas: "1" })).body.data.version).toBe(2);
    expect(await value("a")).toEqual({ n: 2 });
  });

  it("of a positive version fails on a path that does not exist, and creates nothing", async () => {
    expect((await write("a", {}, { cas: 1 })).status).toBe(400);
    expect((await get("/v1/kv/metadata/a")).status).toBe(404);
  });

  it("of 0 succeeds after a write of metadata alone", async () => {
    await put("/v1/kv/metadata/a", { max_versions: 5 });
    expect((await write("a", { n: 1 }, { cas: 0 })).body.data.version).toBe(1);
  });

  it("compares with the newest version even when that is deleted", async () => {
    await write("a", { n: 1 });
    await del("/v1/kv/data/a");
    expect((await write("a", { n: 2 }, { cas: 0 })).status).toBe(400);
    expect((await write("a", { n: 2 }, { cas: 1 })).body.data.version).toBe(2);
  });

  it.each([
    ["the mount", "/v1/kv/config"],
    ["the path", "/v1/kv/metadata/a"],
  ])("is required for every write if %s requires it", async (_name, settings) => {
    await write("a", { n: 1 });
    await put(settings, { cas_required: "true" });
    const required = ["400", "check-and-set parameter required for this call"];
    expect(errors(await write("a", { n: 2 }))).toEqual(required);
    expect(errors(await write("a", { n: 2 }, {}))).toEqual(required);
    expect(errors(await patch("/v1/kv/data/a", { data: { n: 2 } }))).toEqual(required);
    expect((await write("a", { n: 2 }, { cas: 1 })).status).toBe(200);
    expect((await patch("/v1/kv/data/a", { data: { n: 3 }, options: { cas: 2 } })).status).toBe(200);
  });

  it("lets exactly one of many concurrent writers win", async () => {
    await write("a", { n: 0 });
    const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => write("a", { n }, { cas: 1 })));
    const won = answers.findIndex((answer) => answer.status === 200);
    expect(answers.filter((answer) => answer.status === 200)).toHaveLength(1);
    expect(answers.filter((answer) => answer.status === 400)).toHaveLength(11);
    expect((await get("/v1/kv/data/a")).body.data).toMatchObject({ data: { n: won }, metadata: { version: 2 } });
  });

  it("of a negative number matches no version, as in Vault", async () => {
    await write("a", { n: 1 });
    for (const cas of [-1, "-1", -9_000_000_000_000]) {
      expect(errors(await write("a", {}, { cas }))).toEqual(mismatch);
      expect(errors(await patch("/v1/kv/data/a", { data: {}, options: { cas } }))).toEqual(mismatch);
    }
  });

  itRows([{ cas: "x" }, { cas: 1.5 }, { cas: {} }, "x"])("of %j is 400 and names the field", async (options) => {
    const answer = await write("a", {}, options);
    expect(answer.status).toBe(400);
    expect(answer.body.errors[0]).toMatch(/^options/);
    if (typeof options === "object") expect(answer.body.errors[0]).toContain("error parsing check-and-set parameter");
  });
});

describe("pruning", () => {
  const kept = async (path: string) => {
    const { versions, oldest_version } = (await get(`/v1/kv/metadata/${path}`)).body.data;
    return [Object.keys(versions).map(Number), oldest_version];
  };
  const writes = async (path: string, n: number) => {
    for (let at = 0; at < n; at++) await write(path, { at });
  };

  it("keeps ten versions by default, and shows the oldest once the limit is reached", async () => {
    await writes("a", 9);
    expect(await kept("a")).toEqual([[1, 2, 3, 4, 5, 6, 7, 8, 9], 0]);
    await writes("a", 1);
    expect(await kept("a")).toEqual([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 1]);
    await writes("a", 1);
    expect(await kept("a")).toEqual([[2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 2]);
    expect((await get("/v1/kv/data/a?version=1")).text).toBe(NOTHING);
  });

  it("follows the larger of the mount's and the path's limit", async () => {
    await put("/v1/kv/config", { max_versions: 2 });
    await writes("a", 4);
    expect(await kept("a")).toEqual([[3, 4], 3]);
    await put("/v1/kv/metadata/a", { max_versions: 3 });
    await writes("a", 2);
    expect(await kept("a")).toEqual([[4, 5, 6], 4]);
    await put("/v1/kv/metadata/a", { max_versions: 1 });
    await writes("a", 1);
    expect(await kept("a")).toEqual([[6, 7], 6]);
  });

  it("drops versions beyond a lowered limit with the next write", async () => {
    await writes("a", 8);
    await put("/v1/kv/metadata/a", { max_versions: 3 });
    expect((await kept("a"))[0]).toHaveLength(8);
    await writes("a", 1);
    expect(await kept("a")).toEqual([[7, 8, 9], 7]);
  });
});

describe("delete, undelete, destroy", () => {
  beforeEach(async () => {
    await write("a", { n: 1 });
    await write("a", { n: 2 });
  });

  it("DELETE hides the newest version, and its 404 has the metadata", async () => {
    const deleted = await del("/v1/kv/data/a");
    expect([deleted.status, deleted.text]).toEqual([204, ""]);
    const read = await get("/v1/kv/data/a");
    const { created_time, deletion_time } = read.body.data.metadata;
    expect(deletion_time).toMatch(TIME);
    expect(read.status).toBe(404);
    expect(read.text).toBe(
      `{"request_id":"${read.body.request_id}","lease_id":"","renewable":false,"lease_duration":0,"data":{"data":null,"metadata":` +
        `{"created_time":"${created_time}","custom_metadata":null,"deletion_time":"${deletion_time}","destroyed":false,"version":2}},` +
        '"wrap_info":null,"warnings":null,"auth":null,"mount_type":"kv"}',
    );
    expect((await get("/v1/kv/data/a?version=1")).status).toBe(200);
  });

  it("DELETE, delete, undelete and destroy return 204 for an absent path", async () => {
    expect((await del("/v1/kv/data/none")).status).toBe(204);
    for (const verb of ["delete", "undelete", "destroy"]) {
      expect((await put(`/v1/kv/${verb}/none`, { versions: [1] })).status).toBe(204);
      expect((await put(`/v1/kv/${verb}/a`, { versions: [7] })).status).toBe(204);
    }
    expect((await get("/v1/kv/metadata/none")).status).toBe(404);
  });

  it.each([
    ["numbers", { versions: [1, 2] }],
    ["texts", { versions: ["1", "2"] }],
    ["one text", { versions: "1,2" }],
    ["one text with blanks", { versions: "1, 2" }],
    ["a form", "versions=1%2C2"],
  ])("accepts versions as %s", async (_name, body) => {
    const states = async () => {
      const { versions } = (await get("/v1/kv/metadata/a")).body.data;
      return [1, 2].map((version) => [versions[version].deletion_time !== "", versions[version].destroyed]);
    };
    for (const method of ["PUT", "POST"]) {
      expect((await send(method, "/v1/kv/delete/a", body)).status).toBe(204);
      expect(await states()).toEqual([
        [true, false],
        [true, false],
      ]);
      expect((await send(method, "/v1/kv/undelete/a", body)).status).toBe(204);
      expect(await states()).toEqual([
        [false, false],
        [false, false],
      ]);
    }
    expect((await put("/v1/kv/destroy/a", body)).status).toBe(204);
    expect(await states()).toEqual([
      [false, true],
      [false, true],
    ]);
  });

  it("accepts one version as a plain number", async () => {
    expect((await put("/v1/kv/delete/a", { versions: 1 })).status).toBe(204);
    expect((await get("/v1/kv/data/a?version=1")).status).toBe(404);
    expect((await get("/v1/kv/data/a?version=2")).status).toBe(200);
  });

  itRows([{}, { versions: [] }, { versions: "" }, { versions: null }, ""])(
    "of %j is refused: no version",
    async (body) => {
      for (const verb of ["delete", "undelete", "destroy"]) {
        expect(errors(await put(`/v1/kv/${verb}/a`, body))).toEqual(["400", "No version number provided"]);
      }
    },
  );

  itRows([
    { versions: ["x"] },
    { versions: [0] },
    { versions: [-1] },
    { versions: [1.5] },
    { versions: {} },
    { versions: "1;2" },
  ])("of %j is 400 and names the field", async (body) => {
    const answer = await put("/v1/kv/destroy/a", body);
    expect([answer.status, answer.body.errors[0]]).toEqual([400, expect.stringMatching(/^versions/)]);
    expect(await value("a")).toEqual({ n: 2 });
  });

  it("undelete brings the data back and clears the time", async () => {
    await del("/v1/kv/data/a");
    await put("/v1/kv/undelete/a", { versions: [2] });
    expect((await get("/v1/kv/data/a")).body.data).toMatchObject({ data: { n: 2 }, metadata: { deletion_time: "" } });
  });

  it("destroy is permanent: undelete restores no data, and the 404 shows destroyed", async () => {
    await put("/v1/kv/destroy/a", { versions: [2] });
    expect((await put("/v1/kv/undelete/a", { versions: [2] })).status).toBe(204);
    const read = await get("/v1/kv/data/a");
    expect([read.status, read.body.data]).toMatchObject([
      404,
      { data: null, metadata: { destroyed: true, version: 2 } },
    ]);
  });

  it("deleting twice keeps the first time", async () => {
    await del("/v1/kv/data/a");
    const first = (await get("/v1/kv/data/a")).body.data.metadata.deletion_time;
    await del("/v1/kv/data/a");
    expect((await get("/v1/kv/data/a")).body.data.metadata.deletion_time).toBe(first);
  });

  it("a write after a delete gets the next number", async () => {
    await del("/v1/kv/data/a");
    expect((await write("a", { n: 3 })).body.data.version).toBe(3);
    expect((await get("/v1/kv/data/a?version=2")).status).toBe(404);
  });
});

describe("PATCH", () => {
  it("merges into the newest version and writes a new one", async () => {
    await write("a", { keep: 1, change: 2, drop: 3, nested: { x: 1, y: 2 }, list: [1] });
    const patched = await patch("/v1/kv/data/a", {
      data: { change: "two", drop: null, nested: { y: null, z: { deep: null, w: 1 } }, list: [2, null] },
    });
    expect(patched.body.data).toMatchObject({ version: 2, deletion_time: "", destroyed: false, custom_metadata: null });
    expect(await value("a")).toEqual({ keep: 1, change: "two", nested: { x: 1, z: { w: 1 } }, list: [2, null] });
    expect((await get("/v1/kv/data/a?version=1")).body.data.data.drop).toBe(3);
  });

  it("keeps long numbers that it does not touch", async () => {
    await put("/v1/kv/data/a", '{"data":{"big":9007199254740993,"price":1.10}}');
    await patch("/v1/kv/data/a", '{"data":{"other":1e400}}');
    expect((await get("/v1/kv/data/a")).text).toContain('{"big":9007199254740993,"price":1.10,"other":1e400}');
  });

  it("honours check-and-set", async () => {
    await write("a", { n: 1 });
    expect(errors(await patch("/v1/kv/data/a", { data: {}, options: { cas: 5 } }))).toEqual([
      "400",
      "check-and-set parameter did not match the current version",
    ]);
    expect((await patch("/v1/kv/data/a", { data: {}, options: { cas: "1" } })).status).toBe(200);
  });

  it("of a path without a version returns 404 with an empty list of errors", async () => {
    expect(await patch("/v1/kv/data/none", { data: {} })).toMatchObject({ status: 404, text: NOTHING });
    await put("/v1/kv/metadata/empty", { max_versions: 0 });
    expect(await patch("/v1/kv/data/empty", { data: {} })).toMatchObject({ status: 404, text: NOTHING });
  });

  it("of a deleted or destroyed version returns 404 with its metadata", async () => {
    await write("a", { n: 1 });
    await del("/v1/kv/data/a");
    const deleted = await patch("/v1/kv/data/a", { data: { n: 2 } });
    expect([deleted.status, deleted.body.data]).toMatchObject([
      404,
      { data: null, metadata: { version: 1, destroyed: false } },
    ]);
    await put("/v1/kv/destroy/a", { versions: [1] });
    const destroyed = await patch("/v1/kv/data/a", { data: { n: 2 } });
    expect([destroyed.status, destroyed.body.data]).toMatchObject([404, { data: null, metadata: { destroyed: true } }]);
    expect((await get("/v1/kv/metadata/a")).body.data.current_version).toBe(1);
  });

  it("returns 400 without a content type and 415 for another one than merge patch or JSON", async () => {
    await write("a", { n: 1 });
    const typed = (type: string | null) => {
      const headers = { "X-Orch-Token": "root", ...(type !== null && { "Content-Type": type }) };
      return exports.default.fetch("https://x/v1/kv/data/a", {
        method: "PATCH",
        headers,
        body: new TextEncoder().encode('{"data":{"m":1}}'),
      });
    };
    expect((await typed(null)).status).toBe(400);
    for (const type of ["text/plain", "application/json-patch+json", "application/x-www-form-urlencoded"]) {
      expect((await typed(type)).status, type).toBe(415);
    }
    for (const type of [
      "application/merge-patch+json",
      "Application/Merge-Patch+JSON; charset=utf-8",
      "application/json",
    ]) {
      expect((await typed(type)).status, type).toBe(200);
    }
  });

  it("returns 400 without data", async () => {
    await write("a", { n: 1 });
    for (const body of [{}, { data: null }]) {
      expect(errors(await patch("/v1/kv/data/a", body))).toEqual(["400", "no data provided"]);
    }
  });

  it("returns 413 when the secret would exceed a row", async () => {
    const half = "x".repeat(600 * 1024);
    await write("a", { one: half });
    expect((await patch("/v1/kv/data/a", { data: { two: half } })).status).toBe(413);
    const wide = "é".repeat(300 * 1024);
    expect((await patch("/v1/kv/data/a", { data: { two: wide } })).status).toBe(413);
    expect((await patch("/v1/kv/data/a", { data: { two: "x" } })).status).toBe(200);
    expect((await value("a")).one).toBe(half);
  });
});

describe("delete_version_after", () => {
  const deletion = async (path: string) => {
    const { created_time, deletion_time } = (await write(path, {})).body.data;
    return deletion_time === "" ? null : Date.parse(deletion_time) - Date.parse(created_time);
  };

  it("is the shorter of mount and path, shown in the answer of the write", async () => {
    expect(await deletion("a")).toBeNull();
    await put("/v1/kv/config", { delete_version_after: "1h" });
    expect(await deletion("a")).toBe(3_600_000);
    await put("/v1/kv/metadata/a", { delete_version_after: "30m" });
    expect(await deletion("a")).toBe(1_800_000);
    await put("/v1/kv/metadata/a", { delete_version_after: 7200 });
    expect(await deletion("a")).toBe(3_600_000);
    await put("/v1/kv/config", { delete_version_after: 0 });
    expect(await deletion("a")).toBe(7_200_000);
  });

  it("is switched off for the whole mount by a negative value, shown as -1s", async () => {
    await put("/v1/kv/metadata/a", { delete_version_after: "30m" });
    for (const negative of ["-1s", "-5h", -3]) {
      await put("/v1/kv/config", { delete_version_after: negative });
      expect((await get("/v1/kv/config")).body.data.delete_version_after).toBe("-1s");
      expect(await deletion("a")).toBeNull();
    }
    await put("/v1/kv/config", { delete_version_after: "0s" });
    expect(await deletion("a")).toBe(1_800_000);
  });

  it("on a path must not be negative", async () => {
    for (const send of [put, patch]) {
      expect(errors(await send("/v1/kv/metadata/a", { delete_version_after: "-1s" }))).toEqual([
        "400",
        "delete_version_after: cannot provide negative value",
      ]);
    }
  });

  it("leaves the version readable before the time, deleted after it, and undeletable", async () => {
    await put("/v1/kv/metadata/a", { delete_version_after: "1h" });
    await write("a", { n: 1 });
    const early = await get("/v1/kv/data/a");
    expect([early.status, early.body.data.metadata.deletion_time]).toEqual([200, expect.stringMatching(TIME)]);
    new ShiftedClock(3_600_000);
    const late = await get("/v1/kv/data/a");
    expect([late.status, late.body.data.data]).toEqual([404, null]);
    expect((await patch("/v1/kv/data/a", { data: {} })).status).toBe(404);
    await put("/v1/kv/undelete/a", { versions: [1] });
    expect(await value("a")).toEqual({ n: 1 });
  });

  it("of versions already written does not change with the setting", async () => {
    await write("a", { n: 1 });
    await put("/v1/kv/metadata/a", { delete_version_after: "1h" });
    expect((await get("/v1/kv/data/a")).body.data.metadata.deletion_time).toBe("");
  });
});
