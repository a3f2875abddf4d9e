import type { Mutation } from "./mutation.ts";

const UNIT = (name: string) => ({ file: `src/sync/${name}.ts`, suites: [`src/sync/${name}.test.ts`] });
const BREAKER = UNIT("breaker");
const REMOTE_OBJECTS = UNIT("remote-objects");
/** The suite of remote objects tests the plan, too. */
const OBJECT_PLAN = { ...REMOTE_OBJECTS, file: "src/sync/object-plan.ts" };
const GATE = UNIT("sync-gate");
const GATE_LEASE = UNIT("gate-lease");
const QUOTA = UNIT("queue-quota");
const CAPACITY = UNIT("queue-capacity");
const PACING = UNIT("pacing");
const NAMING = UNIT("naming");
const NEIGHBOURS = { file: "src/sync/neighbours.ts", suites: ["test/workers/sync-name-conflicts.test.ts"] };
const RESYNC = {
  file: "src/sync/resync.ts",
  suites: ["test/workers/sync-scan.test.ts", "test/workers/sync-breaker.test.ts"],
};
const PURGE = { file: "src/sync/purge.ts", suites: ["test/workers/sync-purge.test.ts"] };
const TASK = { file: "src/sync/task.ts", suites: ["test/workers/sync-policies.test.ts"] };
const RULES = { file: "src/sync/retry-policy.ts", suites: ["src/sync/retry-policy.test.ts"] };
const CONTROL = { file: "src/objects/sync-control.ts", suites: ["test/workers/sync-control.test.ts"] };
const CLOUD_B = { file: "src/sync/destinations/cloud-b-kv.ts", suites: ["test/http/cloud-b-kv-adapter.test.ts"] };
const CLOUD_C = { file: "src/sync/destinations/cloud-c-secret.ts", suites: ["test/http/cloud-c-sm-adapter.test.ts"] };

const NETWORK = { file: "src/providers/network-policy.ts", suites: ["src/providers/network-policy.test.ts"] };

