import type { Mutation } from "./mutation.ts";

const REFUSALS = ["test/workers/backup-refusals.test.ts"];
const RESTORE = { file: "src/backup/restore.ts", suites: REFUSALS };
const FORMAT = { file: "src/backup/format.ts", suites: REFUSALS };
const FRAMES = { file: "src/backup/frames.ts", suites: REFUSALS };
const HOLD = { file: "src/platform/durable/snapshot/snapshot-lock.ts", suites: REFUSALS };
const FREEZE = {
  file: "src/platform/durable/snapshot/snapshot-lock.ts",
  suites: ["test/workers/backup-freeze.test.ts"],
};
const CUT = { file: "src/platform/durable/snapshot/object-snapshot.ts", suites: ["test/workers/backup-cut.test.ts"] };
const TAKE = { file: "src/backup/take.ts", suites: ["test/workers/backup-freeze.test.ts"] };
const LEDGER = { file: "src/backup/restore-ledger.ts", suites: ["test/workers/backup-crash.test.ts"] };
const STAGING = { file: "src/platform/durable/snapshot/shadow-tables.ts", suites: ["test/workers/backup.test.ts"] };
const KNOWN = {
  file: "src/platform/durable/object-inventory.ts",
  suites: ["test/workers/backup-ended-mounts.test.ts"],
};

