import { describe, expect, it } from "vitest";
import type { Mode } from "../../contracts/csi-volumes.ts";
import { admissionRefusal, type Claimed } from "./admission.ts";

const FULL = "volume max claims reached";

const volume = (access: string | null, readers: number, writers: number, more: Partial<Claimed> = {}): Claimed => ({
  id: "V",
  schedulable: true,
  nodeIsFull: false,
  capabilities: [{ AccessMode: access ?? "single-node-writer", AttachmentMode: "file-system" }],
  holders: {
    nodeId: access === null ? null : "N",
    reads: readers > 0,
    writes: writers > 0,
    modes: access === null ? null : { AccessMode: access, AttachmentMode: "file-system" },
  },
  ...more,
});

const claim = (mode: Mode, given: Claimed, attachmentMode = "file-system", nodeId = "N") =>
  admissionRefusal({ allocId: "A", nodeId, mode, attachmentMode }, given)?.message ?? "taken";
const refused = (why: string) => `alloc "A" failed to claim volume "V": ${why}`;

describe("a claim", () => {
  it.each<[access: string, readers: number, writers: number, read: boolean, write: boolean]>([
    ["single-node-reader-only", 0, 0, true, false],
    ["single-node-reader-only", 1, 0, false, false],
    ["single-node-writer", 0, 0, true, true],
    ["single-node-writer", 1, 0, false, true],
    ["single-node-writer", 0, 1, false, false],
    ["single-node-writer", 1, 1, false, false],
    ["single-node-single-writer", 0, 0, true, true],
    ["single-node-single-writer", 1, 0, false, false],
    ["single-node-single-writer", 0, 1, false, false],
    ["single-node-multi-writer", 0, 0, true, true],
    ["single-node-multi-writer", 9, 9, true, true],
    ["multi-node-reader-only", 0, 0, true, false],
    ["multi-node-reader-only", 9, 0, true, false],
    ["multi-node-single-writer", 9, 0, true, true],
    ["multi-node-single-writer", 9, 1, true, false],
    ["multi-node-multi-writer", 9, 9, true, true],
    ["something-new", 0, 0, false, false],
  ])("on a %s volume with %i readers and %i writers: read %s, write %s", (access, readers, writers, read, write) => {
    const given = volume(access, readers, writers);
    expect([claim("read", given), claim("write", given)]).toEqual(
      [read, write].map((may) => (may ? "taken" : refused(FULL))),
    );
  });

  it("refuses a first writer unless a requested access mode permits writing", () => {
    const readOnly = { AccessMode: "multi-node-reader-only", AttachmentMode: "file-system" };
    const some = volume(null, 0, 0, { capabilities: [readOnly] });
    expect([claim("read", some), claim("write", some)]).toEqual(["taken", refused(FULL)]);
    expect(claim("write", volume(null, 0, 0))).toBe("taken");
  });

  it("on another node is refused while a single-node-multi-writer volume has claims", () => {
    const given = volume("single-node-multi-writer", 1, 1);
    expect(claim("write", given, "file-system", "M")).toBe(refused(FULL));
    expect(claim("write", volume(null, 0, 0), "file-system", "M")).toBe("taken");
  });

  it("keeps the attachment mode of the first claim", () => {
    const given = volume("multi-node-multi-writer", 1, 0);
    expect(claim("write", given, "block-device")).toBe(refused("cannot change attachment mode of claimed volume"));
    expect(claim("write", volume(null, 0, 0), "block-device")).toBe("taken");
  });

  it("waits for a healthy plugin and for capacity on the node", () => {
    expect(claim("read", volume(null, 0, 0, { schedulable: false }))).toBe(
      refused("volume is currently unschedulable"),
    );
    expect(claim("read", volume(null, 0, 0, { nodeIsFull: true }))).toBe(
      refused("its node has as many volumes of the plugin as that takes there"),
    );
  });
});