export const sync: Mutation[] = [
  {
    ...NETWORK,
    find: "const outside = found.find((address) => !isAllowed(",
    replace: "const outside = found.slice(0, 1).find((address) => !isAllowed(",
    promise: "Every address of a host must be allowed, not the first alone",
  },
  {
    ...NETWORK,
    find: "networks.length > 0 && isWithinNetworks(address, networks)",
    replace: "isWithinNetworks(address, networks)",
    promise: "Addresses of a family without a list are refused while the other family has one",
  },
  {
    ...BREAKER,
    find: 'before.open_until === 0 && this.#count("latest", before.succeeded) < ASSOCIATIONS',
    replace: "before.open_until === 0 && failures < ASSOCIATIONS",
    promise: "The breaker counts associations that fail, not attempts",
  },
  {
    ...BREAKER,
    find: 'this.#count("since", before.succeeded) < ASSOCIATIONS ? PARTLY_UP_CAP_MS : CAP_MS',
    replace: 'this.#count("latest", before.succeeded) < ASSOCIATIONS ? PARTLY_UP_CAP_MS : CAP_MS',
    promise: "The pause is at most 30 s while a success is younger than the beginning of the failures",
  },
  {
    ...BREAKER,
    find: "open_until, trials: before.trials + 1 });",
    replace: "open_until, trials: 1 });",
    promise: "The pauses of an open breaker grow beyond the second",
  },
  {
    ...BREAKER,
    find: "return open.openUntil > now ? 0 : 1;",
    replace: "return open.openUntil > now ? 0 : atOnce;",
    promise: "While the breaker is open one association is tried at a time",
  },
  {
    ...BREAKER,
    find: "if (copies.some((copy) => !copy.trouble && isCall(copy))) this.#succeed();",
    replace: "if (copies.some((copy) => !copy.trouble)) this.#succeed();",
    promise: "A task without a call to the provider closes no breaker",
  },
  {
    ...BREAKER,
    find: 'else if (this.#row.get() && troubles.every(({ outcome }) => outcome === "client")) {',
    replace: "else if (this.#row.get() && troubles.length > 0) {",
    promise: "An association that succeeds is no longer counted among those that fail",
  },
  {
    ...BREAKER,
    find: 'this.#sql.exec("DELETE FROM failing");',
    replace: "",
    promise: "A breaker that is closed by a repair forgets all failures",
  },
  {
    ...BREAKER,
    file: "src/sync/retry-policy.ts",
    find: "GENERAL.has(code) && (",
    replace: '(GENERAL.has(code) || code === "contended") && (',
    promise: "A failure that concerns one name opens no breaker",
  },
  {
    file: "src/sync/lease-limits.ts",
    suites: ["test/workers/sync-breaker.test.ts"],
    find: "const slots = (only === undefined ? limit : Math.max(1, limit)) - this.#work.leased(now);",
    replace: "const slots = only === undefined ? limit : Math.max(1, limit);",
    promise: "Leases that are out count against what a destination takes at once",
  },
  {
    file: "src/sync/lease-limits.ts",
    suites: ["test/workers/sync-breaker.test.ts"],
    find: " && this.#work.isOnlyHolder(holder, now);",
    replace: ";",
    promise: "Only a Worker that holds all leases has tasks in reserve",
  },
  {
    file: "src/sync/lease-limits.ts",
    suites: ["test/workers/sync-breaker.test.ts"],
    find: "this.#breaker.view()?.openUntil ?? 0, ",
    replace: "",
    promise: "Nobody is rung for before the pause of an open breaker ends",
  },
  {
    ...RESYNC,
    suites: ["src/sync/resync.test.ts"],
    find: "associations.setDesired(current, current.wish, now, hasFailed(current));",
    replace: "associations.setDesired(current, current.wish, now, false);",
    promise: "A scan puts what failed before behind the others",
  },
  {
    ...RESYNC,
    suites: ["src/sync/resync.test.ts"],
    find: "if (work) return work.leased || work.attempts > 0;",
    replace: "if (work) return false;",
    promise: "A scan after a repair tries again what waits for its back-off",
  },
  {
    ...RESYNC,
    find: 'if (row.wish === "absent" || (row.status !== "SYNCED" && row.status !== "UNSYNCED")) return true;',
    replace: 'if (row.status !== "SYNCED" && row.status !== "UNSYNCED") return true;',
    promise: "A scan retries failed removals",
    equivalent:
      "an association that is to go has status SYNCED or UNSYNCED never: wanting sets PENDING, an end deletes it",
  },
  {
    ...RESYNC,
    find: "if (last && page.length === PAGE) this.#store(now, last.id);",
    replace: 'if (last && page.length === PAGE) this.#store(now, "");',
    promise: "A scan reaches the second page",
  },
  {
    ...GATE,
    find: "this.#leasedUntil = running ? sent + permitMs : 0;",
    replace: "this.#leasedUntil = running ? Date.now() + permitMs : 0;",
    promise: "A permission is counted from the question",
  },
  {
    ...GATE,
    find: "if (this.#leasedUntil - sent >= RENEWED_BELOW_MS) return true;",
    replace: "if (this.#leasedUntil >= sent - RENEWED_BELOW_MS) return true;",
    promise: "A permission that has run out is asked for anew",
  },
  {
    ...GATE,
    find: "return Math.max(0, this.#leasedUntil - now);",
    replace: "return this.#leasedUntil - now;",
    promise: "A permission that has run out permits nothing",
  },
  {
    ...GATE_LEASE,
    find: "const sent = Date.now();\n      const answer = await this.#request(longer).catch(() => null);",
    replace: "const answer = await this.#request(longer).catch(() => null);\n      const sent = Date.now();",
    promise: "A permission to push is counted from the question",
  },
  {
    ...GATE_LEASE,
    find: "if (isPermitted()) return true;\n    }",
    replace: "return true;\n    }",
    promise: "A permission that ran out on its way is void",
  },
  {
    ...GATE_LEASE,
    find: "return left > 0 && left <= MAX_LEASE_MS;",
    replace: "return left >= 0 && left <= MAX_LEASE_MS;",
    promise: "A permission ends on the millisecond",
  },
  {
    ...GATE_LEASE,
    find: "if (!answer.running) return false;",
    replace: "",
    promise: "No call starts while syncing is paused, and nobody asks again and again",
  },
  {
    ...GATE_LEASE,
    find: "if (running && permitMs > 0) permittedUntil",
    replace: "if (permitMs > 0) permittedUntil",
    promise: "An answer that says that syncing is paused permits nothing",
  },
  {
    ...GATE_LEASE,
    find: "left <= MAX_LEASE_MS;",
    replace: "true;",
    promise: "A clock that was set back prolongs no permission",
  },
  {
    file: "src/platform/durable/work-queue.ts",
    suites: ["test/workers/work.test.ts"],
    find: 'if (ending.kind === "retry" && ending.all) this.pause(',
    replace: 'if (ending.kind === "retry" && ending.all && row.generation === lease.generation) this.pause(',
    promise: "A provider's Retry-After is kept although the secret has changed meanwhile",
  },
  {
    ...RULES,
    find: "afterMs: Math.max(...waits)",
    replace: "afterMs: Math.min(...waits)",
    promise: "Of several waits that a provider asks for the longest counts",
  },
  {
    ...RULES,
    find: 'if (troubles.some(isPaused)) return { kind: "again" };',
    replace: "",
    promise: "A pause is no failure of an association",
  },
  {
    ...RULES,
    find: 'const passing = troubles.filter((one) => one.outcome !== "client");',
    replace: 'const passing = troubles.filter((one) => one.outcome === "external");',
    promise: "A push whose outcome is unknown is repeated",
  },
  {
    ...RULES,
    find: 'passing.some((one) => one.code === "throttled")',
    replace: "true",
    promise: "A wait that concerns one name holds up no other",
  },
  {
    ...RULES,
    find: 'if (result.unfinished) return { kind: "again" };',
    replace: "",
    promise: "A task that ran out of time goes on",
  },
  {
    ...RULES,
    find: 'trouble.outcome === "unknown" || ("unsure"',
    replace: '("unsure"',
    promise: "A push without an answer may have been applied",
  },
  {
    ...OBJECT_PLAN,
    find: 'return { kind: recorded.has(key) ? "keep" : "add", copy',
    replace: 'return { kind: "add", copy',
    promise: "A plan says which objects stay",
  },
  {
    ...OBJECT_PLAN,
    find: "claimants.has(row.fold) || !mayBeOurs(row) ?",
    replace: "claimants.has(row.fold) ?",
    promise: "A name that was never tried is not removed: it may be somebody else's",
  },
  {
    ...OBJECT_PLAN,
    find: "claimants.has(row.fold) || !mayBeOurs(row) ?",
    replace: "!mayBeOurs(row) ?",
    promise: "An object that goes on living under another key is not removed",
  },
  {
    ...OBJECT_PLAN,
    find: "elsewhere: elsewhere !== null, adoptedFrom };",
    replace: "elsewhere: false, adoptedFrom };",
    promise: "What another destination has is not removed with the association",
  },
  {
    ...OBJECT_PLAN,
    find: "return elsewhere === null ? null : `external",
    replace: "return elsewhere !== undefined ? null : `external",
    promise: "A name that another destination has is not pushed",
  },
  {
    ...REMOTE_OBJECTS,
    find: "if (result.notOurs) this.#update(row,",
    replace: "if (result.notOurs && result.trouble) this.#update(row,",
    promise: "An object that nothing was tried on stays somebody else's",
  },
  {
    ...REMOTE_OBJECTS,
    find: "const pushed = row.obsolete === 0 && row.blocked === null && isClaimed(row, place);",
    replace: "const pushed = row.obsolete === 0 && row.blocked === null;",
    promise: "A name that is still to be asked for elsewhere is pushed by no claim",
  },
  {
    ...REMOTE_OBJECTS,
    find: "unsure_since = coalesce(unsure_since, ?)",
    replace: "unsure_since = coalesce(?, unsure_since)",
    promise: "Of several pushes of unknown outcome the first is on record",
  },
  {
    ...REMOTE_OBJECTS,
    find: 'pushed ? ", tags_written = NULL" : ""',
    replace: '""',
    promise: "Tags are sent again after a push whose result was lost",
  },
  {
    ...REMOTE_OBJECTS,
    find: "if (!isThere && !isUncertain) this.#update(row,",
    replace: "this.#update(row,",
    promise: "A push of unknown outcome stays on record until one is known",
  },
  {
    ...REMOTE_OBJECTS,
    find: "unsure.length === 0 ? null : Math.min(...unsure),",
    replace: "null,",
    promise: "What a lost push may have left is found also when another key has taken over its name",
  },
  {
    ...REMOTE_OBJECTS,
    find: "const all = new Set([...held.map(({ fold }) => fold), ",
    replace: "const all = new Set([",
    promise: "Other destinations are asked also before something is removed",
  },
  {
    ...REMOTE_OBJECTS,
    find: 'if (place === "") return [];',
    replace: "",
    promise: "A destination that keeps its objects itself has no neighbours",
  },
  {
    ...NEIGHBOURS,
    find: "const kept = names.filter((name) => this.#keeps(name, placeOf(targets), asker, isOlder));",
    replace: "const kept: string[] = [];",
    promise: "A name at a provider belongs to one destination only",
  },
  {
    ...NEIGHBOURS,
    find: "if (surely || isOlder || !asker.claims) return true;",
    replace: "if (isOlder || !asker.claims) return true;",
    promise: "A destination that has a name keeps it, also against an older one",
  },
  {
    ...NEIGHBOURS,
    find: "if (surely || isOlder || !asker.claims) return true;",
    replace: "if (surely || !asker.claims) return true;",
    promise: "Of two destinations that have a name from before they met the older keeps it",
  },
  {
    ...NEIGHBOURS,
    find: "      this.#meet([asker.destination]);\n",
    replace: "",
    promise: "A destination asks also those that were created after it",
  },
  {
    ...NEIGHBOURS,
    find: "if (holders.length === 0 && claims.length === 0) return false;",
    replace: "if (holders.length === 0) return false;",
    promise: "A name that two destinations claim at the same moment goes to one of them",
  },
  {
    ...NEIGHBOURS,
    find: "if (namespace.startsWith(ours)) return `the destination",
    replace: "if (namespace !== ours) return `the destination",
    promise: "The name of a destination is told in its own namespace and in those above only",
  },
  {
    ...NEIGHBOURS,
    find: "remoteObjects.yieldName(name);",
    replace: "",
    promise: "A name that was given up is asked for before it is used again",
  },
  {
    file: "src/sync/neighbours.ts",
    suites: ["test/workers/sync-name-conflicts.test.ts"],
    find: "if (row) this.#associations.setDesired(row, row.wish, Date.now());",
    replace: "",
    promise: "A destination whose name went to another one says so at once",
  },
  {
    ...NEIGHBOURS,
    file: "src/sync/task.ts",
    find: '(copy.ours !== "no" || values !== null)',
    replace: "values !== null",
    promise: "What another destination may have is not removed before it was asked",
  },
  {
    ...NEIGHBOURS,
    file: "src/sync/task.ts",
    find: 'if (copy.ours === "no" && copy.unclaimed) return copy;',
    replace: "",
    promise: "An object of another destination is not taken for what was pushed before",
  },
  {
    ...NEIGHBOURS,
    file: "src/objects/sync-control.ts",
    find: 'this.sql.exec("DELETE FROM targets WHERE destination = ?", destination);',
    replace: "",
    promise: "A destination that has ended stands in nobody's way",
  },
  {
    ...TASK,
    find: 'if (copy.ours === "no") return this.#record(copy, { state: "absent" });',
    replace: "",
    promise: "An object that was there before, and that nothing was pushed to, is not removed",
  },
  {
    ...TASK,
    find: 'if (this.#setup.retain) return this.#record(copy, { state: "retained" });',
    replace: "",
    promise: "With deletion_policy retain an object stays where it is",
  },
  {
    ...TASK,
    suites: ["src/sync/task.test.ts"],
    find: 'ownedOnly: updatePolicy !== "replace"',
    replace: "ownedOnly: false",
    promise: "Under owned-only nothing of somebody else's is removed",
  },
  {
    ...TASK,
    find: '(trouble.code === "not_owned" && { notOurs: true })',
    replace: "({})",
    promise: "An object that turned out to be somebody else's is not removed under a later policy",
  },
  {
    ...PURGE,
    find: "(this.#breaker.view()?.failures ?? 0) >= HOPELESS",
    replace: "false",
    promise: "A purge fails soon when the provider is down, however many secrets it has not tried",
  },
  {
    ...PURGE,
    find: "page.length < PAGE ? null : (page.at(-1)?.id ?? null)",
    replace: "null",
    promise: "A purge of very many secrets proceeds page by page",
  },
  {
    ...PURGE,
    find: "else if (purge.force === 1 || !this.#associations.any()) this.#end();",
    replace: "else if (purge.force === 1) this.#end();",
    promise: "A purge that has removed everything ends the destination",
  },
  {
    ...PURGE,
    find: '"UPDATE purge SET error = ?, force = 0"',
    replace: '"UPDATE purge SET error = ?, force = force"',
    promise: "A purge that failed is repeated without force unless asked",
  },
  {
    ...QUOTA,
    find: "this.#store(kept, ASKED)",
    replace: "this.#store(this.#row.get().granted, true)",
    promise: "Room that is not kept is given up before it is asked for",
  },
  {
    ...QUOTA,
    find: "this.#reserved += admitted;",
    replace: "",
    promise: "Room that was promised is kept until it is used",
  },
  {
    ...QUOTA,
    find: "work.promote(granted - this.#inUse() - admitted);",
    replace: "work.promote(granted - this.#inUse());",
    promise: "Room that was promised to a caller goes to nobody else",
  },
  {
    ...QUOTA,
    find: "return granted > kept && this.#scarce;",
    replace: "return granted > kept;",
    promise: "While room is plenty what is not needed is given back later",
  },
  {
    ...CAPACITY,
    find: "const room = capacity - (pending - mine.granted);",
    replace: "const room = capacity - pending;",
    promise: "A statement that is repeated uses up no room",
  },
  {
    ...CAPACITY,
    find: "const others = short - (mine.wanted > mine.granted ? 1 : 0);",
    replace: "const others = 0;",
    promise: "While others wait for room nobody takes more than an equal part",
  },
  {
    ...CONTROL,
    find: 'UPDATE resuming SET after = ?", last',
    replace: 'UPDATE resuming SET after = ?", ""',
    promise: "The second page of destinations is woken",
  },
  {
    ...PACING,
    find: "Math.min(pace.burst, this.#tokens + Math.max(0, gained))",
    replace: "this.#tokens + Math.max(0, gained)",
    promise: "Writes are never saved up beyond a burst",
  },
  {
    ...PACING,
    find: "Math.max(0, gained)",
    replace: "gained",
    promise: "A clock that goes back takes no writes away",
  },
  {
    ...NAMING,
    find: "const cut = all.subarray(bytes - hashLength);",
    replace: "const cut = all.subarray(bytes);",
    promise: "A name that is cut ends in the hash of all that was cut",
  },
  {
    ...NAMING,
    find: "return adapt(truncateSha256(naming.maxLength, adapt(spelt)));",
    replace: "return truncateSha256(naming.maxLength, adapt(spelt));",
    promise: "The hash of a name that was cut is spelled as the provider wants",
  },
  {
    ...CLOUD_B,
    find: "if (!isHeld(set) && !isBare) return set.outcome;",
    replace: "if (!isHeld(set)) return set.outcome;",
    promise: "A conflict without a reason is looked up among the deleted secrets",
  },
  {
    ...CLOUD_B,
    find: "if (!isFree && !Object.hasOwn(tags ?? {}, MARKER_TAG)) return notOwned(name);",
    replace: "",
    promise: "Under owned-only no deleted secret of somebody else's is recovered",
  },
  {
    ...CLOUD_C,
    find: 'const after = owed?.after ?? versions[0]?.number ?? "0";',
    replace: 'const after = versions[0]?.number ?? owed?.after ?? "0";',
    promise: "What an earlier push may have left is still searched from where that one began",
  },
  {
    ...CLOUD_C,
    find: "Date.parse(one.createTime) < since - CLOCK_MS",
    replace: "false",
    promise: "No version from before the lost push is destroyed",
  },
  {
    ...CLOUD_C,
    find: 'if (token === "") break;',
    replace: "break;",
    promise: "Versions of a lost push are found on the second page",
  },
  {
    ...CLOUD_C,
    find: 'if (isOlder && one.state === "ENABLED") found.push(version);',
    replace: 'if (one.state === "ENABLED") found.push(version);',
    promise: "A version newer than ours is not destroyed",
  },
];
