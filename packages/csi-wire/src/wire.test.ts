import { expect, it } from "vitest";
import { ACCESS_MODE, decode, encode, MESSAGES, type MessageName, methodOf, SERVICES } from "./index.ts";

/** Sample messages: values contain the number of their field. */
const BYTES: Record<MessageName, string> = {
  BoolValue: "0801",
  Timestamp: "08011002",
  Topology: "0a070a016b12026d31",
  GetPluginInfoRequest: "",
  GetPluginInfoResponse: "0a027331120273321a070a016b12026d33",
  GetPluginCapabilitiesRequest: "",
  GetPluginCapabilitiesResponse: "0a080a02080112020801",
  PluginCapability: "0a02080112020801",
  CapabilityType: "0801",
  ProbeRequest: "",
  ProbeResponse: "0a020801",
  CapacityRange: "08011002",
  BlockVolume: "",
  MountVolume: "0a0273311202613212001a027333",
  AccessMode: "0801",
  VolumeCapability: "0a00120e0a0273311202613212001a0273331a020801",
  SnapshotSource: "0a027331",
  VolumeSource: "0a027331",
  VolumeContentSource: "0a040a02733112040a027331",
  TopologyRequirement: "0a090a070a016b12026d3112090a070a016b12026d31",
  Volume: "0801120273321a070a016b12026d33220c0a040a02733112040a0273312a090a070a016b12026d31",
  VolumeCondition: "080112027332",
  RpcCapability: "0a020801",
  ControllerGetCapabilitiesRequest: "",
  ControllerGetCapabilitiesResponse: "0a040a020801",
  CreateVolumeRequest:
    "0a0273311204080110021a160a00120e0a0273311202613212001a0273331a02080122070a016b12026d342a070a016b12026d35320c0a040a02733112040a0273313a160a090a070a016b12026d3112090a070a016b12026d3142070a016b12026d38",
  CreateVolumeResponse: "0a280801120273321a070a016b12026d33220c0a040a02733112040a0273312a090a070a016b12026d31",
  DeleteVolumeRequest: "0a02733112070a016b12026d32",
  DeleteVolumeResponse: "",
  ControllerPublishVolumeRequest:
    "0a027331120273321a160a00120e0a0273311202613212001a0273331a02080120012a070a016b12026d3532070a016b12026d36",
  ControllerPublishVolumeResponse: "0a070a016b12026d31",
  ControllerUnpublishVolumeRequest: "0a027331120273321a070a016b12026d33",
  ControllerUnpublishVolumeResponse: "",
  ValidateVolumeCapabilitiesRequest:
    "0a02733112070a016b12026d321a160a00120e0a0273311202613212001a0273331a02080122070a016b12026d342a070a016b12026d35",
  Confirmed: "0a070a016b12026d3112160a00120e0a0273311202613212001a0273331a0208011a070a016b12026d33",
  ValidateVolumeCapabilitiesResponse:
    "0a2a0a070a016b12026d3112160a00120e0a0273311202613212001a0273331a0208011a070a016b12026d3312027332",
  ListVolumesRequest: "080112027332",
  VolumeStatus: "0a0261310a001206080112027332",
  VolumeEntry:
    "0a280801120273321a070a016b12026d33220c0a040a02733112040a0273312a090a070a016b12026d31120e0a0261310a001206080112027332",
  ListVolumesResponse:
    "0a3a0a280801120273321a070a016b12026d33220c0a040a02733112040a0273312a090a070a016b12026d31120e0a0261310a00120608011202733212027332",
  GetCapacityRequest: "0a160a00120e0a0273311202613212001a0273331a02080112070a016b12026d321a090a070a016b12026d31",
  GetCapacityResponse: "0801",
  CreateSnapshotRequest: "0a027331120273321a070a016b12026d3322070a016b12026d34",
  CreateSnapshotResponse: "0a160801120273321a027333220408011002280132027336",
  Snapshot: "0801120273321a027333220408011002280132027336",
  DeleteSnapshotRequest: "0a02733112070a016b12026d32",
  DeleteSnapshotResponse: "",
  ListSnapshotsRequest: "0801120273321a027333220273342a070a016b12026d35",
  SnapshotEntry: "0a160801120273321a027333220408011002280132027336",
  ListSnapshotsResponse: "0a180a160801120273321a02733322040801100228013202733612027332",
  ControllerExpandVolumeRequest:
    "0a0273311204080110021a070a016b12026d3322160a00120e0a0273311202613212001a0273331a020801",
  ControllerExpandVolumeResponse: "08011001",
  ControllerModifyVolumeRequest: "0a02733112070a016b12026d321a070a016b12026d33",
  ControllerModifyVolumeResponse: "",
  NodeStageVolumeRequest:
    "0a02733112070a016b12026d321a02733322160a00120e0a0273311202613212001a0273331a0208012a070a016b12026d3532070a016b12026d36",
  NodeStageVolumeResponse: "",
  NodeUnstageVolumeRequest: "0a02733112027332",
  NodeUnstageVolumeResponse: "",
  NodePublishVolumeRequest:
    "0a02733112070a016b12026d321a027333220273342a160a00120e0a0273311202613212001a0273331a02080130013a070a016b12026d3742070a016b12026d38",
  NodePublishVolumeResponse: "",
  NodeUnpublishVolumeRequest: "0a02733112027332",
  NodeUnpublishVolumeResponse: "",
  NodeGetVolumeStatsRequest: "0a027331120273321a027333",
  VolumeUsage: "0801100218032004",
  NodeGetVolumeStatsResponse: "0a0808011002180320041206080112027332",
  NodeExpandVolumeRequest:
    "0a027331120273321a0408011002220273342a160a00120e0a0273311202613212001a0273331a02080132070a016b12026d36",
  NodeExpandVolumeResponse: "0801",
  NodeGetCapabilitiesRequest: "",
  NodeGetCapabilitiesResponse: "0a040a020801",
  NodeGetInfoRequest: "",
  NodeGetInfoResponse: "0a02733110021a090a070a016b12026d31",
};

