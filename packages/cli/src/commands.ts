import { agentJoin } from "./agent-join.ts";
import type { Command } from "./command.ts";
import { completionOf } from "./completion.ts";
import { cost } from "./cost.ts";
import { creds, leaseRenew, leaseRevoke } from "./creds.ts";
import { deploy } from "./deploy.ts";
import { doctor } from "./doctor/command.ts";
import { envPull, envPush } from "./env.ts";
import { eventsTail } from "./events.ts";
import { importDump } from "./import/dump-command.ts";
import { importVault } from "./import/vault-command.ts";
import { kvCp, kvMv } from "./kv/copy.ts";
import { kvEdit } from "./kv/edit.ts";
import { kvDiff, kvFind, kvGet, kvHistory, kvList } from "./kv/read.ts";
import { kvShare } from "./kv/share.ts";
import { kvPatch, kvPut, kvRm, kvRollback, kvUndelete } from "./kv/write.ts";
import { login, logout } from "./login/command.ts";
import { relay } from "./relay.ts";
import { run } from "./run/command.ts";
import { snapshotList, snapshotRestore, snapshotSave } from "./snapshot.ts";
import { syncPlan, syncRemove, syncSet, syncStatus } from "./sync.ts";

/** The commands of `sallyport`, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  login,
  logout,
  kvGet,
  kvPut,
  kvPatch,
  kvList,
  kvFind,
  kvHistory,
  kvDiff,
  kvRollback,
  kvRm,
  kvUndelete,
  kvCp,
  kvMv,
  kvEdit,
  kvShare,
  envPull,
  envPush,
  run,
  creds,
  leaseRenew,
  leaseRevoke,
  syncStatus,
  syncPlan,
  syncSet,
  syncRemove,
  eventsTail,
  doctor,
  snapshotSave,
  snapshotRestore,
  snapshotList,
  agentJoin,
  relay,
  importVault,
  importDump,
  deploy,
  cost,
  ...completionOf(() => COMMANDS),
];
