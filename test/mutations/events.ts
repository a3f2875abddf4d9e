import type { Mutation } from "./mutation.ts";

const RIGHTS = { file: "src/events/permissions.ts", suites: ["src/events/permissions.test.ts"] };
const READERS = { file: "src/events/readers.ts", suites: ["src/events/readers.test.ts"] };
const RING = { file: "src/events/ring.ts", suites: ["src/events/ring.test.ts"] };
const MATCHER = { file: "src/events/subscription.ts", suites: ["src/events/subscription.test.ts"] };
const SERVICE = { suites: ["test/workers/service-events.test.ts"] };
const STORE = { file: "src/events/line-store.ts", suites: ["test/workers/event-log-store.test.ts"] };
const BUFFER = { file: "src/events/line-store.ts", suites: ["test/workers/event-log.test.ts"] };
const SHARES = { file: "src/events/shares.ts", suites: ["test/workers/event-log-store.test.ts"] };
const LOG = { file: "src/objects/event-log.ts", suites: ["test/workers/event-log.test.ts"] };
const SCOPE = { file: "src/access/authorize/stream-rights.ts", suites: ["test/workers/stream.test.ts"] };
const FEED = { file: "src/events/feed.ts", suites: ["test/workers/relay-feed.test.ts"] };
const TOPICS = { file: "src/contracts/topic-rights.ts", suites: ["test/workers/stream.test.ts"] };