const names = Object.keys(MESSAGES) as MessageName[];
type Field = readonly [id: number, kind: string];

function sample(name: MessageName): object {
  const fields = Object.entries(MESSAGES[name]) as [string, Field][];
  return Object.fromEntries(fields.map(([field, [id, kind]]) => [field, sampleOf(kind, id)]));
}

function sampleOf(kind: string, id: number): unknown {
  switch (kind) {
    case "string":
      return `s${id}`;
    case "string[]":
      return [`a${id}`, ""];
    case "bool":
      return true;
    case "int32":
      return id;
    case "int64":
      return String(id);
    case "map":
      return { k: `m${id}` };
    default:
      return kind.endsWith("[]") ? [sample(kind.slice(0, -2) as MessageName)] : sample(kind as MessageName);
  }
}

it.each(names)("encodes and decodes %s", (name) => {
  expect(encode(name, sample(name)).toString("hex")).toBe(BYTES[name]);
  expect(decode(name, Buffer.from(BYTES[name], "hex"))).toEqual(sample(name));
});

it("decodes absent fields to defaults", () => {
  expect(decode("ListVolumesResponse", Buffer.alloc(0))).toEqual({ entries: [], nextToken: "" });
  expect(decode("Volume", Buffer.alloc(0))).toEqual({
    capacityBytes: "0",
    volumeId: "",
    volumeContext: {},
    contentSource: null,
    accessibleTopology: [],
  });
  expect(decode("ProbeResponse", Buffer.alloc(0))).toEqual({ ready: null });
});

it("omits defaults and encodes empty messages", () => {
  const zeros = { name: "", capacityRange: { requiredBytes: "0", limitBytes: null }, parameters: {}, secrets: null };
  expect(encode("CreateVolumeRequest", { ...zeros, volumeCapabilities: [] }).toString("hex")).toBe("1200");
  expect(encode("ProbeResponse", { ready: { value: false } }).toString("hex")).toBe("0a00");
  expect(decode("ProbeResponse", Buffer.from("0a00", "hex"))).toEqual({ ready: { value: false } });
});

it("keeps all digits of an int64", () => {
  for (const bytes of ["9223372036854775807", "-9223372036854775808", "9007199254740993"])
    expect(decode("CapacityRange", encode("CapacityRange", { requiredBytes: bytes })).requiredBytes).toBe(bytes);
});

it("skips unknown fields and keeps unknown enumeration values", () => {
  const mode = encode("AccessMode", { mode: 99 });
  expect(decode("AccessMode", mode)).toEqual({ mode: 99 });
  // Field 15 as varint, text and fixed64.
  const more = Buffer.from("7801" + "7a0378797a" + "790102030405060708", "hex");
  expect(decode("AccessMode", Buffer.concat([more, mode, more]))).toEqual({ mode: 99 });
  expect(Object.values(ACCESS_MODE)).not.toContain(99);
});

it("rejects invalid bytes", () => {
  expect(() => decode("Volume", Buffer.from("12ff", "hex"))).toThrow();
});

it("defines the path and messages of each call", () => {
  for (const [service, rpcs] of Object.entries(SERVICES))
    for (const rpc of rpcs) {
      expect(methodOf(rpc).path).toBe(`/csi.v1.${service}/${rpc}`);
      expect(names).toEqual(expect.arrayContaining([`${rpc}Request`, `${rpc}Response`]));
    }
});
