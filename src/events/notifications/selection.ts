import type { Notification, NotificationRequest } from "../../contracts/notification.ts";
import { compileFilter } from "../../lib/bexpr/compile.ts";
import * as kind from "../../lib/bexpr/kinds.ts";
import { matchesGlob } from "../../lib/glob.ts";
import { GAP_TYPE } from "./upstream-events.ts";

type FilterFields = ReturnType<typeof rowOf>;

const ROW = kind.record<FilterFields>({
  event_type: kind.string,
  operation: kind.string,
  source_plugin_mount: kind.string,
  source_plugin_is_local: kind.boolean,
  data_path: kind.string,
  namespace: kind.string,
});

/** Whether a subscription selects a notification. */
export type Selection = (notification: Notification) => boolean;

/**
 * Compiles the pattern, namespaces and filter of a subscription. Notices of the service itself are always selected.
 * @throws FilterError
 */
export function selectionOf({
  pattern,
  namespace,
  namespaces,
  filter,
}: Pick<NotificationRequest, "pattern" | "namespace" | "namespaces" | "filter">): Selection {
  const own = withoutSlash(namespace);
  const others = namespaces.map((glob) => namespace + glob.replace(/^\/+|\/+$/g, ""));
  // The fields are flat, so that the length of a filter bounds its work.
  const passes = filter === "" ? () => true : compileFilter<FilterFields>(filter, ROW, Number.POSITIVE_INFINITY);
  const isNear = (name: string) => name === own || others.some((glob) => matchesGlob(name, glob));
  return (each) =>
    each.type === GAP_TYPE ||
    (matchesGlob(each.type, pattern) && isNear(withoutSlash(each.namespace)) && passes(rowOf(each)));
}

/** The fields of a filter; a missing value is an empty text. */
const rowOf = ({ type, namespace, metadata, plugin }: Notification) => ({
  event_type: type,
  operation: metadata["operation"] ?? "",
  source_plugin_mount: plugin?.mount_path ?? "",
  source_plugin_is_local: false,
  data_path: metadata["data_path"] ?? "",
  namespace,
});

const withoutSlash = (namespace: string): string => namespace.replace(/\/$/, "");
