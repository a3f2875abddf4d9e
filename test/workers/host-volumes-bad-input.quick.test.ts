import { beforeEach, describe, expect, it } from "vitest";
import { itRows } from "../support/rows.ts";
import { del, get, put } from "./client.ts";
import { make, nodeId, nodes, openNodes, register, storedRows, volume } from "./host-volumes.ts";

beforeEach(() => openNodes(1));

type Row = readonly [volume: unknown, status: number, says: string | RegExp];

const named = (more: Record<string, unknown>) => volume(more);
const failed = (fault: string) => `volume validation failed: ${fault}`;
const capability = (AccessMode: unknown, AttachmentMode: unknown) => ({
  RequestedCapabilities: [{ AccessMode, AttachmentMode }],
});
const constraint = (LTarget: unknown, Operand: unknown, RTarget: unknown) => ({
  Constraints: [{ LTarget, Operand, RTarget }],
});
const badConstraint = (fault: string) => failed(`invalid constraint: 1 error occurred:\n\t* ${fault}\n\n`);
const NONE = "0199d1f0-0000-7000-8000-000000000000";

const rows: readonly Row[] = [
  [undefined, 400, "missing volume definition"],
  [null, 400, "missing volume definition"],
  ["db", 400, /^Volume: /],
  [[], 400, /^Volume: /],
  [7, 400, /^Volume: /],
  [{}, 400, failed("2 errors occurred:\n\t* missing name\n\t* plugin_id is required (builtin: mkdir)\n\n")],
  [named({ Name: "" }), 400, failed("missing name")],
  [named({ Name: null }), 400, failed("missing name")],
  [named({ Name: 5 }), 400, /^Volume\.Name: /],
  [named({ Name: "x".repeat(257) }), 400, /^Volume\.Name: /],
  [named({ Name: "a\nb" }), 400, /^Volume\.Name: must not hold control characters/],
  [named({ PluginID: "" }), 400, failed("plugin_id is required (builtin: mkdir)")],
  [named({ PluginID: null }), 400, failed("plugin_id is required (builtin: mkdir)")],
  [named({ PluginID: "../mkdir" }), 400, /^Volume\.PluginID: must be letters/],
  [named({ PluginID: "x".repeat(129) }), 400, /^Volume\.PluginID: /],
  [named({ PluginID: {} }), 400, /^Volume\.PluginID: /],
  [named({ ID: "v1" }), 400, failed('invalid ID "v1"')],
  [named({ ID: `${NONE}0` }), 400, failed(`invalid ID "${NONE}0"`)],
  [named({ ID: 1 }), 400, /^Volume\.ID: /],
  [named({ ID: NONE }), 404, `cannot update volume "${NONE}": volume does not exist`],
  [named({ Namespace: "nope" }), 400, failed('no such namespace "nope"')],
  [named({ Namespace: "*" }), 400, failed('no such namespace "*"')],
  [named({ Namespace: 1 }), 400, /^Volume\.Namespace: /],
  [named({ NodeID: NONE }), 404, `validating volume "db" against state failed: node "${NONE}" does not exist`],
  [named({ NodeID: "x" }), 404, 'validating volume "db" against state failed: node "x" does not exist'],
  [named({ NodeID: [] }), 400, /^Volume\.NodeID: /],
  [named({ NodePool: "gpu" }), 404, 'validating volume "db" against state failed: node pool "gpu" does not exist'],
  [
    named({ NodePool: "gpu", NodeID: nodeId(1) }),
    400,
    `validating volume "db" against state failed: node ID "${nodeId(1)}" is not in pool "gpu"`,
  ],
  [named({ NodePool: false }), 400, /^Volume\.NodePool: /],
  [
    named({ RequestedCapacityMinBytes: 10, RequestedCapacityMaxBytes: 9 }),
    400,
    failed("capacity_max (9) must be larger than capacity_min (10)"),
  ],
  [named({ RequestedCapacityMinBytes: -1 }), 400, /^Volume\.RequestedCapacityMinBytes: /],
  [named({ RequestedCapacityMaxBytes: 1.5 }), 400, /^Volume\.RequestedCapacityMaxBytes: /],
  [named({ RequestedCapacityMaxBytes: "10G" }), 400, /^Volume\.RequestedCapacityMaxBytes: /],
  [named({ RequestedCapacityMaxBytes: 2 ** 53 }), 400, /^Volume\.RequestedCapacityMaxBytes: /],
  [named({ CapacityBytes: "1" }), 400, /^Volume\.CapacityBytes: /],
  [named({ HostPath: "relative" }), 400, /^Volume\.HostPath: must be an absolute path/],
  [named({ HostPath: `/${"x".repeat(4096)}` }), 400, /^Volume\.HostPath: /],
  [named({ Parameters: [] }), 400, /^Volume\.Parameters: /],
  [named({ Parameters: { mode: 700 } }), 400, /^Volume\.Parameters\.mode: /],
  [named({ Parameters: { mode: "x".repeat(4097) } }), 400, /^Volume\.Parameters\.mode: /],
  [
    named({ Parameters: Object.fromEntries(Array.from({ length: 129 }, (_, at) => [`k${at}`, "v"])) }),
    400,
    /^Volume\.Parameters: at most 128 entries/,
  ],
  [named({ RequestedCapabilities: {} }), 400, /^Volume\.RequestedCapabilities: /],
  [named({ RequestedCapabilities: ["x"] }), 400, /^Volume\.RequestedCapabilities\.0: /],
  [named(capability("single-node-writer", "nfs")), 400, failed('invalid attachment mode: "nfs"')],
  [named(capability("multi-node-writer", "file-system")), 400, failed('invalid access mode: "multi-node-writer"')],
  [named(capability("", "file-system")), 400, failed('invalid access mode: ""')],
  [named(capability("single-node-writer", undefined)), 400, failed('invalid attachment mode: ""')],
  [named(capability(1, "file-system")), 400, /^Volume\.RequestedCapabilities\.0\.AccessMode: /],
  [named({ RequestedCapabilities: [{ Mode: "x" }] }), 400, "Volume.RequestedCapabilities.0: unknown field Mode"],
  [
    named({ RequestedCapabilities: [{ AccessMode: "a", AttachmentMode: "b" }, { AccessMode: "c" }] }),
    400,
    failed('2 errors occurred:\n\t* invalid attachment mode: "b"\n\t* invalid attachment mode: ""\n\n'),
  ],
  [named({ Constraints: "x" }), 400, /^Volume\.Constraints: /],
  [named({ Constraints: [{ Target: "x" }] }), 400, "Volume.Constraints.0: unknown field Target"],
  [named(constraint("", "=", "x")), 400, badConstraint("no attribute provided but is required by operator")],
  [named(constraint("a", "", "x")), 400, badConstraint("missing constraint operand")],
  [named(constraint("a", "~~", "x")), 400, badConstraint('unknown operator "~~"')],
  [named(constraint("a", "=", "")), 400, badConstraint('operator "=" requires an RTarget')],
  [named(constraint("a", "is_set", "x")), 400, badConstraint('operator "is_set" takes no RTarget')],
  [named(constraint("a", "version", "soon")), 400, badConstraint('"soon" is no version constraint')],
  [named(constraint("a", "semver", "1")), 400, badConstraint('"1" is no version constraint')],
  [
    named(constraint("a", "regexp", "(")),
    400,
    /^volume validation failed: invalid constraint: 1 error.*\n.*failed to compile/,
  ],
  [named(constraint("a", "regexp", "(?<=a)b")), 400, /look-around is not supported/],
  [
    named({ Constraints: Array.from({ length: 9 }, () => ({ LTarget: "a", Operand: "regexp", RTarget: "a" })) }),
    400,
    failed("at most 8 constraints may be regular expressions"),
  ],
  [
    named(constraint("a", "distinct_hosts", "true")),
    400,
    failed("invalid constraint distinct_hosts: host volumes of the same name are always on distinct hosts"),
  ],
  [
    named(constraint("a", "distinct_property", "x")),
    400,
    failed("invalid constraint distinct_property: host volumes of the same name are always on distinct hosts"),
  ],
  [named(constraint(1, "=", "x")), 400, /^Volume\.Constraints\.0\.LTarget: /],
  [named({ Nmae: "db" }), 400, "Volume: unknown field Nmae"],
  [named({ name: "again" }), 400, "Volume.Name: is given twice"],
  [named({ plugin_id: "again" }), 400, "Volume.PluginID: is given twice"],
];