export const backup: Mutation[] = [
  {
    file: "src/backup/scheduled-snapshots.ts",
    suites: ["test/workers/scheduled-snapshots.test.ts"],
    find: "stored.length + 1 - keep",
    replace: "stored.length + 2 - keep",
    promise: "Retention leaves the newest SNAPSHOT_KEEP snapshots",
  },
  {
    file: "src/platform/snapshot-bucket.ts",
    suites: ["test/workers/scheduled-snapshots.test.ts"],
    find: "const prefix = cluster === null ? {} : { prefix: folderOf(cluster) };",
    replace: "const prefix = {};",
    promise: "A deployment deletes no snapshot of another one",
  },
  {
    file: "src/objects/access-control.ts",
    suites: ["test/workers/jurisdiction.test.ts"],
    find: "if (first !== now) throw new JurisdictionChanged(now, first);",
    replace: "",
    promise: "A deployment does not start in another jurisdiction than its first one",
  },
  {
    ...RESTORE,
    find: "if (!masters.has(master))",
    replace: "if (masters.size === 0)",
    promise: "A snapshot with data keys under a foreign master key is refused",
  },
  {
    ...RESTORE,
    find: 'if (table !== "data_keys") return;\n  const column',
    replace: 'if (table !== "data_keys") return;\n  rows = rows.slice(0, 1);\n  const column',
    promise: "Every data key is looked at, those of later terms too",
  },
  {
    ...RESTORE,
    find: 'if (missing.size > 0) throw badRequest(`snapshot: without ${[...missing].join(", ")}`);',
    replace: "",
    promise: "A snapshot without every object that a deployment has is refused",
  },
  {
    ...RESTORE,
    find: "opener.close();\n",
    replace: "",
    promise: "A file that is cut off between two frames is refused",
  },
  {
    ...RESTORE,
    find: "await undo(env, restore);\n    throw failure;",
    replace: "throw failure;",
    promise: "A refused file leaves the deployment as it was",
  },
  {
    ...RESTORE,
    find: "unwrap(await storedObject(env, object).holdForRestore(restore, bornWith(object.kind)));",
    replace:
      "unwrap(await storedObject(env, object).holdForRestore(restore, { lines: 1e12, reported: 1e12, config: 1 }));",
    promise: "A deployment that holds anything takes no snapshot in",
  },
  {
    ...FORMAT,
    find: 'digest === this.#digest.copy().digest("hex");',
    replace: "digest.length === 64;",
    promise: "The last frame counts all bytes before it",
    equivalent: "each frame opens only in its place behind its header, so that no other bytes come this far",
  },
  {
    ...FORMAT,
    find: 'if (this.#ended) throw badRequest("snapshot: there is something behind its end");',
    replace: "",
    promise: "Nothing stands behind the end of a file",
  },
  {
    ...FORMAT,
    find: '`snapshot ${createHash("sha256").update(header).digest("hex")} ${place}`',
    replace: '`snapshot ${createHash("sha256").update(header).digest("hex")}`',
    promise: "A frame opens in its place only",
  },
  {
    ...FORMAT,
    find: 'createHash("sha256").update(header).digest("hex")} ${place}',
    replace: "0} ${place}",
    promise: "A frame opens behind its own header only",
    equivalent: "the key of a file is its own, so that no frame of another file opens under it",
  },
  {
    ...FRAMES,
    suites: ["src/backup/frames.test.ts"],
    find: "if (this.#length > 0) throw badRequest",
    replace: "if (this.#length > 1e9) throw badRequest",
    promise: "A file that is cut off inside of a length is refused",
  },
  {
    ...HOLD,
    find: "if (n > (mayHold[name] ?? 0)) return name;",
    replace: "if (n > (mayHold[name] ?? 0) + 1) return name;",
    promise: "A deployment that holds one row more than a new one takes no snapshot in",
  },
  {
    ...HOLD,
    find: "if (applied > known) return refuse",
    replace: "if (applied > known + 1_000_000) return refuse",
    promise: "A snapshot of a newer version is refused",
  },
  {
    ...HOLD,
    find: 'if (this.#holder?.kind === "cut") return refuse("conflict", SNAPSHOT_RUNS);',
    replace: "",
    promise: "No snapshot is restored while one is taken",
  },
  {
    ...HOLD,
    find: 'if (this.#holder?.kind === "load") return refuse("conflict", RESTORE_RUNS);',
    replace: "",
    promise: "No snapshot is taken while one is restored",
  },
  {
    ...FREEZE,
    find: "if (this.#holder && !isMine && now < this.#aliveUntil)",
    replace: "if (this.#holder && !isMine && now < 0)",
    promise: "Snapshots are taken one at a time",
  },
  {
    ...FREEZE,
    find: "return now < this.#holder.frozenUntil ? this.#holder.frozenUntil : this.#holder.ends;",
    replace: "return this.#holder.ends;",
    promise: "An object goes on by itself when its snapshot has died",
  },
  {
    ...FREEZE,
    suites: ["src/platform/durable/snapshot/snapshot-lock.test.ts"],
    find: "if (isMine) return renewSnapshot(sql);",
    replace: "if (isMine) return;",
    promise: "A snapshot is of the moment at which the last object was frozen",
  },
  {
    ...CUT,
    find: '["AFTER INSERT", wasNot],',
    replace: "",
    promise: "A row that came after the cut is not in it",
  },
  {
    ...CUT,
    find: '["AFTER UPDATE", wasNot],',
    replace: "",
    promise: "A row that got its key after the cut is not in it",
  },
  {
    ...CUT,
    find: "next: found.length < limit ? null",
    replace: "next: found.length <= limit ? null",
    promise: "Every page of a table is read",
  },
  {
    ...CUT,
    find: "bytes -= page.bytes;",
    replace: "",
    promise: "A part of a cut has bounded bytes",
  },
  {
    ...TAKE,
    find: "await mapLimit(cut, MAX_CONCURRENT, ({ object }) => storedObject(env, object).thaw(snapshot));",
    replace: "",
    promise: "Objects go on as soon as the last of them is frozen",
  },
  {
    ...TAKE,
    find: "if (!refused && Date.now() - begun > QUIESCE_MS - MARGIN_MS)",
    replace: "if (!refused && Date.now() - begun > 10 * FREEZE_MS)",
    promise: "A snapshot of which some objects thawed before the last was frozen fails",
  },
  {
    ...LEDGER,
    suites: ["src/backup/restore-ledger.test.ts"],
    find: "if (page.length > 0) return true;\n      const swapped",
    replace: "const swapped",
    promise: "AccessControl takes its rows when all others have theirs",
  },
  {
    ...LEDGER,
    find: 'if (before && before.phase !== "loading")',
    replace: "if (before && before.restore === restore)",
    promise: "No restore begins while another is about to end",
  },
  {
    ...LEDGER,
    suites: ["src/backup/restore-ledger.test.ts"],
    find: "if (before) await this.#letGo(before.restore);",
    replace: "",
    promise: "A restore that died is undone before the next begins",
  },
  {
    ...STAGING,
    suites: ["src/platform/durable/snapshot/snapshot-lock.test.ts"],
    find: 'sql.exec("DELETE FROM migrations");',
    replace: "",
    promise: "Restored tables are brought to the schema of today from the versions that the snapshot names",
  },
  {
    ...STAGING,
    find: 'sql.exec("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", name, seq);',
    replace: "",
    promise: "A number that was given out before the snapshot is not given out again",
  },
  {
    ...KNOWN,
    find: "const isLast = last === undefined && at + 1 >= sources.length;",
    replace: "const isLast = last === undefined;",
    promise: "A snapshot has the objects of every source",
  },
];
