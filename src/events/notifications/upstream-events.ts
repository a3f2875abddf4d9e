import { configPaths, translateMountType, upstreamEngines } from "../../compat/engine-names.ts";
import type { StreamEvent } from "../../contracts/event.ts";
import type { Notification, NotifyingPlugin } from "../../contracts/notification.ts";
import type { ServiceTopic } from "../../contracts/service-topics.ts";

/**
 * Upstream's event notifications, derived from the events of the log
 * (https://developer.hashicorp.com/vault/docs/concepts/events#event-types). A topic that is not listed has none.
 */

const ENGINE_EVENTS = [
  "config-write",
  "config-delete",
  "rotate",
  "rotate-fail",
  "role-create",
  "role-update",
  "role-delete",
  "creds-create",
  "creds-create-fail",
];

/** The types of each topic. Types of engines are below the engine's name. */
export const NOTIFICATION_TYPES: Partial<Record<ServiceTopic, readonly string[]>> = {
  Secret: [
    "kv-v1/write",
    "kv-v1/delete",
    ...["data-write", "data-patch", "data-delete", "delete", "undelete", "destroy"].map((type) => `kv-v2/${type}`),
    ...["metadata-write", "metadata-patch", "metadata-delete", "config-write"].map((type) => `kv-v2/${type}`),
  ],
  Lease: ["lease/issued", "lease/renewed", "lease/expired", "lease/revoked"],
  Engine: [
    ...upstreamEngines().flatMap((engine) => ENGINE_EVENTS.map((type) => `${engine}/${type}`)),
    "azure/static-role-update",
  ],
};

/** The type of the notice about lines that were evicted before they were delivered. Upstream has none. */
export const GAP_TYPE = "events/gap";

type Fields = Readonly<Record<string, unknown>>;

interface About {
  readonly type: string;
  /** Inside the mount. */
  readonly path: string;
  readonly metadata: Readonly<Record<string, string | undefined>>;
}

/** The notification of an event; null when upstream has none, or its payload was dropped. */
export function notificationOf({ Topic, Type, Key, Index, Payload }: StreamEvent): Notification | null {
  const fields = Payload[Topic] as Fields | undefined;
  const about = fields && aboutOf(Topic, Type, fields, Key);
  if (!about) return null;
  const mount = textIn(fields, "Mount");
  const at = Date.parse(textIn(fields, "Time")) || 0;
  const operation = about.type.slice(about.type.indexOf("/") + 1);
  const { metadata: details } = about;
  const metadata = {
    operation,
    modified: "true",
    path: joined(mount, about.path),
    ...details,
    ...(details["data_path"] !== undefined && { data_path: joined(mount, details["data_path"]) }),
  };
  return {
    index: Index,
    id: notificationId(at, Index),
    time: new Date(at).toISOString(),
    type: about.type,
    namespace: textIn(fields, "Namespace"),
    metadata: inOrder({ ...metadata, index: String(Index) }),
    plugin: Topic === "Lease" ? null : pluginOf(fields, mount),
    topic: Topic,
  };
}

/** The notice of a gap: lines from `from` on are no longer available, the next one is `oldest`. */
export function gapNotice(from: number, oldest: number, now: number): Notification {
  const metadata = { operation: "gap", modified: "false", from: String(from), index: String(oldest - 1) };
  const time = new Date(now).toISOString();
  const id = notificationId(now, oldest - 1);
  return {
    index: oldest - 1,
    id,
    time,
    type: GAP_TYPE,
    namespace: "",
    metadata: inOrder(metadata),
    plugin: null,
    topic: "",
  };
}

function aboutOf(topic: string, type: string, fields: Fields, key: string): About | null {
  if (topic === "Secret") return secretAbout(fields);
  if (topic === "Lease") return leaseAbout(type, fields);
  return topic === "Engine" ? engineAbout(type, fields, key) : null;
}

/** Operations on versions of a secret, with the metadata that names these. */
const VERSIONED: Readonly<Record<string, string>> = {
  delete: "deleted_versions",
  undelete: "undeleted_versions",
  destroy: "destroyed_versions",
};
const WITHOUT_DATA: ReadonlySet<string> = new Set(["data-delete", "metadata-delete", "delete", "destroy"]);

