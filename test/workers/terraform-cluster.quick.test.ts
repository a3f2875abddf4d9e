import { describe, it } from "vitest";
import { get, put } from "./client.ts";
import { addCsiNode, PLUGIN, ScriptedCsi } from "./csi-world.ts";
import { succeeded } from "./engine-helpers.ts";
import { addNode, nodeId, ScriptedNodes } from "./host-volumes.ts";
import { type AtPath, atPath, expectNoDifference, type Fields, named, nomad, type Resource } from "./terraform.ts";

/** Resources of terraform-provider-nomad. Its client writes whole objects, with zero values for unknown fields. */

const paths: readonly AtPath[] = [
  {
    name: "nomad_namespace",
    path: "/v1/namespace/d",
    fields: [
      "Description",
      "Quota",
      "Meta",
      "Capabilities",
      "NodePoolConfiguration",
      "VaultConfiguration",
      "ConsulConfiguration",
      "RequiredExtraClaims",
      "OptionalExtraClaims",
    ],
    configurations: [
      {},
      { Description: "x", Meta: { a: "1" }, Quota: "small", Capabilities: { DisabledTaskDrivers: ["exec"] } },
      {
        Capabilities: { EnabledTaskDrivers: ["docker"], DisabledTaskDrivers: ["raw_exec", "exec"] },
        NodePoolConfiguration: { Default: "gpu", Allowed: ["gpu", "cpu"] },
        VaultConfiguration: { Default: "v", Denied: ["w"] },
        ConsulConfiguration: { Default: "c", Allowed: ["c", "e"] },
      },
      {
        Capabilities: { EnabledNetworkModes: ["bridge", "cni/web"], DisabledNetworkModes: ["host"] },
        RequiredExtraClaims: { team: "a" },
        OptionalExtraClaims: { unit: "b" },
      },
    ],
    state: ({ body }) => body,
  },
  {
    name: "nomad_acl_policy",
    path: "/v1/acl/policy/p",
    fields: ["Name", "Description", "Rules", "JobACL"],
    configurations: [
      { Name: "p", Rules: 'node { policy = "read" }\n' },
      {
        Name: "p",
        Description: "d",
        Rules: '\nnamespace "default" { policy = "read" }',
        JobACL: { Namespace: "default", JobID: "j", Group: "g", Task: "" },
      },
    ],
    state: ({ body }) => body,
  },
];

/** A time that Go's client has not set. */
const NEVER = "0001-01-01T00:00:00Z";
const UNSET = { CreateIndex: 0, ModifyIndex: 0 };
const capability = (AccessMode: string, AttachmentMode = "file-system") => ({ AccessMode, AttachmentMode });

/** A request for a topology as the state has it: a list that is there is a block, also an empty one. */
const blocks = (request: { Required: unknown; Preferred: unknown } | null) =>
  request && {
    ...(request.Required !== null && { Required: request.Required }),
    ...(request.Preferred !== null && { Preferred: request.Preferred }),
  };

/** A CSI volume as Go's client writes it. */
const csiVolume = (given: Fields) => ({
  ExternalID: "",
  Namespace: "",
  RequestedTopologies: null,
  Topologies: null,
  MountOptions: { FSType: "", MountFlags: null },
  Secrets: {},
  AccessMode: "",
  AttachmentMode: "",
  Parameters: {},
  Context: null,
  Capacity: 0,
  RequestedCapacityMin: 0,
  RequestedCapacityMax: 0,
  CloneID: "",
  SnapshotID: "",
  ReadAllocs: null,
  WriteAllocs: null,
  Allocations: null,
  Schedulable: false,
  Provider: "",
  ProviderVersion: "",
  ControllerRequired: false,
  ControllersHealthy: 0,
  ControllersExpected: 0,
  NodesHealthy: 0,
  NodesExpected: 0,
  ResourceExhausted: NEVER,
  CreateTime: 0,
  ModifyTime: 0,
  ...UNSET,
  PluginID: PLUGIN,
  RequestedCapabilities: [capability("single-node-writer")],
  ...given,
  ...(given["RequestedTopologies"] !== undefined && {
    RequestedTopologies: { Required: null, Preferred: null, ...(given["RequestedTopologies"] as Fields) },
  }),
});

const csi = (intent: "create" | "register", configurations: readonly Fields[]): Resource => {
  const idOf = (at: number) => `${intent}-${at}`;
  const write = async (id: string, given: Fields) => {
    const volume = csiVolume({ ID: id, Name: id, ...given });
    const suffix = intent === "create" ? "/create" : "";
    succeeded(await put(`/v1/volume/csi/${id}${suffix}?namespace=default`, { Volumes: [volume] }, nomad));
  };
  return {
    name: intent === "create" ? "nomad_csi_volume" : "nomad_csi_volume_registration",
    prepare: async () => {
      new ScriptedCsi();
      await addCsiNode(1);
    },
    fields: ["Name", "RequestedTopologies"],
    computed: [
      "ID",
      "ExternalID",
      "PluginID",
      "Namespace",
      "RequestedCapabilities",
      "RequestedCapacityMin",
      "RequestedCapacityMax",
    ],
    configurations: configurations.map((given, at) => ({ ID: idOf(at), Name: idOf(at), PluginID: PLUGIN, ...given })),
    create: async (given, at) => {
      await write(idOf(at), given);
      return idOf(at);
    },
    update: write,
    read: async (id) => {
      const { body } = succeeded(await get(`/v1/volume/csi/${id}?namespace=default`, nomad));
      return { ...body, RequestedTopologies: blocks(body.RequestedTopologies) };
    },
  };
};

