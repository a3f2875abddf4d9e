import type { Mutation } from "./mutation.ts";

const OPERATIONS = {
  file: "src/volumes/csi/csi-operations.ts",
  suites: ["test/workers/csi-claims-rules.test.ts", "test/workers/csi-node-restarts.test.ts"],
};
const WORK = {
  file: "src/volumes/csi/dispatcher.ts",
  suites: ["test/workers/csi-crash.test.ts", "test/workers/csi-volumes.test.ts"],
};
const CONTROLLERS = {
  file: "src/volumes/csi/controllers.ts",
  suites: ["test/workers/csi-claims-release.test.ts", "test/workers/csi-snapshots.test.ts"],
};
const TARGETS = { file: "src/volumes/csi/controllers.ts", suites: ["test/workers/csi-placement.test.ts"] };
const ADMISSION = { file: "src/volumes/csi/admission.ts", suites: ["src/volumes/csi/admission.test.ts"] };
const QUEUE = {
  file: "src/volumes/csi/csi-operations.ts",
  suites: ["test/workers/csi-crash.test.ts", "test/workers/csi-volumes.test.ts"],
};
const STEP = {
  file: "src/volumes/csi/claim-state-machine.ts",
  suites: ["src/volumes/csi/claim-state-machine.test.ts"],
};
const PLACEMENT = { file: "src/volumes/host/placement.ts", suites: ["test/workers/host-volumes-create.test.ts"] };
const HOST = { file: "src/volumes/host/host-volumes.ts", suites: ["test/workers/host-volumes-unknown.test.ts"] };
const STATES = {
  file: "src/volumes/host/volume-states.ts",
  suites: ["test/workers/host-volumes-nodes.test.ts", "test/workers/node-volumes.test.ts"],
};
const SESSION = { file: "src/node-agents/session-record.ts", suites: ["test/workers/node-volumes.test.ts"] };
const NODES = { file: "src/cluster/nodes/node-volumes.ts", suites: ["src/cluster/nodes/node-volumes.test.ts"] };