export const events: Mutation[] = [
  {
    ...RIGHTS,
    find: "permission.readers -= 1;",
    replace: "",
    promise: "A permission is released with its last reader",
  },
  {
    ...RIGHTS,
    find: "if (permission.readers === 0) this.#held.delete(keyOf(permission.question));",
    replace: "this.#held.delete(keyOf(permission.question));",
    promise: "A permission stays for the readers who are left, so that a change of rights reaches them",
  },
  {
    ...RIGHTS,
    find: "this.changes -= checked;",
    replace: "this.changes = 0;",
    promise: "An answer does not cover what was told after its question",
  },
  {
    ...RIGHTS,
    find: "this.askAt = this.changes > 0 ? 0 : settled;",
    replace: "this.askAt = settled;",
    promise: "What was told while a question was out is asked about",
  },
  {
    ...RIGHTS,
    find: 'if (now >= this.#expires) return "expired";',
    replace: 'if (now > this.#expires) return "expired";',
    promise: "A permission ends at its time",
  },
  {
    ...RIGHTS,
    find: "this.#failures += 1;",
    replace: "",
    promise: "Questions that fail are spaced further and further",
  },
  {
    ...RIGHTS,
    find: 'if (Topic !== "ACLToken" && Topic !== "ACLPolicy" && Topic !== "ACLRole" && !isEndOfMethod) continue;',
    replace: 'if (Topic !== "ACLToken" && !isEndOfMethod) continue;',
    promise: "A change of policies is asked about before anything more is shown",
  },
  {
    ...RIGHTS,
    find: 'const isEndOfMethod = Type === "ACLAuthMethodDeleted";',
    replace: "const isEndOfMethod = false;",
    promise: "The end of an auth method ends the streams of its batch tokens",
  },
  {
    ...RIGHTS,
    find: 'if (Topic === "ACLToken" && !endsWithToken(permission.question.accessor, Key)) continue;',
    replace: 'if (Topic === "ACLToken" && permission.question.accessor === Key) continue;',
    promise: "A change of a token is asked about for its own streams",
  },
  {
    ...RIGHTS,
    find: "return this.changes > 0 || this.#policies === null || this.#policies.includes(policy);",
    replace: "return this.#policies === null || this.#policies.includes(policy);",
    promise: "While a change of a token is not covered, changes of all policies are asked about",
  },
  {
    ...RIGHTS,
    find: "shared.readers += readers;",
    replace: "shared.readers = readers;",
    promise: "Readers that share a permission are all counted",
  },
  {
    ...READERS,
    find: "this.#permissions.release(reader.permission);",
    replace: "",
    promise: "A stream that has left is asked about no more",
  },
  {
    ...READERS,
    find: 'const bytes = standing === "open" ? this.#read(reader) : null;',
    replace: "const bytes = this.#read(reader);",
    promise: "While rights are in doubt no line is shown",
  },
  {
    ...READERS,
    find: 'if (standing === "expired") return null;',
    replace: "",
    promise: "A token that has expired gets no sign of life either",
  },
  {
    ...READERS,
    find: "else if (reader.cursor < this.#log.evicted())",
    replace: "else if (reader.cursor <= this.#log.evicted())",
    promise: "A reader whose next line is there is not cut",
  },
  {
    ...READERS,
    find: "Math.max(from - 1, this.#log.evicted())",
    replace: "Math.max(from, this.#log.evicted())",
    promise: "The line with the index asked for comes first",
  },
  {
    ...READERS,
    find: "reader.isDrained = false;\n      reader.since = Date.now();",
    replace: "reader.isDrained = false;",
    promise: "A stall is counted from when the consumer last took something",
  },
  {
    ...READERS,
    find: "if (scope !== reader.scope) this.#regroup(reader, scope);",
    replace: "",
    promise: "Lines after a change of rights are filtered by the new rights",
  },
  {
    ...READERS,
    find: "for (const { headers } of lines) this.#permissions.onHeaders(headers);",
    replace: "",
    promise: "A line that tells of rights holds itself back from those whom it may concern",
  },
  {
    ...RING,
    find: "oldest > cursor + 1) return null;",
    replace: "oldest > cursor + 2) return null;",
    promise: "The ring answers only when it has every line after the cursor",
  },
  {
    ...RING,
    find: "this.#size -= size;",
    replace: "",
    promise: "What leaves the ring is not counted any more",
  },
  {
    ...RING,
    find: "if ((this.#lines[middle]?.index ?? 0) > cursor) high = middle;",
    replace: "if ((this.#lines[middle]?.index ?? 0) >= cursor) high = middle;",
    promise: "A line that was passed is not shown again",
  },
  {
    ...MATCHER,
    find: "allowed.has(event.Namespace) && index >= since",
    replace: "allowed.has(event.Namespace)",
    promise: "A namespace created anew shows no event of the one before",
  },
  {
    ...MATCHER,
    find: "permitted === null || permitted(event)),",
    replace: "true),",
    promise: "Over all namespaces each event is judged by the rules of its own",
  },
  {
    ...SERVICE,
    file: "src/events/subscription.ts",
    find: "isServiceTopic(event.Topic) ? served(event)",
    replace: "isServiceTopic(event.Topic) ? true",
    promise: "An event about a secret is for tokens with rights on its path",
  },
  {
    ...SERVICE,
    file: "src/events/readers.ts",
    find: '(dialect === "neutral" && topics.includes("*"))',
    replace: 'topics.includes("*")',
    promise: "A client of upstream gets service topics only by name",
  },
  {
    ...SERVICE,
    file: "src/contracts/service-topics.ts",
    find: 'each === "read" || each === "list"',
    replace: 'each !== "deny"',
    promise: "A right to write a path shows no event about it",
  },
  {
    ...SERVICE,
    file: "src/contracts/service-topics.ts",
    find: 'const caseless = Topic !== "Secret" && ROLE.test(path) ? path.split("/").length - 1 : null;',
    replace: "const caseless = null;",
    promise: "A rule about a role holds in any case of its name",
  },
  {
    ...SERVICE,
    file: "src/contracts/service-events.ts",
    find: "if (!settings(this.#env).SERVICE_EVENTS.includes(event.topic)) return;",
    replace: "",
    promise: "A topic that is not enabled has no event",
  },
  {
    ...MATCHER,
    find: "for (const [other, covering] of ALSO) if (covering === topic) traces.add(traceOf(other));",
    replace: "",
    promise: "A filter in storage finds drain events for those who read nodes",
  },
  {
    ...BUFFER,
    find: "if (last && entry.seq <= last.seq) {",
    replace: "if (last && entry.seq < last.seq) {",
    promise: "A repeated entry adds no line",
  },
  {
    ...BUFFER,
    find: "const byLines = this.#newest - keepLines + 1;",
    replace: "const byLines = this.#newest - keepLines;",
    promise: "The buffer holds no more lines than it may",
    equivalent: "trimming goes 2 % below the limit, so that one line more stays within it",
  },
  {
    ...BUFFER,
    find: "return Math.min(this.#newest, Math.max(byLines, this.#firstWithin(keepBytes)));",
    replace: "return Math.max(byLines, this.#firstWithin(keepBytes));",
    promise: "The newest line stays, however large",
  },
  {
    ...BUFFER,
    find: "const upTo = this.#upTo + Buffer.byteLength(line.text);",
    replace: "const upTo = this.#upTo + line.text.length;",
    promise: "The buffer is bounded in bytes",
  },
  {
    ...STORE,
    find: "this.#shares.evictBefore(first);",
    replace: "",
    promise: "Lines that leave with age do not count against their account any more",
  },
  {
    ...SHARES,
    find: "this.count(account, { bytes: -shrunk.bytes, lines: -shrunk.lines });",
    replace: "this.count(account, { bytes: -shrunk.bytes, lines: 0 });",
    promise: "The books of an account agree with its lines",
  },
  {
    ...SHARES,
    find: "if (held.bytes <= most && held.lines <= mostLines) continue;",
    replace: "if (held.bytes <= most || held.lines <= mostLines) continue;",
    promise: "An account that exceeds its bytes is shrunk, however few lines it has",
  },
  {
    ...SHARES,
    suites: ["src/events/shares.test.ts"],
    find: "`SELECT idx, source, seq, octet_length(events) AS bytes FROM lines\n           WHERE account = ? AND fat = ? AND idx > ? AND idx < ? ORDER BY idx LIMIT ?`",
    replace:
      "`SELECT idx, source, seq, octet_length(events) AS bytes FROM lines\n           WHERE account = ? AND fat = ? AND idx > ? AND idx < ? ORDER BY idx DESC LIMIT ?`",
    promise: "The oldest lines of an account leave first",
  },
  {
    ...SHARES,
    find: "const each = TENANTS_SHARE / Math.max(MIN_TENANTS, tenants);",
    replace: "const each = 1;",
    promise: "Namespaces below the root hold a quarter of the buffer together",
  },
  {
    ...LOG,
    find: "await this.ctx.storage.sync();",
    replace: "",
    promise: "No line is shown that a power cut can take back",
  },
  {
    ...LOG,
    find: "this.#store.trim(maxLines, maxBytes);",
    replace: "",
    promise: "The buffer is bounded",
  },
  {
    ...SCOPE,
    find: "if (all && !rights.namespaces.some(({ name }) => name === ALL)) return null;",
    replace: "",
    promise: "The star is refused to those who may not read every namespace there will be",
  },
  {
    ...SCOPE,
    find: "if (!topics.every((topic) => mayReadTopic(rights, topic, namespaces))) return null;",
    replace: "if (!topics.some((topic) => mayReadTopic(rights, topic, namespaces))) return null;",
    promise: "A stream is opened only if every topic may be read",
  },
  {
    ...TOPICS,
    find: 'if (topic === "Node" || topic === "NodeDrain") return allowsNode(rights, "read");',
    replace: 'if (topic === "Node" || topic === "NodeDrain") return true;',
    promise: "Events of nodes need the right to read nodes",
  },
  {
    ...FEED,
    suites: ["src/events/feed.test.ts"],
    find: "if (first.index !== this.#newest + 1) this.#ring = new Ring();",
    replace: "",
    promise: "A relay has no line without all that came before it",
  },
  {
    ...FEED,
    find: "const lost = lines.some(({ index }, at) => index !== (lines[at - 1]?.index ?? this.#newest) + 1);",
    replace: "const lost = false;",
    promise: "After a gap a relay has rights asked about again",
  },
];