/** A host volume as Go's client writes it. */
const host = (intent: "create" | "register", configurations: readonly Fields[]): Resource => {
  let nodes: ScriptedNodes;
  const write = async (given: Fields) => {
    const Volume = {
      ID: "",
      Namespace: "default",
      NodePool: "",
      NodeID: "",
      PluginID: "",
      HostPath: "",
      State: "",
      Constraints: [],
      Parameters: {},
      RequestedCapacityMinBytes: 0,
      RequestedCapacityMaxBytes: 0,
      CapacityBytes: 0,
      CreateTime: 0,
      ModifyTime: 0,
      ...UNSET,
      ...given,
    };
    const written = succeeded(await put(`/v1/volume/host/${intent}`, { Volume }, nomad)).body.Volume;
    await nodes.report(nodeId(1));
    return written;
  };
  // The provider waits until the volume is ready.
  const read = async (id: string) => {
    const path = `/v1/volume/host/${id}?namespace=default`;
    for (let index = 0; ; ) {
      const { body, headers } = succeeded(await get(`${path}&index=${index}`, nomad));
      if (body.State === "ready") return body;
      index = Number(headers.get("X-Nomad-Index"));
    }
  };
  return {
    name: intent === "create" ? "nomad_dynamic_host_volume" : "nomad_dynamic_host_volume_registration",
    prepare: async () => {
      nodes = new ScriptedNodes();
      await addNode(1);
    },
    fields: ["Name", "RequestedCapabilities", "Parameters", "Constraints"],
    computed: [
      "Namespace",
      "PluginID",
      "NodeID",
      "NodePool",
      "HostPath",
      "CapacityBytes",
      "RequestedCapacityMinBytes",
      "RequestedCapacityMaxBytes",
    ],
    configurations,
    create: async (given) => (await write(given)).ID,
    // The provider writes back the computed fields that it has read.
    update: async (id, given) => {
      const { NodeID, NodePool } = await read(id);
      await write({ NodeID, NodePool, ...given, ID: id });
    },
    read,
  };
};

const token = (given: Fields) => ({
  AccessorID: "",
  SecretID: "",
  Name: "",
  Policies: [],
  Roles: [],
  Global: false,
  CreateTime: NEVER,
  ...UNSET,
  ...given,
});

/** A resource that is created at one path, and read and updated by an id below it. */
const byId = (
  rest: Omit<Resource, "create" | "update" | "read">,
  path: string,
  body: (given: Fields) => Fields,
): Resource => ({
  ...rest,
  create: async (given) => succeeded(await put(path, body({ ID: "", ...given }), nomad)).body.ID,
  update: async (id, given) => succeeded(await put(`${path}/${id}`, body({ ...given, ID: id }), nomad)),
  read: async (id) => succeeded(await get(`${path}/${id}`, nomad)).body,
});
const policy = () => put("/v1/acl/policy/dev", { Rules: 'node { policy = "read" }' });

/** The configuration of an auth method as Go's client writes it. */
const config = (given: Fields) => ({
  JWTValidationPubKeys: [],
  JWKSURL: "",
  JWKSCACert: "",
  OIDCDiscoveryURL: "",
  OIDCClientID: "",
  OIDCClientSecret: "",
  OIDCClientAssertion: null,
  OIDCEnablePKCE: false,
  OIDCDisableUserInfo: false,
  OIDCScopes: [],
  BoundAudiences: [],
  BoundIssuer: [],
  AllowedRedirectURIs: [],
  DiscoveryCaPem: [],
  SigningAlgs: [],
  ExpirationLeeway: "",
  NotBeforeLeeway: "",
  ClockSkewLeeway: "",
  VerboseLogging: false,
  ClaimMappings: {},
  ListClaimMappings: {},
  ...given,
});
const authMethod = (given: Fields) => ({
  TokenNameFormat: "",
  Default: false,
  Hash: null,
  CreateTime: NEVER,
  ModifyTime: NEVER,
  ...UNSET,
  ...given,
  Config: config(given["Config"] as Fields),
});
const putMethod = async (given: Fields): Promise<string> => {
  const { Name } = succeeded(await put("/v1/acl/auth-method", authMethod(given), nomad)).body;
  return Name;
};
const JWT = { Type: "JWT", TokenLocality: "local", MaxTokenTTL: "10m0s" };