describe("an invalid request is refused by field and rule, without a change", () => {
  // Proves: D.host.create.Volume-required
  itRows(rows)("%j", async (given, status, says) => {
    const answer = await put("/v1/volume/host/create", given === undefined ? {} : { Volume: given });
    expect([answer.status, answer.text]).toEqual([
      status,
      typeof says === "string" ? says : expect.stringMatching(says),
    ]);
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
    expect(nodes.sent).toEqual([]);
    expect(await storedRows()).toEqual([]);
  });

  itRows<[Record<string, unknown>, RegExp]>([
    [{ PolicyOverride: "yes" }, /^PolicyOverride: /],
    [{ Volumes: [] }, /^unknown field Volumes/],
    [{ IdempotencyToken: 5 }, /^IdempotencyToken: /],
    [{ IdempotencyToken: "x".repeat(257) }, /^IdempotencyToken: /],
    [{ Namespace: {} }, /^Namespace: /],
    [{ volume: {} }, /^Volume: is given twice/],
  ])("with %j beside the volume", async (more, says) => {
    const answer = await put("/v1/volume/host/create", { Volume: volume(), ...more });
    expect([answer.status, answer.text]).toEqual([400, expect.stringMatching(says)]);
  });

  itRows<[string, number, RegExp]>([
    ["", 400, /^Request body is empty/],
    ["  ", 400, /^Request body is empty/],
    ["{", 400, /is not valid JSON/],
    ["[]", 400, /must be a JSON object/],
    [`{"Volume":${"[".repeat(200)}${"]".repeat(200)}}`, 400, /nested deeper/],
    [JSON.stringify({ Volume: { Name: "x".repeat(1024 * 1024) } }), 413, /larger than 1048576 bytes/],
  ])("with a body such as %.20s", async (body, status, says) => {
    const answer = await put("/v1/volume/host/register", body);
    expect([answer.status, answer.text]).toEqual([status, expect.stringMatching(says)]);
  });

  // Proves: D.host.register.Volume-required
  it("of a registration, checked in the documented order", async () => {
    const says = async (more: Record<string, unknown>) => (await register(more)).text;
    const none = await put("/v1/volume/host/register", {});
    expect([none.status, none.text]).toEqual([400, "missing volume definition"]);
    expect(await says({ NodeID: "", HostPath: "", Name: "" })).toBe("cannot register volume: node ID is required");
    expect(await says({ HostPath: "", Name: "" })).toBe("cannot register volume: host path is required");
    expect(await says({ Name: "" })).toBe("volume validation failed: missing name");
    expect(await says({ HostPath: "srv" })).toMatch(/^Volume\.HostPath: must be an absolute path/);
  });

  it("of a registered volume's update, which requires a registration", async () => {
    const { Volume } = (await register()).body;
    const refused = await put("/v1/volume/host/create", { Volume: { ...Volume, Name: "other" } });
    expect([refused.status, refused.text]).toEqual([
      400,
      `validating volume "${Volume.ID}" update failed: 1 error occurred:\n\t* a registered volume is updated by registering it again\n\n`,
    ]);
    const again = await register({ ...Volume, Name: "other" });
    expect([again.status, again.body.Volume.Name]).toEqual([200, "other"]);
  });

  itRows([
    ["index=x", "Invalid index"],
    ["index=-1", "Invalid index"],
    ["wait=5", "Invalid wait time"],
    ["per_page=-1", "Expect a number for `per_page` query string parameter"],
    ["stale=maybe", "Expect `true` or `false` for `stale` query string parameter"],
  ])("of a list with %s", async (query, says) => {
    const answer = await get(`/v1/volumes?type=host&${query}`);
    expect([answer.status, answer.text]).toEqual([400, says]);
  });

  it("of a deletion", async () => {
    await make();
    for (const id of ["x", NONE, "%20", "a%2Fb"])
      expect([(await del(`/v1/volume/host/${id}`)).status, id]).toEqual([404, id]);
  });
});
