import type { CsiClaimMethod, CsiMethod } from "@sallyport/agent-protocol";
import { type Refusal, refuse } from "../../lib/result.ts";
import type { Need } from "./controllers.ts";

/**
 * Methods that change the provider's state. At most one of them runs per plugin, because drivers expect serialized
 * calls.
 */
export const SERIAL: ReadonlySet<CsiMethod> = new Set([
  ...(["csi.controller.delete", "csi.controller.expand", "csi.controller.modify"] as const),
  ...(["csi.controller.snapshotCreate", "csi.controller.snapshotDelete"] as const),
  ...(["csi.controller.publish", "csi.controller.unpublish"] as const),
]);

/** Methods that serve claims. */
export const CLAIM_METHODS: ReadonlySet<CsiMethod> = new Set<CsiClaimMethod>([
  ...(["csi.controller.publish", "csi.controller.unpublish"] as const),
  ...(["csi.node.publish", "csi.node.detach", "csi.node.expand"] as const),
]);
export const isForClaim = (method: CsiMethod): method is CsiClaimMethod => CLAIM_METHODS.has(method);

const ATTACH: Need = { flag: "SupportsAttachDetach", lacking: "plugin does not support attaching volumes" };

const MODIFY: Need = {
  flag: "SupportsModify",
  lacking: "plugin does not support mutable parameters (MODIFY_VOLUME)",
};

/** The controller capability that a method requires. */
export const NEEDS: Readonly<Record<CsiMethod, Need | null>> = {
  "csi.controller.create": { flag: "SupportsCreateDelete", lacking: "plugin does not support creating volumes" },
  "csi.controller.delete": { flag: "SupportsCreateDelete", lacking: "plugin does not support deleting volumes" },
  "csi.controller.validate": null,
  "csi.controller.expand": { flag: "SupportsExpand", lacking: "expand is not implemented by this controller plugin" },
  "csi.controller.modify": MODIFY,
  "csi.controller.list": {
    flag: "SupportsListVolumes",
    lacking: "unimplemented for this plugin: it does not list volumes (LIST_VOLUMES)",
  },
  "csi.controller.snapshotCreate": {
    flag: "SupportsCreateDeleteSnapshot",
    lacking: "plugin does not support snapshot",
  },
  "csi.controller.snapshotDelete": {
    flag: "SupportsCreateDeleteSnapshot",
    lacking: "plugin does not support snapshot",
  },
  "csi.controller.snapshotList": {
    flag: "SupportsListSnapshots",
    lacking: "plugin does not support listing snapshots",
  },
  "csi.controller.publish": ATTACH,
  "csi.controller.unpublish": ATTACH,
  "csi.node.publish": null,
  "csi.node.detach": null,
  "csi.node.expand": null,
};

/** As `NEEDS`; CSI permits mutable parameters in a creation only with their own capability. */
export const needOf = (method: CsiMethod, params: Readonly<Record<string, unknown>>): Need | null =>
  "mutableParameters" in params ? MODIFY : NEEDS[method];

/** Prefixes of error messages for failed methods. */
const FAILED: Readonly<Record<CsiMethod, string>> = {
  "csi.controller.create": "controller create volume: ",
  "csi.controller.delete": "controller delete volume: ",
  "csi.controller.validate": "controller validate volume: ",
  "csi.controller.expand": "unable to update volume: unable to expand volume: ",
  "csi.controller.modify": "unable to update volume: unable to modify volume: ",
  "csi.controller.list": "controller list volumes: ",
  "csi.controller.snapshotCreate": "could not create snapshot: ",
  "csi.controller.snapshotDelete": "could not delete ",
  "csi.controller.snapshotList": "controller list snapshots: ",
  "csi.controller.publish": "controller publish volume: ",
  "csi.controller.unpublish": "could not detach from controller: controller detach volume: ",
  "csi.node.publish": "node publish volume: ",
  "csi.node.detach": "could not detach from node: ",
  "csi.node.expand": "node expand volume: ",
};

/** The refusal of a failed method, with its prefix. */
export const failedAt = (method: CsiMethod, { reason, message }: Refusal): Refusal =>
  refuse(reason, `${FAILED[method]}${message}`);