/** An event of an older release has no operation. */
function secretAbout(fields: Fields): About | null {
  const [operation, secret] = [textIn(fields, "Operation"), textIn(fields, "Path")];
  if (operation === "") return null;
  if (fields["Api"] === 1) {
    const data = operation === "delete" ? undefined : secret;
    return { type: `kv-v1/${operation}`, path: secret, metadata: { data_path: data } };
  }
  const [folder = ""] = operation.split("-");
  const path = folder === "config" ? folder : `${folder}/${secret}`;
  const versions = VERSIONED[operation];
  return {
    type: `kv-v2/${operation}`,
    path,
    metadata: {
      data_path: WITHOUT_DATA.has(operation) ? undefined : path.replace(/^undelete\//, "data/"),
      current_version: numberIn(fields, "CurrentVersion"),
      oldest_version: numberIn(fields, "OldestVersion"),
      ...(versions !== undefined && { [versions]: JSON.stringify(fields["Versions"] ?? []) }),
    },
  };
}

/** Type and operation of upstream, by the type of an event about a lease. */
const LEASES: Readonly<Record<string, readonly [type: string, operation: string]>> = {
  LeaseIssued: ["issued", "issue"],
  LeaseRenewed: ["renewed", "renew"],
  LeaseExpired: ["expired", "expire"],
  LeaseRevoked: ["revoked", "revoke"],
  LeaseForgotten: ["revoked", "revoke"],
};

function leaseAbout(event: string, fields: Fields): About | null {
  const names = LEASES[event];
  if (!names) return null;
  const [type, operation] = names;
  const lease = textIn(fields, "Path");
  const path = lease.slice(0, lease.lastIndexOf("/"));
  return { type: `lease/${type}`, path, metadata: { operation, lease_id: joined(textIn(fields, "Mount"), lease) } };
}

/** Name and path of upstream, by the type of an event about an engine. */
const ENGINES: Readonly<Record<string, readonly [type: string, path: string, modified?: "false"]>> = {
  ConfigWritten: ["config-write", "config"],
  ConfigDeleted: ["config-delete", "config"],
  RootRotated: ["rotate", "rotate-root"],
  RootRotationFailed: ["rotate-fail", "rotate-root", "false"],
  RoleWritten: ["role-update", "roles"],
  RoleDeleted: ["role-delete", "roles"],
  RoleRotated: ["rotate", "roles"],
  RoleRotationFailed: ["rotate-fail", "roles", "false"],
  // A subscriber that reads a new credential on a change would cause the next event.
  CredentialsIssued: ["creds-create", "creds", "false"],
  CredentialsFailed: ["creds-create-fail", "creds", "false"],
};

/** @param key of the event: the path of the role or of the request, below that of the mount */
function engineAbout(event: string, fields: Fields, key: string): About | null {
  const names = ENGINES[event];
  const engine = translateMountType("upstream", textIn(fields, "MountType"));
  if (!names || engine === "") return null;
  const [type, place, modified = "true"] = names;
  const { config, rotate } = configPaths(textIn(fields, "MountType"));
  const folder = place === "config" ? config : place === "rotate-root" ? rotate : place;
  const role = textIn(fields, "Role");
  const mount = textIn(fields, "Mount");
  const ofRole = mount !== "" && key.startsWith(mount) ? key.slice(mount.length) : `${folder}/${role}`;
  const isStatic = event === "RoleWritten" && engine === "azure" && ofRole.startsWith("static-roles/");
  return {
    type: `${engine}/${isStatic ? "static-role-update" : fields["Created"] === true ? "role-create" : type}`,
    path: role === "" ? folder : ofRole,
    metadata: { modified, name: role === "" ? undefined : role },
  };
}

function pluginOf(fields: Fields, mount: string): NotifyingPlugin | null {
  const [type, accessor, api] = [textIn(fields, "MountType"), textIn(fields, "MountAccessor"), fields["Api"]];
  if (type === "") return null;
  const about = { mount_class: "secret", mount_accessor: accessor, mount_path: mount } as const;
  const plugin = translateMountType("upstream", type);
  return { ...about, plugin, ...(typeof api === "number" && { version: String(api) }) };
}

/** A UUID of version 7 in form: the time of the event, and its index in the place of the random part. */
function notificationId(at: number, index: number): string {
  const time = at.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${index.toString(16).padStart(12, "0")}`;
}

const joined = (mount: string, path: string): string => (mount + path).replace(/\/$/, "");

/** Upstream sends metadata sorted by key. */
const inOrder = (metadata: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(metadata)
      .filter((entry): entry is [string, string] => entry[1] !== undefined)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );

function textIn(fields: Fields, name: string): string {
  const value = fields[name];
  return typeof value === "string" ? value : "";
}

function numberIn(fields: Fields, name: string): string | undefined {
  const value = fields[name];
  return typeof value === "number" ? String(value) : undefined;
}
