/** Topics of the event stream, and where the object of an event is shown. */
import {
  allocationHref,
  csiVolumeHref,
  hostVolumeHref,
  jobHref,
  nodeHref,
  pluginHref,
} from "../../app/cluster-links.ts";
import { href } from "../../app/router.ts";
import { timeOf } from "../../lib/time.ts";

export interface EventBody {
  readonly Topic: string;
  readonly Type: string;
  readonly Key: string;
  readonly Namespace: string;
  readonly FilterKeys: readonly string[] | null;
  readonly Payload: Readonly<Record<string, unknown>>;
}

/** Topics in the order of the list; each with the right that a token needs (docs/guides/events.md). */
export const TOPICS: ReadonlyArray<readonly [topic: string, needs: string]> = [
  ["Job", "read-job"],
  ["Allocation", "read-job"],
  ["Evaluation", "read-job"],
  ["Deployment", "read-job"],
  ["Service", "read-job"],
  ["Node", "node read"],
  ["NodeDrain", "node read"],
  ["NodePool", "management"],
  ["Namespace", "any capability in the namespace"],
  ["Variable", "list on the path of variables"],
  ["HostVolume", "host-volume-read"],
  ["CSIVolume", "csi-read-volume"],
  ["CSIPlugin", "read-job"],
  ["ACLToken", "management"],
  ["ACLPolicy", "management"],
  ["ACLRole", "management"],
  ["ACLAuthMethod", "management"],
  ["ACLBindingRule", "management"],
  ["Secret", "read or list on the path"],
  ["Sync", "read or list on the path"],
  ["Lease", "read or list on the path"],
  ["Engine", "read or list on the path"],
];

/** Address of the screen that shows the event's object; null where the console has none. */
export function objectHref({ Topic, Key, Namespace, Payload }: EventBody): string | null {
  switch (Topic) {
    case "Node":
    case "NodeDrain":
      return nodeHref(Key);
    case "Job":
      return jobHref(Key, Namespace);
    case "Allocation":
      return allocationHref(Key, Namespace);
    case "Evaluation":
    case "Deployment":
    case "Service": {
      const job = textOf(objectOf(Payload)["JobID"]);
      return job ? jobHref(job, Namespace) : null;
    }
    case "HostVolume":
      return hostVolumeHref(Key, Namespace);
    case "CSIVolume":
      return csiVolumeHref(Key, Namespace);
    case "CSIPlugin":
      return pluginHref(Key);
    case "Secret":
      return href(
        "secrets",
        [mountOf(Payload), "at", ...textOf(objectOf(Payload)["Path"]).split("/")],
        ofSecrets(Payload),
      );
    case "Sync":
      return href(
        "sync",
        ["Type", "Name"].map((field) => textOf(objectOf(Payload)[field])),
        ofSecrets(Payload),
      );
    case "Lease":
    case "Engine":
      return href("credentials", [mountOf(Payload)], ofSecrets(Payload));
    default:
      return Topic.startsWith("ACL") ? href("access") : null;
  }
}

/** The payload's object: its one member that is an object. */
function objectOf(payload: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  for (const value of Object.values(payload))
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  return {};
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** The namespace of the secrets API, which is not that of the event. */
const ofSecrets = (payload: EventBody["Payload"]) => ({
  ns: textOf(objectOf(payload)["Namespace"]).replace(/\/$/, "") || null,
});

const mountOf = (payload: EventBody["Payload"]): string => textOf(objectOf(payload)["Mount"]).replace(/\/$/, "");

/** The object's name, else its key. */
export const nameOf = ({ Key, Payload }: EventBody): string => textOf(objectOf(Payload)["Name"]) || Key;

/** The state of an event's object in a few words. */
export function summaryOf({ Topic, Payload }: EventBody): string {
  if (Payload["Deleted"] === true) return "deleted";
  const object = objectOf(Payload);
  if (Topic === "Node" || Topic === "NodeDrain") {
    const events = object["Events"];
    const last = Array.isArray(events) ? (events.at(-1) as { Message?: unknown } | undefined) : undefined;
    return textOf(last?.Message) || textOf(object["Status"]);
  }
  const words = [
    "Error",
    "ErrorCode",
    "ClientStatus",
    "Status",
    "State",
    "StatusDescription",
    "ServiceName",
    "Description",
  ];
  for (const name of words) if (textOf(object[name])) return textOf(object[name]);
  return "";
}

/** Fields that hold when an object changed, in any of the API's forms of time. */
const CHANGED = ["ModifyTime", "SubmitTime", "StatusUpdatedAt", "UpdateTime"];

/** When the event happened, as far as its object says so (ms since 1970): events carry no time of their own. */
export function happenedAt({ Payload }: EventBody): number | null {
  if (Payload["Deleted"] === true) return null;
  const object = objectOf(Payload);
  const events = object["Events"];
  const last = Array.isArray(events) ? (events.at(-1) as { Timestamp?: unknown } | undefined)?.Timestamp : undefined;
  const isNew = object["CreateIndex"] === object["ModifyIndex"];
  const given = [last, ...CHANGED.map((name) => object[name]), isNew && object["CreateTime"]];
  const times = given.map((value) => timeOf(typeof value === "string" || typeof value === "number" ? value : null));
  return times.reduce((newest, time) => (time !== null && time > (newest ?? 0) ? time : newest), null);
}