const made: readonly Resource[] = [
  byId(
    {
      name: "nomad_acl_role",
      prepare: policy,
      fields: ["Name", "Description", "Policies"],
      configurations: [
        { Name: "plain", Policies: [{ Name: "dev" }] },
        { Name: "described", Description: "d", Policies: [{ Name: "default" }, { Name: "dev" }] },
      ],
    },
    "/v1/acl/role",
    (given) => ({ Name: "", Description: "", Policies: [], ...UNSET, ...given }),
  ),
  {
    name: "nomad_acl_auth_method",
    fields: ["Name", "Type", "TokenLocality", "MaxTokenTTL", "Default"],
    computed: ["TokenNameFormat", "Config"],
    configurations: [
      { ...JWT, Name: "a", Config: { JWKSURL: "https://issuer.example/keys" } },
      {
        ...JWT,
        Name: "b",
        TokenLocality: "global",
        Default: true,
        TokenNameFormat: "ci",
        Config: { OIDCDiscoveryURL: "https://issuer.example", ClaimMappings: { sub: "subject" } },
      },
    ],
    create: putMethod,
    update: async (Name, given) =>
      succeeded(await put(`/v1/acl/auth-method/${Name}`, authMethod({ ...given, Name }), nomad)),
    read: async (name) => {
      const { body } = succeeded(await get(`/v1/acl/auth-method/${name}`, nomad));
      // The state has the fields that are set.
      const set = Object.entries(body.Config as Fields).filter(([, value]) => value !== null && value !== "" && value);
      return { ...body, Config: Object.fromEntries(set) };
    },
  },
  byId(
    {
      name: "nomad_acl_binding_rule",
      prepare: () => putMethod({ ...JWT, Name: "a", Config: { JWKSURL: "https://issuer.example/keys" } }),
      fields: ["Description", "AuthMethod", "Selector", "BindType", "BindName"],
      configurations: [
        { AuthMethod: "a", BindType: "management" },
        { AuthMethod: "a", BindType: "role", BindName: "dev", Description: "d", Selector: 'value.team == "dev"' },
      ],
    },
    "/v1/acl/binding-rule",
    (given) => ({
      Description: "",
      AuthMethod: "",
      Selector: "",
      BindType: "",
      BindName: "",
      CreateTime: NEVER,
      ModifyTime: NEVER,
      ...UNSET,
      ...given,
    }),
  ),
  {
    name: "nomad_acl_token",
    fields: ["Name", "Type", "Policies", "Roles", "Global"],
    computed: ["ExpirationTTL"],
    configurations: [
      { Type: "management" },
      { Type: "client", Name: "ci", Policies: ["dev", "qa"], Global: true },
      { Type: "client", Policies: ["dev"], ExpirationTTL: "1h0m0s" },
    ],
    create: async (given) => succeeded(await put("/v1/acl/token", token(given), nomad)).body.AccessorID,
    update: async (id, given) =>
      succeeded(await put(`/v1/acl/token/${id}`, token({ ...given, AccessorID: id }), nomad)),
    read: async (id) => succeeded(await get(`/v1/acl/token/${id}`, nomad)).body,
  },
  csi("create", [
    {},
    {
      RequestedCapacityMin: 1_000_000,
      RequestedCapacityMax: 2_000_000,
      Parameters: { tier: "gold" },
      RequestedTopologies: { Required: [{ Segments: { zone: "a" } }] },
      RequestedCapabilities: [capability("single-node-writer"), capability("single-node-reader-only")],
      MountOptions: { FSType: "ext4", MountFlags: ["noatime"] },
      Secrets: { token: "s" },
    },
    {
      RequestedTopologies: {
        Required: [{ Segments: { zone: "a" } }, { Segments: { zone: "b" } }],
        Preferred: [{ Segments: { zone: "a" } }],
      },
    },
  ]),
  csi("register", [
    { ExternalID: "ext-a", ...capability("single-node-writer") },
    {
      ExternalID: "ext-b",
      ...capability("multi-node-multi-writer"),
      RequestedCapabilities: [capability("multi-node-multi-writer")],
      RequestedTopologies: { Required: [{ Segments: { zone: "a" } }] },
      Context: { share: "a" },
      Secrets: { token: "s" },
      MountOptions: { FSType: "", MountFlags: [] },
    },
  ]),
  host("create", [
    { Name: "small", PluginID: "mkdir", RequestedCapabilities: [capability("single-node-writer")] },
    {
      Name: "large",
      PluginID: "mkdir",
      NodeID: nodeId(1),
      NodePool: "default",
      Parameters: { mode: "0700" },
      RequestedCapabilities: [capability("single-node-multi-writer"), capability("single-node-reader-only")],
      Constraints: [{ LTarget: `\${attr.kernel.name}`, RTarget: "linux", Operand: "=" }],
      RequestedCapacityMinBytes: 1_000_000,
      RequestedCapacityMaxBytes: 2_000_000,
    },
  ]),
  host("register", [
    {
      Name: "srv",
      NodeID: nodeId(1),
      HostPath: "/srv/db",
      CapacityBytes: 1_000_000,
      Parameters: { a: "1" },
      RequestedCapabilities: [capability("single-node-writer")],
    },
  ]),
];

describe("a resource of Terraform's nomad provider, applied and planned again", () => {
  it.each([...paths.map(atPath), ...made].map(named))("has no difference: %s", (_name, resource) =>
    expectNoDifference(resource),
  );
});
