import type { NamespaceContent } from "../platform/durable/ended-namespaces.ts";
import { CSI_VOLUME_IN_NAMESPACE, NEW_CSI_VOLUME_IN_NAMESPACE } from "../volumes/csi/view.ts";
import { HOST_VOLUME_IN_NAMESPACE } from "../volumes/host/view.ts";
import { CLAIM_IN_NAMESPACE } from "../volumes/host-claims/view.ts";
import { ALLOCATION_IN_NAMESPACE, JOB_IN_NAMESPACE } from "./reports/view.ts";

const quoted = JSON.stringify;

/**
 * Content of the cluster API that blocks the deletion of a namespace. Terminal objects do not count; they are deleted
 * with it.
 */
export const CLUSTER_CONTENT: readonly NamespaceContent[] = [
  { one: JOB_IN_NAMESPACE, because: (namespace) => runsJobs(namespace) },
  { one: ALLOCATION_IN_NAMESPACE, because: (namespace) => runsJobs(namespace) },
  { one: HOST_VOLUME_IN_NAMESPACE, because: (namespace, name) => contains(namespace, "host volume", name) },
  { one: CSI_VOLUME_IN_NAMESPACE, because: (namespace, name) => contains(namespace, "CSI volume", name) },
  { one: NEW_CSI_VOLUME_IN_NAMESPACE, because: (namespace, name) => contains(namespace, "CSI volume", name) },
  { one: CLAIM_IN_NAMESPACE, because: (namespace, name) => contains(namespace, "volume claim", name) },
];

const runsJobs = (namespace: string): string =>
  `namespace ${quoted(namespace)} has non-terminal jobs in regions: [global]`;

const contains = (namespace: string, what: string, name: string): string =>
  `namespace ${quoted(namespace)} contains at least one ${what} ${quoted(name)}. ` +
  `All ${what}s must be deleted in namespace before it can be deleted`;