export const csi: Mutation[] = [
  {
    ...TARGETS,
    find: "const isLocal = strict && all &&",
    replace: "const isLocal = false &&",
    promise: "A volume of a node-local driver is never deleted by the controller of another node",
  },
  {
    ...TARGETS,
    find: "(AvailableCapacity < bytes ? 1 : 0)",
    replace: "(AvailableCapacity > bytes ? 1 : 0)",
    promise: "A controller with capacity for a new volume comes first",
  },
  {
    ...ADMISSION,
    find: "return holders.nodeId === node;",
    replace: "return true;",
    promise: "A volume with writers on a single node is not given to another node",
  },
  {
    ...OPERATIONS,
    find: 'const mayYetBeMade = uncertain && method === "csi.controller.create";',
    replace: 'const mayYetBeMade = method === "csi.controller.create";',
    promise: "A creation that has certainly failed keeps no sealed secrets",
  },
  {
    ...OPERATIONS,
    find: "sealed = iif(?, sealed, NULL)",
    replace: "sealed = iif(? >= 0, sealed, NULL)",
    promise: "Sealed secrets go with the end of the operation",
  },
  {
    ...OPERATIONS,
    find: "isOpenEnded ? UNCERTAIN_KEPT_MS : KEPT_MS",
    replace: "KEPT_MS",
    promise: "An operation of unknown outcome is kept for 30 days",
  },
  {
    ...OPERATIONS,
    find: "const READS_KEPT_MS = 60_000;",
    replace: "const READS_KEPT_MS = 3_600_000;",
    promise: "What only reads is kept for a minute",
  },
  {
    ...OPERATIONS,
    find: '"uncertain = 1, serial = 0"',
    replace: '"uncertain = 1"',
    promise: "A plugin goes on with others while one outcome is not known",
  },
  {
    ...QUEUE,
    find: "    this.#next(pluginId);\n  }\n\n  /** The operation in the form of the agent protocol. */",
    replace: "  }\n\n  /** The operation in the form of the agent protocol. */",
    promise: "The next operation of a plugin begins when one has ended",
  },
  {
    ...QUEUE,
    find: "turnOf(a) - turnOf(b) || a.gen - b.gen",
    replace: "a.gen - b.gen",
    promise: "Namespaces take turns at a plugin",
  },
  {
    ...QUEUE,
    find: "JSON.stringify([...tried, nodeId])",
    replace: "JSON.stringify([nodeId])",
    promise: "Every node that was asked is remembered",
  },
  {
    ...WORK,
    find: "else if (nodeId !== operation.nodeId) return false;\n",
    replace: "",
    promise: "The failure of a node that was asked before does not count",
  },
  {
    ...WORK,
    find: "if (!operation?.tried.includes(nodeId)) return false;",
    replace: "if (!operation) return false;",
    promise: "Only a node that was asked tells an outcome",
  },
  {
    ...WORK,
    find: "if (this.#tryNextController(operation)) return false;\n    this.#fail({ ...operation, uncertain: true }, described(operation, why));",
    replace: "this.#fail({ ...operation, uncertain: true }, described(operation, why));",
    promise: "Another controller is asked for what a node will not tell",
  },
  {
    ...WORK,
    find: "if (!operation.uncertain) return described(operation, started);",
    replace: "return described(operation, started);",
    promise: "An operation of unknown outcome does not fail because no other node takes it",
  },
  {
    ...WORK,
    find: "this.#fail(operation, late);",
    replace: "void late;",
    promise: "An operation that waited in line for too long fails",
  },
  {
    ...WORK,
    find: "!operation.tried.includes(nodeId))",
    replace: "nodeId !== operation.nodeId)",
    promise: "No controller is asked twice",
  },
  {
    ...CONTROLLERS,
    find: "plugin.controllersHealthy === 0",
    replace: "plugin.controllersHealthy < 0",
    promise: "A plugin without a healthy controller is refused as unavailable",
  },
  {
    ...CONTROLLERS,
    suites: ["src/volumes/csi/controllers.test.ts"],
    find: "ControllerInfo?.[need.flag] === true",
    replace: "ControllerInfo?.[need.flag] !== false",
    promise: "A controller without the capability is not asked",
  },
  {
    ...PLACEMENT,
    suites: ["src/volumes/host/placement.test.ts"],
    find: "volumes.countOn(id) < MAX_VOLUMES",
    replace: "volumes.countOn(id) <= MAX_VOLUMES",
    promise: "A node has no more volumes than its bound",
  },
  {
    ...PLACEMENT,
    find: "volumes.holder(node.id, name) !== null || node.hasName(name)",
    replace: "volumes.holder(node.id, name) !== null",
    promise: "A name that the node shows is taken",
  },
  {
    ...PLACEMENT,
    find: 'node.status === "ready" && node.hasAgent ? ok(node)',
    replace: "node.hasAgent ? ok(node)",
    promise: "A node that is not ready is refused",
  },
  {
    ...PLACEMENT,
    suites: ["src/volumes/host/placement.test.ts"],
    find: "if (!node.hasAgent) return",
    replace: "if (false) return",
    promise: "A node without an agent takes no volume",
  },
  {
    ...HOST,
    find: "(isStuck || !reachable)",
    replace: "!reachable",
    promise: "An operation of unknown outcome is given up by force",
  },
  {
    ...HOST,
    find: "!(isStuck && running.forced)",
    replace: "true",
    promise: "A forced deletion of unknown outcome is given up by the next",
  },
  {
    ...STATES,
    suites: ["src/volumes/host/volume-states.test.ts"],
    find: "filter((volume) => volume?.nodeId === nodeId)",
    replace: "filter((volume) => volume !== null)",
    promise: "A volume follows the node that it is on",
  },
  {
    ...SESSION,
    find: "if (whole || row.told === 0)",
    replace: "if (whole)",
    promise: "The first report names all volumes",
  },
  {
    ...SESSION,
    find: "for (const { id } of this.#volumes(0)) if (!stay.has(id)) this.#volumeGone(id);",
    replace: "",
    promise: "A report at connect takes the place of what was known",
  },
  {
    ...SESSION,
    suites: ["src/node-agents/session-record.test.ts"],
    find: "WHERE body IS NOT excluded.body",
    replace: "",
    promise: "A volume that is as it was is not told again",
  },
  {
    ...SESSION,
    find: "return n - left + arrived > MAX_VOLUMES;",
    replace: "return n - left + arrived > MAX_VOLUMES + 1;",
    promise: "A node has no more volumes than its bound",
  },
  {
    ...NODES,
    find: "const left = gone.filter((id) => this.#body(nodeId, id) !== undefined);",
    replace: "const left = gone;",
    promise: "A volume that was not there is not told as gone",
  },
  {
    ...STEP,
    find: 'now.node === "gone" || now.node === "theirs") return transition("node-detached");',
    replace: 'now.node === "gone") return transition("node-detached");',
    promise: "A node that somebody else has by now is asked for nothing",
  },
  {
    ...STEP,
    find: 'if (now.others.attached) return { kind: "leave-attached" };',
    replace: "",
    promise: "A volume that another claim has attached stays attached",
  },
  {
    ...STEP,
    find: 'return now.others.busy ? IDLE : operate("csi.controller.unpublish");',
    replace: 'return operate("csi.controller.unpublish");',
    promise: "A volume is not detached while it is being attached for another claim",
  },
  {
    ...STEP,
    find: 'if (now.node === "down") return { kind: "leave-published" };',
    replace: "",
    promise: "A claim does not wait for a node that is down",
  },
  {
    ...STEP,
    find: 'if (state === "published" && mountLost) return transition("attached");',
    replace: "",
    promise: "A volume whose mount is lost is published again",
  },
  {
    ...STEP,
    find: 'if (!attaches) return transition("attached");',
    replace: "",
    promise: "A plugin that attaches nothing is not asked to",
  },
];
